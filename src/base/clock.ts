/**
 * Time as a port. `nowMs` is monotonic and the only time that decides anything; `wallMs` is for display.
 *
 * The port is also what XState calls a clock, so that one object drives charts, sessions and the memory store.
 */
import { performance } from 'node:perf_hooks';
import { invariant } from './errors.ts';

/** Longest delay that is honoured, in milliseconds: 60 days (R44). */
export const DELAY_MS_MAX = 60 * 24 * 60 * 60 * 1000;

/** A pending timer; opaque. */
export type Timer = object;

/** Monotonic time and timers. */
export interface Clock {
  /** Milliseconds since an arbitrary start; never steps, never falls. */
  nowMs(): number;
  /** Milliseconds since 1970 as the host believes; may step. Never compared. */
  wallMs(): number;
  /** Calls `callback` once, no earlier than `delayMs` from now. Delays of 0 to 60 days are honoured exactly. */
  setTimeout(callback: () => void, delayMs: number): Timer;
  /** Forgets a timer; a timer that has fired or was cleared is ignored. */
  clearTimeout(timer: Timer): void;
}

const NODE_DELAY_MS_MAX = 2 ** 31 - 1;

/**
 * The clock of the host.
 *
 * Node fires timers over 2^31-1 ms at once, and others up to a millisecond or two early: each is armed again until its time
 * has come. Timers keep the process alive: a worker clears
 * them all before `stop()` resolves.
 */
export function systemClock(): Clock {
  return {
    nowMs: () => performance.now(),
    wallMs: () => Date.now(),
    setTimeout(callback, delayMs) {
      checkDelay(delayMs);
      const timer: { handle?: NodeJS.Timeout } = {};
      const dueMs = performance.now() + delayMs;
      const arm = (leftMs: number): void => {
        timer.handle = setTimeout(
          () => {
            const restMs = dueMs - performance.now();
            if (restMs > 0) arm(restMs);
            else callback();
          },
          Math.min(Math.ceil(leftMs), NODE_DELAY_MS_MAX),
        );
      };
      arm(delayMs);
      return timer;
    },
    clearTimeout(timer) {
      clearTimeout((timer as { handle?: NodeJS.Timeout }).handle);
    },
  };
}

/** Refuses what Node would turn into "at once": NaN, negatives, more than 60 days. */
export function checkDelay(delayMs: number): void {
  invariant(
    delayMs >= 0 && delayMs <= DELAY_MS_MAX,
    `a timer of ${delayMs} ms: delays are 0 to ${DELAY_MS_MAX} ms (R44)`,
  );
}
