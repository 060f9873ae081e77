import { describe, expect, test } from '@jest/globals';
import type { Nonce } from '../../../src/base/ids.ts';
import {
  CHARGES_MAX,
  crashLoopOf,
  isCondemned,
  isOwnerGone,
  isSuspect,
  PROBATION_MS,
  RELAPSES_MAX,
  suspicionAfterDeath,
  suspicionAfterProgress,
  trialAgeMs,
} from '../../../src/protocol/faults/suspicion.ts';
import type { SplitRecord, SuspicionRecord } from '../../../src/records/records.ts';
import { epoch, instanceId, record } from '../records.ts';

const LEASE_MS = 15_000;

/** A split in the hands of a process that was this old when it claimed. */
function owned(fields: Partial<SplitRecord> = {}, tenure = { agedMs: 0, rose: false }) {
  const at = epoch(7);
  return record({
    epoch: at,
    owner: instanceId('a'),
    tenure: { epoch: at, ...tenure },
    ...fields,
  });
}

const FIRST: SuspicionRecord = {
  deaths: 1,
  relapses: 0,
  charged: 0,
  lifeMs: LEASE_MS,
  isCleared: false,
};

describe('a death', () => {
  test('a death - makes a suspect of what had made no progress, and charges nobody (R48)', () => {
    expect(suspicionAfterDeath(owned(), LEASE_MS)).toEqual(FIRST);
  });

  test('a death - of a suspect on trial is charged to it, and the third one condemns it (R28, R48)', () => {
    let suspicion: SuspicionRecord | null = null;
    const condemned: boolean[] = [];
    for (let life = 0; life <= CHARGES_MAX; life += 1) {
      suspicion = suspicionAfterDeath(owned({ suspicion }), LEASE_MS);
      condemned.push(isCondemned(suspicion));
    }
    expect(suspicion).toMatchObject({ deaths: 4, charged: 3 });
    expect(condemned).toEqual([false, false, false, true]);
  });

  test('a death - under a claim of version 0.1.0 is charged to nobody, however suspect the split was (R48)', () => {
    const before = owned({ suspicion: FIRST, tenure: { epoch: epoch(6), agedMs: 0, rose: true } });
    expect(suspicionAfterDeath(before, LEASE_MS)).toMatchObject({ deaths: 2, charged: 0 });
    expect(suspicionAfterDeath({ ...before, tenure: null }, LEASE_MS).charged).toBe(0);
  });

  test('a death - after progress makes no suspect, but for the third one in a row (R48)', () => {
    let suspicion: SuspicionRecord | null = null;
    const suspects: boolean[] = [];
    for (let life = 1; life <= RELAPSES_MAX; life += 1) {
      const before = owned({ suspicion }, { agedMs: 0, rose: true });
      suspicion = suspicionAfterDeath(before, LEASE_MS);
      suspects.push(isSuspect(suspicion));
    }
    expect(suspects).toEqual([false, false, true]);
    // Progress alone does not clear it any more: its next death is on trial.
    const tried = suspicionAfterProgress(suspicion, 1_000);
    expect(isSuspect(tried)).toBe(true);
    const next = suspicionAfterDeath(
      owned({ suspicion: tried }, { agedMs: 0, rose: true }),
      LEASE_MS,
    );
    expect(next).toMatchObject({ relapses: 4, charged: 1 });
  });

  test('the life that was lost - is the age at the claim and a lease, at most two leases, and the longest counts (R48)', () => {
    const life = (agedMs: number, before = 0): number =>
      suspicionAfterDeath(
        owned({ suspicion: { ...FIRST, lifeMs: before } }, { agedMs, rose: false }),
        LEASE_MS,
      ).lifeMs;
    expect([life(0), life(2_000), life(40_000), life(2_000, 25_000)]).toEqual([
      15_000, 17_000, 30_000, 25_000,
    ]);
    expect(trialAgeMs({ ...FIRST, lifeMs: 17_000 })).toBe(34_000);
  });
});

describe('progress', () => {
  test('progress - clears a suspect, and in time all that there was (R48)', () => {
    expect(suspicionAfterProgress(null, 0)).toBeNull();
    const cleared = suspicionAfterProgress(FIRST, 100);
    expect(cleared).toEqual({ ...FIRST, isCleared: true });
    expect(suspicionAfterProgress(cleared, 200)).toBe(cleared);
    expect(suspicionAfterProgress(cleared, PROBATION_MS)).toBeNull();
  });

  test('a cleared split - is not on trial: the next death charges it with nothing (R48)', () => {
    const cleared = { ...FIRST, charged: 2, isCleared: true };
    const died = suspicionAfterDeath(
      owned({ suspicion: cleared }, { agedMs: 0, rose: true }),
      LEASE_MS,
    );
    expect(died).toMatchObject({ charged: 2, relapses: 1, isCleared: true });
  });
});

describe('an owner', () => {
  const nonce = 'n1' as Nonce;
  const split = { status: 'runnable', owner: instanceId('a'), nonce } as const;
  const isGone = (announcedNonce: Nonce | null, waitedForMs: number): boolean =>
    isOwnerGone(split, { announcedNonce, waitedForMs }, LEASE_MS);

  test('an owner - that is announced is waited for one lease, and no longer (R28, R48)', () => {
    expect([isGone(nonce, 0), isGone(nonce, LEASE_MS - 1), isGone(nonce, LEASE_MS)]).toEqual([
      false,
      false,
      true,
    ]);
    expect([isGone(null, 0), isGone('n2' as Nonce, 0)]).toEqual([true, true]);
  });

  test('an owner - of what has ended, or of nothing, is nobody to wait for', () => {
    const sight = { announcedNonce: null, waitedForMs: 0 };
    expect(isOwnerGone({ ...split, owner: null }, sight, LEASE_MS)).toBe(false);
    expect(isOwnerGone({ ...split, status: 'completed' }, sight, LEASE_MS)).toBe(false);
  });
});

describe('a crash loop', () => {
  test('a crash loop - is three deaths in a row with the same split in hand', () => {
    expect(crashLoopOf(null)).toBeNull();
    expect(crashLoopOf({ ...FIRST, deaths: 2 })).toBeNull();
    expect(crashLoopOf({ ...FIRST, deaths: 3 })).toEqual({ lives: 3, lifeMs: LEASE_MS });
  });
});
