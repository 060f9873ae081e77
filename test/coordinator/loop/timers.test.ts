import { describe, expect, test } from '@jest/globals';
import { DELAY_MS_MAX } from '../../../src/base/clock.ts';
import { virtualClock } from '../../../src/base/virtual-clock.ts';
import { TimerSet } from '../../../src/coordinator/loop/timers.ts';

describe('timers of a worker', () => {
  test('timers - fire once and are forgotten; cleared ones never fire', async () => {
    const clock = virtualClock();
    const timers = new TimerSet(clock);
    const fired: string[] = [];
    timers.setTimeout(() => fired.push('a'), 10);
    const cleared = timers.setTimeout(() => fired.push('b'), 10);
    expect(timers.size).toBe(2);
    timers.clearTimeout(cleared);
    timers.clearTimeout(cleared);
    expect(timers.size).toBe(1);
    await clock.advance(100);
    expect(fired).toEqual(['a']);
    expect(timers.size).toBe(0);
    expect(timers.nowMs()).toBe(100);
  });

  test('close - clears all of them, and none is set any more, also from a callback', async () => {
    const clock = virtualClock();
    const timers = new TimerSet(clock);
    const fired: string[] = [];
    timers.setTimeout(() => {
      fired.push('first');
      timers.close();
      timers.setTimeout(() => fired.push('late'), 1);
    }, 10);
    timers.setTimeout(() => fired.push('second'), 20);
    await clock.advance(100);
    expect(fired).toEqual(['first']);
    expect(timers.size).toBe(0);
    expect(clock.pendingTimers).toBe(0);
    timers.clearTimeout(timers.setTimeout(() => undefined, 1));
  });

  test('a delay beyond 60 days - fires after 60 days, not at once (R44)', async () => {
    const clock = virtualClock();
    const timers = new TimerSet(clock);
    const fired: number[] = [];
    timers.setTimeout(() => fired.push(clock.nowMs()), 10 * DELAY_MS_MAX);
    await clock.advance(DELAY_MS_MAX - 1);
    expect(fired).toEqual([]);
    await clock.advance(1);
    expect(fired).toEqual([DELAY_MS_MAX]);
    expect(() => timers.setTimeout(() => undefined, NaN)).toThrow(/delays are 0 to/);
    expect(() => timers.setTimeout(() => undefined, -1)).toThrow(/delays are 0 to/);
  });
});
