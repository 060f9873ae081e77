/** The timers of one worker: all of them end with it. */
import { type Clock, DELAY_MS_MAX, type Timer } from '../../base/clock.ts';

/**
 * A clock whose timers can all be cleared at once; also the clock of the worker's charts. A jittered interval, or ten
 * leases, may exceed what a clock takes: such a timer fires after the longest delay there is (R44).
 */
export class TimerSet implements Clock {
  readonly #clock: Clock;
  readonly #pending = new Set<Timer>();
  #isClosed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  nowMs(): number {
    return this.#clock.nowMs();
  }

  wallMs(): number {
    return this.#clock.wallMs();
  }

  setTimeout(callback: () => void, delayMs: number): Timer {
    const holder: { timer?: Timer } = {};
    // After close a timer that was asked for late is never set.
    if (this.#isClosed) return holder;
    holder.timer = this.#clock.setTimeout(
      () => {
        this.#pending.delete(holder);
        callback();
      },
      Math.min(delayMs, DELAY_MS_MAX),
    );
    this.#pending.add(holder);
    return holder;
  }

  clearTimeout(timer: Timer): void {
    const holder = timer as { timer?: Timer } | undefined;
    if (holder?.timer === undefined) return;
    this.#pending.delete(holder);
    this.#clock.clearTimeout(holder.timer);
  }

  /** Timers set and not fired. */
  get size(): number {
    return this.#pending.size;
  }

  /** Clears every timer; none is set any more. */
  close(): void {
    this.#isClosed = true;
    for (const holder of this.#pending) {
      this.#clock.clearTimeout((holder as { timer: Timer }).timer);
    }
    this.#pending.clear();
  }
}
