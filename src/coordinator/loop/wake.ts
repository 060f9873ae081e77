/** One timer for many that wait: a decision is due when the first of them has waited long enough. */
import type { Timer } from '../../base/clock.ts';
import type { Core } from '../link/core.ts';

export class Wake {
  readonly #core: Pick<Core, 'after' | 'clock'>;
  #next: { readonly timer: Timer; readonly atMs: number } | null = null;

  constructor(core: Pick<Core, 'after' | 'clock'>) {
    this.#core = core;
  }

  /** Makes a decision due. Less than a millisecond is no time on any clock: it would be waited for again and again. */
  in(leftMs: number): void {
    const { clock } = this.#core;
    const afterMs = Math.max(1, Math.ceil(leftMs));
    const atMs = clock.nowMs() + afterMs;
    if (this.#next !== null) {
      if (atMs >= this.#next.atMs) return;
      clock.clearTimeout(this.#next.timer);
    }
    const timer = this.#core.after(afterMs, () => {
      this.#next = null;
    });
    this.#next = { timer, atMs };
  }
}
