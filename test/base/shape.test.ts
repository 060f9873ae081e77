/** Tables of options: what they accept, what they say of the rest, and that looking at a value never throws. */
import { describe, expect, test } from '@jest/globals';
import {
  aFunction,
  aListOf,
  anObject,
  aNumber,
  aText,
  aWholeNumber,
  having,
  isPlainObject,
  nearest,
  oneOf,
  readTable,
  refuseIfAny,
  type Table,
  type Violation,
} from '../../src/base/shape.ts';
import type { LeaseholdError } from '../../src/index.ts';

const TABLE: Table = {
  name: { rule: aText('a name', /^[a-z]+$/), isRequired: true, meaning: '' },
  count: { rule: aWholeNumber(1, 10), meaning: '' },
  ratio: { rule: aNumber(0, 1), meaning: '' },
  mode: { rule: oneOf('fast', 'safe'), meaning: '' },
  hook: { rule: aFunction('() => void'), meaning: '' },
  clock: { rule: having('a clock', ['now', 'sleep']), meaning: '' },
  tags: { rule: aListOf(aText('a tag', /^#/)), meaning: '' },
  inner: { rule: anObject({ depth: { rule: aWholeNumber(0, 3), meaning: '' } }), meaning: '' },
  secret: { rule: aText('a long one', /.{8}/), isSecret: true, meaning: '' },
};

function violationsOf(given: unknown): Violation[] {
  const found: Violation[] = [];
  readTable(given, TABLE, { name: 'options', found });
  return found;
}

const named = (given: unknown): string[] => violationsOf(given).map(({ option }) => option);

describe('a table', () => {
  test('a table - gives back what it was given, and only what is there', () => {
    const given = { name: 'a', count: 3, mode: 'fast', tags: ['#a'], inner: { depth: 1 } };
    const found: Violation[] = [];
    expect(readTable(given, TABLE, { name: 'options', found })).toEqual(given);
    expect(found).toEqual([]);
    expect(violationsOf({ name: 'a', count: undefined, nosuch: undefined })).toEqual([]);
  });

  test('a table - names everything that is wrong at once', () => {
    const wrong = {
      name: 'A',
      count: 2.5,
      ratio: Number.NaN,
      mode: 'slow',
      hook: 'hook',
      clock: { now: () => 0 },
      tags: ['#a', 'b'],
      inner: { depth: 9, deph: 1 },
      secret: 'short',
      nmae: 'b',
    };
    expect(named(wrong)).toEqual([
      'nmae',
      'name',
      'count',
      'ratio',
      'mode',
      'hook',
      'clock',
      'tags[1]',
      'inner.deph',
      'inner.depth',
      'secret',
    ]);
    const texts = JSON.stringify(violationsOf(wrong));
    expect(texts).toContain('did you mean name?');
    expect(texts).toContain('did you mean depth?');
    expect(texts).toContain('it lacks sleep');
    expect(texts).not.toContain('short');
  });

  test.each([
    ['nothing', undefined],
    ['null', null],
    ['a list', []],
    ['a map', new Map([['name', 'a']])],
    ['a text', 'name'],
    ['a function', (): void => undefined],
    ['an instance of a class', new Date(0)],
    ['a proxy that was revoked', revokedProxy()],
  ])('a table - is refused as a whole: %s', (_, given) => {
    expect(named(given)).toEqual(['options']);
  });

  test('a getter that throws - is a violation, and the others are read', () => {
    const given = {
      get name(): string {
        throw new Error('not today');
      },
      count: 99,
    };
    const found = violationsOf(given);
    expect(found.map(({ option }) => option)).toEqual(['name', 'count']);
    expect(found[0]!.rule).toContain('not today');
  });

  test('an option - is looked at once', () => {
    let looks = 0;
    const given = {
      get name(): string {
        looks += 1;
        return looks === 1 ? 'a' : '';
      },
    };
    const values = readTable(given, TABLE, { name: 'options', found: [] });
    expect(values).toEqual({ name: 'a' });
  });

  test('violations - are one error that names each with value and rule', () => {
    const found = violationsOf({ name: 'a', count: 11, mode: 5 });
    try {
      refuseIfAny(found, 'options');
      throw new Error('accepted');
    } catch (error) {
      const { code, message, details } = error as LeaseholdError;
      expect(code).toBe('E_CONFIG_INVALID');
      expect(message).toContain('count = 11: must be a whole number from 1 to 10');
      expect(message).toContain('mode = 5: must be one of fast, safe');
      expect(details.violations).toEqual(found);
    }
    expect(() => {
      refuseIfAny([], 'options');
    }).not.toThrow();
  });

  test('a plain object - is one of whatever realm or none', () => {
    expect(isPlainObject({})).toBe(true);
    expect(isPlainObject(Object.create(null))).toBe(true);
    expect(isPlainObject(JSON.parse('{"a":1}'))).toBe(true);
    expect(isPlainObject(new Date(0))).toBe(false);
    expect(isPlainObject(Object.create({ a: 1 }))).toBe(false);
  });

  test.each([
    ['leaseDuration', 'leaseDurationMs'],
    ['LEASEDURATIONMS', 'leaseDurationMs'],
    ['maxInFligth', 'maxInFlight'],
    ['maxInFlights', 'maxInFlight'],
    ['timeout', undefined],
    ['x', undefined],
    ['x'.repeat(1_000), undefined],
  ])('a slip - %s is taken for what it may mean, or for nothing', (name, meant) => {
    expect(nearest(name, ['leaseDurationMs', 'maxInFlight', 'job'])).toBe(meant);
  });
});

function revokedProxy(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}
