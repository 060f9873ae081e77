/** Lets some handlers work at a time; the others hold their splits and wait for their turn, in order. */
import type { Grant } from '../../../src/index.ts';

export class Turns {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(atATime: number) {
    this.#free = atATime;
  }

  /** Runs `work` when its turn comes; not at all when the split is asked back, or lost, before that. */
  async run(grant: Grant, work: () => Promise<void>): Promise<void> {
    if (!(await this.#take(grant))) return;
    try {
      await work();
    } finally {
      this.#give();
    }
  }

  async #take(grant: Grant): Promise<boolean> {
    if (this.#free > 0) {
      this.#free -= 1;
      return true;
    }
    let take!: () => void;
    const turn = new Promise<boolean>((resolve) => {
      take = () => {
        resolve(true);
      };
    });
    this.#waiting.push(take);
    if (await Promise.race([turn, grant.draining.whenRequested().then(() => false)])) return true;
    const at = this.#waiting.indexOf(take);
    // Its turn may have come in the same moment.
    if (at < 0) this.#give();
    else this.#waiting.splice(at, 1);
    return false;
  }

  #give(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free += 1;
    else next();
  }
}
