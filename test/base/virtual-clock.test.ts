import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { DELAY_MS_MAX } from '../../src/base/clock.ts';
import { InvariantViolation } from '../../src/base/errors.ts';
import { virtualClock } from '../../src/base/virtual-clock.ts';

describe('virtual clock', () => {
  test('virtual clock - stands still until it is stepped', async () => {
    const clock = virtualClock({ wallMs: 5_000 });
    expect([clock.nowMs(), clock.wallMs()]).toEqual([0, 5_000]);
    await clock.settle();
    expect(clock.nowMs()).toBe(0);
    await clock.advance(1_500);
    expect([clock.nowMs(), clock.wallMs()]).toEqual([1_500, 6_500]);
  });

  test('virtual clock - a step of the wall clock moves no time', async () => {
    const clock = virtualClock({ wallMs: 0 });
    clock.stepWall(-3_600_000);
    await clock.advance(10);
    expect([clock.nowMs(), clock.wallMs()]).toEqual([10, -3_599_990]);
  });

  test('virtual clock - timers fire in the order of their times, each at its own', async () => {
    const clock = virtualClock();
    const fired: (readonly [string, number])[] = [];
    for (const [name, delayMs] of [
      ['c', 30],
      ['a', 10],
      ['b', 20],
      ['late', 31],
    ] as const) {
      clock.setTimeout(() => fired.push([name, clock.nowMs()]), delayMs);
    }
    await clock.advance(30);
    expect(fired).toEqual([
      ['a', 10],
      ['b', 20],
      ['c', 30],
    ]);
    expect(clock.pendingTimers).toBe(1);
  });

  test('virtual clock - timers of one instant fire in the order in which they were set', async () => {
    const clock = virtualClock();
    const fired: number[] = [];
    for (let index = 0; index < 50; index += 1) clock.setTimeout(() => fired.push(index), 7);
    await clock.advance(7);
    expect(fired).toEqual(Array.from({ length: 50 }, (_, index) => index));
  });

  test('virtual clock - what a timer sets in motion settles before the next one fires', async () => {
    const clock = virtualClock();
    const log: string[] = [];
    clock.setTimeout(() => {
      log.push('first');
      void (async () => {
        for (let hop = 0; hop < 20; hop += 1) await Promise.resolve();
        log.push('reaction');
      })();
    }, 1);
    clock.setTimeout(() => log.push('second'), 2);
    await clock.advance(5);
    expect(log).toEqual(['first', 'reaction', 'second']);
  });

  test('virtual clock - timers set by timers fire within the same step when they fall due', async () => {
    const clock = virtualClock();
    const fired: number[] = [];
    const again = (): void => {
      fired.push(clock.nowMs());
      clock.setTimeout(again, 10);
    };
    clock.setTimeout(again, 0);
    await clock.advance(35);
    expect(fired).toEqual([0, 10, 20, 30]);
    expect(clock.nowMs()).toBe(35);
  });

  test('virtual clock - a timer that was cleared does not fire, and clearing again is nothing', async () => {
    const clock = virtualClock();
    let fired = 0;
    const timer = clock.setTimeout(() => (fired += 1), 5);
    const other = clock.setTimeout(() => {
      fired += 10;
      clock.clearTimeout(victim);
    }, 5);
    const victim = clock.setTimeout(() => (fired += 100), 5);
    clock.clearTimeout(timer);
    clock.clearTimeout(timer);
    expect(clock.pendingTimers).toBe(2);
    await clock.advance(10);
    expect(fired).toBe(10);
    clock.clearTimeout(other);
    expect(clock.pendingTimers).toBe(0);
  });

  test('virtual clock - 60 days are honoured to the millisecond', async () => {
    const clock = virtualClock();
    let firedAtMs: number | undefined;
    clock.setTimeout(() => (firedAtMs = clock.nowMs()), DELAY_MS_MAX);
    await clock.advance(DELAY_MS_MAX - 1);
    expect(firedAtMs).toBeUndefined();
    await clock.advance(1);
    expect(firedAtMs).toBe(DELAY_MS_MAX);
  });

  test('virtual clock - delays that Node would turn into "at once" are refused (R44)', async () => {
    const clock = virtualClock();
    for (const delayMs of [NaN, -1, -0.5, Infinity, -Infinity, DELAY_MS_MAX + 1]) {
      expect(() => clock.setTimeout(() => undefined, delayMs)).toThrow(InvariantViolation);
      await expect(clock.advance(delayMs)).rejects.toThrow(InvariantViolation);
    }
    expect([clock.pendingTimers, clock.nowMs()]).toEqual([0, 0]);
  });

  test('virtual clock - any mix of timers fires sorted, and none is lost', async () => {
    const anyTimers = fc.array(
      fc.record({ delayMs: fc.integer({ min: 0, max: 20 }), isCleared: fc.boolean() }),
      { maxLength: 60 },
    );
    await fc.assert(
      fc.asyncProperty(anyTimers, async (timers) => {
        const clock = virtualClock();
        const fired: number[] = [];
        const set = timers.map(({ delayMs }, index) =>
          clock.setTimeout(() => fired.push(index), delayMs),
        );
        timers.forEach(({ isCleared }, index) => {
          if (isCleared) clock.clearTimeout(set[index]!);
        });
        const expected = timers
          .map(({ delayMs, isCleared }, index) => ({ delayMs, isCleared, index }))
          .filter(({ isCleared }) => !isCleared)
          .sort((a, b) => a.delayMs - b.delayMs || a.index - b.index)
          .map(({ index }) => index);
        await clock.advance(20);
        expect(fired).toEqual(expected);
        expect(clock.pendingTimers).toBe(0);
      }),
      { numRuns: 100 },
    );
  });
});
