/**
 * The store that Leasehold needs: etcd's data model as a port.
 *
 * One global revision counts every write. Each key knows the revision that created it, the one that last wrote it, and
 * the session it hangs on. Transactions compare and write at one revision; watches are ordered by revision and resume;
 * history may be compacted away. Every store must pass `test/store/contract.ts`.
 *
 * A store never repeats a write (R1). Losing a race is a value (`conflict`), not an error. Errors are `LeaseholdError`s:
 * `unavailable` (certainly not written), `indeterminate` (sent, no answer), `fenced` with `E_LEASE_EXPIRED` (the session
 * named by the call is gone, nothing was written), `fatal`, `usage`.
 */
import type { Revision } from '../base/decimals.ts';
import type { LeaseholdError } from '../base/errors.ts';
import type { SessionId } from '../base/ids.ts';

/** A full key; parts are joined by `/`. */
export type Key = string;

/** One key and what it holds. */
export interface Entry {
  readonly key: Key;
  readonly value: string;
  /** Revision of the write that created this life of the key. */
  readonly createRevision: Revision;
  /** Revision of its last write. */
  readonly modRevision: Revision;
  /** The session whose end deletes the key; null for a durable key. */
  readonly session: SessionId | null;
}

/** One condition of a transaction; all are judged on the state before the batch. An absent key has revisions `'0'`. */
export type Compare =
  | {
      readonly key: Key;
      readonly target: 'createRevision' | 'modRevision';
      readonly equals: Revision;
    }
  | { readonly key: Key; readonly target: 'session'; readonly equals: SessionId | null };

/** One write of a transaction. The last put decides a key's session: a put without one makes the key durable (R5). */
export type Write =
  | { readonly put: Key; readonly value: string; readonly session: SessionId | null }
  | { readonly delete: Key };

/** Writes that happen together if all compares hold; otherwise nothing is written and `onConflict` is read. */
export interface Txn {
  readonly compares: readonly Compare[];
  readonly writes: readonly Write[];
  /** Keys to read when a compare fails, at most 4. */
  readonly onConflict: readonly Key[];
  /** Leave the values of `onConflict` out: `value` is `''` (R21). */
  readonly conflictKeysOnly?: boolean;
}

/** Independent transactions that travel together: one round trip, one revision, each with its own answer. */
export interface Batch {
  /** Compares that must hold for any of the transactions to be tried ("I lead"). */
  readonly guard: readonly Compare[];
  readonly txns: readonly Txn[];
}

/** The answer to one transaction. `found` has one entry per `onConflict` key, null where the key is absent. */
export type TxnOutcome =
  | { readonly kind: 'committed'; readonly revision: Revision }
  | {
      readonly kind: 'conflict';
      readonly found: readonly (Entry | null)[];
      readonly revision: Revision;
    };

/** The answer to a batch: one outcome per transaction, or the guard did not hold and nothing was tried. */
export type BatchOutcome =
  | {
      readonly kind: 'tried';
      readonly outcomes: readonly TxnOutcome[];
      readonly revision: Revision;
    }
  | { readonly kind: 'guardFailed'; readonly revision: Revision };

/** What to read or watch: some keys by name, or every key that starts with a prefix. */
export type Range = { readonly keys: readonly Key[] } | { readonly prefix: string };

/** How to read. */
export interface ReadOptions {
  /** Read as of this revision; the newest when absent. */
  readonly atRevision?: Revision;
  /** Most entries to return, 1..1000; 1000 when absent. */
  readonly limit?: number;
  /** Only keys after this one: the last key of the page before. */
  readonly after?: Key;
  /** Leave values out: `value` is `''`. */
  readonly keysOnly?: boolean;
  /** Only entries last written at this revision or after it. The answer is small then, not the work: etcd looks at all. */
  readonly minModRevision?: Revision;
  /**
   * Of keys asked for by name: leave out those whose last write is the one given here. When that is all of them, request and
   * answer are as small as can be.
   */
  readonly known?: ReadonlyMap<Key, Revision>;
}

/** One page, at one revision, ordered by key. */
export type ReadOutcome =
  | {
      readonly kind: 'page';
      readonly entries: readonly Entry[];
      readonly more: boolean;
      /** Keys in the range, `after` the given one, whatever `limit`, `minModRevision` and `known` leave out. */
      readonly count: number;
      readonly revision: Revision;
    }
  /** The answer would have been larger than {@link ANSWER_BYTES_MAX}: ask for fewer. One entry is never too large. */
  | { readonly kind: 'tooLarge' }
  /** `atRevision` is older than the history that is kept: start over. `revision` is the newest one. */
  | { readonly kind: 'compacted'; readonly revision: Revision };

/** One key that changed. A delete has `entry: null`. */
export interface Change {
  readonly key: Key;
  /** Revision of the write or the delete. */
  readonly modRevision: Revision;
  readonly entry: Entry | null;
}

/** What a watch says. */
export type WatchEvent =
  /** Everything that happened to the range at these revisions, in order; one revision is never split in two events. */
  | { readonly kind: 'changes'; readonly revision: Revision; readonly changes: readonly Change[] }
  /** History before `revision` is gone and some of it was not delivered: read the range again. The watch completes. */
  | { readonly kind: 'compacted'; readonly revision: Revision }
  /** The store is another one, or went back in time (R8): forget everything. The watch completes. */
  | { readonly kind: 'reset' }
  /**
   * The store does not let this client watch: `E_STORE_DENIED`, or `E_CLUSTERS_MIXED`, which lasts. Told once; the watch is
   * tried again by itself, and goes on without a gap after `accepted`.
   */
  | { readonly kind: 'refused'; readonly error: LeaseholdError }
  /** What was refused works again. */
  | { readonly kind: 'accepted' };

/** True for an event after which a watch completes. */
export function endsWatch({ kind }: WatchEvent): boolean {
  return kind === 'compacted' || kind === 'reset';
}

/** Events as they come. An RxJS observable is one; the port shows no type of a library. */
export interface WatchStream {
  /** Begins to watch; nothing is delivered within the call. */
  subscribe(observer: {
    readonly next: (event: WatchEvent) => void;
    /** Nothing follows: after `compacted` or `reset`. */
    readonly complete?: () => void;
  }): { unsubscribe(): void };
}

/** A live session. */
export interface SessionGrant {
  /** The time to live the store granted, in milliseconds; may differ from what was asked. */
  readonly ttlMs: number;
}

/** Bounds one call. */
export interface CallOptions {
  /** The caller stops waiting after this many milliseconds and counts the outcome as unknown. */
  readonly timeoutMs: number;
}

/**
 * One client of a store. All methods may run concurrently; answers may come in any order.
 *
 * Cost on etcd: one round trip a call; a batch one round trip and one fsync.
 */
export interface Store {
  /** What the store is, for logs: `memory`, `etcd`. */
  readonly name: string;

  /**
   * Opens a session named by the caller; opening the same id again while it lives answers the same, whatever life is asked
   * for then (R4).
   *
   * @param ttlMs  Life without renewal, in milliseconds.
   */
  openSession(id: SessionId, ttlMs: number, options: CallOptions): Promise<SessionGrant>;

  /** Renews a session from now. @throws `E_LEASE_EXPIRED` when the session is gone. */
  keepAlive(id: SessionId, options: CallOptions): Promise<SessionGrant>;

  /** Ends a session: every key that hangs on it vanishes at one revision. A session that is gone is no error. */
  closeSession(id: SessionId, options: CallOptions): Promise<void>;

  /** Reads one page at one revision. Linearizable: at least as new as every write answered before the call. */
  read(range: Range, read: ReadOptions, options: CallOptions): Promise<ReadOutcome>;

  /**
   * Tries a batch. All compares see the state before it; all its writes share one revision.
   *
   * A key written twice in one batch is a bug of the caller and refused as one, whatever the compares say. A put under a session that is gone,
   * in a transaction whose compares hold, fails the whole batch with `E_LEASE_EXPIRED` and nothing is written (R5).
   * At most 128 operations as etcd counts them (R6) and 1 MiB.
   */
  transact(batch: Batch, options: CallOptions): Promise<BatchOutcome>;

  /**
   * Streams changes from `fromRevision` on, resuming by itself after every disconnect, without gap or repetition of a
   * revision once delivered. Never errors: what is wrong is told as `refused`, or heals by itself. Completes only after
   * `compacted` or `reset`. Unsubscribing ends it at once.
   */
  watch(range: Range, fromRevision: Revision): WatchStream;

  /** Frees what the client holds (connections, timers). Sessions are not closed. */
  close(): Promise<void>;
}

/** Most operations in one batch: outer count plus the largest inner count (R6). */
export const BATCH_OPERATIONS_MAX = 128;
/** Most bytes in one batch (R6). */
export const BATCH_BYTES_MAX = 1024 * 1024;
/** Most bytes of keys and values in one page; what else a store sends with them may lower it a little. */
export const ANSWER_BYTES_MAX = 4 * 1024 * 1024;

/** True when `key` lies in `range`. */
export function inRange(range: Range, key: Key): boolean {
  return 'prefix' in range ? key.startsWith(range.prefix) : range.keys.includes(key);
}
