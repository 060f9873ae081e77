/**
 * What works on splits in this process, one tenancy each, until it says that it is over: no second one of a split begins before
 * (R27).
 */
import type { SplitId } from '../../base/ids.ts';
import type { Core } from '../link/core.ts';

interface Running {
  readonly epoch: string;
  /** Since when its tenancy is over; null while it is not. */
  overSinceMs: number | null;
  /** The tenancy was taken from it, and it has not ended. */
  isDeaf: boolean;
  /** Others are told that the split cannot be taken here. */
  isListed: boolean;
  hasBeenNamed: boolean;
  /** The split has ended: nobody needs to hear that it cannot be taken here. */
  isForGood: boolean;
}

export class RunningHandlers {
  readonly #core: Core;
  /** Told when the list changed: the presence says it. */
  readonly #changed: () => void;
  readonly #bySplit = new Map<SplitId, Running>();

  constructor(core: Core, changed: () => void) {
    this.#core = core;
    this.#changed = changed;
  }

  /** True while something works on the split. */
  has(split: SplitId): boolean {
    return this.#bySplit.has(split);
  }

  /** Splits whose tenancy is over while something still works on them. */
  list(): SplitId[] {
    return [...this.#bySplit].flatMap(([split, { isListed }]) => (isListed ? [split] : []));
  }

  /** Work begins; `isOver`: its tenancy has ended meanwhile. */
  began(split: SplitId, epoch: string, isOver: boolean): void {
    const running = {
      epoch,
      overSinceMs: null,
      isDeaf: false,
      isListed: false,
      hasBeenNamed: false,
      isForGood: false,
    };
    this.#bySplit.set(split, running);
    if (isOver) this.#over(running);
  }

  /** The tenancy was taken from whoever works on it: others hear at once that the split cannot be taken here. */
  lost(split: SplitId, epoch: string): void {
    // The presence is told once the session's end, which may be the cause, is over with.
    this.#core.mailbox.post(() => {
      const running = this.#find(split, epoch);
      if (running === undefined) return;
      running.isDeaf = true;
      this.#over(running);
    });
  }

  /** The tenancy has ended, by whoever worked on it or after it was lost. `isForGood`: no other one follows. */
  ended(split: SplitId, epoch: string, isForGood: boolean): void {
    const running = this.#find(split, epoch);
    if (running === undefined) return;
    running.overSinceMs ??= this.#core.clock.nowMs();
    running.isForGood = isForGood;
  }

  /** The work is over; true when it took longer than one operation timeout to hear that it was lost. */
  finished(split: SplitId, epoch: string): boolean {
    const running = this.#find(split, epoch);
    if (running === undefined) return false;
    this.#bySplit.delete(split);
    if (running.isListed) this.#changed();
    const { isDeaf, overSinceMs } = running;
    const { clock, config } = this.#core;
    return isDeaf && clock.nowMs() - (overSinceMs ?? 0) > config.opTimeoutMs;
  }

  /** Each third of a lease: whoever has ended its tenancy itself and still works is listed by then, and named after a lease. */
  tick(): void {
    const { clock, config, log } = this.#core;
    const nowMs = clock.nowMs();
    let isNews = false;
    for (const [split, running] of this.#bySplit) {
      if (running.overSinceMs === null || running.isForGood) continue;
      isNews ||= !running.isListed;
      running.isListed = true;
      if (running.hasBeenNamed || nowMs - running.overSinceMs < config.leaseDurationMs) continue;
      running.hasBeenNamed = true;
      const text =
        'work on a split goes on though its tenancy is over; until it ends this process takes the split no more: let the ' +
        'handler return, or call finished() on a grant that was taken by hand';
      log.warn('handler.outlives', text, { split, epoch: running.epoch });
    }
    if (isNews) this.#changed();
  }

  #over(running: Running): void {
    running.overSinceMs ??= this.#core.clock.nowMs();
    if (running.isListed) return;
    running.isListed = true;
    this.#changed();
  }

  #find(split: SplitId, epoch: string): Running | undefined {
    const running = this.#bySplit.get(split);
    return running?.epoch === epoch ? running : undefined;
  }
}
