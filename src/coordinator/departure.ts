/**
 * Leaving: carries out what the departure chart decides, and hands out one report (R16, R17).
 */
import type { DepartureEvent } from '../../machines/departure/departure.events.ts';
import { departureMachine } from '../../machines/departure/departure.machine.ts';
import type { LeaseholdError } from '../base/errors.ts';
import type { StopReport } from './api/api.ts';
import type { Tenancies } from './holding/tenancies.ts';
import type { Leadership } from './leading/leadership.ts';
import type { Core } from './link/core.ts';
import type { RunningChart } from './loop/chart-host.ts';
import type { Presence } from './membership/presence.ts';

/** What leaves. */
export interface Leaving {
  readonly presence: Presence;
  readonly tenancies: Tenancies;
  readonly leadership: Leadership;
  /** Everything else that runs; after it nothing does. */
  readonly close: () => void;
}

/** Why a worker leaves. */
export interface LeaveReason {
  readonly reason: StopReport['reason'];
  readonly error: LeaseholdError | null;
}

export class Departure {
  readonly #core: Core;
  readonly #parts: () => Leaving;
  readonly #chart: RunningChart<DepartureEvent>;
  readonly #resolve: (report: StopReport) => void;
  /** Resolves once nothing runs any more. */
  readonly finished: Promise<StopReport>;
  #why: LeaveReason = { reason: 'stopped', error: null };

  constructor(core: Core, parts: () => Leaving) {
    this.#core = core;
    this.#parts = parts;
    let resolve!: (report: StopReport) => void;
    this.finished = new Promise((resolved) => {
      resolve = resolved;
    });
    this.#resolve = resolve;
    this.#chart = core.charts.start(this.#provide(), 'departure', core.me, { instance: core.me });
  }

  get state(): string {
    return this.#chart.state;
  }

  get hasBegun(): boolean {
    return !this.#chart.isIn('staying');
  }

  /** True once nothing runs any more. */
  get isOver(): boolean {
    return this.#chart.isIn('gone');
  }

  /** Begins to leave; a second call changes nothing. */
  begin(why: LeaveReason): void {
    if (this.hasBegun) return;
    this.#why = why;
    const { drainDeadlineMs, opTimeoutMs } = this.#core.config;
    // After a fatal error the whole departure fits into the drain deadline.
    const settleMs = why.error === null ? opTimeoutMs : Math.min(opTimeoutMs, drainDeadlineMs / 2);
    const drainMs = why.error === null ? drainDeadlineMs : drainDeadlineMs - settleMs;
    this.#chart.send({ type: 'leave.asked', atMs: this.#nowMs, drainMs, settleMs });
    this.#core.mailbox.requestDecision();
  }

  /** A worker that never started has nothing to leave. */
  skip(): void {
    this.#chart.send({ type: 'leave.skipped' });
  }

  /** Goes on when what it waited for has happened: looked up, never remembered. */
  advance(): void {
    if (!this.hasBegun) return;
    const { tenancies } = this.#parts();
    const atMs = this.#nowMs;
    if (this.#chart.isIn('draining') && !tenancies.hasHandlers) {
      this.#chart.send({ type: 'drain.finished', atMs });
    }
    const waits = this.#chart.isIn('settling') || this.#chart.isIn('closing.answers');
    if (waits && tenancies.size === 0) {
      // As a message: what is decided on now is decided before the worker is gone.
      this.#core.mailbox.post(() => {
        this.#chart.send({ type: 'tenancies.ended', atMs });
      });
    }
  }

  get #nowMs(): number {
    return this.#core.clock.nowMs();
  }

  #provide(): typeof departureMachine {
    return departureMachine.provide({
      actions: {
        beginDrain: (_) => {
          this.#core.log.info('worker.leaving', 'leaves the fleet', { reason: this.#why.reason });
          // The chart shows that the worker is leaving only after this step.
          this.#post(() => {
            const { presence, tenancies } = this.#parts();
            presence.send({ type: 'worker.stopping' });
            tenancies.stopAll();
          });
        },
        forceAll: (_) => {
          this.#parts().tenancies.forceAll();
        },
        resign: (_) => {
          this.#parts().leadership.part();
          this.#core.mailbox.requestDecision();
        },
        sayGoodbye: (_) => {
          const { presence, leadership } = this.#parts();
          void Promise.all([presence.announcement.remove(), leadership.departed()]).then(() => {
            this.#post(() => {
              this.#chart.send({ type: 'goodbye.answered', atMs: this.#nowMs });
            });
          });
        },
        closeSessions: (_) => {
          const { session } = this.#core;
          const { leadership } = this.#parts();
          void Promise.all([session.close(), leadership.closeSession()]).then(() => {
            this.#post(() => {
              this.#chart.send({ type: 'sessions.closed' });
            });
          });
        },
        finish: ({ event }) => {
          if (event.type === 'leave.skipped') this.#skip();
          else {
            this.#post(() => {
              this.#finish();
            });
          }
        },
      },
    });
  }

  #post(act: () => void): void {
    this.#core.mailbox.post(act);
  }

  #skip(): void {
    this.#parts().close();
    this.#resolve({ reason: 'stopped', error: null, released: [], forced: [], unsettled: [] });
  }

  #finish(): void {
    const { presence, tenancies, leadership, close } = this.#parts();
    const { reason, error } = this.#why;
    presence.send({ type: 'departure.finished', hasFailed: error !== null });
    const unsettled = tenancies.close();
    const report: StopReport = {
      reason,
      error: error === null ? null : `${error.code}: ${error.message}`,
      released: [...tenancies.released].sort(),
      forced: [...tenancies.forced].sort(),
      unsettled: [...unsettled].sort(),
    };
    this.#core.log.info('worker.left', 'has left the fleet', { ...report });
    leadership.close();
    presence.stop();
    this.#chart.stop();
    close();
    this.#resolve(report);
  }
}
