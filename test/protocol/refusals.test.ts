import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Revision } from '../../src/base/decimals.ts';
import type { InstanceId, SplitId } from '../../src/base/ids.ts';
import {
  NO_REFUSALS,
  type ObservedInstance,
  type RefusalObservation,
  type Refusals,
  type RefusalState,
  updateRefusals,
} from '../../src/protocol/refusals.ts';

const LEASE_MS = 1_000;

interface Look {
  readonly atMs: number;
  /** Instances by name; absent means not there. Default: w1 with a free lane. */
  readonly instances?: Readonly<Record<string, Partial<ObservedInstance>>>;
  /** `split@instance`, with `~` in front while a back-off runs. Default: `s1@w1`. */
  readonly unclaimed?: readonly string[];
  readonly paused?: boolean;
}

function observation(look: Look): RefusalObservation {
  const instances = new Map(
    Object.entries(look.instances ?? { w1: {} }).map(([id, fields]) => [
      id as InstanceId,
      { announcement: '5' as Revision, maxInFlight: 2, leaseCount: 0, refuses: [], ...fields },
    ]),
  );
  const unclaimed = (look.unclaimed ?? ['s1@w1']).map((name) => {
    const [split, instance] = name.replace('~', '').split('@') as [SplitId, InstanceId];
    return { split, instance, isBackingOff: name.startsWith('~') };
  });
  return { instances, unclaimed, paused: look.paused ?? false, leaseDurationMs: LEASE_MS };
}

/** Looks several times and returns what the last look found. */
function watch(...looks: readonly Look[]): Refusals {
  let state: RefusalState = NO_REFUSALS;
  let last: Refusals | undefined;
  for (const look of looks) {
    last = updateRefusals(state, observation(look), look.atMs);
    // The state must survive being stored.
    state = JSON.parse(JSON.stringify(last.state)) as RefusalState;
  }
  return last!;
}

function barred(refusals: Refusals): Record<string, readonly string[]> {
  return Object.fromEntries(refusals.barred);
}

describe('refusals: a name left unclaimed', () => {
  test('refusals - a live instance is barred after one lease and not before', () => {
    expect(watch({ atMs: 0 }).nextDueMs).toBe(1_000);
    expect(barred(watch({ atMs: 0 }, { atMs: 999 }))).toEqual({});
    const late = watch({ atMs: 0 }, { atMs: 999 }, { atMs: 1_000 });
    expect(barred(late)).toEqual({ s1: ['w1'] });
  });

  test('refusals - a split that was claimed or withdrawn in between starts anew', () => {
    const looks = [{ atMs: 0 }, { atMs: 900, unclaimed: [] }, { atMs: 901 }, { atMs: 1_800 }];
    expect(barred(watch(...looks))).toEqual({});
    expect(watch(...looks).nextDueMs).toBe(1_901);
  });

  test('refusals - time without a free lane does not count', () => {
    const full = { w1: { leaseCount: 2 } };
    const looks = [{ atMs: 0 }, { atMs: 600, instances: full }, { atMs: 5_000 }, { atMs: 5_399 }];
    expect(barred(watch(...looks))).toEqual({});
    expect(watch(...looks).nextDueMs).toBe(5_400);
    expect(barred(watch(...looks, { atMs: 5_400 }))).toEqual({ s1: ['w1'] });
  });

  test('refusals - time of a back-off does not count', () => {
    const looks = [{ atMs: 0, unclaimed: ['~s1@w1'] }, { atMs: 3_000 }, { atMs: 3_999 }];
    expect(watch(looks[0]!).nextDueMs).toBeNull();
    expect(barred(watch(...looks))).toEqual({});
    expect(barred(watch(...looks, { atMs: 4_000 }))).toEqual({ s1: ['w1'] });
  });

  test('refusals - time while the job is paused does not count', () => {
    const looks = [{ atMs: 0 }, { atMs: 500, paused: true }, { atMs: 9_000 }, { atMs: 9_499 }];
    expect(barred(watch(...looks))).toEqual({});
    expect(barred(watch(...looks, { atMs: 9_500 }))).toEqual({ s1: ['w1'] });
  });

  test('refusals - an instance that is not there refuses nothing', () => {
    const looks = [
      { atMs: 0, instances: {} },
      { atMs: 5_000, instances: {} },
    ];
    expect(watch(...looks)).toEqual({ state: NO_REFUSALS, barred: new Map(), nextDueMs: null });
  });

  test('refusals - a process that announced itself anew has its own lease of time', () => {
    const again = { w1: { announcement: '9' as Revision } };
    const looks = [{ atMs: 0 }, { atMs: 900, instances: again }, { atMs: 1_899, instances: again }];
    expect(barred(watch(...looks))).toEqual({});
    expect(barred(watch(...looks, { atMs: 1_900, instances: again }))).toEqual({ s1: ['w1'] });
  });

  test('refusals - each split and each instance has its own time', () => {
    const both = { w1: {}, w2: {} };
    const looks = [
      { atMs: 0, instances: both, unclaimed: ['s1@w1'] },
      { atMs: 500, instances: both, unclaimed: ['s1@w1', 's2@w1', 's3@w2'] },
      { atMs: 1_000, instances: both, unclaimed: ['s1@w1', 's2@w1', 's3@w2'] },
    ];
    expect(barred(watch(...looks))).toEqual({ s1: ['w1'] });
    const later = { atMs: 1_500, instances: both, unclaimed: ['s2@w1', 's3@w2'] };
    expect(barred(watch(...looks, later))).toEqual({ s1: ['w1'], s2: ['w1'], s3: ['w2'] });
  });

  test('refusals - a name that moved on to another instance is timed afresh', () => {
    const both = { w1: {}, w2: {} };
    const looks = [
      { atMs: 0, instances: both },
      { atMs: 900, instances: both, unclaimed: ['s1@w2'] },
      { atMs: 1_899, instances: both, unclaimed: ['s1@w2'] },
    ];
    expect(barred(watch(...looks))).toEqual({});
  });
});

describe('refusals: a bar', () => {
  const refused = [{ atMs: 0 }, { atMs: 1_000 }] as const;

  test('refusals - ends ten leases later, and then the name is timed again (R27)', () => {
    expect(watch(...refused).nextDueMs).toBe(11_000);
    expect(barred(watch(...refused, { atMs: 10_999 }))).toEqual({ s1: ['w1'] });
    const over = watch(...refused, { atMs: 11_000 });
    expect(barred(over)).toEqual({});
    expect(over.nextDueMs).toBe(12_000);
  });

  test('refusals - ends when the instance announces itself again, or is gone', () => {
    const again = { w1: { announcement: '6' as Revision } };
    expect(barred(watch(...refused, { atMs: 1_100, instances: again }))).toEqual({});
    expect(barred(watch(...refused, { atMs: 1_100, instances: {} }))).toEqual({});
  });

  test('refusals - holds while the name is elsewhere', () => {
    expect(barred(watch(...refused, { atMs: 1_100, unclaimed: [] }))).toEqual({ s1: ['w1'] });
  });

  test('refusals - a name that has to stay is not barred twice', () => {
    const { state } = watch(...refused, { atMs: 2_000 }, { atMs: 3_000 }, { atMs: 4_000 });
    expect(state.bars).toHaveLength(1);
    expect(state.waits).toEqual([]);
  });
});

describe('refusals: said on the presence', () => {
  test('refusals - what an instance lists is barred at once and as long as it is listed', () => {
    const refuses = ['s7', 's8'] as SplitId[];
    const saying = { w2: { refuses }, w1: { refuses: ['s7' as SplitId] } };
    expect(barred(watch({ atMs: 0, instances: saying, unclaimed: [] }))).toEqual({
      s7: ['w1', 'w2'],
      s8: ['w2'],
    });
    expect(barred(watch({ atMs: 0, instances: { w2: {} }, unclaimed: [] }))).toEqual({});
  });

  test('refusals - listing and leaving unclaimed bar once', () => {
    const saying = { w1: { refuses: ['s1' as SplitId] } };
    const looks = [{ atMs: 0 }, { atMs: 1_000 }, { atMs: 1_001, instances: saying }];
    expect(barred(watch(...looks))).toEqual({ s1: ['w1'] });
  });
});

describe('refusals: the due time', () => {
  test('refusals - looking at the due time bars or frees, and not before it', () => {
    const anyLooks = fc.array(
      fc.record({
        waitMs: fc.integer({ min: 1, max: 700 }),
        paused: fc.boolean(),
        leaseCount: fc.integer({ min: 0, max: 2 }),
        unclaimed: fc.subarray(['s1@w1', 's2@w1', '~s3@w1']),
      }),
      { minLength: 1, maxLength: 20 },
    );
    fc.assert(
      fc.property(anyLooks, (steps) => {
        let atMs = 0;
        const looks = steps.map((step): Look => {
          atMs += step.waitMs;
          const { paused, leaseCount, unclaimed } = step;
          return { atMs, paused, unclaimed, instances: { w1: { leaseCount } } };
        });
        const now = watch(...looks);
        if (now.nextDueMs === null) return;
        expect(now.nextDueMs).toBeGreaterThan(atMs);
        const last = looks.at(-1)!;
        const early = watch(...looks, { ...last, atMs: now.nextDueMs - 0.5 });
        expect(barred(early)).toEqual(barred(now));
        expect(barred(watch(...looks, { ...last, atMs: now.nextDueMs }))).not.toEqual(barred(now));
      }),
      { numRuns: 500 },
    );
  });
});
