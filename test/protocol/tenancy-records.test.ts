import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { InvariantViolation } from '../../src/base/errors.ts';
import type { Nonce } from '../../src/base/ids.ts';
import {
  claimedRecord,
  committedRecord,
  compareWatermarks,
  completedRecord,
  condemnedRecord,
  failedRecord,
  type FailureFacts,
  parkedRecordFor,
  recreatedRecord,
  releasedRecord,
  requeuedRecord,
  seededRecord,
  setAsideRecord,
} from '../../src/protocol/tenancy-records.ts';
import {
  type FailureRecord,
  REASON_CHARACTERS_MAX,
  splitCodec,
  type SplitRecord,
} from '../../src/records/records.ts';
import { anyRecord, anyRunnable, anyWatermark, epoch, instanceId, record } from './records.ts';

const me = instanceId('me');
const nonce = 'n9' as Nonce;
const SUSPECTED = { deaths: 1, relapses: 0, charged: 0, lifeMs: 9_000, isCleared: false };
/** What a process knows of a failure of its own. */
const FACTS: FailureFacts = {
  by: me,
  hasWitness: true,
  tenancyMs: 1_500,
  wallMs: 1_000_000,
  backoff: { initialMs: 500, factor: 2, maxMs: 30_000, jitter: 0.2 },
  random: 0.5,
  startAttempts: 0,
  startFailing: null,
};
const LAST_FAILURE: FailureRecord = {
  reason: 'r',
  by: 'me',
  epoch: epoch(1),
  counted: true,
  never: false,
  later: false,
};
const from = (startWatermark: string | null, tenancyMs = 0) => ({ startWatermark, tenancyMs });
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
    const claim = { owner: me, nonce, suspicion: SUSPECTED, agedMs: 1_234.5 };
    expect(claimedRecord(found, claim)).toEqual({
      ...found,
      epoch: String(2n ** 64n),
      owner: 'me',
      nonce: 'n9',
      tenure: { epoch: String(2n ** 64n), agedMs: 1_235, rose: false },
      suspicion: SUSPECTED,
    });
  });

  test('claim - ends the rest, and what was rested after a failure is time of failing (R40)', () => {
    const failed = failedRecord(record({ epoch: epoch(2), owner: me }), { reason: 'x' }, FACTS);
    const claim = { owner: me, nonce, suspicion: null, agedMs: 0 };
    const claimed = claimedRecord(failed, claim);
    expect([failed.rest?.ms, claimed.rest]).toEqual([500, null]);
    expect(claimed.failing).toEqual({ failures: 1, forMs: 2_000, by: ['me'] });
    // A rest that was only asked for is none.
    const later = failedRecord(claimed, { reason: 'x', afterMs: 60_000 }, FACTS);
    expect(later.rest?.ms).toBe(60_000);
    expect(claimedRecord(later, claim).failing).toEqual(claimed.failing);
  });
});

describe('committedRecord', () => {
  const owned = record({ epoch: epoch(3), owner: me, attempts: 2, watermark: '10' });

  test('commit - writes watermark and state and nothing else', () => {
    expect(committedRecord(owned, { watermark: '10', state: 'AAAA' }, from('10'))).toEqual({
      ...owned,
      state: 'AAAA',
    });
  });

  test('commit - rising strictly above the start clears the attempts (R31)', () => {
    const attemptsAfter = (watermark: string, start: string | null): number =>
      committedRecord(owned, { watermark, state: null }, from(start)).attempts;
    expect(attemptsAfter('11', '10')).toBe(0);
    expect(attemptsAfter('10', '10')).toBe(2);
    expect(attemptsAfter('10', null)).toBe(0);
    // A zombie's late commit had raised the record above the start of this tenancy: still a rise.
    expect(attemptsAfter('10', '9')).toBe(0);
  });

  test('commit - rising clears failures and suspicion, and notes it for the tenancy (R31, R48)', () => {
    const tried: SplitRecord = {
      ...owned,
      failing: { failures: 3, forMs: 9_000, by: [me] },
      tenure: { epoch: epoch(3), agedMs: 30_000, rose: false },
      suspicion: SUSPECTED,
    };
    expect(committedRecord(tried, { watermark: '10', state: null }, from('10'))).toEqual(tried);
    expect(committedRecord(tried, { watermark: '11', state: null }, from('10'))).toMatchObject({
      attempts: 0,
      failing: null,
      tenure: { rose: true },
      suspicion: { ...SUSPECTED, isCleared: true },
    });
    const later = committedRecord(tried, { watermark: '11', state: null }, from('10', 600_000));
    expect(later.suspicion).toBeNull();
  });

  test('commit - none to none is no rise', () => {
    const fresh = record({ owner: me, attempts: 1 });
    expect(committedRecord(fresh, { watermark: null, state: 'AAAA' }, from(null)).attempts).toBe(1);
    expect(committedRecord(fresh, { watermark: '-5', state: null }, from(null)).attempts).toBe(0);
  });

  test('commit - a watermark that would fall is a bug (R38)', () => {
    for (const watermark of ['9', '-10', null]) {
      expect(() => committedRecord(owned, { watermark, state: null }, from(null))).toThrow(
        InvariantViolation,
      );
    }
  });

  test('complete - ends the split with its last progress and without an owner', () => {
    expect(completedRecord(owned, { watermark: '12', state: null }, from('10'))).toEqual({
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

  test('release - rests for as long as it is asked to (R40)', () => {
    expect(releasedRecord(owned, { restMs: 9_000.4, wallMs: 1_000 })).toEqual({
      ...owned,
      owner: null,
      rest: { epoch: '3', ms: 9_000, until: 10_000 },
    });
  });

  test('release - after progress nothing is suspected any more (R48)', () => {
    const of = (rose: boolean) =>
      releasedRecord({
        ...owned,
        tenure: { epoch: epoch(3), agedMs: 0, rose },
        suspicion: SUSPECTED,
      }).suspicion;
    expect([of(false), of(true)]).toEqual([SUSPECTED, null]);
  });

  test('fail - with a witness counts, rests, and says who failed and why (R31)', () => {
    expect(failedRecord(owned, { reason: 'bad row' }, FACTS)).toEqual({
      ...owned,
      owner: null,
      attempts: 2,
      lastFailure: {
        reason: 'bad row',
        by: 'me',
        epoch: '3',
        counted: true,
        never: false,
        later: false,
      },
      failing: { failures: 1, forMs: 1_500, by: ['me'] },
      rest: { epoch: '3', ms: 500, until: 1_000_500 },
    });
  });

  test('fail - without a witness does not count, and rests all the same (R31)', () => {
    const failing = { failures: 4, forMs: 20_000, by: [instanceId('peer')] };
    const failed = failedRecord(
      { ...owned, failing },
      { reason: 'down' },
      { ...FACTS, hasWitness: false },
    );
    expect(failed).toMatchObject({ attempts: 1, lastFailure: { counted: false } });
    expect(failed.failing).toEqual({ failures: 5, forMs: 21_500, by: ['peer', 'me'] });
    expect(failed.rest?.ms).toBe(8_000);
  });

  test('fail - “later” is a rest and no failure, “never” counts whoever else progressed (R31)', () => {
    const failing = { failures: 4, forMs: 20_000, by: [me] };
    const later = failedRecord({ ...owned, failing }, { reason: 'x', afterMs: 70_000 }, FACTS);
    expect(later).toMatchObject({ attempts: 1, failing, rest: { ms: 70_000 } });
    expect(later.lastFailure).toMatchObject({ counted: false, later: true });
    const alone = { ...FACTS, hasWitness: false };
    const never = failedRecord(owned, { reason: 'x', never: true }, alone);
    expect(never).toMatchObject({ status: 'runnable', attempts: 2 });
    expect(never.lastFailure).toMatchObject({ counted: true, never: true });
  });

  test('fail - never sets the split aside by itself (R28)', () => {
    const failed = failedRecord({ ...owned, attempts: 300 }, { reason: 'x' }, FACTS);
    expect(failed).toMatchObject({ status: 'runnable', attempts: 301, epoch: '3' });
  });

  test('fail - a long reason is cut to what a record keeps', () => {
    const { lastFailure } = failedRecord(owned, { reason: 'x'.repeat(5_000) }, FACTS);
    expect(lastFailure?.reason).toHaveLength(REASON_CHARACTERS_MAX);
  });

  const charged = { ...SUSPECTED, deaths: 5, charged: 3 };

  test('quarantine - of an owner that is gone keeps its nonce and tells the deaths (R28)', () => {
    const parked = condemnedRecord(owned, charged);
    expect(parked).toMatchObject({
      status: 'quarantined',
      attempts: 1,
      epoch: '4',
      owner: null,
      nonce,
      suspicion: charged,
    });
    expect(parked.lastFailure).toMatchObject({ by: 'me', epoch: '3' });
    expect(() => condemnedRecord(record(), charged)).toThrow(InvariantViolation);
  });

  test('quarantine - what is parked tells attempts, reason, by whom and by which rule (R28)', () => {
    const failed = failedRecord({ ...owned, attempts: 3 }, { reason: 'bad' }, FACTS);
    expect(parkedRecordFor(setAsideRecord(failed, 'bad'), 'attempts')).toEqual({
      attempts: 4,
      reason: 'bad',
      owner: 'me',
      rule: 'attempts',
    });
    expect(parkedRecordFor(condemnedRecord(owned, charged), 'deaths')).toEqual({
      attempts: 3,
      reason:
        'me ended without releasing it: of 5 processes that ended with it in hand, 3 had taken it apart from other suspects',
      owner: 'me',
      rule: 'deaths',
    });
    expect(parkedRecordFor(record({ status: 'quarantined', attempts: 2 }), 'job')).toEqual({
      attempts: 2,
      reason: 'unknown',
      owner: 'unknown',
      rule: 'job',
    });
    expect(() => parkedRecordFor(owned, 'never')).toThrow(InvariantViolation);
    expect(() => setAsideRecord(owned, 'nothing failed')).toThrow(InvariantViolation);
  });

  test('requeue - puts a quarantined split back with its progress and no attempts', () => {
    const failed = failedRecord(
      { ...owned, attempts: 3, suspicion: SUSPECTED },
      { reason: 'x' },
      FACTS,
    );
    const parked = setAsideRecord(failed, 'x');
    expect(requeuedRecord(parked)).toEqual({
      ...parked,
      status: 'runnable',
      attempts: 0,
      rest: null,
      failing: null,
      suspicion: null,
    });
    expect(() => requeuedRecord({ ...parked, status: 'unknown' })).toThrow(InvariantViolation);
  });
});

describe('every builder', () => {
  const builders: Record<string, (found: SplitRecord) => SplitRecord> = {
    claim: (found) =>
      claimedRecord(found, { owner: me, nonce, suspicion: found.suspicion, agedMs: 5 }),
    commit: (found) =>
      committedRecord(found, { watermark: found.watermark, state: 'AAAA' }, from(null)),
    complete: (found) =>
      completedRecord(found, { watermark: found.watermark, state: null }, from(null)),
    release: (found) => releasedRecord(found, { restMs: 5, wallMs: 7 }),
    fail: (found) => failedRecord(found, { reason: 'r' }, FACTS),
    condemn: (found) => condemnedRecord({ ...found, owner: found.owner ?? me }, SUSPECTED),
    setAside: (found) =>
      setAsideRecord({ ...found, lastFailure: found.lastFailure ?? LAST_FAILURE }, 'r'),
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
