import { performance } from 'node:perf_hooks';
import { afterEach, describe, expect, jest, test } from '@jest/globals';
import { DELAY_MS_MAX, systemClock } from '../../src/base/clock.ts';
import { InvariantViolation } from '../../src/base/errors.ts';

const DAY_MS = 24 * 60 * 60 * 1_000;

afterEach(() => {
  jest.useRealTimers();
  jest.restoreAllMocks();
});

/** Timers and both kinds of time stand still but for the test. */
function holdTime(): void {
  jest.useFakeTimers();
  jest.spyOn(performance, 'now').mockImplementation(() => Date.now());
}

describe('system clock', () => {
  test('system clock - never falls, and shows the wall time for display', async () => {
    const clock = systemClock();
    const start = clock.nowMs();
    expect(Math.abs(clock.wallMs() - Date.now())).toBeLessThan(1_000);
    await new Promise<void>((resolve) => clock.setTimeout(resolve, 5));
    expect(clock.nowMs()).toBeGreaterThan(start);
  });

  test('system clock - no timer fires before its time, by the very clock that is read', async () => {
    const clock = systemClock();
    const early: number[] = [];
    const fired = Array.from({ length: 200 }, (_, index) => {
      const dueMs = clock.nowMs() + 5 + index / 7;
      return new Promise<void>((resolve) => {
        clock.setTimeout(
          () => {
            if (clock.nowMs() < dueMs) early.push(dueMs - clock.nowMs());
            resolve();
          },
          5 + index / 7,
        );
      });
    });
    await Promise.all(fired);
    expect(early).toEqual([]);
  });

  test('system clock - a delay that Node cannot hold is chained and fires once, at its end', () => {
    holdTime();
    const clock = systemClock();
    for (const days of [1, 24, 25, 49.8, 60]) {
      const fired = jest.fn();
      clock.setTimeout(fired, days * DAY_MS);
      jest.advanceTimersByTime(days * DAY_MS - 1);
      expect(fired).not.toHaveBeenCalled();
      jest.advanceTimersByTime(1);
      expect(fired).toHaveBeenCalledTimes(1);
      jest.advanceTimersByTime(60 * DAY_MS);
      expect(fired).toHaveBeenCalledTimes(1);
    }
    expect(jest.getTimerCount()).toBe(0);
  });

  test('system clock - a chained timer can be cleared at any time', () => {
    holdTime();
    const clock = systemClock();
    const fired = jest.fn();
    for (const afterDays of [0, 20, 26]) {
      const timer = clock.setTimeout(fired, 60 * DAY_MS);
      jest.advanceTimersByTime(afterDays * DAY_MS);
      clock.clearTimeout(timer);
      clock.clearTimeout(timer);
      expect(jest.getTimerCount()).toBe(0);
    }
    jest.advanceTimersByTime(90 * DAY_MS);
    expect(fired).not.toHaveBeenCalled();
  });

  test('system clock - delays that Node would turn into "at once" are refused (R44)', () => {
    const clock = systemClock();
    for (const delayMs of [NaN, -1, Infinity, DELAY_MS_MAX + 1]) {
      expect(() => clock.setTimeout(() => undefined, delayMs)).toThrow(InvariantViolation);
    }
    clock.clearTimeout(clock.setTimeout(() => undefined, DELAY_MS_MAX));
  });
});
