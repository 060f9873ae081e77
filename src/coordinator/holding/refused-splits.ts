/** Splits that their own source gave back unasked a moment ago: this worker does not take them yet (R40). */
import type { SplitId } from '../../base/ids.ts';
import type { Core } from '../link/core.ts';

export class RefusedSplits {
  readonly #core: Core;
  /** Told when the list changed: the presence says it. */
  readonly #changed: () => void;
  readonly #untilMs = new Map<SplitId, number>();

  constructor(core: Core, changed: () => void) {
    this.#core = core;
    this.#changed = changed;
  }

  has(split: SplitId): boolean {
    return this.#untilMs.has(split);
  }

  list(): SplitId[] {
    return [...this.#untilMs.keys()];
  }

  /** The source gave the split back unasked: it is refused for one lease. */
  givenUp(split: SplitId): void {
    const { clock, config } = this.#core;
    this.#untilMs.set(split, clock.nowMs() + config.leaseDurationMs);
    this.#changed();
  }

  /** Forgets what is refused no longer. */
  expire(): void {
    const nowMs = this.#core.clock.nowMs();
    const before = this.#untilMs.size;
    for (const [split, untilMs] of this.#untilMs) if (untilMs <= nowMs) this.#untilMs.delete(split);
    if (this.#untilMs.size !== before) this.#changed();
  }
}
