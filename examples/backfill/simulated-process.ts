/**
 * Stands for one process of a fleet: a worker's connection to the store and its clock, which can be killed as by `kill -9`
 * while the program that simulates it goes on.
 */
import type { Clock, Timer } from '../../src/index.ts';
import {
  type FaultyStore,
  faultyStore,
  type MemoryStore,
  seededRandom,
} from '../../src/testing/index.ts';

export class SimulatedProcess {
  /** Its own connection to the store. */
  readonly client: FaultyStore;
  readonly clock: Clock;
  readonly #timers = new Set<NodeJS.Timeout>();
  readonly #killed = new AbortController();

  constructor(store: MemoryStore) {
    this.clock = {
      nowMs: () => performance.now(),
      wallMs: () => Date.now(),
      setTimeout: (callback, delayMs) => this.#setTimeout(callback, delayMs),
      clearTimeout: (timer) => {
        this.#clear(timer as NodeJS.Timeout);
      },
    };
    this.client = faultyStore(store, { clock: this.clock, random: seededRandom(1) });
  }

  /** Fires when the process is killed. */
  get killed(): AbortSignal {
    return this.#killed.signal;
  }

  /** Ends it without a goodbye: nothing is sent or heard any more, and no timer fires. */
  kill(): void {
    this.client.freeze();
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
    this.#killed.abort(new Error('killed'));
  }

  /** Runs a part of the process. Of a killed one nothing comes back, neither a result nor an error. */
  async run<Result>(part: () => Promise<Result>): Promise<Result> {
    try {
      const result = await part();
      return this.killed.aborted ? await nothing() : result;
    } catch (error) {
      if (this.killed.aborted) return nothing();
      throw error;
    }
  }

  /** Frees what the simulation holds for it. */
  async dispose(): Promise<void> {
    await this.client.close();
  }

  #setTimeout(callback: () => void, delayMs: number): Timer {
    if (this.killed.aborted) return {};
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      callback();
    }, delayMs);
    this.#timers.add(timer);
    return timer;
  }

  #clear(timer: NodeJS.Timeout): void {
    clearTimeout(timer);
    this.#timers.delete(timer);
  }
}

function nothing(): Promise<never> {
  return new Promise(() => undefined);
}
