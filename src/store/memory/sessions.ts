/**
 * The sessions of the memory store: names with a time to live and the keys that hang on each.
 *
 * A session ends once, by closing or by expiry; what its end deletes is the business of the store.
 */
import type { Clock, Timer } from '../../base/clock.ts';
import type { SessionId } from '../../base/ids.ts';
import type { Key } from '../port.ts';

interface Session {
  readonly ttlMs: number;
  readonly keys: Set<Key>;
  expiresAtMs: number;
  timer: Timer | undefined;
}

/** A session and its life without renewal, in milliseconds. */
export interface SessionLife {
  readonly id: SessionId;
  readonly ttlMs: number;
}

/** What the table of sessions needs from its store. */
export interface SessionsOptions {
  readonly clock: Clock;
  /** How much later than its TTL the next session may expire, in milliseconds. */
  readonly lagMs: () => number;
  /** Called when a session has expired, before it is forgotten: ends it. */
  readonly onExpired: (id: SessionId) => void;
}

/** Opening, renewing and ending cost one timer each. */
export class Sessions {
  readonly #sessions = new Map<SessionId, Session>();
  readonly #options: SessionsOptions;
  #isFrozen = false;

  constructor(options: SessionsOptions) {
    this.#options = options;
  }

  /** The live sessions, in the order they were opened. */
  get ids(): readonly SessionId[] {
    return [...this.#sessions.keys()];
  }

  /** The live sessions and the life that each has without renewal, in the order they were opened. */
  get lives(): readonly SessionLife[] {
    return [...this.#sessions].map(([id, { ttlMs }]) => ({ id, ttlMs }));
  }

  /** True while the session lives. */
  has(id: SessionId): boolean {
    return this.#sessions.has(id);
  }

  /** Opens a session; one that lives keeps its TTL and its deadline, as in etcd. Returns the TTL. */
  open(id: SessionId, ttlMs: number): number {
    const known = this.#sessions.get(id);
    if (known !== undefined) return known.ttlMs;
    const session: Session = { ttlMs, keys: new Set(), expiresAtMs: 0, timer: undefined };
    this.#sessions.set(id, session);
    this.#renew(id, session);
    return ttlMs;
  }

  /** Gives a session its whole TTL again and returns the TTL; undefined when it is gone. */
  renew(id: SessionId): number | undefined {
    const session = this.#sessions.get(id);
    if (session !== undefined) this.#renew(id, session);
    return session?.ttlMs;
  }

  /** Forgets a session and returns the keys that hung on it; undefined when it is gone already. */
  end(id: SessionId): ReadonlySet<Key> | undefined {
    const session = this.#sessions.get(id);
    if (session === undefined) return undefined;
    this.#disarm(session);
    this.#sessions.delete(id);
    return session.keys;
  }

  /** Moves a key from one session to another; null stands for none. */
  move(key: Key, from: SessionId | null, to: SessionId | null): void {
    if (from === to) return;
    if (from !== null) this.#sessions.get(from)?.keys.delete(key);
    if (to !== null) this.#sessions.get(to)?.keys.add(key);
  }

  /** Stops expiry, or lets it go on: what is overdue by then expires at once. */
  freeze(on: boolean): void {
    this.#isFrozen = on;
    for (const [id, session] of this.#sessions) {
      this.#disarm(session);
      this.#arm(id, session);
    }
  }

  /** Forgets all sessions without ending them. */
  clear(): void {
    for (const session of this.#sessions.values()) this.#disarm(session);
    this.#sessions.clear();
  }

  /** Clears all timers for good; the sessions stay and never expire. */
  stop(): void {
    this.freeze(true);
  }

  #renew(id: SessionId, session: Session): void {
    const { clock, lagMs } = this.#options;
    session.expiresAtMs = clock.nowMs() + session.ttlMs + lagMs();
    this.#disarm(session);
    this.#arm(id, session);
  }

  #arm(id: SessionId, session: Session): void {
    if (this.#isFrozen) return;
    const { clock, onExpired } = this.#options;
    const leftMs = Math.max(0, session.expiresAtMs - clock.nowMs());
    session.timer = clock.setTimeout(() => onExpired(id), leftMs);
  }

  #disarm(session: Session): void {
    if (session.timer !== undefined) this.#options.clock.clearTimeout(session.timer);
    session.timer = undefined;
  }
}
