/** What the service asks of a tenancy: each request is taken, or refused by name (R38, R52). */
import type { TenancyEvent } from '../../../machines/tenancy/tenancy.events.ts';
import { DELAY_MS_MAX } from '../../base/clock.ts';
import type { LeaseholdError } from '../../base/errors.ts';
import type { SplitId } from '../../base/ids.ts';
import type { FailureWish, ProgressChange } from '../../protocol/tenancy-records.ts';
import { fencedError } from '../api/fenced-error.ts';
import type { Core } from '../link/core.ts';
import type { Tenancy } from './tenancy.ts';
import type { EndingWish, Waiter } from './tenancy-writes.ts';

/** A request of the service, and who waits for what becomes of it. */
export interface Ask {
  readonly split: SplitId;
  /** The tenancy meant; null: whichever there is, for who leaves for good. */
  readonly epoch: string | null;
  readonly waiter: Waiter;
}

/** The tenancy of a split, if it is the one meant. */
type Find = (split: SplitId, epoch: string | null) => Tenancy | undefined;

export class Requests {
  readonly #core: Core;
  readonly #find: Find;

  constructor(core: Core, find: Find) {
    this.#core = core;
    this.#find = find;
  }

  commit(ask: Ask, progress: ProgressChange): void {
    const tenancy = this.#meant(ask);
    if (tenancy !== null) this.#took(tenancy, ask, tenancy.commit(progress, ask.waiter));
  }

  complete(ask: Ask, progress: ProgressChange | null): void {
    this.#endBy(ask, { type: 'split.complete' }, { progress });
  }

  fail(ask: Ask, reason: string, { afterMs, never }: FailureWish = {}): void {
    this.#endBy(ask, { type: 'split.fail' }, { reason, afterMs: atLeast(afterMs), never });
  }

  /** Hands a split back that nobody asked for: it rests, for one lease unless said otherwise (R40). */
  giveUp(ask: Ask, afterMs?: number): void {
    const { leaseDurationMs } = this.#core.config;
    const restMs = afterMs ?? (this.#core.isLeaving() ? undefined : leaseDurationMs);
    this.#endBy(ask, { type: 'split.release' }, { afterMs: atLeast(restMs) });
  }

  /** Hands a split back that was asked for, even if the request has been withdrawn since (R37). */
  drained(ask: Ask): void {
    this.#endBy(ask, { type: 'drain.finished' });
  }

  /** The source cannot hand the split back at a boundary, or goes on with a withdrawn request. */
  tell(split: SplitId, epoch: string, event: 'drain.declined' | 'intake.resumed'): void {
    this.#find(split, epoch)?.send({ type: event });
  }

  /** The tenancy that a request is about; null when it is over, and the request is refused. */
  #meant({ split, epoch, waiter }: Ask): Tenancy | null {
    const tenancy = this.#find(split, epoch);
    if (tenancy === undefined) {
      waiter.reject(fencedError(split, epoch));
      return null;
    }
    // A blocked loop fires no timers: the deadline is checked at every commit (R10).
    this.#core.session.isValid();
    return tenancy;
  }

  /** Refuses a request that the tenancy did not take; one that breaks the rule of watermarks fails the tenancy (R38). */
  #took(tenancy: Tenancy, { waiter }: Ask, refusal: LeaseholdError | null): void {
    if (refusal === null) return;
    waiter.reject(refusal);
    if (refusal.code !== 'E_WATERMARK_REGRESSION') return;
    const { code, message, details } = refusal;
    this.#core.log.warn('split.faulty', message, { code, ...details });
    tenancy.fault(message);
  }

  #endBy(ask: Ask, event: TenancyEvent, wish: EndingWish = {}): void {
    const tenancy = this.#meant(ask);
    if (tenancy === null) return;
    const refusal = tenancy.wish(wish, ask.waiter);
    this.#took(tenancy, ask, refusal);
    if (refusal !== null) return;
    tenancy.send(event);
    // The drain of a departure is over with the last handler, whenever the last writes are answered (R17).
    if (this.#core.isLeaving()) this.#core.mailbox.requestDecision();
    // Asked for from within an event of the tenancy, the chart gets to it right after.
    queueMicrotask(() => {
      tenancy.dropWish();
    });
  }
}

/** A rest of nothing would go round at the speed of the store. */
const REST_MS_MIN = 100;

function atLeast(afterMs: number | undefined): number | undefined {
  return afterMs === undefined ? undefined : Math.min(DELAY_MS_MAX, Math.max(REST_MS_MIN, afterMs));
}
