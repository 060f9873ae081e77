/**
 * The line between one client and the store: whether anything gets through, and when.
 *
 * A frozen client is a stopped process: what arrives waits in front of it, what it would send waits in it, and both keep
 * their order. A partition loses what passes while it lasts. Timers of the line belong to the network: they run while the
 * client is frozen.
 */
import type { Clock, Timer } from '../../base/clock.ts';
import type { LossOptions } from './rules.ts';

/** A partition of one client from the store. */
export interface PartitionOptions {
  /** Calls that are lost get no answer at all; an error at once when absent. */
  readonly silent?: boolean;
  /**
   * `requests`: calls are lost; watches that are open go on. `answers`: calls land; their answers and all watch events
   * are lost. `both` when absent.
   */
  readonly side?: 'both' | 'requests' | 'answers';
}

/** The state of one line. */
export class Link {
  readonly #clock: Clock;
  readonly #timers = new Set<Timer>();
  readonly #arriving: (() => void)[] = [];
  readonly #leaving: (() => void)[] = [];
  #partition: PartitionOptions | undefined;
  #isFrozen = false;
  #isClosed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** True between `freeze` and `thaw`. */
  get isFrozen(): boolean {
    return this.#isFrozen;
  }

  /** True after `close`. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** How a call that passes now is lost on its way to the store; undefined when it gets through. */
  get requestLoss(): LossOptions | undefined {
    return this.#partition?.side === 'answers' ? undefined : this.#partition;
  }

  /** How an answer or event that passes now is lost; undefined when it gets through. */
  get answerLoss(): LossOptions | undefined {
    return this.#partition?.side === 'requests' ? undefined : this.#partition;
  }

  /** Runs `send` as soon as the client can send. */
  leave(send: () => void): void {
    this.#pass(this.#leaving, send);
  }

  /** Runs `receive` as soon as the client can receive. */
  arrive(receive: () => void): void {
    this.#pass(this.#arriving, receive);
  }

  /** Runs `callback` in `delayMs`, at once when that is 0; never after `close`. Returns how to prevent it. */
  after(delayMs: number, callback: () => void): () => void {
    if (delayMs === 0) {
      callback();
      return () => undefined;
    }
    const timer = this.#clock.setTimeout(() => {
      this.#timers.delete(timer);
      callback();
    }, delayMs);
    this.#timers.add(timer);
    return () => {
      this.#timers.delete(timer);
      this.#clock.clearTimeout(timer);
    };
  }

  /** Starts a partition, in place of one that lasts. */
  partition(options: PartitionOptions): void {
    this.#partition = options;
  }

  /** Ends the partition. */
  heal(): void {
    this.#partition = undefined;
  }

  /** Stops the client. */
  freeze(): void {
    this.#isFrozen = true;
  }

  /** Lets the client go on, in a microtask: first it receives what has arrived, then it sends. */
  thaw(): void {
    this.#isFrozen = false;
    queueMicrotask(() => {
      this.#drain(this.#arriving);
      this.#drain(this.#leaving);
    });
  }

  /** Forgets whatever waits, and all timers. */
  close(): void {
    this.#isClosed = true;
    this.#arriving.length = 0;
    this.#leaving.length = 0;
    for (const timer of this.#timers) this.#clock.clearTimeout(timer);
    this.#timers.clear();
  }

  #pass(waiting: (() => void)[], step: () => void): void {
    // Behind what waits already, or the thaw would let it overtake.
    if (this.#isFrozen || waiting.length > 0) waiting.push(step);
    else step();
  }

  #drain(waiting: (() => void)[]): void {
    while (waiting.length > 0 && !this.#isFrozen) {
      waiting.shift()!();
    }
  }
}
