/**
 * Splits this worker cannot take now: a handler of an earlier tenancy still runs in this process (R27), or its own source
 * gave the split back unasked a moment ago (R40).
 */
import type { SplitId } from '../../base/ids.ts';
import type { Core } from '../link/core.ts';

export class RefusedSplits {
  readonly #core: Core;
  /** Told when the list changed: the presence says it. */
  readonly #changed: () => void;
  readonly #oldHandlers = new Map<SplitId, number>();
  readonly #untilMs = new Map<SplitId, number>();

  constructor(core: Core, changed: () => void) {
    this.#core = core;
    this.#changed = changed;
  }

  has(split: SplitId): boolean {
    return this.#oldHandlers.has(split) || this.#untilMs.has(split);
  }

  list(): SplitId[] {
    return [...new Set([...this.#oldHandlers.keys(), ...this.#untilMs.keys()])].sort();
  }

  /** The source gave the split back unasked: it is refused for one lease. */
  givenUp(split: SplitId): void {
    const { clock, config } = this.#core;
    this.#untilMs.set(split, clock.nowMs() + config.leaseDurationMs);
    this.#changed();
  }

  /** A handler of a tenancy that is over still runs. */
  handlerOutlives(split: SplitId): void {
    this.#oldHandlers.set(split, this.#core.clock.nowMs());
    this.#changed();
  }

  /** It has ended; true when it took longer than one operation timeout to hear that it was lost. */
  handlerEnded(split: SplitId): boolean {
    const sinceMs = this.#oldHandlers.get(split);
    if (sinceMs === undefined) return false;
    this.#oldHandlers.delete(split);
    this.#changed();
    return this.#core.clock.nowMs() - sinceMs > this.#core.config.opTimeoutMs;
  }

  /** Forgets what is refused no longer. */
  expire(): void {
    const nowMs = this.#core.clock.nowMs();
    const before = this.#untilMs.size;
    for (const [split, untilMs] of this.#untilMs) if (untilMs <= nowMs) this.#untilMs.delete(split);
    if (this.#untilMs.size !== before) this.#changed();
  }
}
