/** The clock of one worker in a fleet: it can be frozen on its own, while the rest of the world goes on. */
import type { Clock, Timer } from '../base/clock.ts';

/** A clock that can be frozen, and whose wall time can be stepped. */
export interface WorkerClock extends Clock {
  /**
   * No timer fires until `thaw`. `time: 'runs'`: the loop is blocked, but its monotonic clock goes on (a busy process).
   * `time: 'stops'`: the host is suspended and the clock with it.
   */
  freeze(time: 'runs' | 'stops'): void;
  /** Timers that fell due fire now, in their order. */
  thaw(): void;
  stepWall(deltaMs: number): void;
  /** Timers set and neither fired nor cleared. */
  readonly pendingTimers: number;
}

interface HeldTimer {
  inner: Timer | undefined;
  readonly callback: () => void;
  isDone: boolean;
}

/** A worker's clock on top of the clock of the world. */
export function workerClock(world: Clock): WorkerClock {
  let frozenAtMs: number | null = null;
  let hasStopped = false;
  let behindMs = 0;
  let wallOffsetMs = 0;
  const held: HeldTimer[] = [];
  const pending = new Set<HeldTimer>();

  const nowMs = (): number =>
    (frozenAtMs !== null && hasStopped ? frozenAtMs : world.nowMs()) - behindMs;

  const fire = (timer: HeldTimer): void => {
    if (timer.isDone) return;
    if (frozenAtMs !== null) {
      held.push(timer);
      return;
    }
    timer.isDone = true;
    pending.delete(timer);
    timer.callback();
  };

  return {
    nowMs,
    wallMs: () => world.wallMs() + wallOffsetMs,
    setTimeout(callback, delayMs) {
      const timer: HeldTimer = { inner: undefined, callback, isDone: false };
      pending.add(timer);
      timer.inner = world.setTimeout(() => {
        fire(timer);
      }, delayMs);
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
