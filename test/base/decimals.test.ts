import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  ABSENT,
  compareDecimals,
  epochOf,
  isDecimal,
  maxRevision,
  NEVER_OWNED,
  nextEpoch,
  nextRevision,
  revisionOf,
} from '../../src/base/decimals.ts';

const anyNatural = fc.oneof(
  fc.bigInt({ min: 0n, max: 30n }),
  fc.bigInt({ min: 0n, max: 10n ** 39n - 1n }),
  fc.constantFrom(2n ** 53n - 1n, 2n ** 53n, 2n ** 63n - 1n, 999_999_999_999_999n, 10n ** 15n),
);

describe('decimals', () => {
  test('decimals - compare as the numbers they spell, of any size', () => {
    fc.assert(
      fc.property(anyNatural, anyNatural, (a, b) => {
        const expected = a < b ? -1 : a > b ? 1 : 0;
        expect(Math.sign(compareDecimals(String(a), String(b)))).toBe(expected);
      }),
      { numRuns: 1_000 },
    );
  });

  test('decimals - the successor is one more, with every digit', () => {
    fc.assert(
      fc.property(anyNatural, (value) => {
        expect(nextRevision(revisionOf(value))).toBe(String(value + 1n));
        expect(nextEpoch(epochOf(value))).toBe(String(value + 1n));
      }),
      { numRuns: 1_000 },
    );
  });

  test('decimals - the larger of two revisions is found', () => {
    fc.assert(
      fc.property(anyNatural, anyNatural, (a, b) => {
        expect(maxRevision(revisionOf(a), revisionOf(b))).toBe(String(a > b ? a : b));
      }),
    );
  });

  test('decimals - only plain decimals of at most 39 digits are decimals', () => {
    for (const text of ['0', '7', '10', '18446744073709551616', '9'.repeat(39)]) {
      expect(isDecimal(text)).toBe(true);
    }
    for (const text of [
      '',
      '00',
      '01',
      '-1',
      '+1',
      '1.0',
      '1e3',
      '1n',
      ' 1',
      '1\n',
      '٣',
      '9'.repeat(40),
      1,
      1n,
      null,
    ]) {
      expect(isDecimal(text)).toBe(false);
    }
  });

  test('decimals - absent keys and unowned splits are at zero', () => {
    expect([ABSENT, NEVER_OWNED]).toEqual(['0', '0']);
    expect([revisionOf(5), revisionOf('5'), epochOf(5n)]).toEqual(['5', '5', '5']);
  });
});
