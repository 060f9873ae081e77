import { describe, expect, test } from '@jest/globals';
import { LeaseholdError } from '../../src/base/errors.ts';
import {
  describe as show,
  idProblem,
  instanceIdOf,
  isId,
  randomId,
  randomSessionId,
  splitIdOf,
} from '../../src/base/ids.ts';
import { seededRandom, systemRandom } from '../../src/base/random.ts';

const GOOD = ['a', 'Z', '0', '-', '_', '__proto__', 'orders-2026_01', 'x'.repeat(128)];
const BAD: readonly (readonly [unknown, RegExp])[] = [
  ['', /empty/],
  ['x'.repeat(129), /at most 128 bytes, got 129/],
  ['a/b', /"\/" in "a\/b"/],
  ['..', /"\."/],
  ['a b', /" "/],
  ['pod\n', /"\\n"/],
  ['é', /"é"/],
  ['😀', /"😀"/],
  [undefined, /must be a string, got undefined/],
  [7, /must be a string, got 7/],
  [null, /must be a string, got null/],
];

describe('ids', () => {
  test('ids - 1 to 128 letters, digits, dashes and underscores are an id', () => {
    for (const id of GOOD) {
      expect(isId(id)).toBe(true);
      expect(idProblem(id)).toBeUndefined();
      expect(splitIdOf(id)).toBe(id);
      expect(instanceIdOf(id)).toBe(id);
    }
  });

  test('ids - anything else is refused with the value and the rule', () => {
    for (const [value, problem] of BAD) {
      expect(isId(value)).toBe(false);
      expect(idProblem(value)).toMatch(problem);
      const reading = (): unknown => instanceIdOf(value);
      expect(reading).toThrow(LeaseholdError);
      expect(reading).toThrow(/^instanceId /);
      expect(() => splitIdOf(value)).toThrow(
        expect.objectContaining({ code: 'E_ID_INVALID', kind: 'usage' }),
      );
    }
  });

  test('ids - a long value is shown short', () => {
    expect(show('x'.repeat(500)).length).toBeLessThanOrEqual(80);
    expect(idProblem('x'.repeat(500))!.length).toBeLessThan(200);
  });

  test('ids - any value can be shown', () => {
    expect([5n, NaN, undefined, null, true, 'a"b', [1], { a: 1 }].map(show)).toEqual([
      '5n',
      'NaN',
      'undefined',
      'null',
      'true',
      '"a\\"b"',
      '[1]',
      '{"a":1}',
    ]);
  });

  test('ids - random ids are ids, do not repeat, and come again from the same seed', () => {
    for (const random of [systemRandom(), seededRandom(1)]) {
      const ids = Array.from({ length: 2_000 }, () => randomId(random));
      expect(new Set(ids).size).toBe(2_000);
      expect(ids.every((id) => /^[0-9a-z]{28}$/.test(id))).toBe(true);
    }
    expect(randomId(seededRandom(9))).toBe(randomId(seededRandom(9)));
    expect(randomId({ next: () => 0 })).toBe('0'.repeat(28));
    expect(isId(randomId({ next: () => 1 - 2 ** -32 }))).toBe(true);
  });
});

describe('session ids', () => {
  test('session ids - are decimals from 1 to 2^63-1, whatever the random stream says', () => {
    const edges = [0, 1 - 2 ** -32].flatMap((a) =>
      [0, 1 - 2 ** -32].map((b) => {
        const stream = [a, b];
        return BigInt(randomSessionId({ next: () => stream.shift()! }));
      }),
    );
    for (const id of edges) {
      expect(id).toBeGreaterThanOrEqual(1n);
      expect(id).toBeLessThanOrEqual(2n ** 63n - 1n);
    }
  });
});
