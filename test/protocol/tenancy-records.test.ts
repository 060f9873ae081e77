import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { InvariantViolation } from '../../src/base/errors.ts';
import type { Nonce } from '../../src/base/ids.ts';
import {
  claimedRecord,
  committedRecord,
  compareWatermarks,
  completedRecord,
  expiredToQuarantine,
  failedRecord,
  parkedRecordFor,
  recreatedRecord,
  releasedRecord,
  requeuedRecord,
  seededRecord,
} from '../../src/protocol/tenancy-records.ts';
import { REASON_CHARACTERS_MAX, splitCodec, type SplitRecord } from '../../src/records/records.ts';
import { anyRecord, anyRunnable, anyWatermark, epoch, instanceId, record } from './records.ts';

const me = instanceId('me');
const nonce = 'n9' as Nonce;
const stamp = { instance: 'me', nonce: 'n9', write: 1 };

describe('compareWatermarks', () => {
  test('watermarks - compare as whole numbers of any size, and none is below all', () => {
    fc.assert(
      fc.property(anyWatermark, anyWatermark, (a, b) => {
        const expected = a === b ? 0 : a === null || (b !== null && a < b) ? -1 : 1;
        const textOf = (value: bigint | null): string | null =>
          value === null ? null : String(value);
        expect(Math.sign(compareWatermarks(textOf(a), textOf(b)))).toBe(expected);
      }),
      { numRuns: 2_000 },
    );
  });

  test('watermarks - negatives, zero and numbers past 2^64 are in order', () => {
    const ascending = [
      null,
      '-18446744073709551617',
      '-10',
      '-9',
      '0',
      '9',
      '10',
      '18446744073709551617',
    ];
    ascending.forEach((a, i) => {
      ascending.forEach((b, j) => {
        expect(Math.sign(compareWatermarks(a, b))).toBe(Math.sign(i - j));
      });
    });
  });
});

describe('seededRecord', () => {
  test('seed - a new split is runnable, free and untried', () => {
    expect(seededRecord({ weight: 7, seed: null })).toEqual(record({ weight: 7 }));
  });

  test('seed - progress that the planner knows of is kept', () => {
    const seed = { watermark: '5', state: 'AAAA', completed: false };
    expect(seededRecord({ weight: 1, seed })).toEqual(
      record({ weight: 1, watermark: '5', state: 'AAAA' }),
    );
  });

  test('seed - a split that is seeded as completed has ended', () => {
    const seed = { watermark: null, state: null, completed: true };
    expect(seededRecord({ weight: 1, seed }).status).toBe('completed');
  });

  test('seed - a requeue of a spec alone starts above every epoch there was (R21)', () => {
    expect(recreatedRecord({ weight: 3, epoch: epoch(812) })).toEqual(
      record({ weight: 3, epoch: epoch(812) }),
    );
  });
});

describe('claimedRecord', () => {
  test('claim - raises the epoch and names the owner and its process', () => {
    const found = record({
      epoch: epoch(2n ** 64n - 1n),
      attempts: 1,
      watermark: '4',
      state: 'AAAA',
    });
    expect(claimedRecord(found, { owner: me, nonce, attempts: 2 })).toEqual({
      ...found,
      epoch: String(2n ** 64n),
      owner: 'me',
      nonce: 'n9',
      attempts: 2,
    });
  });
});

describe('committedRecord', () => {
  const owned = record({ epoch: epoch(3), owner: me, attempts: 2, watermark: '10' });

  test('commit - writes watermark and state and nothing else', () => {
    expect(committedRecord(owned, { watermark: '10', state: 'AAAA' }, '10')).toEqual({
      ...owned,
      state: 'AAAA',
    });
  });

  test('commit - rising strictly above the start clears the attempts (R31)', () => {
    const attemptsAfter = (watermark: string, start: string | null): number =>
      committedRecord(owned, { watermark, state: null }, start).attempts;
    expect(attemptsAfter('11', '10')).toBe(0);
    expect(attemptsAfter('10', '10')).toBe(2);
    expect(attemptsAfter('10', null)).toBe(0);
    // A zombie's late commit had raised the record above the start of this tenancy: still a rise.
    expect(attemptsAfter('10', '9')).toBe(0);
  });

  test('commit - none to none is no rise', () => {
    const fresh = record({ owner: me, attempts: 1 });
    expect(committedRecord(fresh, { watermark: null, state: 'AAAA' }, null).attempts).toBe(1);
    expect(committedRecord(fresh, { watermark: '-5', state: null }, null).attempts).toBe(0);
  });

  test('commit - a watermark that would fall is a bug (R38)', () => {
    for (const watermark of ['9', '-10', null]) {
      expect(() => committedRecord(owned, { watermark, state: null }, null)).toThrow(
        InvariantViolation,
      );
    }
  });

  test('complete - ends the split with its last progress and without an owner', () => {
    expect(completedRecord(owned, { watermark: '12', state: null }, '10')).toEqual({
      ...owned,
      status: 'completed',
      owner: null,
      attempts: 0,
      watermark: '12',
    });
  });
});

describe('releases and failures', () => {
  const owned = record({ epoch: epoch(3), owner: me, nonce, attempts: 1, watermark: '10' });

  test('release - clears the owner and keeps the process of the last claim', () => {
    expect(releasedRecord(owned)).toEqual({ ...owned, owner: null });
  });

  test('fail - counts an attempt and says who failed and why', () => {
    expect(failedRecord(owned, { reason: 'bad row', by: me, maxAttempts: 4 })).toEqual({
      ...owned,
      owner: null,
      attempts: 2,
      lastFailure: { reason: 'bad row', by: 'me', epoch: '3' },
    });
  });

  test('fail - at the cap the split is quarantined and its epoch rises', () => {
    const failed = failedRecord({ ...owned, attempts: 3 }, { reason: 'x', by: me, maxAttempts: 4 });
    expect(failed).toMatchObject({ status: 'quarantined', attempts: 4, epoch: '4', owner: null });
    expect(failed.lastFailure?.epoch).toBe('3');
  });

  test('fail - a long reason is cut to what a record keeps', () => {
    const reason = 'x'.repeat(5_000);
    const { lastFailure } = failedRecord(owned, { reason, by: me, maxAttempts: 4 });
    expect(lastFailure?.reason).toHaveLength(REASON_CHARACTERS_MAX);
  });

  test('quarantine - of an owner that is gone counts the attempt and keeps its nonce (R28)', () => {
    const parked = expiredToQuarantine({ ...owned, attempts: 3 });
    expect(parked).toMatchObject({
      status: 'quarantined',
      attempts: 4,
      epoch: '4',
      owner: null,
      nonce,
    });
    expect(parked.lastFailure).toMatchObject({ by: 'me', epoch: '3' });
    expect(() => expiredToQuarantine(record())).toThrow(InvariantViolation);
  });

  test('quarantine - what is parked tells attempts, reason and by whom', () => {
    const failed = failedRecord(
      { ...owned, attempts: 3 },
      { reason: 'bad', by: me, maxAttempts: 4 },
    );
    expect(parkedRecordFor(failed)).toEqual({ attempts: 4, reason: 'bad', owner: 'me' });
    const expired = expiredToQuarantine({ ...owned, attempts: 3 });
    expect(parkedRecordFor(expired)).toEqual({
      attempts: 4,
      reason: 'me ended without releasing it',
      owner: 'me',
    });
    expect(parkedRecordFor(record({ status: 'quarantined', attempts: 2 }))).toEqual({
      attempts: 2,
      reason: 'unknown',
      owner: 'unknown',
    });
    expect(() => parkedRecordFor(owned)).toThrow(InvariantViolation);
  });

  test('requeue - puts a quarantined split back with its progress and no attempts', () => {
    const parked = expiredToQuarantine({ ...owned, attempts: 3 });
    expect(requeuedRecord(parked)).toEqual({ ...parked, status: 'runnable', attempts: 0 });
    expect(() => requeuedRecord({ ...parked, status: 'unknown' })).toThrow(InvariantViolation);
  });
});

describe('every builder', () => {
  const builders: Record<string, (found: SplitRecord) => SplitRecord> = {
    claim: (found) => claimedRecord(found, { owner: me, nonce, attempts: found.attempts }),
    commit: (found) => committedRecord(found, { watermark: found.watermark, state: 'AAAA' }, null),
    complete: (found) => completedRecord(found, { watermark: found.watermark, state: null }, null),
    release: releasedRecord,
    fail: (found) => failedRecord(found, { reason: 'r', by: me, maxAttempts: 3 }),
    expire: (found) => expiredToQuarantine({ ...found, owner: found.owner ?? me }),
    requeue: requeuedRecord,
  };

  test.each(Object.keys(builders))(
    'records - %s keeps weight, progress and unknown fields',
    (name) => {
      fc.assert(
        fc.property(anyRunnable, (found) => {
          const before = structuredClone(found);
          const next = builders[name]!(found);
          expect(found).toEqual(before);
          expect(next.weight).toBe(found.weight);
          expect(next.watermark).toBe(found.watermark);
          expect(next.unknown).toEqual(found.unknown);
          expect(compareWatermarks(next.epoch, found.epoch)).toBeGreaterThanOrEqual(0);
          // What is built can be stored and read again.
          const { unknown: _, ...known } = next;
          expect(splitCodec.decode(splitCodec.encode(known, stamp))).toMatchObject({
            kind: 'record',
            record: known,
          });
        }),
        { numRuns: 200 },
      );
    },
  );

  test.each(Object.keys(builders).filter((name) => name !== 'requeue'))(
    'records - %s refuses a split that is not runnable',
    (name) => {
      const ended = anyRecord.filter(({ status }) => status !== 'runnable');
      fc.assert(
        fc.property(ended, (found) => {
          expect(() => builders[name]!(found)).toThrow(InvariantViolation);
        }),
        { numRuns: 50 },
      );
    },
  );
});
