/** One split in the hands of the service: what its handler reads, and everything it may say. */
import { fencedError } from '../coordinator/api/fenced-error.ts';
import type { Progress, ProgressInput, RevokeReason, Split } from '../coordinator/api/api.ts';
import type { SplitCoordinator } from '../coordinator/coordinator.ts';

/** Whether the split is asked back; a request may be withdrawn again. */
export interface Draining {
  /** True while the split is asked back: finish what was started, commit, and return. */
  readonly requested: boolean;
  /** Why; null while it is not asked back. */
  readonly reason: RevokeReason | null;
  /** Resolves when the split is asked back, at once if it is; also when the grant ends. */
  whenRequested(): Promise<void>;
}

/** The right to work on one split, for one tenancy. */
export interface Grant {
  readonly split: Split;
  /** Fencing token of this tenancy; a decimal that rises with every change of owner. */
  readonly epoch: string;
  /** Where the last tenancy left off; null when nothing was ever committed. */
  readonly progress: Progress | null;
  /** Fires before the store can give the split to anybody else: stop at once, nothing more is accepted. */
  readonly lost: AbortSignal;
  readonly draining: Draining;
  /** Makes progress durable; see `SplitCoordinator.commit`. */
  commit(progress: ProgressInput): Promise<void>;
  /** Ends the split for good, with a last progress if given. */
  complete(progress?: ProgressInput): Promise<void>;
  /** Ends the tenancy as failed: an attempt is spent. */
  fail(reason: string): Promise<void>;
  /** Hands the split back; unasked, it is not taken again for one lease. */
  release(): Promise<void>;
}

type GrantEnd = 'open' | 'ended' | 'lost';

export class OpenGrant implements Grant {
  readonly split: Split;
  readonly epoch: string;
  readonly progress: Progress | null;
  readonly #coordinator: SplitCoordinator;
  readonly #lost = new AbortController();
  #end: GrantEnd = 'open';
  #reason: RevokeReason | null = null;
  #hasBeenRequested = false;
  readonly #waiters: (() => void)[] = [];
  readonly draining: Draining;

  constructor(
    coordinator: SplitCoordinator,
    gained: { split: Split; epoch: string; progress: Progress | null },
  ) {
    this.#coordinator = coordinator;
    this.split = gained.split;
    this.epoch = gained.epoch;
    this.progress = gained.progress;
    this.draining = new DrainingView(
      () => this.#reason,
      () => this.#whenRequested(),
    );
  }

  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  /** True once the handler, or the loss of the split, has ended the tenancy. */
  get hasEnded(): boolean {
    return this.#end !== 'open';
  }

  get isLost(): boolean {
    return this.#end === 'lost';
  }

  /** True when the split was asked back at any time, even if the request was withdrawn since (R37). */
  get hasBeenRequested(): boolean {
    return this.#hasBeenRequested;
  }

  commit(progress: ProgressInput): Promise<void> {
    if (this.isLost) return this.#refuse();
    return this.#coordinator.commit(this.split.id, progress, this.epoch);
  }

  complete(progress?: ProgressInput): Promise<void> {
    if (this.isLost) return this.#refuse();
    return this.#ended(this.#coordinator.complete(this.split.id, progress ?? null, this.epoch));
  }

  fail(reason: string): Promise<void> {
    if (this.isLost) return this.#refuse();
    return this.#ended(this.#coordinator.fail(this.split.id, reason, this.epoch));
  }

  release(): Promise<void> {
    if (this.isLost) return this.#refuse();
    const released = this.#hasBeenRequested
      ? this.#coordinator.releaseDrained([this.split.id], this.epoch)
      : this.#coordinator.giveUp(this.split.id, this.epoch);
    return this.#ended(released);
  }

  /** The split is asked back. */
  request(reason: RevokeReason): void {
    this.#reason = reason;
    this.#hasBeenRequested = true;
    this.#wake();
  }

  /** The request was withdrawn. */
  withdraw(): void {
    this.#reason = null;
  }

  /** The tenancy is over without the handler's doing. */
  lose(): void {
    if (this.#end === 'lost') return;
    this.#end = 'lost';
    this.#lost.abort(fencedError(this.split.id, this.epoch));
    this.#wake();
  }

  /** An end that was refused as bad input leaves the grant open. */
  async #ended(end: Promise<void>): Promise<void> {
    if (this.#end === 'open') this.#end = 'ended';
    try {
      await end;
      this.#wake();
    } catch (error) {
      const isBadInput = (error as { code?: string }).code === 'E_PROGRESS_INVALID';
      if (isBadInput && this.#end === 'ended') this.#end = 'open';
      throw error;
    }
  }

  #refuse(): Promise<never> {
    return Promise.reject(fencedError(this.split.id, this.epoch));
  }

  #whenRequested(): Promise<void> {
    if (this.#reason !== null || this.hasEnded) return Promise.resolve();
    return new Promise((resolve) => {
      this.#waiters.push(resolve);
    });
  }

  #wake(): void {
    for (const resolve of this.#waiters.splice(0)) resolve();
  }
}

class DrainingView implements Draining {
  readonly #reasonNow: () => RevokeReason | null;
  readonly whenRequested: () => Promise<void>;

  constructor(reasonNow: () => RevokeReason | null, whenRequested: () => Promise<void>) {
    this.#reasonNow = reasonNow;
    this.whenRequested = whenRequested;
  }

  get requested(): boolean {
    return this.#reasonNow() !== null;
  }

  get reason(): RevokeReason | null {
    return this.#reasonNow();
  }
}
