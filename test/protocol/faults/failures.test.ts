import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  failingAfter,
  hasJustFailed,
  longestRestMs,
  restAfterFailureMs,
  restEndsAtMs,
  restOf,
} from '../../../src/protocol/faults/failures.ts';
import { anyRecord, epoch, instanceId, record } from '../records.ts';

const BACKOFF = { initialMs: 500, factor: 2, maxMs: 30_000, jitter: 0.2 };

describe('rests', () => {
  test('a rest after a failure - doubles from the first to the longest, and chance changes it by its share', () => {
    const rests = [1, 2, 3, 6, 7, 8, 5_000].map((failures) =>
      restAfterFailureMs(failures, BACKOFF, 0.5),
    );
    expect(rests).toEqual([500, 1_000, 2_000, 16_000, 30_000, 30_000, 30_000]);
    expect(restAfterFailureMs(1, BACKOFF, 0)).toBe(400);
    expect(restAfterFailureMs(9, BACKOFF, 1)).toBe(longestRestMs(BACKOFF));
    expect(restAfterFailureMs(9, { ...BACKOFF, maxMs: 0, initialMs: 0 }, 0.7)).toBe(0);
  });

  const REST = { epoch: epoch(3), ms: 10_000, until: 1_010_000 };

  test('a rest - counts from when its beginning was seen, whatever wall clocks say (R40)', () => {
    for (const wallMs of [0, 1_000_000, 9e15]) {
      expect(restEndsAtMs(REST, { leaseGoneAtMs: 70, nowMs: 500, wallMs })).toBe(10_070);
    }
  });

  test('a rest - that was not seen to begin ends by the wall clock of whoever put it, and in its length at the latest (R40)', () => {
    const endsAt = (wallMs: number): number =>
      restEndsAtMs(REST, { leaseGoneAtMs: null, nowMs: 500, wallMs });
    expect(endsAt(1_004_000)).toBe(6_500);
    expect(endsAt(1_010_000)).toBe(500);
    expect(endsAt(5_000_000)).toBe(500);
    expect(endsAt(0)).toBe(10_500);
  });

  test('a rest - is over with the next claim, also with that of a version that does not know it (R40)', () => {
    fc.assert(
      fc.property(anyRecord, (found) => {
        const rest = restOf(found);
        if (found.owner !== null || found.rest?.epoch !== found.epoch) expect(rest).toBeNull();
        else expect(rest).toEqual(found.rest);
      }),
    );
    expect(restOf(record({ epoch: epoch(3), rest: REST }))).toEqual(REST);
    expect(restOf(record({ epoch: epoch(4), rest: REST }))).toBeNull();
  });
});

describe('failing', () => {
  const [a, b, c, d] = ['a', 'b', 'c', 'd'].map(instanceId);

  test('failures - in a row are counted with their time and where they were, at most three instances', () => {
    let found = record();
    for (const by of [a, a, b, c, d]) {
      found = { ...found, failing: failingAfter(found, { by: by!, tenancyMs: 100.4 }) };
    }
    expect(found.failing).toEqual({ failures: 5, forMs: 500, by: ['a', 'b', 'c'] });
  });

  test('a failure - is the last word on its split until somebody claims it', () => {
    const lastFailure = { epoch: epoch(2) };
    expect(hasJustFailed({ owner: null, epoch: epoch(2), lastFailure })).toBe(true);
    expect(hasJustFailed({ owner: null, epoch: epoch(3), lastFailure })).toBe(false);
    expect(hasJustFailed({ owner: 'a', epoch: epoch(2), lastFailure })).toBe(false);
    expect(hasJustFailed({ owner: null, epoch: epoch(2), lastFailure: null })).toBe(false);
  });
});
