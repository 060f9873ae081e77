/**
 * The steppable twin of the system clock: time moves only when a test says so, and always in the order of the timers.
 */
import { checkDelay, type Clock, type Timer } from './clock.ts';
import type { Random } from './random.ts';

interface VirtualTimer {
  readonly dueMs: number;
  /** Among timers of one instant. */
  readonly order: number;
  readonly callback: () => void;
}

/** A clock that stands still until it is stepped. */
export interface VirtualClock extends Clock {
  /**
   * Moves time forward by `deltaMs`, firing every timer that falls due, each at its own time, and letting everything
   * that a timer set in motion settle before the next one fires.
   */
  advance(deltaMs: number): Promise<void>;
  /** Lets everything that needs no time settle. */
  settle(): Promise<void>;
  /**
   * Moves time from timer to timer until `condition` holds, which is asked after each of them; at most `withinMs`.
   * Resolves to whether it holds.
   */
  until(condition: () => boolean, withinMs: number): Promise<boolean>;
  /** Timers now pending. */
  readonly pendingTimers: number;
  /** Steps what `wallMs` shows, without moving time. */
  stepWall(deltaMs: number): void;
}

/** Turns of the event loop given to reactions between two timers; promise chains of any length run in one turn. */
const SETTLE_TURNS = 2;

/** How a virtual clock is made. */
export interface VirtualClockOptions {
  /** What its wall clock shows at first; the beginning of 2026 when absent. */
  readonly wallMs?: number;
  /** Timers of one instant fire in an order drawn from here, and what each sets in motion settles before the next. */
  readonly order?: Random;
}

/** A virtual clock that starts at 0. */
export function virtualClock(options: VirtualClockOptions = {}): VirtualClock {
  let nowMs = 0;
  let wallOffsetMs = options.wallMs ?? Date.UTC(2026, 0, 1);
  let count = 0;
  const timers = new TimerQueue();
  const isShuffled = options.order !== undefined;
  const turns = isShuffled ? 1 : SETTLE_TURNS;

  const settle = async (): Promise<void> => {
    for (let turn = 0; turn < turns; turn += 1) {
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
  };

  /** Fires the timers up to `endMs`, until `isEnough` after one of them; true when it was. */
  const run = async (endMs: number, isEnough: () => boolean): Promise<boolean> => {
    await settle();
    while (!isEnough()) {
      const timer = timers.popDue(endMs);
      if (timer === undefined) {
        nowMs = endMs;
        await settle();
        return isEnough();
      }
      const hasMoved = timer.dueMs > nowMs;
      nowMs = Math.max(nowMs, timer.dueMs);
      timer.callback();
      // Timers due at the same instant fire together; the world reacts before time moves on.
      if (isShuffled || hasMoved || timers.nextDueMs !== nowMs) await settle();
    }
    return true;
  };

  return {
    nowMs: () => nowMs,
    wallMs: () => wallOffsetMs + nowMs,
    setTimeout(callback, delayMs) {
      checkDelay(delayMs);
      count += 1;
      const order = options.order?.next() ?? count;
      const timer: VirtualTimer = { dueMs: nowMs + delayMs, order, callback };
      timers.push(timer);
      return timer;
    },
    clearTimeout(timer: Timer) {
      timers.remove(timer as VirtualTimer);
    },
    async advance(deltaMs) {
      checkDelay(deltaMs);
      await run(nowMs + deltaMs, () => false);
    },
    async until(condition, withinMs) {
      checkDelay(withinMs);
      return run(nowMs + withinMs, condition);
    },
    settle,
    get pendingTimers() {
      return timers.size;
    },
    stepWall(deltaMs) {
      wallOffsetMs += deltaMs;
    },
  };
}

/** A binary heap by due time, then by order of setting; removal is lazy. */
class TimerQueue {
  readonly #heap: VirtualTimer[] = [];
  readonly #live = new Set<VirtualTimer>();

  get size(): number {
    return this.#live.size;
  }

  get nextDueMs(): number | undefined {
    this.#dropDead();
    return this.#heap[0]?.dueMs;
  }

  push(timer: VirtualTimer): void {
    this.#live.add(timer);
    const heap = this.#heap;
    heap.push(timer);
    let index = heap.length - 1;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (before(heap[parent]!, heap[index]!)) break;
      [heap[parent], heap[index]] = [heap[index]!, heap[parent]!];
      index = parent;
    }
  }

  remove(timer: VirtualTimer): void {
    this.#live.delete(timer);
  }

  popDue(endMs: number): VirtualTimer | undefined {
    this.#dropDead();
    const first = this.#heap[0];
    if (first === undefined || first.dueMs > endMs) return undefined;
    this.#live.delete(first);
    this.#popHeap();
    return first;
  }

  #dropDead(): void {
    while (this.#heap.length > 0 && !this.#live.has(this.#heap[0]!)) this.#popHeap();
  }

  #popHeap(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    heap[0] = last;
    let index = 0;
    for (;;) {
      const left = 2 * index + 1;
      if (left >= heap.length) return;
      const right = left + 1;
      const child = right < heap.length && before(heap[right]!, heap[left]!) ? right : left;
      if (before(heap[index]!, heap[child]!)) return;
      [heap[index], heap[child]] = [heap[child]!, heap[index]!];
      index = child;
    }
  }
}

function before(a: VirtualTimer, b: VirtualTimer): boolean {
  return a.dueMs === b.dueMs ? a.order < b.order : a.dueMs < b.dueMs;
}
