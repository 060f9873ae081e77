/**
 * The store as simply as it can be written: a full copy of the map per revision. It is the oracle of model.test.ts, so it
 * shares no code with the store it judges.
 */
import type { Revision } from '../../src/base/decimals.ts';
import type { SessionId } from '../../src/base/ids.ts';
import type {
  Batch,
  BatchOutcome,
  Change,
  Compare,
  Entry,
  Key,
  TxnOutcome,
  WatchEvent,
  Write,
} from '../../src/store/port.ts';

type State = ReadonlyMap<Key, Entry>;

interface ModelSession {
  readonly id: SessionId;
  readonly ttlMs: number;
  endsAtMs: number;
}

/** What a batch does: an answer, a session that is gone, or a bug of the caller. */
export type ModelOutcome = BatchOutcome | 'E_LEASE_EXPIRED' | 'InvariantViolation';

export class Model {
  /** The state after each revision; 0 does not exist and 1 is empty. */
  readonly states: State[] = [new Map(), new Map()];
  /** Oldest renewal first, which is the order in which equal deadlines fire. */
  sessions: ModelSession[] = [];
  compacted = 0;
  nowMs = 0;

  get newest(): number {
    return this.states.length - 1;
  }

  get revision(): Revision {
    return String(this.newest) as Revision;
  }

  get state(): State {
    return this.states[this.newest]!;
  }

  open(id: SessionId, ttlMs: number): number {
    const known = this.sessions.find((session) => session.id === id);
    if (known === undefined) this.sessions.push({ id, ttlMs, endsAtMs: this.nowMs + ttlMs });
    return known?.ttlMs ?? ttlMs;
  }

  keepAlive(id: SessionId): number | 'E_LEASE_EXPIRED' {
    const session = this.sessions.find((known) => known.id === id);
    if (session === undefined) return 'E_LEASE_EXPIRED';
    session.endsAtMs = this.nowMs + session.ttlMs;
    this.sessions = [...this.sessions.filter((known) => known !== session), session];
    return session.ttlMs;
  }

  end(id: SessionId): void {
    this.sessions = this.sessions.filter((session) => session.id !== id);
    const left = [...this.state].filter(([, entry]) => entry.session !== id);
    if (left.length < this.state.size) this.states.push(new Map(left));
  }

  advance(durationMs: number): void {
    const untilMs = this.nowMs + durationMs;
    for (;;) {
      const next = this.sessions.reduce<ModelSession | undefined>(
        (first, session) =>
          first === undefined || session.endsAtMs < first.endsAtMs ? session : first,
        undefined,
      );
      if (next === undefined || next.endsAtMs > untilMs) break;
      this.end(next.id);
    }
    this.nowMs = untilMs;
  }

  transact({ guard, txns }: Batch): ModelOutcome {
    const keys = txns.flatMap(({ writes }) => writes.map(keyOf));
    if (new Set(keys).size < keys.length) return 'InvariantViolation';
    if (!guard.every((compare) => this.#holds(compare))) {
      return { kind: 'guardFailed', revision: this.revision };
    }
    const taken = txns.map(({ compares }) => compares.every((compare) => this.#holds(compare)));
    const under = txns
      .filter((_, index) => taken[index])
      .flatMap(({ writes }) => writes.map((write) => ('put' in write ? write.session : null)));
    const alive = this.sessions.map(({ id }) => id);
    if (under.some((id) => id !== null && !alive.includes(id))) return 'E_LEASE_EXPIRED';

    const next = String(this.newest + 1) as Revision;
    let state = this.state;
    let isWritten = false;
    const found = txns.map(({ writes, onConflict }, index) => {
      if (!taken[index]) return onConflict.map((key) => state.get(key) ?? null);
      for (const write of writes) {
        if ('put' in write || state.has(write.delete)) isWritten = true;
        state = after(state, write, next);
      }
      return undefined;
    });
    if (isWritten) this.states.push(state);
    const { revision } = this;
    const outcomes = found.map((entries): TxnOutcome =>
      entries === undefined
        ? { kind: 'committed', revision }
        : { kind: 'conflict', found: entries, revision },
    );
    return { kind: 'tried', outcomes, revision };
  }

  /** Everything a watch from `from` hears, given that it was opened when `from` was not yet compacted. */
  eventsSince(from: number, isInside: (key: Key) => boolean): WatchEvent[] {
    const events: WatchEvent[] = [];
    for (let number = from; number <= this.newest; number += 1) {
      const changes = this.changesAt(number).filter(({ key }) => isInside(key));
      const revision = String(number) as Revision;
      if (changes.length > 0) events.push({ kind: 'changes', revision, changes });
    }
    return events;
  }

  changesAt(number: number): Change[] {
    const before = this.states[number - 1]!;
    const now = this.states[number]!;
    const modRevision = String(number) as Revision;
    return [...new Set([...before.keys(), ...now.keys()])]
      .sort()
      .filter((key) => before.get(key) !== now.get(key))
      .map((key) => ({ key, modRevision, entry: now.get(key) ?? null }));
  }

  #holds({ key, target, equals }: Compare): boolean {
    const entry = this.state.get(key);
    if (entry === undefined) return equals === (target === 'session' ? null : '0');
    return entry[target] === equals;
  }
}

function keyOf(write: Write): Key {
  return 'put' in write ? write.put : write.delete;
}

function after(state: State, write: Write, modRevision: Revision): State {
  const next = new Map(state);
  if ('delete' in write) {
    next.delete(write.delete);
    return next;
  }
  const { put: key, value, session } = write;
  const createRevision = state.get(key)?.createRevision ?? modRevision;
  return next.set(key, { key, value, createRevision, modRevision, session });
}
