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
import type { Random } from '../base/random.ts';
import { checkBatch, holds, keyOf } from './batch.ts';
import { type CommitCause, History } from './memory/history.ts';
import {
  type AuditRecord,
  Ledger,
  type MemoryStats,
  recordsOf,
  type RequestKind,
} from './memory/ledger.ts';
import { Sessions } from './memory/sessions.ts';
import { Watches } from './memory/watches.ts';
import {
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
  type Store,
  type TxnOutcome,
  type WatchEvent,
  type WatchStream,
  type Write,
} from './port.ts';

export type { AuditRecord, MemoryStats } from './memory/ledger.ts';

const PAGE_ENTRIES_MAX = 1000;

/** How a memory store is made. */
export interface MemoryStoreOptions {
  /** Drives the expiry of sessions; the clock of the host when absent. */
  readonly clock?: Clock;
  /** Needed by `expiryLagMsMax` only. */
  readonly random?: Random;
  /** Names the cluster; a reset adds a number. `memory` when absent. */
  readonly clusterId?: string;
  /** Revisions that stay readable, 1 or more; older ones are compacted away by themselves. 10,000 when absent. */
  readonly historyRevisionsMax?: number;
  /** Keeps every commit for `history()`, also after compaction and reset. Grows without bound. */
  readonly keepAudit?: boolean;
  /** Sessions expire up to this much after their time, as in etcd (measured there: 0.5 s). 0 when absent. */
  readonly expiryLagMsMax?: number;
  /** The TTL granted for the TTL asked, in milliseconds. The same when absent. */
  readonly grantTtlMs?: (askedMs: number) => number;
  /** The class under which `stats` counts a write. When absent: the third part of the key (`<prefix>/<job>/splits/..`). */
  readonly classify?: (key: Key) => string;
}

/** A store in memory and the controls that tests have over it. Controls act at once. */
export interface MemoryStore extends Store {
  /** Changes on reset. */
  readonly clusterId: string;
  /** The newest revision. */
  readonly revision: Revision;
  /** Revisions below this one can no longer be read; watches must start above it. `'0'` before the first compaction. */
  readonly compactedRevision: Revision;
  /** Forgets history before `revision`; before the newest when absent. */
  compact(revision?: Revision): void;
  /** Drops everything, as if another, empty cluster had taken the place of this one: all watches end with `reset`. */
  reset(): void;
  /** Ends a session as if its time were up; one that is gone is no error. */
  expireSession(id: SessionId): void;
  /** Stops the expiry of sessions, as a cluster without a leader does. Switched off, overdue sessions expire at once. */
  freezeExpiry(on: boolean): void;
  /** Everything under `prefix` now, ordered by key. */
  dump(prefix?: string): readonly Entry[];
  /** Every write under `prefix`, oldest first: all with `keepAudit`, otherwise as far back as history is kept. */
  history(prefix?: string): readonly AuditRecord[];
  /** Writes by hand. @throws `E_LEASE_EXPIRED` when the session is gone. */
  put(key: Key, value: string, session?: SessionId | null): Revision;
  /** Deletes by hand; an absent key is no error. */
  remove(key: Key): Revision;
  /** A copy of the counters. */
  readonly stats: MemoryStats;
  /** Watches now open. */
  readonly openWatches: number;
  /** Sessions now alive, in the order they were opened. */
  readonly liveSessions: readonly SessionId[];
}

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
    const { atRevision, after, keysOnly = false } = read;
    const at = atRevision === undefined ? history.number : numberOf(atRevision);
    if (at < history.compacted || at > history.number) {
      return { kind: 'compacted', revision: history.revision };
    }
    const page = history.page(range, { at, limit, after, keysOnly });
    return { kind: 'page', ...page, revision: revisionOf(at) };
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
    this.#watches.endAll({ kind: 'reset' });
  }

  expireSession(id: SessionId): void {
    this.#endSession(id);
  }

  freezeExpiry(on: boolean): void {
    this.#sessions.freeze(on);
  }

  dump(prefix = ''): readonly Entry[] {
    const request = { at: undefined, limit: Infinity, after: undefined, keysOnly: false };
    return this.#history.page({ prefix }, request).entries;
  }

  history(prefix = ''): readonly AuditRecord[] {
    const kept = this.#history.since(this.#history.compacted + 1);
    const records =
      this.#ledger.audit ?? [...kept].flatMap((commit) => recordsOf(this.clusterId, commit));
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
    this.#ledger.commit(this.clusterId, commit);
    this.#watches.publish(commit);
  }
}

/** A revision of this store, which counts in numbers. */
function numberOf(revision: Revision): number {
  const number = Number(revision);
  invariant(number >= 1, `revision ${revision}: revisions of a store start at 1`);
  return number;
}

/** The third part of a key; all of it when there is none. */
function kindOf(key: Key): string {
  const second = key.indexOf('/', key.indexOf('/') + 1) + 1;
  if (second === 0) return key;
  const end = key.indexOf('/', second);
  return key.slice(second, end === -1 ? undefined : end);
}

function expired(id: SessionId): LeaseholdError {
  return new LeaseholdError('E_LEASE_EXPIRED', `session ${id} is gone; nothing was written`, {
    details: { session: id },
  });
}

function withoutValue(entry: Entry | null): Entry | null {
  return entry === null ? null : { ...entry, value: '' };
}
