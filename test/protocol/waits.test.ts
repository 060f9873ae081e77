/** Attempts and waits: the numbers of R10, R18, R20, R28 and R40. */
import { describe, expect, test } from '@jest/globals';
import { failBackoffMs, isAtCap } from '../../src/protocol/attempts.ts';
import {
  candidacyDelayMs,
  jitter,
  resignationPauseMs,
  selfFenceMarginMs,
  startupBackoffMs,
} from '../../src/protocol/timing.ts';

describe('attempts', () => {
  test('attempts - the cap is met by the attempt that would reach it', () => {
    expect([2, 3, 4, 5].map((attempts) => isAtCap(attempts, 4))).toEqual([
      false,
      false,
      true,
      true,
    ]);
    expect(isAtCap(1, 1)).toBe(true);
  });

  test('attempts - the rest after a failure doubles from 500 ms to half a lease', () => {
    const waits = [0, 1, 2, 3, 4, 5, 6, 2_000].map((attempts) => failBackoffMs(attempts, 15_000));
    expect(waits).toEqual([0, 500, 1_000, 2_000, 4_000, 7_500, 7_500, 7_500]);
    expect(failBackoffMs(1, 600)).toBe(300);
  });
});

describe('jitter', () => {
  test('jitter - stays between 0.8 and 1.2 times the base and differs by round and seed', () => {
    const lengths = Array.from({ length: 4_096 }, (_, round) => jitter(7, round, 10_000));
    expect(Math.min(...lengths)).toBeGreaterThanOrEqual(8_000);
    expect(Math.max(...lengths)).toBeLessThan(12_000);
    expect(Math.max(...lengths) - Math.min(...lengths)).toBeGreaterThan(3_900);
    expect(new Set(lengths).size).toBeGreaterThan(900);
    expect(new Set(lengths).size).toBeLessThanOrEqual(1_024);
    expect(jitter(7, 1, 10_000)).not.toBe(jitter(8, 1, 10_000));
    expect(jitter(7, 1, 10_000)).toBe(jitter(7, 1, 10_000));
  });
});

describe('timing', () => {
  test('timing - candidates come 100 ms apart, at most a third of a lease late (R20)', () => {
    expect([0, 1, 2, 49, 50, 51].map((rank) => candidacyDelayMs(rank, 15_000))).toEqual([
      0, 100, 200, 4_900, 5_000, 5_000,
    ]);
  });

  test('timing - a holder stops 5 % before the end, and no less than 250 ms', () => {
    expect([1_000, 5_000, 15_000].map(selfFenceMarginMs)).toEqual([250, 250, 750]);
  });

  test('timing - startup steps are repeated after 200 ms, doubling to 5 s', () => {
    expect([1, 2, 3, 4, 5, 6, 7, 5_000].map(startupBackoffMs)).toEqual([
      200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000,
    ]);
  });

  test('timing - a leader that resigned for cause rests one lease, doubling to ten', () => {
    expect([1, 2, 3, 4, 5, 99].map((count) => resignationPauseMs(count, 1_000))).toEqual([
      1_000, 2_000, 4_000, 8_000, 10_000, 10_000,
    ]);
  });
});
