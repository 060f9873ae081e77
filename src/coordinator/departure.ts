/**
 * Leaving: from whatever state, within the drain deadline plus one operation timeout, with one report (R16, R17).
 *
 * First the parting mark, sent and not awaited; then the drain; then, under one budget, the last writes, the resignation
 * and the presence; the sessions are closed last, because closing one first reads as a death.
 */
import type { Timer } from '../base/clock.ts';
import type { LeaseholdError } from '../base/errors.ts';
import type { StopReport } from './api/api.ts';
import type { Core } from './link/core.ts';
import type { Leadership } from './leading/leadership.ts';
import type { Presence } from './membership/presence.ts';
import type { Tenancies } from './holding/tenancies.ts';

/** What leaves. */
export interface Leaving {
  readonly presence: Presence;
  readonly tenancies: Tenancies;
  readonly leadership: Leadership;
  /** Everything else that runs; after it nothing does. */
  close(): void;
}

type Phase = 'staying' | 'draining' | 'settling' | 'gone';

export class Departure {
  readonly #core: Core;
  readonly #parts: () => Leaving;
  readonly #resolve: (report: StopReport) => void;
  /** Resolves once nothing runs any more. */
  readonly finished: Promise<StopReport>;
  #phase: Phase = 'staying';
  #reason: StopReport['reason'] = 'stopped';
  #error: LeaseholdError | null = null;
  #isLeaveSent = false;
  #isClosing = false;
  #hasClosedSessions = false;
  #timer: Timer | undefined;

  constructor(core: Core, parts: () => Leaving) {
    this.#core = core;
    this.#parts = parts;
    let resolve!: (report: StopReport) => void;
    this.finished = new Promise((resolved) => {
      resolve = resolved;
    });
    this.#resolve = resolve;
  }

  get #leaving(): Leaving {
    return this.#parts();
  }

  get hasBegun(): boolean {
    return this.#phase !== 'staying';
  }

  /** True once nothing runs any more. */
  get isOver(): boolean {
    return this.#phase === 'gone';
  }

  /** Begins to leave; a second call changes nothing. */
  begin(reason: StopReport['reason'], error: LeaseholdError | null): void {
    if (this.hasBegun) return;
    this.#phase = 'draining';
    this.#reason = reason;
    this.#error = error;
    const { drainDeadlineMs, opTimeoutMs } = this.#core.config;
    this.#core.log.info('worker.leaving', 'leaves the fleet', { reason });
    this.#leaving.presence.send(
      error === null ? { type: 'worker.stopping' } : { type: 'fatal.raised' },
    );
    this.#leaving.tenancies.stopAll();
    // After a fatal error the whole departure fits into the drain deadline.
    const drainMs =
      error === null ? drainDeadlineMs : drainDeadlineMs - this.#settleMs(opTimeoutMs);
    this.#timer = this.#core.clock.setTimeout(() => {
      this.#core.mailbox.post(() => {
        this.#leaving.tenancies.forceAll();
        this.#settle();
      });
    }, drainMs);
    this.#core.mailbox.requestDecision();
  }

  /** A worker that never started has nothing to leave. */
  skip(): void {
    if (this.hasBegun) return;
    this.#phase = 'gone';
    this.#parts().close();
    this.#resolve({ reason: 'stopped', error: null, released: [], forced: [], unsettled: [] });
  }

  /** Goes on when what it waited for has happened. */
  advance(): void {
    const { tenancies } = this.#leaving;
    if (this.#phase === 'draining' && !tenancies.hasHandlers) this.#settle();
    if (this.#phase !== 'settling' || tenancies.size > 0) return;
    if (this.#hasClosedSessions) this.#post(() => this.#finish());
    else this.#leave();
  }

  #settleMs(opTimeoutMs: number): number {
    return this.#error === null
      ? opTimeoutMs
      : Math.min(opTimeoutMs, this.#core.config.drainDeadlineMs / 2);
  }

  /**
   * The drain is over: what remains has one operation timeout. Whatever is not answered, the sessions are closed within
   * it: a claim or an ending still on its way then leaves no lease behind.
   */
  #settle(): void {
    if (this.#phase !== 'draining') return;
    this.#phase = 'settling';
    const settleMs = this.#settleMs(this.#core.config.opTimeoutMs);
    if (this.#timer !== undefined) this.#core.clock.clearTimeout(this.#timer);
    this.#at(settleMs / 2, () => this.#leave());
    this.#at((settleMs * 3) / 4, () => this.#closeSessions());
    this.#at(settleMs, () => this.#finish());
    this.#leaving.leadership.part();
    this.#core.mailbox.requestDecision();
  }

  #leave(): void {
    if (this.#isLeaveSent) return;
    this.#isLeaveSent = true;
    const { presence, leadership } = this.#leaving;
    void Promise.all([presence.announcement.remove(), leadership.departed()]).then(() => {
      this.#post(() => this.#closeSessions());
    });
  }

  #closeSessions(): void {
    if (this.#isClosing) return;
    this.#isClosing = true;
    const { session } = this.#core;
    void Promise.all([session.close(), this.#leaving.leadership.closeSession()]).then(() => {
      this.#post(() => {
        this.#hasClosedSessions = true;
      });
    });
  }

  #at(afterMs: number, act: () => void): void {
    this.#core.clock.setTimeout(() => {
      this.#post(act);
    }, afterMs);
  }

  #post(act: () => void): void {
    this.#core.mailbox.post(act);
  }

  #finish(): void {
    if (this.#phase === 'gone') return;
    this.#phase = 'gone';
    const { presence, tenancies, leadership } = this.#leaving;
    presence.send({ type: 'departure.finished' });
    const unsettled = tenancies.close();
    const report: StopReport = {
      reason: this.#reason,
      error: this.#error === null ? null : `${this.#error.code}: ${this.#error.message}`,
      released: [...tenancies.released].sort(),
      forced: [...tenancies.forced].sort(),
      unsettled: [...unsettled].sort(),
    };
    this.#core.log.info('worker.left', 'has left the fleet', { ...report });
    leadership.close();
    presence.stop();
    this.#leaving.close();
    this.#resolve(report);
  }
}
