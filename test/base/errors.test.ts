import { describe, expect, test } from '@jest/globals';
import {
  ERROR_CODES,
  type ErrorCode,
  invariant,
  InvariantViolation,
  isLeaseholdError,
  LeaseholdError,
  messageOf,
} from '../../src/base/errors.ts';

describe('errors', () => {
  test('errors - the kind follows from the code, and both are on the error', () => {
    for (const code of Object.keys(ERROR_CODES) as ErrorCode[]) {
      const error = new LeaseholdError(code, 'message');
      expect([error.code, error.kind, error.name]).toEqual([
        code,
        ERROR_CODES[code][0],
        'LeaseholdError',
      ]);
      expect(error).toBeInstanceOf(Error);
      expect(error.details).toEqual({});
    }
  });

  test('errors - every code is named E_ and explained by a sentence', () => {
    for (const [code, [kind, meaning]] of Object.entries(ERROR_CODES)) {
      expect(code).toMatch(/^E_[A-Z_]+$/);
      expect(['usage', 'unavailable', 'indeterminate', 'fenced', 'fatal']).toContain(kind);
      expect(meaning).toMatch(/^\S.+\.$/);
    }
  });

  test('errors - details and cause are kept, and the cause is absent unless given', () => {
    const cause = new Error('below');
    const error = new LeaseholdError('E_FENCED', 'm', { details: { split: 's' }, cause });
    expect([error.details, error.cause]).toEqual([{ split: 's' }, cause]);
    expect('cause' in new LeaseholdError('E_FENCED', 'm')).toBe(false);
  });

  test('errors - an error of another copy of the library is recognised', () => {
    const foreign = new Error('from another copy');
    Object.defineProperty(foreign, Symbol.for('leasehold.error'), { value: true });
    expect(isLeaseholdError(foreign)).toBe(true);
    expect(isLeaseholdError(new LeaseholdError('E_STOPPED', 'm'))).toBe(true);
    for (const other of [
      new Error('m'),
      new InvariantViolation('m'),
      null,
      undefined,
      'E_STOPPED',
      {},
    ]) {
      expect(isLeaseholdError(other)).toBe(false);
    }
  });

  test('errors - the brand does not show when an error is printed or stored', () => {
    const error = new LeaseholdError('E_STOPPED', 'm');
    expect(Object.keys(error).sort()).toEqual(['code', 'details', 'kind', 'name']);
    expect(JSON.parse(JSON.stringify(error))).toEqual({
      name: 'LeaseholdError',
      code: 'E_STOPPED',
      kind: 'usage',
      details: {},
    });
  });

  test('errors - an invariant that does not hold throws, and is not one of ours', () => {
    expect(() => {
      invariant(true, 'fine');
    }).not.toThrow();
    expect(() => {
      invariant(0, 'broken (INV-1)');
    }).toThrow(new InvariantViolation('broken (INV-1)'));
  });

  test('errors - anything that was thrown has a message', () => {
    expect([new Error('a'), 'b', 7, null, undefined].map(messageOf)).toEqual([
      'a',
      'b',
      '7',
      'null',
      'undefined',
    ]);
  });
});
