/**
 * Deadlines for answers. A loop that was blocked fires its timers before it reads what has arrived meanwhile: whoever gives up
 * then blames the other side for its own delay. So a deadline that comes late waits for one turn of the loop more.
 */
import type { Clock, Timer } from './clock.ts';

/** Timers are late by a few milliseconds on any busy host. */
const LATE_MS_MAX = 50;

export interface Deadline {
  end(): void;
}

/**
 * Runs `passed` once `delayMs` have gone by and what has arrived by then was heard.
 *
 * @param passed  Is told how late the loop was, for messages; 0 when it was not.
 */
export function setDeadline(
  clock: Clock,
  delayMs: number,
  passed: (lateMs: number) => void,
): Deadline {
  const dueMs = clock.nowMs() + delayMs;
  let timer: Timer = clock.setTimeout(() => {
    const lateMs = clock.nowMs() - dueMs;
    if (lateMs <= LATE_MS_MAX) {
      passed(0);
      return;
    }
    timer = clock.setTimeout(() => {
      passed(lateMs);
    }, 0);
  }, delayMs);
  return {
    end: () => {
      clock.clearTimeout(timer);
    },
  };
}

/** For messages: `; the event loop was blocked for 700 ms`, or nothing. */
export function blockedText(lateMs: number): string {
  return lateMs === 0 ? '' : `; the event loop was blocked for ${Math.round(lateMs)} ms`;
}
