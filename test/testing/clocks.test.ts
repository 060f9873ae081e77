import { describe, expect, test } from '@jest/globals';
import { seededRandom } from '../../src/base/random.ts';
import { virtualClock } from '../../src/base/virtual-clock.ts';
import { workerClock } from '../../src/testing/worker-clock.ts';

describe('virtual clock', () => {
  test('until - goes from timer to timer, and stops at the one after which the condition holds', async () => {
    const clock = virtualClock();
    const fired: number[] = [];
    for (const delayMs of [10, 20, 30]) clock.setTimeout(() => fired.push(delayMs), delayMs);
    expect(await clock.until(() => fired.length === 2, 1_000)).toBe(true);
    expect([clock.nowMs(), fired]).toEqual([20, [10, 20]]);
    expect(await clock.until(() => fired.length === 4, 100)).toBe(false);
    expect(clock.nowMs()).toBe(120);
  });

  test('until - a condition that holds moves no time', async () => {
    const clock = virtualClock();
    clock.setTimeout(() => undefined, 0);
    expect(await clock.until(() => true, 1_000)).toBe(true);
    expect([clock.nowMs(), clock.pendingTimers]).toEqual([0, 1]);
  });

  test('order - timers of one instant fire in an order of the seed, the same each time', async () => {
    const orderOf = async (seed: number): Promise<string> => {
      const clock = virtualClock({ order: seededRandom(seed) });
      let fired = '';
      for (const name of 'abcdef') clock.setTimeout(() => (fired += name), 5);
      await clock.advance(5);
      return fired;
    };
    const orders = await Promise.all([1, 2, 3, 4, 5].map(orderOf));
    expect(new Set(orders).size).toBe(5);
    expect(await orderOf(1)).toBe(orders[0]);
  });

  test('order - what one timer sets in motion settles before the next of the same instant', async () => {
    const clock = virtualClock({ order: seededRandom(1) });
    const seen: string[] = [];
    for (const name of ['a', 'b']) {
      clock.setTimeout(() => {
        seen.push(name);
        void Promise.resolve()
          .then(() => undefined)
          .then(() => seen.push(`after ${name}`));
      }, 1);
    }
    await clock.advance(1);
    expect(seen).toEqual([seen[0], `after ${seen[0]}`, seen[2], `after ${seen[2]}`]);
  });
});

describe('worker clock', () => {
  test('rate - a fast clock shows more time and fires earlier, a slow one less and later', async () => {
    const world = virtualClock();
    const fast = workerClock(world, { rate: 2 });
    const slow = workerClock(world, { rate: 0.5 });
    const fired: string[] = [];
    fast.setTimeout(() => fired.push(`fast at ${world.nowMs()}`), 100);
    slow.setTimeout(() => fired.push(`slow at ${world.nowMs()}`), 100);
    await world.advance(1_000);
    expect(fired).toEqual(['fast at 50', 'slow at 200']);
    expect([fast.nowMs(), slow.nowMs()]).toEqual([2_000, 500]);
  });

  test('rate - no timer fires before its own time, not even by a rounding', async () => {
    const random = seededRandom(7);
    const world = virtualClock();
    const clock = workerClock(world, { rate: 0.9937 });
    let early = 0;
    for (let count = 0; count < 500; count += 1) {
      const dueMs = clock.nowMs() + random.next() * 1_000;
      const delayMs = dueMs - clock.nowMs();
      const leastMs = clock.nowMs() + delayMs;
      clock.setTimeout(() => {
        if (clock.nowMs() < leastMs) early += 1;
      }, delayMs);
      await world.advance(random.next() * 10);
    }
    await world.advance(2_000);
    expect([early, clock.pendingTimers]).toEqual([0, 0]);
  });

  test('freeze - with the time running, what fell due fires at the thaw', async () => {
    const world = virtualClock();
    const clock = workerClock(world);
    const fired: number[] = [];
    for (const delayMs of [10, 20, 500]) clock.setTimeout(() => fired.push(delayMs), delayMs);
    clock.freeze('runs');
    await world.advance(100);
    expect(fired).toEqual([]);
    clock.thaw();
    expect([fired, clock.nowMs()]).toEqual([[10, 20], 100]);
  });

  test('freeze - with the time stopped, timers wait for the rest of their time', async () => {
    const world = virtualClock();
    const clock = workerClock(world);
    const fired: number[] = [];
    clock.setTimeout(() => fired.push(clock.nowMs()), 50);
    await world.advance(20);
    clock.freeze('stops');
    await world.advance(100);
    clock.thaw();
    expect([fired, clock.nowMs()]).toEqual([[], 20]);
    await world.advance(29);
    expect(fired).toEqual([]);
    await world.advance(1);
    expect(fired).toEqual([50]);
  });
});
