import { describe, expect, test } from '@jest/globals';
import {
  type FailureSurroundings,
  manyFail,
  needsOtherSource,
  setAsideFor,
} from '../../../src/protocol/faults/set-aside.ts';
import type { SplitRecord } from '../../../src/records/records.ts';
import { epoch, instanceId, record } from '../records.ts';

const HOUR_MS = 3_600_000;
const [a, b, c] = ['a', 'b', 'c'].map(instanceId) as [
  ReturnType<typeof instanceId>,
  ReturnType<typeof instanceId>,
  ReturnType<typeof instanceId>,
];
const POLICY = {
  maxAttempts: 4,
  backoff: { initialMs: 500, factor: 2, maxMs: 30_000, jitter: 0.2 },
  giveUpAfterMs: 6 * HOUR_MS,
};
const FAILURE = {
  reason: 'bad row',
  by: 'a',
  epoch: epoch(5),
  counted: true,
  never: false,
  later: false,
};

/** One that has failed for long enough, at two instances, with witnesses. */
function failed(fields: Partial<SplitRecord> = {}): SplitRecord {
  return record({
    epoch: epoch(5),
    attempts: 4,
    lastFailure: FAILURE,
    failing: { failures: 9, forMs: 120_000, by: [a, b] },
    ...fields,
  });
}

const HEALTHY: FailureSurroundings = {
  eligible: [a, b, c],
  failingLately: 1,
  workingLately: 20,
  isSealed: true,
  left: 20,
  leftFailing: 1,
  leftFailingLeastMs: () => 120_000,
  completed: 5,
};

const ruleFor = (
  split: SplitRecord,
  around: Partial<FailureSurroundings> = {},
  isFresh = true,
): string | null => setAsideFor(split, POLICY, { ...HEALTHY, ...around }, isFresh)?.rule ?? null;

describe('a split that fails while others do not', () => {
  test('a split alone - is set aside at the last attempt that counts, with the reason of its failure (R28)', () => {
    expect(setAsideFor(failed(), POLICY, HEALTHY, true)).toEqual({
      rule: 'attempts',
      reason: 'bad row',
    });
    expect(ruleFor(failed({ attempts: 3 }))).toBeNull();
  });

  test('a split alone - is not judged in seconds, whatever its attempts are (R28)', () => {
    const failing = { failures: 9, forMs: 119_999, by: [a, b] };
    expect(ruleFor(failed({ attempts: 99, failing }))).toBeNull();
  });

  test('a split alone - is judged by a fresh failure only: what is known already may be over (R28)', () => {
    expect(ruleFor(failed(), {}, false)).toBeNull();
    expect(ruleFor(failed({ epoch: epoch(6) }))).toBeNull();
    expect(ruleFor(failed({ owner: c }))).toBeNull();
    expect(ruleFor(failed({ status: 'completed' }))).toBeNull();
  });

  test('a split alone - must have failed at two instances, where a second one could try (R28)', () => {
    const once = failed({ failing: { failures: 9, forMs: 120_000, by: [a] } });
    expect(ruleFor(once)).toBeNull();
    expect(ruleFor(once, { eligible: [a] })).toBe('attempts');
    expect(ruleFor(once, { eligible: [] })).toBe('attempts');
    expect(needsOtherSource(once, 4)).toBe(true);
    expect(needsOtherSource({ ...once, attempts: 2 }, 4)).toBe(true);
    expect(needsOtherSource({ ...once, attempts: 1 }, 4)).toBe(false);
    expect(needsOtherSource(failed(), 4)).toBe(false);
  });

  test('“never” - is set aside at once, whenever it is seen, whatever else fails (R28)', () => {
    const never = failed({
      attempts: 1,
      failing: null,
      lastFailure: { ...FAILURE, never: true },
    });
    expect(ruleFor(never, { failingLately: 99, workingLately: 0 }, false)).toBe('never');
  });
});

describe('many that fail', () => {
  test('many - are at least three, and a quarter of those tried (R28)', () => {
    const many = (failingLately: number, workingLately: number): boolean =>
      manyFail({ failingLately, workingLately });
    expect([many(2, 0), many(3, 0), many(3, 9), many(3, 10), many(100, 300)]).toEqual([
      false,
      true,
      true,
      false,
      true,
    ]);
  });

  test('while many fail - none of them is set aside for its attempts (R28)', () => {
    expect(ruleFor(failed(), { failingLately: 10, workingLately: 10 })).toBeNull();
  });
});

describe('what is left of a job', () => {
  const uncounted = failed({
    attempts: 0,
    failing: { failures: 50, forMs: 20 * 60_000, by: [a] },
  });
  const last = { left: 1, leftFailing: 1, failingLately: 1, workingLately: 0 };

  test('the last one - of a job that was healthy is set aside after 20 minutes (R28)', () => {
    expect(ruleFor(uncounted, last)).toBe('last');
    expect(ruleFor(uncounted, { ...last, left: 2, leftFailing: 2 })).toBe('last');
    const failing = { failures: 50, forMs: 20 * 60_000 - 1, by: [a] };
    expect(ruleFor({ ...uncounted, failing }, last)).toBeNull();
  });

  test('the last one - waits where nothing was ever completed, others run, or more may come (R28)', () => {
    expect(ruleFor(uncounted, { ...last, completed: 0 })).toBeNull();
    expect(ruleFor(uncounted, { ...last, left: 2 })).toBeNull();
    expect(ruleFor(uncounted, { ...last, left: 3, leftFailing: 3 })).toBeNull();
    expect(ruleFor(uncounted, { ...last, isSealed: false })).toBeNull();
  });

  test('the job’s fault - all that is left is set aside once each has failed for hours, and the reason says so (R28)', () => {
    const forHours = failed({
      attempts: 0,
      failing: { failures: 900, forMs: 6 * HOUR_MS, by: [a, b] },
    });
    const all = { left: 40, leftFailing: 40, failingLately: 40, workingLately: 0, completed: 0 };
    const leftFailingLeastMs = (): number => 6 * HOUR_MS;
    const around = { ...HEALTHY, ...all, leftFailingLeastMs };
    expect(setAsideFor(forHours, POLICY, around, true)).toEqual({
      rule: 'job',
      reason: 'all that was left of the job has failed for 6.0 h, no split alone; last: bad row',
    });
    expect(ruleFor(forHours, { ...around, leftFailingLeastMs: () => 6 * HOUR_MS - 1 })).toBeNull();
    expect(ruleFor(forHours, { ...around, leftFailing: 39 })).toBeNull();
    // An open plan never gives up.
    expect(ruleFor(forHours, { ...around, isSealed: false })).toBeNull();
  });
});
