/** What a memory store was asked and what happened in it: counters and the audit trail. Only tests read it. */
import { compareDecimals, type Revision } from '../../base/decimals.ts';
import type { SessionId } from '../../base/ids.ts';
import type { BatchOutcome, Entry, Key, Store } from '../port.ts';
import type { Commit, CommitCause } from './history.ts';

/** The calls of a store. */
export type RequestKind = Exclude<keyof Store, 'name' | 'close'>;

/** One write that happened, as the checkers read it. */
export interface AuditRecord {
  /** Revisions of two clusters are not comparable. */
  readonly cluster: string;
  readonly revision: Revision;
  /** When, on the store's clock. */
  readonly atMs: number;
  readonly cause: CommitCause;
  readonly key: Key;
  /** Null for a delete. */
  readonly value: string | null;
  /** The session it hangs on now. */
  readonly session: SessionId | null;
  /** What the key held before; null when it was absent. */
  readonly replaced: Entry | null;
}

/** What the store was asked and did since it was made. */
export interface MemoryStats {
  readonly requests: Readonly<Record<RequestKind, number>>;
  /** Answers to transactions, and batches whose guard failed. */
  readonly outcomes: Readonly<Record<'committed' | 'conflict' | 'guardFailed', number>>;
  /** Puts and deletes that took effect, by class of key. */
  readonly writes: Readonly<Record<string, number>>;
  /** Events handed to watchers. */
  readonly watchDeliveries: number;
}

/** How a ledger is kept. */
export interface LedgerOptions {
  readonly keepAudit: boolean;
  readonly classify: (key: Key) => string;
}

/** Counts everything; keeps commits only when told to. */
export class Ledger {
  readonly #options: LedgerOptions;
  readonly #requests: Record<RequestKind, number> = {
    openSession: 0,
    keepAlive: 0,
    closeSession: 0,
    read: 0,
    transact: 0,
    watch: 0,
  };
  readonly #outcomes = { committed: 0, conflict: 0, guardFailed: 0 };
  readonly #writes = new Map<string, number>();
  readonly #audit: AuditRecord[] = [];

  constructor(options: LedgerOptions) {
    this.#options = options;
  }

  /** Every commit so far; undefined unless the audit is kept. */
  get audit(): readonly AuditRecord[] | undefined {
    return this.#options.keepAudit ? this.#audit : undefined;
  }

  /** Counts a call. */
  request(kind: RequestKind): void {
    this.#requests[kind] += 1;
  }

  /** Counts the answers of a batch. */
  answer(outcome: BatchOutcome): void {
    if (outcome.kind === 'guardFailed') this.#outcomes.guardFailed += 1;
    else for (const { kind } of outcome.outcomes) this.#outcomes[kind] += 1;
  }

  /** Counts the writes of a commit, and keeps them for the audit. */
  commit(cluster: string, commit: Commit): void {
    for (const { key } of commit.changes) {
      const name = this.#options.classify(key);
      this.#writes.set(name, (this.#writes.get(name) ?? 0) + 1);
    }
    if (this.#options.keepAudit) this.#audit.push(...recordsOf(cluster, commit));
  }

  /** Begins the audit of another life of the store: with what it holds, as if that had been put in by hand. */
  begin(cluster: string, entries: readonly Entry[], atMs: number): void {
    if (!this.#options.keepAudit) return;
    const inOrder = entries.toSorted((a, b) => compareDecimals(a.modRevision, b.modRevision));
    for (const { key, value, session, modRevision: revision } of inOrder) {
      const written = { cluster, revision, atMs, cause: 'hand' } as const;
      this.#audit.push({ ...written, key, value, session, replaced: null });
    }
  }

  /** A copy of the counters. */
  stats(watchDeliveries: number): MemoryStats {
    return {
      requests: { ...this.#requests },
      outcomes: { ...this.#outcomes },
      writes: Object.fromEntries(this.#writes),
      watchDeliveries,
    };
  }
}

/** One record for each change of a commit, in key order. */
export function recordsOf(cluster: string, commit: Commit): AuditRecord[] {
  const { revision, atMs, cause } = commit;
  return commit.changes.map(({ key, entry }, index) => ({
    cluster,
    revision,
    atMs,
    cause,
    key,
    value: entry?.value ?? null,
    session: entry?.session ?? null,
    replaced: commit.replaced[index] ?? null,
  }));
}

/** The class of a key unless told otherwise: its third part; all of it when there is none. */
export function kindOf(key: Key): string {
  const second = key.indexOf('/', key.indexOf('/') + 1) + 1;
  if (second === 0) return key;
  const end = key.indexOf('/', second);
  return key.slice(second, end === -1 ? undefined : end);
}
