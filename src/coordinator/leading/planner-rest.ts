/** Whether others should plan rather than this worker, because its planner has failed: for ever longer, until it answers (R59). */
import type { Timer } from '../../base/clock.ts';
import { plannerRestMs } from '../../protocol/timing.ts';
import type { Core } from '../link/core.ts';
import type { Member } from '../membership/peers.ts';

export class PlannerRest {
  readonly #core: Core;
  readonly #changed: () => void;
  /** Rests in a row, without an answer in between. */
  #count = 0;
  /** Runs while the rest lasts. */
  #timer: Timer | null = null;

  constructor(core: Core, changed: () => void) {
    this.#core = core;
    this.#changed = changed;
  }

  get isOn(): boolean {
    return this.#timer !== null;
  }

  /** Begins if another of these workers should rather plan; tells whether it did. */
  beginIfBetter(members: readonly Member[]): boolean {
    const { me } = this.#core;
    const isBetter = ({ instance, presence }: Member): boolean =>
      instance !== me && !presence.record.plannerFailed;
    if (!members.some(isBetter)) return false;
    this.begin();
    return true;
  }

  /** The planner of this worker has failed. */
  begin(): void {
    this.#stop();
    this.#count += 1;
    this.#timer = this.#core.after(plannerRestMs(this.#count), () => {
      this.#timer = null;
      this.#changed();
    });
    this.#changed();
  }

  /** It has answered. */
  over(): void {
    this.#count = 0;
    if (!this.isOn) return;
    this.#stop();
    this.#changed();
  }

  #stop(): void {
    if (this.#timer !== null) this.#core.clock.clearTimeout(this.#timer);
    this.#timer = null;
  }
}
