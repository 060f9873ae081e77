import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { InstanceId, SplitId } from '../../src/base/ids.ts';
import { departureOfUnseen, withheldSplits, type Withheld } from '../../src/protocol/withheld.ts';
import { instanceId } from './records.ts';

const splits = [
  { id: 'a', owner: 'gone' },
  { id: 'b', owner: 'gone' },
  { id: 'c', owner: 'late' },
  { id: 'd', owner: 'here' },
  { id: 'e', owner: null },
] as { id: SplitId; owner: InstanceId | null }[];

const departures = [
  { instance: instanceId('gone'), sinceMs: 1_000 },
  { instance: instanceId('late'), sinceMs: 4_000 },
  { instance: instanceId('idle'), sinceMs: 500 },
];

function at(nowMs: number, rebalanceDelayMs = 10_000): Withheld {
  return withheldSplits({ splits, departures, rebalanceDelayMs, nowMs });
}

describe('withheld', () => {
  test('withheld - splits of the departed wait, and nobody else is kept waiting', () => {
    expect([...at(5_000).splits]).toEqual(['a', 'b', 'c']);
  });

  test('withheld - a window ends exactly one delay after the departure', () => {
    expect([...at(10_999).splits]).toEqual(['a', 'b', 'c']);
    expect([...at(11_000).splits]).toEqual(['c']);
    expect([...at(13_999).splits]).toEqual(['c']);
    expect([...at(14_000).splits]).toEqual([]);
  });

  test('withheld - the next due time is the end of the first window that keeps a split', () => {
    expect(at(5_000).nextDueMs).toBe(11_000);
    expect(at(11_000).nextDueMs).toBe(14_000);
    expect(at(14_000).nextDueMs).toBeNull();
  });

  test('withheld - a delay of zero withholds nothing, even at the instant of departure', () => {
    expect(at(1_000, 0)).toEqual({ splits: new Set(), nextDueMs: null });
    expect(at(0, 0)).toEqual({ splits: new Set(), nextDueMs: null });
  });

  test('withheld - a departure without splits asks for no timer', () => {
    const idle = [{ instance: instanceId('idle'), sinceMs: 0 }];
    const result = withheldSplits({ splits, departures: idle, rebalanceDelayMs: 9_000, nowMs: 1 });
    expect(result).toEqual({ splits: new Set(), nextDueMs: null });
  });

  test('withheld - looking again at the due time always changes the answer', () => {
    const owner = fc.constantFrom('w1', 'w2', 'w3', null);
    fc.assert(
      fc.property(
        fc.array(owner, { maxLength: 12 }),
        fc.array(fc.integer({ min: 0, max: 50 }), { minLength: 3, maxLength: 3 }),
        fc.integer({ min: 0, max: 30 }),
        fc.integer({ min: 0, max: 80 }),
        (owners, since, rebalanceDelayMs, nowMs) => {
          const input = {
            splits: owners.map((name, index) => ({
              id: `s${index}` as SplitId,
              owner: name as InstanceId | null,
            })),
            departures: since.map((sinceMs, index) => ({
              instance: instanceId(`w${index + 1}`),
              sinceMs,
            })),
            rebalanceDelayMs,
          };
          const now = withheldSplits({ ...input, nowMs });
          expect(now.splits.size > 0).toBe(now.nextDueMs !== null);
          if (now.nextDueMs === null) return;
          expect(now.nextDueMs).toBeGreaterThan(nowMs);
          const before = withheldSplits({ ...input, nowMs: now.nextDueMs - 0.5 });
          const after = withheldSplits({ ...input, nowMs: now.nextDueMs });
          expect(before.splits).toEqual(now.splits);
          expect(after.splits.size).toBeLessThan(now.splits.size);
        },
      ),
      { numRuns: 500 },
    );
  });
});

describe('departureOfUnseen', () => {
  const owner = { instance: instanceId('w9'), electedAtMs: 700 };

  test('withheld - an owner I never saw, with an assignment, has its window from my election', () => {
    expect(departureOfUnseen({ ...owner, hasAssignment: true })).toEqual({
      instance: 'w9',
      sinceMs: 700,
    });
  });

  test('withheld - an owner I never saw, without an assignment, is already gone', () => {
    expect(departureOfUnseen({ ...owner, hasAssignment: false })).toBe('gone');
  });
});
