/** Whatever is thrown or handed in has words: short, well-formed, and without a second throw. */
import { describe as suite, expect, test } from '@jest/globals';
import { describe, errorOf, messageOf } from '../../src/base/describe.ts';

const revoked = Proxy.revocable({}, {});
revoked.revoke();
const cyclic: { self?: unknown } = {};
cyclic.self = cyclic;
const hostile = {
  get message(): string {
    throw new Error('no message');
  },
  get name(): string {
    throw new Error('no name');
  },
  toString(): string {
    throw new Error('no text');
  },
  toJSON(): string {
    throw new Error('no JSON');
  },
};
const withMessage = (message: unknown): Error => Object.assign(new Error(), { message });
const loop = new Error('round and round');
loop.cause = loop;

const THINGS: readonly (readonly [string, unknown, RegExp])[] = [
  ['undefined', undefined, /^undefined$/],
  ['null', null, /^null$/],
  ['a text', 'words', /^words$/],
  ['an empty text', '', /empty/],
  ['a number', -0.5, /^-0\.5$/],
  ['a bigint', 7n, /^7n$/],
  ['a symbol', Symbol('s'), /Symbol\(s\)/],
  ['a function', function thrower(): void {}, /function \(thrower\)/],
  ['an error', new Error('plain'), /^plain$/],
  ['an error without a message', new TypeError(), /^TypeError$/],
  ['an error whose message is a list', withMessage(['a', 1]), /\["a",1\]/],
  ['an error whose message is an object', withMessage({ code: 5 }), /\{"code":5\}/],
  ['an error whose message is a number', withMessage(404), /^404$/],
  ['an error whose message is a symbol', withMessage(Symbol('m')), /Symbol\(m\)/],
  ['an object that throws at every look', hostile, /\[object Object\]/],
  ['a proxy that was revoked', revoked.proxy, /cannot be looked at/],
  ['an object without a prototype', Object.assign(Object.create(null), { a: 1 }), /\{"a":1\}/],
  ['an object that holds itself', cyclic, /\[object Object\]/],
  ['an object with a message', { message: 'said so' }, /^said so$/],
  ['several errors', new AggregateError([new Error('one'), 'two']), /several errors: one; two/],
  [
    'many errors',
    new AggregateError(['a', 'b', 'c', 'd', 'e'], 'all failed'),
    /^all failed: a; b; c; and 2 more$/,
  ],
  ['an error that is its own cause', loop, /round and round/],
  ['half of a surrogate pair', new Error('a\uD800b'), /^a\uFFFDb$/],
  ['NUL and bells', new Error('a\u0000\u0007b'), /^a\uFFFD\uFFFDb$/],
  ['three million characters', new Error('x'.repeat(3_000_000)), /^x+\.\.\.$/],
];

suite('words', () => {
  test.each(THINGS)('what was thrown - is told in words: %s', (_, thrown, words) => {
    const message = messageOf(thrown);
    expect(message).toMatch(words);
    expect(message.length).toBeLessThanOrEqual(1_000);
    expect(message.isWellFormed()).toBe(true);
  });

  test.each(THINGS)('a value - is rendered in a few words: %s', (_, value) => {
    const text = describe(value);
    expect(text.length).toBeGreaterThan(0);
    expect(text.length).toBeLessThanOrEqual(80);
    expect(text.isWellFormed()).toBe(true);
  });

  test.each(THINGS)('for a log - is an error that a serializer can read: %s', (_, thrown) => {
    const error = errorOf(thrown);
    expect(error).toBeInstanceOf(Error);
    for (const text of [error.name, error.message, error.stack]) expect(typeof text).toBe('string');
    expect(error.message.length).toBeLessThanOrEqual(20_000);
  });

  test('an ordinary error - goes to the log as it is, with stack, cause and fields', () => {
    const cause = new Error('connection reset');
    const error = Object.assign(new Error('upload failed', { cause }), { code: 'ECONNRESET' });
    expect(errorOf(error)).toBe(error);
  });

  test('an error that cannot be read - keeps its stack where that can be', () => {
    const error = withMessage(['a']);
    error.stack = 'Error: a\n    at upload';
    expect(errorOf(error)).not.toBe(error);
    expect(errorOf(error).stack).toBe('Error: a\n    at upload');
    expect(errorOf(loop)).not.toBe(loop);
  });

  test('a large value - is not written out to be described', () => {
    expect(describe(new Uint8Array(5_000_000))).toBe('5000000 bytes');
    expect(describe(Array.from({ length: 5_000 }, () => 'x'))).toBe('a list of 5000');
    expect(describe('x'.repeat(5_000_000))).toMatch(/^"x+\.\.\.$/);
  });
});
