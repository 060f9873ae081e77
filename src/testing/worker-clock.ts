/** The clock of one worker in a fleet: it can be frozen on its own, while the rest of the world goes on. */
import type { Clock, Timer } from '../base/clock.ts';

/** How a worker's clock differs from the clock of the world. */
export interface WorkerClockOptions {
  /** Its milliseconds per millisecond of the world; 1 when absent. */
  readonly rate?: number;
  /** How far its wall clock is ahead at first, in milliseconds; 0 when absent. */
  readonly wallOffsetMs?: number;
}

/** A clock that can be frozen, and whose wall time can be stepped. */
export interface WorkerClock extends Clock {
  /**
   * No timer fires until `thaw`. `time: 'runs'`: the loop is blocked, but its monotonic clock goes on (a busy process).
   * `time: 'stops'`: the host is suspended and the clock with it.
   */
  freeze(time: 'runs' | 'stops'): void;
  /** Timers that fell due fire now, in their order; after a stop those that are not due yet wait for the rest of their time. */
  thaw(): void;
  stepWall(deltaMs: number): void;
  /** Timers set and neither fired nor cleared. */
  readonly pendingTimers: number;
}

interface HeldTimer {
  inner: Timer | undefined;
  readonly callback: () => void;
  /** On this clock. */
  readonly dueMs: number;
  isDone: boolean;
}

/** Two times that are closer than this are the same, but for rounding. */
const ROUNDING_MS = 1e-6;

/** A worker's clock on top of the clock of the world. */
export function workerClock(world: Clock, options: WorkerClockOptions = {}): WorkerClock {
  const { rate = 1 } = options;
  let frozenAtMs: number | null = null;
  let hasStopped = false;
  let behindMs = 0;
  let wallOffsetMs = options.wallOffsetMs ?? 0;
  /** No timer fires before its time, not even by a rounding. */
  let leastMs = 0;
  const held: HeldTimer[] = [];
  const pending = new Set<HeldTimer>();

  const nowMs = (): number => {
    const worldMs = frozenAtMs !== null && hasStopped ? frozenAtMs : world.nowMs();
    return Math.max(leastMs, (worldMs - behindMs) * rate);
  };

  const arm = (timer: HeldTimer, delayMs: number): void => {
    timer.inner = world.setTimeout(() => {
      fire(timer);
    }, delayMs / rate);
  };

  const fire = (timer: HeldTimer): void => {
    if (timer.isDone) return;
    if (frozenAtMs !== null) {
      held.push(timer);
      return;
    }
    const leftMs = timer.dueMs - nowMs();
    if (leftMs > ROUNDING_MS) {
      arm(timer, leftMs);
      return;
    }
    leastMs = Math.max(leastMs, timer.dueMs);
    timer.isDone = true;
    pending.delete(timer);
    timer.callback();
  };

  return {
    nowMs,
    wallMs: () => world.wallMs() + wallOffsetMs,
    setTimeout(callback, delayMs) {
      const dueMs = nowMs() + delayMs;
      const timer: HeldTimer = { inner: undefined, callback, dueMs, isDone: false };
      pending.add(timer);
      arm(timer, delayMs);
      return timer;
    },
    clearTimeout(timer) {
      const one = timer as HeldTimer | undefined;
      if (one === undefined || one.isDone) return;
      one.isDone = true;
      pending.delete(one);
      if (one.inner !== undefined) world.clearTimeout(one.inner);
    },
    freeze(time) {
      frozenAtMs ??= world.nowMs();
      hasStopped = time === 'stops';
    },
    thaw() {
      if (frozenAtMs === null) return;
      if (hasStopped) behindMs += world.nowMs() - frozenAtMs;
      frozenAtMs = null;
      for (const timer of held.splice(0)) fire(timer);
    },
    stepWall(deltaMs) {
      wallOffsetMs += deltaMs;
    },
    get pendingTimers() {
      return pending.size;
    },
  };
}
