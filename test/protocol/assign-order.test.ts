import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { InvariantViolation } from '../../src/base/errors.ts';
import { heaviestFirst, inIdOrder } from '../../src/protocol/assign-order.ts';
import { anyWeight } from './balance.ts';

function byText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Ids with long common beginnings, which are what radix sorts get wrong. */
const crowdedId = fc
  .tuple(
    fc.constantFrom('', 'a', 'split-', 'split-0000000', 'split-00000000000000'),
    fc.stringMatching(/^[a-zA-Z0-9_-]{0,20}$/),
  )
  .map(([start, end]) => `${start}${end}`);

function checkOrder(ids: readonly string[]): void {
  const items = ids.map((id) => ({ id }));
  const sorted = inIdOrder(items).map(({ id }) => id);
  expect(sorted).toEqual([...ids].sort(byText));
}

describe('inIdOrder', () => {
  test('inIdOrder - sorts as the engine compares strings', () => {
    const ids = fc.uniqueArray(crowdedId, { maxLength: 200, size: 'max' });
    fc.assert(fc.property(ids, checkOrder), { numRuns: 500 });
  });

  test('inIdOrder - sorts text outside of ASCII too', () => {
    const ids = fc.uniqueArray(fc.string({ unit: 'grapheme', maxLength: 4 }), {
      maxLength: 60,
      size: 'max',
    });
    fc.assert(fc.property(ids, checkOrder), { numRuns: 300 });
    checkOrder(Array.from({ length: 100 }, (_, index) => `${'\0'.repeat(index % 9)}${index}`));
  });

  test('inIdOrder - sorts ids of which one is the beginning of another', () => {
    const ids = Array.from({ length: 120 }, (_, length) => 'a'.repeat(length));
    checkOrder([...ids].reverse());
    checkOrder(ids.map((id) => `${id}b`));
  });

  test('inIdOrder - hands back the very list when it ascends already', () => {
    const items = ['-', '0', 'A', '_', 'a', 'aa'].map((id) => ({ id }));
    expect(inIdOrder(items)).toBe(items);
    expect(inIdOrder([])).toEqual([]);
  });

  test('inIdOrder - refuses a name that is listed twice, near or far apart', () => {
    const many = Array.from({ length: 100 }, (_, index) => ({ id: `split-${index}` }));
    for (const items of [
      [{ id: 'a' }, { id: 'a' }],
      [...many, many[3]!],
      [many[9]!, ...many],
    ]) {
      expect(() => inIdOrder(items)).toThrow(InvariantViolation);
    }
  });

  test('inIdOrder - leaves the list it was given as it is', () => {
    const items = Array.from({ length: 50 }, (_, index) => ({ id: `s${50 - index}` }));
    const before = structuredClone(items);
    inIdOrder(items);
    expect(items).toEqual(before);
  });
});

describe('heaviestFirst', () => {
  test('heaviestFirst - sorts by descending weight and keeps the order of equals', () => {
    fc.assert(
      fc.property(fc.array(anyWeight, { maxLength: 100, size: 'max' }), (weights) => {
        const expected = weights
          .map((_, index) => index)
          .sort((a, b) => weights[b]! - weights[a]! || a - b);
        expect([...heaviestFirst(Float64Array.from(weights))]).toEqual(expected);
      }),
      { numRuns: 500 },
    );
  });
});
