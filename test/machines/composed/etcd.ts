/** A store as small as it can be: keys with revisions and sessions, and transactions that compare and write (R5). */

export interface Entry {
  readonly value: object;
  /** The write that put it. */
  readonly stamp: number;
  readonly createRevision: number;
  readonly modRevision: number;
  /** The session whose end deletes it; null when it is durable. */
  readonly session: string | null;
}

export interface EtcdState {
  revision: number;
  entries: Record<string, Entry>;
  /** Live sessions. */
  sessions: string[];
}

export interface Compare {
  readonly key: string;
  readonly target: 'modRevision' | 'createRevision' | 'session';
  /** Revision 0 means absent. */
  readonly equals: number | string;
}

export interface Put {
  readonly put: string;
  readonly value: object;
  readonly session: string | null;
}

export type Write = Put | { readonly delete: string };

export interface Txn {
  /** "I lead", or nothing. */
  readonly guard: readonly Compare[];
  readonly compares: readonly Compare[];
  readonly writes: readonly Write[];
  /** Read when a compare fails. */
  readonly onConflict: readonly string[];
  readonly stamp: number;
}

export type Outcome =
  | { readonly kind: 'committed'; readonly revision: number }
  | {
      readonly kind: 'conflict';
      readonly found: readonly (Entry | null)[];
      readonly revision: number;
    }
  | { readonly kind: 'guardFailed' }
  /** A put under a session that is gone: nothing was written. */
  | { readonly kind: 'fenced' };

export function emptyEtcd(): EtcdState {
  return { revision: 1, entries: {}, sessions: [] };
}

export function cloneEtcd(etcd: EtcdState): EtcdState {
  return {
    revision: etcd.revision,
    entries: { ...etcd.entries },
    sessions: etcd.sessions.slice(),
  };
}

function holds(etcd: EtcdState, { key, target, equals }: Compare): boolean {
  const entry = etcd.entries[key];
  if (target === 'session') return entry?.session === equals;
  return (entry?.[target] ?? 0) === equals;
}

/** Tries a transaction and applies it. */
export function transact(etcd: EtcdState, txn: Txn): Outcome {
  if (!txn.guard.every((compare) => holds(etcd, compare))) return { kind: 'guardFailed' };
  const { revision } = etcd;
  if (!txn.compares.every((compare) => holds(etcd, compare))) {
    const found = txn.onConflict.map((key) => etcd.entries[key] ?? null);
    return { kind: 'conflict', found, revision };
  }
  if (!txn.writes.every((write) => isUnderLiveSession(etcd, write))) return { kind: 'fenced' };
  etcd.revision = revision + 1;
  for (const write of txn.writes) apply(etcd, write, txn.stamp);
  return { kind: 'committed', revision: etcd.revision };
}

function isUnderLiveSession(etcd: EtcdState, write: Write): boolean {
  return 'delete' in write || write.session === null || etcd.sessions.includes(write.session);
}

/** One write, at the present revision. */
function apply(etcd: EtcdState, write: Write, stamp: number): void {
  if ('delete' in write) {
    delete etcd.entries[write.delete];
    return;
  }
  const { value, session } = write;
  const modRevision = etcd.revision;
  const createRevision = etcd.entries[write.put]?.createRevision ?? modRevision;
  etcd.entries[write.put] = { value, stamp, createRevision, modRevision, session };
}

/** A write that nothing stands in the way of: an operator's hand, or a world's beginning. */
export function put(etcd: EtcdState, key: string, value: object, session?: string): void {
  etcd.revision += 1;
  apply(etcd, { put: key, value, session: session ?? null }, 0);
}

/** Ends a session: every key that hangs on it vanishes, at one revision. */
export function endSession(etcd: EtcdState, session: string): void {
  etcd.sessions = etcd.sessions.filter((one) => one !== session);
  etcd.revision += 1;
  for (const [key, entry] of Object.entries(etcd.entries)) {
    if (entry.session === session) delete etcd.entries[key];
  }
}
