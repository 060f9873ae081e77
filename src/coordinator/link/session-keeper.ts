/**
 * Keeps one session alive, and knows by itself when it may no longer be believed in.
 *
 * The deadline counts from when the last answered renewal was SENT, on the monotonic clock, and ends before the store can
 * give the keys away (R10). It is checked by a timer and, because a blocked loop fires no timers, synchronously before
 * anything is handed out or written. An expired session is never used again (R11).
 */
import type { Clock, Timer } from '../../base/clock.ts';
import { isLeaseholdError } from '../../base/errors.ts';
import { randomSessionId, type SessionId } from '../../base/ids.ts';
import type { Random } from '../../base/random.ts';
import { selfFenceMarginMs } from '../../protocol/timing.ts';
import type { Mailbox } from '../loop/mailbox.ts';
import type { StoreGate } from './store-gate.ts';

/** Why a session ended. */
export type ExpiryReason = 'deadline' | 'gone' | 'reset' | 'closed';

export interface SessionListener {
  opened(id: SessionId): void;
  /** A try to open was not answered; more follow. */
  openFailed?(error: unknown): void;
  /** Told once per session that was open; nothing of it may be used any more. */
  expired(id: SessionId, reason: ExpiryReason): void;
}

/** What a session is kept with. */
export interface SessionPorts {
  readonly gate: StoreGate;
  readonly clock: Clock;
  readonly random: Random;
  readonly mailbox: Mailbox;
}

const RETRY_MS = 200;
/** Tries of ending a session in the background; after them its time to live ends it. */
const REVOKE_TRIES_MAX = 3;

export class SessionKeeper {
  readonly #gate: StoreGate;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #mailbox: Mailbox;
  readonly #ttlMs: number;
  readonly #listener: SessionListener;
  #id: SessionId | null = null;
  #isOpening = false;
  /** The session that is being opened: asked for, and not answered. */
  #openingId: SessionId | null = null;
  readonly #closings = new Set<Promise<void>>();
  #deadlineMs = 0;
  #deadlineTimer: Timer | undefined;
  #renewTimer: Timer | undefined;
  #renewDueMs = 0;
  #isRenewing = true;
  /** Tells answers that belong to a session given up. */
  #round = 0;
  /** The longest a renewal timer fired late since the last answered renewal: the loop was blocked. */
  stallMs = 0;

  constructor(ports: SessionPorts, ttlMs: number, listener: SessionListener) {
    this.#gate = ports.gate;
    this.#clock = ports.clock;
    this.#random = ports.random;
    this.#mailbox = ports.mailbox;
    this.#ttlMs = ttlMs;
    this.#listener = listener;
  }

  /** The open session; null while there is none. Says nothing about time: see {@link isValid}. */
  get id(): SessionId | null {
    return this.#id;
  }

  /** Milliseconds for which the session may still be believed in. */
  get leftMs(): number {
    return this.#id === null ? 0 : Math.max(0, this.#deadlineMs - this.#clock.nowMs());
  }

  /** True while the session may be believed in, at this very moment. */
  isValid(): boolean {
    if (this.#id === null) return false;
    if (this.#clock.nowMs() < this.#deadlineMs) return true;
    this.#noteStall();
    this.expire('deadline');
    return false;
  }

  /** Opens a session, trying until it is open or {@link expire}d; answers at once when one is open. */
  open(): void {
    if (this.#id !== null && this.isValid()) {
      this.#listener.opened(this.#id);
      return;
    }
    if (this.#isOpening) return;
    this.#isOpening = true;
    this.#round += 1;
    this.#tryOpen(this.#round, randomSessionId(this.#random), this.#clock.nowMs());
  }

  /** Ends the session here and now; the store is told in the background. */
  expire(reason: ExpiryReason): void {
    const id = this.#id;
    this.#round += 1;
    this.#openingId = null;
    this.#isOpening = false;
    this.#id = null;
    this.#clearTimers();
    if (id === null) return;
    // Handlers hear of it before the store can give their splits away.
    this.#listener.expired(id, reason);
    if (reason !== 'gone' && reason !== 'reset') this.#revoke(id, 1);
  }

  /** Lets the session run out: it is believed in until its deadline, and renewed no more (R18). */
  stopRenewing(): void {
    this.#isRenewing = false;
    if (this.#renewTimer !== undefined) this.#clock.clearTimeout(this.#renewTimer);
    this.#renewTimer = undefined;
  }

  /** Gives the session back; resolves when the store has answered or could not. Nobody is told. */
  async close(): Promise<void> {
    for (const id of [this.#id, this.#openingId]) {
      // Unanswered: the session ends by its time to live (R17).
      if (id !== null) this.#closing(this.#gate.closeSession(id).catch(() => undefined));
    }
    this.#round += 1;
    this.#isOpening = false;
    this.#openingId = null;
    this.#id = null;
    this.#clearTimers();
    await Promise.all(this.#closings);
  }

  /** Nothing of this session may be under way after `close` has resolved. */
  #closing(closed: Promise<void>): void {
    this.#closings.add(closed);
    void closed.then(() => this.#closings.delete(closed));
  }

  #tryOpen(round: number, id: SessionId, firstSentAtMs: number): void {
    this.#openingId = id;
    this.#gate.openSession(id, this.#ttlMs).then(
      (grant) => {
        this.#post(round, () => {
          this.#isOpening = false;
          this.#openingId = null;
          this.#deadlineMs = firstSentAtMs + this.#lifeMs(grant.ttlMs);
          if (this.#clock.nowMs() >= this.#deadlineMs) {
            // Answered too late to be of use.
            this.#revoke(id, 1);
            this.open();
            return;
          }
          this.#id = id;
          this.#isRenewing = true;
          this.stallMs = 0;
          this.#armDeadline();
          this.#armRenewal(this.#renewAfterMs());
          this.#listener.opened(id);
        });
      },
      (error: unknown) => {
        this.#post(round, () => {
          this.#listener.openFailed?.(error);
          this.#renewTimer = this.#clock.setTimeout(() => {
            this.#post(round, () => {
              // The same id again is idempotent (R4), but its life began with the first send.
              const isOld = this.#clock.nowMs() - firstSentAtMs > this.#ttlMs / 2;
              if (isOld) this.#revoke(id, REVOKE_TRIES_MAX);
              this.#tryOpen(
                round,
                isOld ? randomSessionId(this.#random) : id,
                isOld ? this.#clock.nowMs() : firstSentAtMs,
              );
            });
          }, RETRY_MS);
        });
      },
    );
  }

  #renew(): void {
    const id = this.#id;
    if (id === null || !this.isValid()) return;
    const round = this.#round;
    const sentAtMs = this.#clock.nowMs();
    this.#noteStall();
    this.#gate.keepAlive(id, this.#ttlMs / 4).then(
      (grant) => {
        this.#post(round, () => {
          this.#deadlineMs = Math.max(this.#deadlineMs, sentAtMs + this.#lifeMs(grant.ttlMs));
          this.stallMs = 0;
          if (!this.isValid()) return;
          this.#armDeadline();
          this.#armRenewal(Math.max(0, sentAtMs + this.#renewAfterMs() - this.#clock.nowMs()));
        });
      },
      (error: unknown) => {
        this.#post(round, () => {
          if (isLeaseholdError(error) && error.kind === 'fenced') this.expire('gone');
          else this.#armRenewal(Math.min(RETRY_MS, this.#ttlMs / 10));
        });
      },
    );
  }

  #armDeadline(): void {
    if (this.#deadlineTimer !== undefined) this.#clock.clearTimeout(this.#deadlineTimer);
    const round = this.#round;
    this.#deadlineTimer = this.#clock.setTimeout(
      () => {
        this.#post(round, () => {
          // Fired early, by a clock that rounds: the deadline is still to come.
          if (this.isValid()) this.#armDeadline();
        });
      },
      Math.max(0, this.#deadlineMs - this.#clock.nowMs()),
    );
  }

  #armRenewal(afterMs: number): void {
    if (!this.#isRenewing) return;
    const round = this.#round;
    this.#renewDueMs = this.#clock.nowMs() + afterMs;
    this.#renewTimer = this.#clock.setTimeout(() => {
      this.#post(round, () => {
        this.#renew();
      });
    }, afterMs);
  }

  /** A third of the life, at most: one failed renewal leaves time for two more. */
  #renewAfterMs(): number {
    return (this.#ttlMs / 3) * (0.85 + 0.15 * this.#random.next());
  }

  #lifeMs(grantedMs: number): number {
    const ttlMs = Math.min(this.#ttlMs, grantedMs);
    return ttlMs - selfFenceMarginMs(ttlMs);
  }

  #noteStall(): void {
    this.stallMs = Math.max(this.stallMs, this.#clock.nowMs() - this.#renewDueMs);
  }

  #revoke(id: SessionId, tryNumber: number): void {
    this.#gate.closeSession(id).catch((error: unknown) => {
      const isOver = isLeaseholdError(error) && error.code === 'E_STOPPED';
      if (isOver || tryNumber >= REVOKE_TRIES_MAX) return;
      this.#clock.setTimeout(() => {
        this.#revoke(id, tryNumber + 1);
      }, RETRY_MS);
    });
  }

  #post(round: number, message: () => void): void {
    this.#mailbox.post(() => {
      if (round === this.#round) message();
    });
  }

  #clearTimers(): void {
    for (const timer of [this.#deadlineTimer, this.#renewTimer]) {
      if (timer !== undefined) this.#clock.clearTimeout(timer);
    }
    this.#deadlineTimer = undefined;
    this.#renewTimer = undefined;
  }
}
