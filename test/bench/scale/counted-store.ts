/**
 * A store's client that counts: what its worker asks, what it writes, and what it is told by its watches.
 *
 * Counted as etcd counts: a delivery is one changed key told to one watcher, whatever travels together in one event.
 */
import { keyOf } from '../../../src/store/batch.ts';
import type {
  Batch,
  BatchOutcome,
  CallOptions,
  Range,
  ReadOptions,
  ReadOutcome,
  SessionGrant,
  Store,
  Txn,
  WatchStream,
} from '../../../src/store/port.ts';
import type { SessionId } from '../../../src/base/ids.ts';
import type { Revision } from '../../../src/base/decimals.ts';

/** The part of a key after the job. */
export type KeyKind =
  | 'plan'
  | 'leader'
  | 'specs'
  | 'splits'
  | 'assign'
  | 'parked'
  | 'workers'
  | 'leases'
  | 'control'
  | 'away'
  | 'probe';

/** A read by the first of its keys; `own` is a worker's look at its own assignment and presence. */
export type ReadKind = KeyKind | 'own';

/** One transaction by what it writes; `end` is a release, a complete or a fail. */
export type ItemKind =
  | 'probe'
  | 'announce'
  | 'leave'
  | 'elect'
  | 'resign'
  | 'seed'
  | 'plan'
  | 'assign'
  | 'claim'
  | 'commit'
  | 'end'
  | 'mark'
  | 'dropLease'
  | 'quarantine'
  | 'away'
  | 'control';

/**
 * What is counted: calls by kind, transactions that were sent, batches by the kind of their first transaction, those of them that were not committed (the probe
 * provokes its own), keys put or deleted, reads by the kind of key asked for, and deliveries by the kind of key told.
 */
export type CountName =
  | `calls.${Exclude<keyof Store, 'name' | 'close'>}`
  | `items.${ItemKind}`
  | `batches.${ItemKind}`
  | 'items'
  | 'conflicts'
  | `keys.${KeyKind}`
  | 'keys'
  | `reads.${ReadKind}`
  | `deliveries.${KeyKind}`
  | 'deliveries';

/** Sums over all workers of a fleet. */
export class Meter {
  readonly #counts = new Map<CountName, number>();
  readonly #perBatchMax = new Map<ItemKind, number>();

  add(name: CountName, by = 1): void {
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + by);
  }

  of(name: CountName): number {
    return this.#counts.get(name) ?? 0;
  }

  /** What is counted from now on. */
  start(): Counting {
    return new Counting(this, new Map(this.#counts));
  }

  /** Counts a batch by the kind of its first transaction. */
  batch(txns: readonly Txn[]): void {
    const kinds = txns.map(itemKindOf);
    for (const kind of kinds) this.add(`items.${kind}`);
    this.add('items', kinds.length);
    const first = kinds[0]!;
    this.add(`batches.${first}`);
    this.#perBatchMax.set(first, Math.max(this.perBatchMax(first), kinds.length));
  }

  /** The most transactions that ever travelled together behind one of this kind. */
  perBatchMax(kind: ItemKind): number {
    return this.#perBatchMax.get(kind) ?? 0;
  }
}

/** What was counted since a moment. */
export class Counting {
  readonly #meter: Meter;
  readonly #before: ReadonlyMap<CountName, number>;

  constructor(meter: Meter, before: ReadonlyMap<CountName, number>) {
    this.#meter = meter;
    this.#before = before;
  }

  of(name: CountName): number {
    return this.#meter.of(name) - (this.#before.get(name) ?? 0);
  }
}

/** One worker's client. */
export class CountedStore implements Store {
  readonly name: string;
  readonly #inner: Store;
  readonly #meter: Meter;
  readonly #watches = new Set<{ unsubscribe(): void }>();
  #isDead = false;

  constructor(inner: Store, meter: Meter) {
    this.name = inner.name;
    this.#inner = inner;
    this.#meter = meter;
  }

  /** Its process dies on the spot: nothing of it is sent or heard any more. */
  kill(): void {
    this.#isDead = true;
    for (const watch of [...this.#watches]) watch.unsubscribe();
  }

  openSession(id: SessionId, ttlMs: number, options: CallOptions): Promise<SessionGrant> {
    return this.#call('openSession', () => this.#inner.openSession(id, ttlMs, options));
  }

  keepAlive(id: SessionId, options: CallOptions): Promise<SessionGrant> {
    return this.#call('keepAlive', () => this.#inner.keepAlive(id, options));
  }

  closeSession(id: SessionId, options: CallOptions): Promise<void> {
    return this.#call('closeSession', () => this.#inner.closeSession(id, options));
  }

  read(range: Range, read: ReadOptions, options: CallOptions): Promise<ReadOutcome> {
    return this.#call('read', () => {
      this.#meter.add(`reads.${readKindOf(range)}`);
      return this.#inner.read(range, read, options);
    });
  }

  transact(batch: Batch, options: CallOptions): Promise<BatchOutcome> {
    return this.#call('transact', async () => {
      this.#meter.batch(batch.txns);
      const outcome = await this.#inner.transact(batch, options);
      batch.txns.forEach((txn, index) => {
        const answer = outcome.kind === 'tried' ? outcome.outcomes[index] : undefined;
        this.#answered(txn, answer?.kind === 'committed');
      });
      return outcome;
    });
  }

  watch(range: Range, fromRevision: Revision): WatchStream {
    const kind = kindOf('prefix' in range ? range.prefix : range.keys[0]!);
    return {
      subscribe: (observer) => {
        if (this.#isDead) return { unsubscribe: () => undefined };
        this.#meter.add('calls.watch');
        const inner = this.#inner.watch(range, fromRevision).subscribe({
          next: (event) => {
            if (event.kind === 'changes') {
              this.#meter.add(`deliveries.${kind}`, event.changes.length);
              this.#meter.add('deliveries', event.changes.length);
            }
            observer.next(event);
          },
          complete: () => observer.complete?.(),
        });
        const watch = {
          unsubscribe: () => {
            this.#watches.delete(watch);
            inner.unsubscribe();
          },
        };
        this.#watches.add(watch);
        return watch;
      },
    };
  }

  close(): Promise<void> {
    return this.#inner.close();
  }

  #call<T>(kind: Exclude<keyof Store, 'name' | 'close'>, call: () => Promise<T>): Promise<T> {
    if (this.#isDead) return new Promise(() => undefined);
    this.#meter.add(`calls.${kind}`);
    return call();
  }

  #answered(txn: Txn, isCommitted: boolean): void {
    if (!isCommitted) {
      if (itemKindOf(txn) !== 'probe') this.#meter.add('conflicts');
      return;
    }
    this.#meter.add('keys', txn.writes.length);
    for (const write of txn.writes) this.#meter.add(`keys.${kindOf(keyOf(write))}`);
  }
}

/** Named by what it writes, and whether it puts or deletes it. */
function itemKindOf({ writes }: Txn): ItemKind {
  const puts = new Map(writes.map((write) => [kindOf(keyOf(write)), 'put' in write]));
  if (puts.has('leader')) return puts.get('leader') === true ? 'elect' : 'resign';
  if (puts.has('specs')) return 'seed';
  if (puts.has('splits')) {
    if (!puts.has('leases')) return puts.has('parked') ? 'quarantine' : 'commit';
    return puts.get('leases') === true ? 'claim' : 'end';
  }
  const [[kind, isPut] = ['probe', true] as const] = puts;
  switch (kind) {
    case 'workers':
      return isPut ? 'announce' : 'leave';
    case 'leases':
      return isPut ? 'mark' : 'dropLease';
    case 'plan':
    case 'assign':
    case 'away':
    case 'control':
      return kind;
    default:
      return 'probe';
  }
}

function readKindOf(range: Range): ReadKind {
  if ('prefix' in range) return kindOf(range.prefix);
  const kinds = new Set(range.keys.map(kindOf));
  if (kinds.has('assign') && kinds.has('workers')) return 'own';
  return kindOf(range.keys[0]!);
}

/** `<prefix>/<job>/<kind>[/<name>]`, with a prefix of one part. */
function kindOf(key: string): KeyKind {
  const start = key.indexOf('/', key.indexOf('/') + 1) + 1;
  const end = key.indexOf('/', start);
  return key.slice(start, end === -1 ? undefined : end) as KeyKind;
}
