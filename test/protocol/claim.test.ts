import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { InstanceId, SessionId, SplitId } from '../../src/base/ids.ts';
import {
  compareCandidates,
  decideClaim,
  type ClaimDecision,
  type LeaseView,
} from '../../src/protocol/claim.ts';
import type { SplitRecord } from '../../src/records/records.ts';
import { anyRecord, epoch, instanceId, record } from './records.ts';

const me = { instance: 'me' as InstanceId, session: 'now' as SessionId };
const LEASE_MS = 15_000;
const asUsual = { isNoDeath: false, leaseDurationMs: LEASE_MS };
/** What the first death leaves. */
const suspected = {
  deaths: 1,
  relapses: 0,
  charged: 0,
  lifeMs: LEASE_MS,
  isCleared: false,
};

function lease(owner: string, session: string | null): LeaseView {
  return { owner: owner as InstanceId, session: session as SessionId | null };
}

function decide(fields: Partial<SplitRecord>, live: LeaseView | null = null): ClaimDecision {
  return decideClaim({ record: record(fields), lease: live }, me, asUsual);
}

describe('decideClaim', () => {
  test('claim - a split that nobody ever owned is created', () => {
    expect(decide({})).toEqual({ kind: 'claim', claim: 'create', suspicion: null });
  });

  test('claim - a split that was given back is as suspect as it was', () => {
    for (const suspicion of [null, suspected]) {
      const decision = decide({ epoch: epoch(3), attempts: 2, suspicion });
      expect(decision).toEqual({ kind: 'claim', claim: 'released', suspicion });
    }
  });

  test('claim - a split whose owner stands on it without a lease has expired', () => {
    for (const owner of ['dead', 'me']) {
      expect(decide({ epoch: epoch(3), owner: instanceId(owner) })).toEqual({
        kind: 'claim',
        claim: 'expired',
        suspicion: suspected,
      });
    }
  });

  test('claim - a lease of my own earlier session is reclaimed at once', () => {
    for (const session of ['before', null]) {
      expect(decide({ epoch: epoch(2), owner: me.instance }, lease('me', session))).toEqual({
        kind: 'claim',
        claim: 'reclaim',
        suspicion: suspected,
      });
    }
  });

  test('claim - a live lease of another instance is left alone', () => {
    const decision = decide({ epoch: epoch(2), owner: instanceId('peer') }, lease('peer', 'now'));
    expect(decision).toEqual({ kind: 'heldElsewhere', owner: 'peer' });
  });

  test('claim - a lease under my current session is mine already', () => {
    expect(decide({ epoch: epoch(2), owner: me.instance }, lease('me', 'now'))).toEqual({
      kind: 'heldByMe',
    });
  });

  test('claim - what has ended, or what a newer version made of it, is not claimed', () => {
    for (const status of ['completed', 'quarantined', 'unknown'] as const) {
      expect(decide({ status })).toEqual({ kind: 'ended', status });
      expect(decide({ status, owner: me.instance }, lease('me', 'before'))).toEqual({
        kind: 'ended',
        status,
      });
    }
  });

  /** A suspect that was claimed apart, and whose process has died for the third time. */
  const worn: Partial<SplitRecord> = {
    epoch: epoch(5),
    owner: me.instance,
    tenure: { epoch: epoch(5), agedMs: 40_000, rose: false },
    suspicion: { ...suspected, deaths: 3, charged: 2 },
  };

  test('claim - a split that died on trial for the third time is taken by nobody, not even its own instance (R28)', () => {
    expect(decide(worn)).toEqual({ kind: 'condemned' });
    expect(decide(worn, lease('me', 'before'))).toEqual({ kind: 'condemned' });
    const once = { ...suspected, deaths: 2, charged: 1 };
    expect(decide({ ...worn, suspicion: once })).toMatchObject({
      kind: 'claim',
      suspicion: { deaths: 3, charged: 2 },
    });
  });

  test('claim - what was no death condemns nobody and makes no suspect (R28, R48)', () => {
    const noDeath = { ...asUsual, isNoDeath: true };
    expect(decideClaim({ record: record(worn), lease: null }, me, noDeath)).toEqual({
      kind: 'claim',
      claim: 'expired',
      suspicion: worn.suspicion,
    });
    const owned = record({ epoch: epoch(2), owner: me.instance });
    expect(decideClaim({ record: owned, lease: null }, me, noDeath)).toMatchObject({
      suspicion: null,
    });
  });

  test('claim - what its handler refused for good is left to the leader (R28)', () => {
    const lastFailure = {
      reason: 'no such table',
      by: 'peer',
      epoch: epoch(2),
      counted: true,
      never: true,
      later: false,
    };
    expect(decide({ epoch: epoch(2), lastFailure })).toEqual({ kind: 'condemned' });
    // An operator has put it back: setting it aside raised the epoch.
    expect(decide({ epoch: epoch(3), lastFailure })).toMatchObject({ kind: 'claim' });
  });

  test('claim - only an end that was not in order makes a suspect, and none costs an attempt (R31, R48)', () => {
    const kinds = [
      decide({}),
      decide({ epoch: epoch(2) }),
      decide({ owner: me.instance }, lease('me', 'before')),
      decide({ owner: me.instance }),
    ].map(
      (decision) => decision.kind === 'claim' && [decision.claim, decision.suspicion?.deaths ?? 0],
    );
    expect(kinds).toEqual([
      ['create', 0],
      ['released', 0],
      ['reclaim', 1],
      ['expired', 1],
    ]);
  });

  test('claim - what is claimed is runnable and free (R30)', () => {
    const anyLease = fc.option(
      fc.record({
        owner: fc.constantFrom('me', 'peer'),
        session: fc.constantFrom('now', 'before', null),
      }),
      { nil: null },
    );
    fc.assert(
      fc.property(anyRecord, anyLease, fc.boolean(), (found, held, isNoDeath) => {
        const live = held as LeaseView | null;
        const decision = decideClaim({ record: found, lease: live }, me, { ...asUsual, isNoDeath });
        const isFree = live === null || (live.owner === me.instance && live.session !== me.session);
        const isOpen = found.status === 'runnable' && isFree;
        expect(decision.kind === 'claim' || decision.kind === 'condemned').toBe(isOpen);
        if (decision.kind !== 'claim') return;
        const isDeath = !isNoDeath && (live !== null || found.owner !== null);
        const before = found.suspicion?.deaths ?? 0;
        expect(decision.suspicion?.deaths ?? 0).toBe(before + (isDeath ? 1 : 0));
      }),
      { numRuns: 1_000 },
    );
  });
});

describe('compareCandidates', () => {
  test('claim - free lanes go to created, released, reclaimed and expired splits, in this order, then by id (R30, R40)', () => {
    const candidates = (['expired', 'reclaim', 'released', 'create'] as const).flatMap((claim) =>
      ['b', 'a'].map((id) => ({ id: id as SplitId, claim })),
    );
    expect(candidates.sort(compareCandidates).map(({ id, claim }) => `${claim} ${id}`)).toEqual([
      'create a',
      'create b',
      'released a',
      'released b',
      'reclaim a',
      'reclaim b',
      'expired a',
      'expired b',
    ]);
  });
});
