import { describe, expect, test } from '@jest/globals';
import {
  extendLimit,
  PATIENCE_MAX,
  patience,
  patienceFor,
  patiently,
} from '../support/patience.js';

describe('patience', () => {
  test('patience - is 1 on a machine that has nothing else to do, and in a usual run of the tests', () => {
    expect(patienceFor(0.5, 0.1)).toBe(1);
    expect(patienceFor(2, 2)).toBe(1);
  });

  test('patience - grows with what slows the machine down most', () => {
    expect(patienceFor(6, 1)).toBe(3);
    expect(patienceFor(1, 6)).toBe(3);
    expect(patienceFor(10, 6)).toBe(5);
  });

  test('patience - has an end: what hangs fails', () => {
    expect(patienceFor(1_000, 2)).toBe(PATIENCE_MAX);
    expect(patienceFor(1, 1_000)).toBe(PATIENCE_MAX);
  });

  test('patience - is measured, and limits are taken times it', () => {
    expect(patience()).toBeGreaterThanOrEqual(1);
    expect(patience()).toBeLessThanOrEqual(PATIENCE_MAX);
    expect(patiently(100)).toBe(Math.ceil(100 * patience()));
  });
});

describe('a time limit', () => {
  test('a time limit - is the usual one or its own, times the patience of the moment, and does not grow by itself', () => {
    const [usual, own] = [{}, { timeout: 500 }];
    for (let turn = 0; turn < 3; turn += 1) {
      for (const limited of [usual, own]) extendLimit(limited, 100);
      expect(usual).toMatchObject({ timeout: patiently(100) });
      expect(own).toMatchObject({ timeout: patiently(500) });
    }
  });
});
