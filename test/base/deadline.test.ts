import { expect, test } from '@jest/globals';
import type { Clock } from '../../src/base/clock.ts';
import { blockedText, setDeadline } from '../../src/base/deadline.ts';
import { systemClock } from '../../src/base/clock.ts';
import { virtualClock } from '../../src/testing/index.ts';

test('a deadline - passes once its time has come, and not when it was ended', async () => {
  const clock = virtualClock();
  const passed: number[] = [];
  setDeadline(clock, 1_000, (lateMs) => passed.push(lateMs));
  setDeadline(clock, 1_000, () => passed.push(-1)).end();
  await clock.advance(999);
  expect(passed).toEqual([]);
  await clock.advance(1);
  expect(passed).toEqual([0]);
});

test('a deadline - that a blocked loop lets come late hears first what has arrived meanwhile', async () => {
  const clock = systemClock();
  const heard: string[] = [];
  await new Promise<void>((resolve) => {
    setDeadline(clock, 5, (lateMs) => {
      heard.push(`passed${blockedText(lateMs > 0 ? 100 : 0)}`);
      resolve();
    });
    // What arrives is heard between the timers of two turns.
    setImmediate(() => heard.push('arrived'));
    block(100);
  });
  expect(heard).toEqual(['arrived', 'passed; the event loop was blocked for 100 ms']);
});

test('a deadline - that came late can still be ended by what is heard then', async () => {
  const timers: (() => void)[] = [];
  let nowMs = 0;
  const clock: Clock = {
    nowMs: () => nowMs,
    wallMs: () => nowMs,
    setTimeout: (callback) => ({ index: timers.push(callback) - 1 }),
    clearTimeout: (timer) => {
      timers[(timer as { index: number }).index] = () => undefined;
    },
  };
  let hasPassed = false;
  const deadline = setDeadline(clock, 1_000, () => (hasPassed = true));
  nowMs = 1_500;
  timers[0]!();
  deadline.end();
  expect(timers).toHaveLength(2);
  timers[1]!();
  expect(hasPassed).toBe(false);
});

function block(forMs: number): void {
  const endMs = performance.now() + forMs;
  while (performance.now() < endMs);
}
