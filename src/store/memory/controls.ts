/** What tests may do to a memory store besides using it as a store. */
import type { Clock } from '../../base/clock.ts';
import type { Revision } from '../../base/decimals.ts';
import type { SessionId } from '../../base/ids.ts';
import type { Random } from '../../base/random.ts';
import type { Entry, Key, Store } from '../port.ts';
import type { AuditRecord, MemoryStats } from './ledger.ts';
import type { SessionLife } from './sessions.ts';

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

/** What a memory store held at one moment: its data with their revisions, and its sessions; no history. */
export interface StoreSnapshot {
  readonly revision: Revision;
  readonly entries: readonly Entry[];
  readonly sessions: readonly SessionLife[];
}

/** What a store that is restored is for its clients. */
export interface RestoreOptions {
  /** It has the same id: only what it no longer knows gives it away. Another id when absent. */
  readonly sameCluster?: boolean;
}

/** A store in memory and the controls that tests have over it. Controls act at once. */
export interface MemoryStore extends Store {
  /** Changes on reset, and on restore unless told otherwise. */
  readonly clusterId: string;
  /** The newest revision. */
  readonly revision: Revision;
  /** Revisions below this one can no longer be read; watches must start above it. `'0'` before the first compaction. */
  readonly compactedRevision: Revision;
  /** Forgets history before `revision`; before the newest when absent. */
  compact(revision?: Revision): void;
  /** Drops everything, as if another, empty cluster had taken the place of this one: all watches end with `reset`. */
  reset(): void;
  /** A copy of what it holds, for `restore`. */
  snapshot(): StoreSnapshot;
  /**
   * Takes the store back to a snapshot, as an etcd that is restored from a backup: data and revisions of then, the sessions
   * of then alive again with their whole TTL, and nothing known of what was before. Revisions that were given out since
   * will be given out again.
   *
   * All watches end with `reset`. With the same id they do so when the store goes back behind what it had told; where
   * nothing is lost they go on, and a client that was cut off meanwhile notices only that its revision does not exist yet.
   */
  restore(snapshot: StoreSnapshot, options?: RestoreOptions): void;
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
