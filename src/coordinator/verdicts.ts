/** The verdict as this worker knows it, and whoever waits for it. */
import { LeaseholdError } from '../base/errors.ts';
import type { PlanRecord } from '../records/records.ts';
import type { Verdict } from './api/api.ts';
import type { Core } from './link/core.ts';

interface Waiter {
  resolve(verdict: Verdict): void;
  reject(error: LeaseholdError): void;
}

export class Verdicts {
  readonly #core: Core;
  readonly #waiters: Waiter[] = [];
  #known: Verdict | null = null;
  #refusal: LeaseholdError | null = null;

  constructor(core: Core) {
    this.#core = core;
  }

  get known(): Verdict | null {
    return this.#known;
  }

  /** Resolves with the verdict; rejects once there will be none. */
  wait(): Promise<Verdict> {
    if (this.#known !== null) return Promise.resolve(this.#known);
    if (this.#refusal !== null) return Promise.reject(this.#refusal);
    return new Promise((resolve, reject) => {
      this.#waiters.push({ resolve, reject });
    });
  }

  /** The plan was read: its verdict is told once; one that a requeue took back may be followed by another. */
  planRead(plan: PlanRecord): void {
    const { verdict } = plan;
    if (verdict === null) this.#known = null;
    if (verdict === null || verdict.kind === 'unknown' || this.#known !== null) return;
    const { kind, completed, quarantined, ids } = verdict;
    this.#known = { kind, completed, quarantined, quarantinedIds: ids };
    this.#core.log.info('job.verdict', 'the job has ended', { ...this.#known });
    this.#core.events.emit({ type: 'verdict', verdict: this.#known });
    for (const waiter of this.#waiters.splice(0)) waiter.resolve(this.#known);
  }

  /** There will be no verdict here: the worker failed, or was stopped. The first reason counts. */
  refuse(error: LeaseholdError): void {
    this.#refusal ??= error;
    for (const waiter of this.#waiters.splice(0)) waiter.reject(this.#refusal);
  }
}

/** What those hear who wait for the verdict of a worker that was stopped. */
export function stoppedBeforeVerdict(): LeaseholdError {
  return new LeaseholdError('E_STOPPED', 'the worker was stopped before the job had a verdict');
}
