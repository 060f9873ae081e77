import { describe, expect, test } from '@jest/globals';
import { epochOf } from '../../src/base/decimals.ts';
import type { InstanceId, Nonce } from '../../src/base/ids.ts';
import { type ConflictingWrite, settleConflict } from '../../src/protocol/settle.ts';
import { seededRecord } from '../../src/protocol/tenancy-records.ts';
import type { Decoded } from '../../src/records/codec.ts';
import type { SplitRecord } from '../../src/records/records.ts';

const me = 'a' as InstanceId;
const nonce = 'n1' as Nonce;
const stamp = { instance: 'a', nonce: 'n1', write: 7 };
const write: ConflictingWrite = {
  stamp,
  epoch: epochOf(3),
  owner: me,
  nonce,
  watermark: '50',
  completes: false,
};

function found(record: Partial<SplitRecord>, by = { ...stamp, write: 6 }): Decoded<SplitRecord> {
  const base = seededRecord({ weight: 1, seed: null });
  const mine = { ...base, epoch: epochOf(3), owner: me, nonce, watermark: '40' };
  return { kind: 'record', record: { ...mine, ...record }, stamp: by };
}

describe('a conflict', () => {
  test('a conflict - that shows this write’s stamp means that it landed (R2)', () => {
    expect(settleConflict(write, found({ epoch: epochOf(9) }, stamp))).toEqual({ kind: 'landed' });
  });

  test('a conflict - at the own epoch is adopted and written again (R2, R4)', () => {
    expect(settleConflict(write, found({})).kind).toBe('adopt');
  });

  test('a conflict - with another epoch fences, whoever stands on the record (R2)', () => {
    expect(settleConflict(write, found({ epoch: epochOf(4) }))).toEqual({
      kind: 'fenced',
      warning: null,
    });
  });

  test.each<[string, Partial<SplitRecord>]>([
    ['another instance', { owner: 'b' as InstanceId }],
    ['another process of this instance', { nonce: 'n2' as Nonce }],
    ['nobody', { owner: null }],
    ['an ended split', { status: 'quarantined' }],
  ])('a conflict - at the own epoch with %s fences (R2)', (_, record) => {
    expect(settleConflict(write, found(record)).kind).toBe('fenced');
  });

  test('a conflict - with a watermark above the own fences, with a warning (R2)', () => {
    expect(settleConflict(write, found({ watermark: '51' }))).toMatchObject({
      kind: 'fenced',
      warning: expect.stringContaining('51 above 50'),
    });
  });

  test('a conflict - does not compare watermarks for a write that carries none (R4)', () => {
    const release = { ...write, watermark: undefined };
    expect(settleConflict(release, found({ watermark: '51' })).kind).toBe('adopt');
  });

  test('a conflict - with a completed record is success for a complete alone (R4)', () => {
    const done = found({ status: 'completed', owner: null });
    expect(settleConflict({ ...write, completes: true }, done).kind).toBe('completed');
    expect(settleConflict(write, done).kind).toBe('fenced');
  });

  test('a conflict - with a record that is gone or unreadable fences, with a warning (R2)', () => {
    expect(settleConflict(write, null)).toMatchObject({
      kind: 'fenced',
      warning: expect.any(String),
    });
    expect(settleConflict(write, { kind: 'junk', reason: 'no JSON' })).toMatchObject({
      kind: 'fenced',
      warning: expect.stringContaining('no JSON'),
    });
  });
});
