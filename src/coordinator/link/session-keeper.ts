/**
 * Keeps one session alive, and knows by itself when it may no longer be believed in: carries out what the session chart
 * decides.
 *
 * The deadline counts from when the last answered renewal was SENT, on the monotonic clock, and ends before the store can
 * give the keys away (R10). It is checked by a timer and, because a blocked loop fires no timers, synchronously before
 * anything is handed out or written. An expired session is never used again (R11).
 */
import type { ExpiryReason, SessionEvent } from '../../../machines/session/session.events.ts';
import { sessionMachine } from '../../../machines/session/session.machine.ts';
import type { Clock, Timer } from '../../base/clock.ts';
import { isLeaseholdError } from '../../base/errors.ts';
import { randomSessionId, type SessionId } from '../../base/ids.ts';
import type { Random } from '../../base/random.ts';
import { selfFenceMarginMs } from '../../protocol/timing.ts';
import type { ChartHost, RunningChart } from '../loop/chart-host.ts';
import type { Mailbox } from '../loop/mailbox.ts';
import type { StoreGate } from './store-gate.ts';

export interface SessionListener {
  opened(id: SessionId): void;
  /** A try to open was in vain; more follow. */
  unopened(error: unknown): void;
  /** Told once per session that was open; nothing of it may be used any more. */
  expired(id: SessionId, reason: ExpiryReason): void;
}

/** What a session is kept with. */
export interface SessionPorts {
  readonly gate: StoreGate;
  readonly clock: Clock;
  readonly random: Random;
  readonly mailbox: Mailbox;
  readonly charts: ChartHost;
}

/** Whose session it is, and how long it lives without renewal. */
export interface SessionKind {
  readonly of: 'worker' | 'leader';
  readonly ttlMs: number;
}

const RETRY_MS = 200;
/** Tries of ending a session in the background; after them its time to live ends it. */
const REVOKE_TRIES_MAX = 3;

/** What there is in the store, as far as this worker knows. */
type Held =
  | { readonly kind: 'none' }
  /** Asked for, and not answered. */
  | { readonly kind: 'asked'; readonly id: SessionId; readonly firstSentAtMs: number }
  | { readonly kind: 'open'; readonly id: SessionId; deadlineMs: number; renewDueMs: number }
  /** Not believed in any more; the store may not know. */
  | { readonly kind: 'over'; readonly id: SessionId };

const NONE: Held = { kind: 'none' };

export class SessionKeeper {
  readonly #ports: SessionPorts;
  readonly #ttlMs: number;
  readonly #listener: SessionListener;
  readonly #chart: RunningChart<SessionEvent>;
  readonly #closings = new Set<Promise<void>>();
  #held: Held = NONE;
  #deadlineTimer: Timer | undefined;
  #askedAnewAtMs = -Infinity;
  /** Why the last try to open was in vain. */
  #failure: unknown = null;
  /** The longest a renewal fell due late since the last answered one: the loop was blocked. */
  stallMs = 0;

  constructor(ports: SessionPorts, { of, ttlMs }: SessionKind, listener: SessionListener) {
    this.#ports = ports;
    this.#ttlMs = ttlMs;
    this.#listener = listener;
    this.#chart = ports.charts.start(this.#machine(), 'session', of, { of });
  }

  /** The open session; null while there is none. Says nothing about time: see {@link isValid}. */
  get id(): SessionId | null {
    return this.#held.kind === 'open' ? this.#held.id : null;
  }

  get state(): string {
    return this.#chart.state;
  }

  /** Milliseconds for which the session may still be believed in. */
  get leftMs(): number {
    const held = this.#held;
    return held.kind === 'open' ? Math.max(0, held.deadlineMs - this.#nowMs) : 0;
  }

  /** True while the session may be believed in, at this very moment. */
  isValid(): boolean {
    const held = this.#held;
    if (held.kind !== 'open') return false;
    if (this.#nowMs < held.deadlineMs) return true;
    this.#noteStall(held);
    this.#chart.send({ type: 'deadline.passed' });
    return false;
  }

  /** Opens a session, trying until it is open or given up; answers at once when one is open. */
  open(): void {
    // One whose time is up is no answer.
    if (this.#held.kind === 'open') this.isValid();
    this.#chart.send({ type: 'session.wanted' });
  }

  /** The store said that session `id` is gone; a session opened since is another one. */
  gone(id: SessionId): void {
    if (this.id === id) this.#chart.send({ type: 'session.gone' });
  }

  /** Ends the session here and now; the store is told in the background. */
  abandon(reason: ExpiryReason): void {
    this.#chart.send({ type: 'session.abandoned', reason });
  }

  /** The store is another one (R8). */
  reset(): void {
    this.#chart.send({ type: 'store.reset' });
  }

  /** Lets the session run out: it is believed in until its deadline, and renewed no more (R18). */
  stopRenewing(): void {
    this.#chart.send({ type: 'session.released' });
  }

  /** Gives the session back; resolves when the store has answered or could not. Nobody is told. */
  async close(): Promise<void> {
    this.#chart.send({ type: 'session.unwanted' });
    await Promise.all(this.#closings);
  }

  /** Nothing of it runs any more. */
  stop(): void {
    this.#forget();
    this.#chart.stop();
  }

  get #nowMs(): number {
    return this.#ports.clock.nowMs();
  }

  #machine(): typeof sessionMachine {
    return sessionMachine.provide({
      actions: {
        openSession: (_) => {
          this.#askAnew();
        },
        openAgain: (_) => {
          this.#askAgain();
        },
        discardOpening: (_) => {
          if (this.#held.kind === 'asked') this.#revoke(this.#held.id, 1);
          this.#forget();
        },
        tellOpened: (_) => {
          if (this.#held.kind === 'open') this.#listener.opened(this.#held.id);
        },
        tellUnopened: (_) => {
          this.#listener.unopened(this.#failure);
        },
        renew: (_) => {
          this.#renew();
        },
        tellExpired: ({ event }) => {
          this.#expire(reasonOf(event));
        },
        revoke: (_) => {
          if (this.#held.kind === 'over') this.#revoke(this.#held.id, 1);
        },
        closeSession: (_) => {
          this.#close();
        },
      },
    });
  }

  /** A store that grants sessions and knows nothing of them a moment later must not be asked without a pause. */
  #askAnew(): void {
    const pauseMs = this.#askedAnewAtMs + RETRY_MS - this.#nowMs;
    const asked = {
      kind: 'asked',
      id: randomSessionId(this.#ports.random),
      firstSentAtMs: this.#nowMs + Math.max(0, pauseMs),
    } as const;
    this.#askedAnewAtMs = asked.firstSentAtMs;
    if (pauseMs <= 0) {
      this.#ask(asked);
      return;
    }
    this.#held = asked;
    this.#ports.clock.setTimeout(() => {
      this.#hear(asked, () => {
        this.#ask(asked);
      });
    }, pauseMs);
  }

  #ask(asked: Held & { kind: 'asked' }): void {
    this.#held = asked;
    const { gate } = this.#ports;
    gate.openSession(asked.id, this.#ttlMs).then(
      (grant) => {
        this.#hear(asked, () => {
          this.#granted(asked, grant.ttlMs);
        });
      },
      (error: unknown) => {
        this.#hear(asked, () => {
          this.#failure = error;
          this.#chart.send({ type: 'opening.failed', pauseMs: RETRY_MS });
        });
      },
    );
  }

  /** The same id again is idempotent (R4), but its life began with the first send. */
  #askAgain(): void {
    const held = this.#held;
    if (held.kind !== 'asked') return;
    const isOld = this.#nowMs - held.firstSentAtMs > this.#ttlMs / 2;
    if (!isOld) {
      this.#ask({ ...held });
      return;
    }
    this.#revoke(held.id, REVOKE_TRIES_MAX);
    this.#askAnew();
  }

  #granted({ id, firstSentAtMs }: Held & { kind: 'asked' }, grantedMs: number): void {
    const deadlineMs = firstSentAtMs + this.#lifeMs(grantedMs);
    if (this.#nowMs >= deadlineMs) {
      // Answered too late to be of use.
      this.#chart.send({ type: 'opening.late' });
      return;
    }
    const renewMs = this.#renewAfterMs();
    this.#held = { kind: 'open', id, deadlineMs, renewDueMs: this.#nowMs + renewMs };
    this.stallMs = 0;
    this.#armDeadline();
    this.#chart.send({ type: 'opening.granted', renewMs });
  }

  #renew(): void {
    const held = this.#held;
    if (held.kind !== 'open' || !this.isValid()) return;
    const sentAtMs = this.#nowMs;
    this.#noteStall(held);
    this.#ports.gate.keepAlive(held.id, this.#ttlMs / 4).then(
      (grant) => {
        this.#hear(held, () => {
          held.deadlineMs = Math.max(held.deadlineMs, sentAtMs + this.#lifeMs(grant.ttlMs));
          this.stallMs = 0;
          if (!this.isValid()) return;
          this.#armDeadline();
          const renewMs = Math.max(0, sentAtMs + this.#renewAfterMs() - this.#nowMs);
          held.renewDueMs = this.#nowMs + renewMs;
          this.#chart.send({ type: 'renewal.answered', renewMs });
        });
      },
      (error: unknown) => {
        this.#hear(held, () => {
          if (isLeaseholdError(error) && error.kind === 'fenced') {
            this.#chart.send({ type: 'session.gone' });
            return;
          }
          const pauseMs = Math.min(RETRY_MS, this.#ttlMs / 10);
          held.renewDueMs = this.#nowMs + pauseMs;
          this.#chart.send({ type: 'renewal.failed', pauseMs });
        });
      },
    );
  }

  /** Handlers hear of it before the store can give their splits away. */
  #expire(reason: ExpiryReason): void {
    const held = this.#held;
    if (held.kind !== 'open') return;
    this.#forget();
    this.#held = { kind: 'over', id: held.id };
    this.#listener.expired(held.id, reason);
  }

  /** Nothing of this session may be under way once the answer was heard. */
  #close(): void {
    const held = this.#held;
    this.#forget();
    if (held.kind !== 'asked' && held.kind !== 'open') return;
    // Unanswered: the session ends by its time to live (R17).
    const closed = this.#ports.gate.closeSession(held.id).catch(() => undefined);
    this.#closings.add(closed);
    void closed.then(() => {
      this.#closings.delete(closed);
      this.#ports.mailbox.post(() => {
        this.#chart.send({ type: 'closing.answered' });
      });
    });
  }

  #forget(): void {
    this.#held = NONE;
    if (this.#deadlineTimer !== undefined) this.#ports.clock.clearTimeout(this.#deadlineTimer);
    this.#deadlineTimer = undefined;
  }

  #armDeadline(): void {
    const { clock } = this.#ports;
    if (this.#deadlineTimer !== undefined) clock.clearTimeout(this.#deadlineTimer);
    const held = this.#held;
    this.#deadlineTimer = clock.setTimeout(() => {
      this.#hear(held, () => {
        // Fired early, by a clock that rounds: the deadline is still to come.
        if (this.isValid()) this.#armDeadline();
      });
    }, this.leftMs);
  }

  /** A third of the life, at most: one failed renewal leaves time for two more. */
  #renewAfterMs(): number {
    return (this.#ttlMs / 3) * (0.85 + 0.15 * this.#ports.random.next());
  }

  #lifeMs(grantedMs: number): number {
    const ttlMs = Math.min(this.#ttlMs, grantedMs);
    return ttlMs - selfFenceMarginMs(ttlMs);
  }

  #noteStall({ renewDueMs }: Held & { kind: 'open' }): void {
    this.stallMs = Math.max(this.stallMs, this.#nowMs - renewDueMs);
  }

  #revoke(id: SessionId, tryNumber: number): void {
    this.#ports.gate.closeSession(id).catch((error: unknown) => {
      const isOver = isLeaseholdError(error) && error.code === 'E_STOPPED';
      if (isOver || tryNumber >= REVOKE_TRIES_MAX) return;
      this.#ports.clock.setTimeout(() => {
        this.#revoke(id, tryNumber + 1);
      }, RETRY_MS);
    });
  }

  /** What concerns something that is held no longer is nobody's business. */
  #hear(of: Held, message: () => void): void {
    this.#ports.mailbox.post(() => {
      if (this.#held === of) message();
    });
  }
}

function reasonOf(event: SessionEvent): ExpiryReason {
  switch (event.type) {
    case 'session.gone':
      return 'gone';
    case 'store.reset':
      return 'reset';
    case 'session.abandoned':
      return event.reason;
    default:
      return 'deadline';
  }
}
