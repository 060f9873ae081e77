/**
 * A store in memory, with etcd's semantics: for tests, simulations and examples of one process.
 *
 * It is server and client in one. Several workers may share it; give each a `faultyStore` of its own when their
 * connections should fail one by one. It applies a call at once and answers it in a microtask; time passes on the
 * injected clock only. Nothing survives the process.
 *
 * Where etcd leaves a choice: a session expires exactly when its time is up (or `expiryLagMsMax` later); a watch from a
 * compacted revision, or from one that does not exist yet (R8), ends at once; a read at a revision of the future is
 * answered as `compacted`, because the reader has to start over in both cases.
 *
 * Tests: test/store/contract.ts (what every store must do), test/store/memory.test.ts, test/store/model.test.ts
 */
import { Observable } from 'rxjs';
import { type Clock, systemClock } from '../base/clock.ts';
import { compareDecimals, type Revision, revisionOf } from '../base/decimals.ts';
import { invariant, LeaseholdError } from '../base/errors.ts';
import type { SessionId } from '../base/ids.ts';
import { checkBatch, holds, keyOf } from './batch.ts';
import type {
  MemoryStore,
  MemoryStoreOptions,
  RestoreOptions,
  StoreSnapshot,
} from './memory/controls.ts';
import { type CommitCause, History } from './memory/history.ts';
import {
  type AuditRecord,
  kindOf,
  Ledger,
  type MemoryStats,
  recordsOf,
  type RequestKind,
} from './memory/ledger.ts';
import { Sessions } from './memory/sessions.ts';
import { Watches } from './memory/watches.ts';
import {
  ANSWER_BYTES_MAX,
  type Batch,
  type BatchOutcome,
  type Compare,
  type Entry,
  inRange,
  type Key,
  type Range,
  type ReadOptions,
  type ReadOutcome,
  type SessionGrant,
  type TxnOutcome,
  type WatchEvent,
  type WatchStream,
  type Write,
} from './port.ts';

export type { MemoryStore, MemoryStoreOptions, StoreSnapshot } from './memory/controls.ts';
export type { AuditRecord, MemoryStats } from './memory/ledger.ts';

const PAGE_ENTRIES_MAX = 1000;

/** A fresh, empty store. `close()` also stops the expiry of sessions: there is no server that would go on without it. */
export function memoryStore(options: MemoryStoreOptions = {}): MemoryStore {
  return new InMemoryStore(options);
}

class InMemoryStore implements MemoryStore {
  readonly name = 'memory';
  readonly #options: MemoryStoreOptions;
  readonly #clock: Clock;
  readonly #historyRevisionsMax: number;
  readonly #sessions: Sessions;
  readonly #watches = new Watches();
  readonly #ledger: Ledger;
  #history: History;
  #resets = 0;
  /** How often it was restored under the same id. */
  #returns = 0;
  #isClosed = false;

  constructor(options: MemoryStoreOptions) {
    const { random, expiryLagMsMax: lagMsMax = 0, historyRevisionsMax = 10_000 } = options;
    invariant(historyRevisionsMax >= 1, 'historyRevisionsMax must be 1 or more');
    invariant(lagMsMax === 0 || random !== undefined, 'expiryLagMsMax needs random');
    this.#options = options;
    this.#clock = options.clock ?? systemClock();
    this.#historyRevisionsMax = historyRevisionsMax;
    this.#ledger = new Ledger({
      keepAudit: options.keepAudit ?? false,
      classify: options.classify ?? kindOf,
    });
    this.#history = new History(historyRevisionsMax);
    this.#sessions = new Sessions({
      clock: this.#clock,
      lagMs: () => (random === undefined ? 0 : random.next() * lagMsMax),
      onExpired: (id) => this.#endSession(id),
    });
  }

  async openSession(id: SessionId, ttlMs: number): Promise<SessionGrant> {
    this.#count('openSession');
    invariant(ttlMs > 0, `a session of ${ttlMs} ms: a TTL is above 0`);
    const granted = this.#options.grantTtlMs?.(ttlMs) ?? ttlMs;
    return { ttlMs: this.#sessions.open(id, granted) };
  }

  async keepAlive(id: SessionId): Promise<SessionGrant> {
    this.#count('keepAlive');
    const ttlMs = this.#sessions.renew(id);
    if (ttlMs === undefined) throw expired(id);
    return { ttlMs };
  }

  async closeSession(id: SessionId): Promise<void> {
    this.#count('closeSession');
    this.#endSession(id);
  }

  async read(range: Range, read: ReadOptions): Promise<ReadOutcome> {
    this.#count('read');
    const limit = read.limit ?? PAGE_ENTRIES_MAX;
    invariant(
      Number.isInteger(limit) && limit >= 1 && limit <= PAGE_ENTRIES_MAX,
      `a page of ${limit} entries: 1 to ${PAGE_ENTRIES_MAX}`,
    );
    const history = this.#history;
    const { atRevision, after, keysOnly = false, minModRevision = '0', known } = read;
    const at = atRevision === undefined ? history.number : numberOf(atRevision);
    if (at < history.compacted || at > history.number) {
      return { kind: 'compacted', revision: history.revision };
    }
    const modifiedSince = Number(minModRevision);
    const named = 'keys' in range ? known : undefined;
    const page = history.page(range, { at, limit, after, keysOnly, modifiedSince, known: named });
    if (isTooLarge(page.entries)) return { kind: 'tooLarge' };
    const count = history.count(range, at, after);
    return { kind: 'page', ...page, count, revision: revisionOf(at) };
  }

  async transact(batch: Batch): Promise<BatchOutcome> {
    this.#count('transact');
    checkBatch(batch);
    const outcome = this.#try(batch);
    this.#ledger.answer(outcome);
    return outcome;
  }

  watch(range: Range, fromRevision: Revision): WatchStream {
    const from = numberOf(fromRevision);
    return new Observable<WatchEvent>((subscriber) => {
      this.#ledger.request('watch');
      if (this.#isClosed) return undefined;
      return this.#watches.open(range, subscriber, this.#backlog(range, from));
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#watches.silence();
    this.#sessions.stop();
  }

  get clusterId(): string {
    const { clusterId = 'memory' } = this.#options;
    return this.#resets === 0 ? clusterId : `${clusterId}-${this.#resets}`;
  }

  /** Names the revisions in the audit: under one id they may be given out again. */
  get #life(): string {
    return this.#returns === 0 ? this.clusterId : `${this.clusterId}+${this.#returns}`;
  }

  get revision(): Revision {
    return this.#history.revision;
  }

  get compactedRevision(): Revision {
    return revisionOf(this.#history.compacted);
  }

  compact(revision: Revision = this.revision): void {
    invariant(
      compareDecimals(revision, this.revision) <= 0,
      `compacting at ${revision}: the newest revision is ${this.revision}`,
    );
    this.#history.compact(numberOf(revision));
  }

  reset(): void {
    this.#history = new History(this.#historyRevisionsMax);
    this.#sessions.clear();
    this.#resets += 1;
    this.#returns = 0;
    this.#watches.endAll({ kind: 'reset' });
  }

  snapshot(): StoreSnapshot {
    return { revision: this.revision, entries: this.dump(), sessions: this.#sessions.lives };
  }

  restore(snapshot: StoreSnapshot, { sameCluster = false }: RestoreOptions = {}): void {
    const { entries, sessions, revision } = snapshot;
    const passed = compareDecimals(this.revision, revision);
    this.#history = new History(this.#historyRevisionsMax, snapshot);
    this.#sessions.clear();
    for (const { id, ttlMs } of sessions) this.#sessions.open(id, ttlMs);
    for (const { key, session } of entries) this.#sessions.move(key, null, session);
    this.#returns = sameCluster ? this.#returns + 1 : 0;
    if (!sameCluster) this.#resets += 1;
    this.#ledger.begin(this.#life, entries, this.#clock.nowMs());
    if (!sameCluster || passed > 0) this.#watches.endAll({ kind: 'reset' });
    else if (passed < 0) this.#watches.endAll({ kind: 'compacted', revision });
  }

  expireSession(id: SessionId): void {
    this.#endSession(id);
  }

  freezeExpiry(on: boolean): void {
    this.#sessions.freeze(on);
  }

  dump(prefix = ''): readonly Entry[] {
    const all = { at: undefined, limit: Infinity, after: undefined, known: undefined };
    return this.#history.page({ prefix }, { ...all, keysOnly: false, modifiedSince: 0 }).entries;
  }

  history(prefix = ''): readonly AuditRecord[] {
    const kept = this.#history.since(this.#history.compacted + 1);
    const records =
      this.#ledger.audit ?? [...kept].flatMap((commit) => recordsOf(this.#life, commit));
    return records.filter(({ key }) => key.startsWith(prefix));
  }

  put(key: Key, value: string, session: SessionId | null = null): Revision {
    const write: Write = { put: key, value, session };
    this.#checkSession(write);
    return this.#byHand(write);
  }

  remove(key: Key): Revision {
    return this.#byHand({ delete: key });
  }

  get stats(): MemoryStats {
    return this.#ledger.stats(this.#watches.deliveredCount);
  }

  get openWatches(): number {
    return this.#watches.openCount;
  }

  get liveSessions(): readonly SessionId[] {
    return this.#sessions.ids;
  }

  #count(kind: RequestKind): void {
    this.#ledger.request(kind);
    if (this.#isClosed) {
      throw new LeaseholdError('E_STORE_UNREACHABLE', `${kind} after close(): the store is closed`);
    }
  }

  #try(batch: Batch): BatchOutcome {
    const history = this.#history;
    const allHold = (compares: readonly Compare[]): boolean =>
      compares.every((compare) => holds(compare, history.current(compare.key)));
    if (!allHold(batch.guard)) return { kind: 'guardFailed', revision: history.revision };
    const isTaken = batch.txns.map(({ compares }) => allHold(compares));
    batch.txns.forEach(({ writes }, index) => {
      if (isTaken[index]) writes.forEach((write) => this.#checkSession(write));
    });
    // As in etcd, a read on conflict sees what the transactions before it in the batch wrote.
    const found = batch.txns.map(({ writes, onConflict, conflictKeysOnly }, index) => {
      if (!isTaken[index]) {
        const entries = onConflict.map((key) => history.current(key));
        return conflictKeysOnly === true ? entries.map(withoutValue) : entries;
      }
      writes.forEach((write) => this.#stage(write));
      return undefined;
    });
    this.#seal('batch');
    const { revision } = history;
    const outcomes = found.map((entries): TxnOutcome =>
      entries === undefined
        ? { kind: 'committed', revision }
        : { kind: 'conflict', found: entries, revision },
    );
    return { kind: 'tried', outcomes, revision };
  }

  *#backlog(range: Range, from: number): Generator<WatchEvent, void, undefined> {
    const history = this.#history;
    if (from <= history.compacted) {
      yield { kind: 'compacted', revision: this.compactedRevision };
      return;
    }
    if (from > history.number + 1) {
      yield { kind: 'reset' };
      return;
    }
    for (const { revision, changes } of history.since(from)) {
      const inside = changes.filter(({ key }) => inRange(range, key));
      if (inside.length > 0) yield { kind: 'changes', revision, changes: inside };
    }
  }

  #checkSession(write: Write): void {
    if (!('put' in write) || write.session === null) return;
    if (!this.#sessions.has(write.session)) throw expired(write.session);
  }

  #stage(write: Write): void {
    const key = keyOf(write);
    const from = this.#history.current(key)?.session ?? null;
    if ('put' in write) this.#history.put(key, write.value, write.session);
    else this.#history.delete(key);
    this.#sessions.move(key, from, 'put' in write ? write.session : null);
  }

  #byHand(write: Write): Revision {
    this.#stage(write);
    this.#seal('hand');
    return this.revision;
  }

  #endSession(id: SessionId): void {
    for (const key of this.#sessions.end(id) ?? []) this.#history.delete(key);
    this.#seal('sessionEnd');
  }

  #seal(cause: CommitCause): void {
    const commit = this.#history.seal(cause, this.#clock.nowMs());
    if (commit === null) return;
    this.#ledger.commit(this.#life, commit);
    this.#watches.publish(commit);
  }
}

/** A revision of this store, which counts in numbers. */
function numberOf(revision: Revision): number {
  const number = Number(revision);
  invariant(number >= 1, `revision ${revision}: revisions of a store start at 1`);
  return number;
}

function isTooLarge(entries: readonly Entry[]): boolean {
  if (entries.length < 2) return false;
  let bytes = 0;
  for (const { key, value } of entries) bytes += Buffer.byteLength(key) + Buffer.byteLength(value);
  return bytes > ANSWER_BYTES_MAX;
}

function expired(id: SessionId): LeaseholdError {
  return new LeaseholdError('E_LEASE_EXPIRED', `session ${id} is gone; nothing was written`, {
    details: { session: id },
  });
}

function withoutValue(entry: Entry | null): Entry | null {
  return entry === null ? null : { ...entry, value: '' };
}
