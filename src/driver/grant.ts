/** One split in the hands of the service: what its handler reads, and everything it may say. */
import { quiet } from '../base/answer.ts';
import type {
  FailOptions,
  Progress,
  ProgressInput,
  ReleaseOptions,
  RevokeReason,
  Split,
} from '../coordinator/api/api.ts';
import { fencedError } from '../coordinator/api/fenced-error.ts';
import type { SplitCoordinator } from '../coordinator/coordinator.ts';
import { type Draining, DrainingState } from './draining.ts';

/**
 * The right to work on one split, for one tenancy.
 *
 * To be refused because the split was lost is normal: a promise that nobody awaits ends no process.
 */
export interface Grant {
  readonly split: Split;
  /** Fencing token of this tenancy; a decimal that rises with every change of owner. */
  readonly epoch: string;
  /** Where the last tenancy left off; null when nothing was ever committed. */
  readonly progress: Progress | null;
  /** Fires before the store can give the split to anybody else: stop at once, nothing more is accepted. */
  readonly lost: AbortSignal;
  readonly draining: Draining;
  /** Makes progress durable; see `SplitCoordinator.commit`. A watermark that falls is refused, and the tenancy has failed by it. */
  commit(progress: ProgressInput): Promise<void>;
  /** Ends the split for good, with a last progress if given. */
  complete(progress?: ProgressInput): Promise<void>;
  /** Ends the tenancy as failed; see `SplitCoordinator.fail`. */
  fail(reason: string, options?: FailOptions): Promise<void>;
  /**
   * Hands the split back. Unasked, it rests: nobody takes it for `afterMs`, one lease when absent, and others go first. Asked
   * back, it rests only when `afterMs` is given.
   */
  release(options?: ReleaseOptions): Promise<void>;
  /**
   * Says that nothing works on this tenancy any more, for grants taken by hand: until then this process gets the split no second time,
   * however the tenancy has ended; after `complete()` nothing needs to be said. What is still open ends by it as by a handler that returns: handed back if it was ever asked for, else
   * failed. To `run` it is said by the handler's return, and by nothing else.
   */
  finished(): Promise<void>;
}

type GrantEnd = 'open' | 'ended' | 'lost';

export class OpenGrant implements Grant {
  readonly split: Split;
  readonly epoch: string;
  readonly progress: Progress | null;
  readonly #coordinator: SplitCoordinator;
  readonly #onFinished: (grant: OpenGrant) => void;
  readonly #lost = new AbortController();
  readonly #draining = new DrainingState();
  #end: GrantEnd = 'open';
  #hasBeenRequested = false;

  /** @param onFinished  Told when the work is said to be over. */
  constructor(
    coordinator: SplitCoordinator,
    gained: { split: Split; epoch: string; progress: Progress | null },
    onFinished: (grant: OpenGrant) => void,
  ) {
    this.#coordinator = coordinator;
    this.#onFinished = onFinished;
    this.split = gained.split;
    this.epoch = gained.epoch;
    this.progress = gained.progress;
  }

  get draining(): Draining {
    return this.#draining;
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
    const { id } = this.split;
    const completed = this.#coordinator.complete(id, progress ?? null, this.epoch);
    // Nothing follows that the work on it could be in the way of.
    return this.#ending(completed, () => {
      this.#onFinished(this);
    });
  }

  fail(reason: string, options?: FailOptions): Promise<void> {
    if (this.isLost) return this.#refuse();
    return this.#ending(this.#coordinator.fail(this.split.id, reason, this.epoch, options));
  }

  release(options: ReleaseOptions = {}): Promise<void> {
    if (this.isLost) return this.#refuse();
    const isPlain = this.#hasBeenRequested && options.afterMs === undefined;
    const released = isPlain
      ? this.#coordinator.releaseDrained([this.split.id], this.epoch)
      : this.#coordinator.giveUp(this.split.id, this.epoch, options);
    return this.#ending(released);
  }

  async finished(): Promise<void> {
    const ended = this.settle();
    this.#onFinished(this);
    await ended;
  }

  /** Ends what is still open as a return does (R37). Resolves when that is answered, whatever the answer. */
  async settle(): Promise<void> {
    if (this.hasEnded) return;
    const ended = this.#hasBeenRequested
      ? this.release()
      : this.fail('returned without completing');
    // Fenced meanwhile: whoever owns the split now decides.
    await ended.catch(() => undefined);
  }

  /** The split is asked back. */
  request(reason: RevokeReason): void {
    this.#hasBeenRequested = true;
    this.#draining.request(reason);
  }

  /** The request was withdrawn. */
  withdraw(): void {
    this.#draining.withdraw();
  }

  /** The tenancy is over without the handler's doing. */
  lose(): void {
    if (this.#end === 'lost') return;
    this.#end = 'lost';
    this.#lost.abort(fencedError(this.split.id, this.epoch));
    this.#draining.end();
  }

  /** An end that was refused as bad input leaves the grant open. */
  #ending(answer: Promise<void>, ended: () => void = () => undefined): Promise<void> {
    if (this.#end === 'open') this.#end = 'ended';
    const told = answer.then(
      () => {
        this.#draining.end();
        ended();
      },
      (error: unknown) => {
        const isBadInput = (error as { code?: string }).code === 'E_PROGRESS_INVALID';
        if (isBadInput && this.#end === 'ended') this.#end = 'open';
        throw error;
      },
    );
    return quiet(told);
  }

  #refuse(): Promise<never> {
    return quiet(Promise.reject(fencedError(this.split.id, this.epoch)));
  }
}
