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
const capOf4 = { maxAttempts: 4, waivesAttempt: false };

function lease(owner: string, session: string | null): LeaseView {
  return { owner: owner as InstanceId, session: session as SessionId | null };
}

function decide(fields: Partial<SplitRecord>, live: LeaseView | null = null): ClaimDecision {
  return decideClaim({ record: record(fields), lease: live }, me, capOf4);
}

describe('decideClaim', () => {
  test('claim - a split that nobody ever owned is created', () => {
    expect(decide({})).toEqual({ kind: 'claim', claim: 'create', attempts: 0 });
  });

  test('claim - a split that was given back is claimed without an attempt', () => {
    expect(decide({ epoch: epoch(3), attempts: 2 })).toEqual({
      kind: 'claim',
      claim: 'released',
      attempts: 2,
    });
  });

  test('claim - a split whose owner stands on it without a lease has expired', () => {
    for (const owner of ['dead', 'me']) {
      expect(decide({ epoch: epoch(3), owner: instanceId(owner) })).toEqual({
        kind: 'claim',
        claim: 'expired',
        attempts: 1,
      });
    }
  });

  test('claim - a lease of my own earlier session is reclaimed at once', () => {
    for (const session of ['before', null]) {
      expect(decide({ epoch: epoch(2), owner: me.instance }, lease('me', session))).toEqual({
        kind: 'claim',
        claim: 'reclaim',
        attempts: 1,
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

  test('claim - at the cap nobody takes over, not even its own instance (R28)', () => {
    const worn = { epoch: epoch(5), owner: me.instance, attempts: 3 };
    expect(decide(worn)).toEqual({ kind: 'atCap', claim: 'expired', attempts: 4 });
    expect(decide(worn, lease('me', 'before'))).toEqual({
      kind: 'atCap',
      claim: 'reclaim',
      attempts: 4,
    });
    expect(decide({ ...worn, attempts: 2 })).toMatchObject({ kind: 'claim', attempts: 3 });
  });

  test('claim - a claim that consumes no attempt is never at the cap (R28)', () => {
    expect(decide({ epoch: epoch(9), attempts: 7 })).toEqual({
      kind: 'claim',
      claim: 'released',
      attempts: 7,
    });
    const worn = { record: record({ owner: me.instance, attempts: 3 }), lease: null };
    expect(decideClaim(worn, me, { maxAttempts: 4, waivesAttempt: true })).toEqual({
      kind: 'claim',
      claim: 'expired',
      attempts: 3,
    });
  });

  test('claim - only an end that was not graceful consumes an attempt (R31)', () => {
    const kinds = [
      decide({}),
      decide({ epoch: epoch(2) }),
      decide({ owner: me.instance }, lease('me', 'before')),
      decide({ owner: me.instance }),
    ].map((decision) => decision.kind === 'claim' && [decision.claim, decision.attempts]);
    expect(kinds).toEqual([
      ['create', 0],
      ['released', 0],
      ['reclaim', 1],
      ['expired', 1],
    ]);
  });

  test('claim - what is claimed is runnable and free, and the cap is met exactly (R28)', () => {
    const anyLease = fc.option(
      fc.record({
        owner: fc.constantFrom('me', 'peer'),
        session: fc.constantFrom('now', 'before', null),
      }),
      { nil: null },
    );
    fc.assert(
      fc.property(
        anyRecord,
        anyLease,
        fc.integer({ min: 1, max: 5 }),
        (found, held, maxAttempts) => {
          const live = held as LeaseView | null;
          const options = { maxAttempts, waivesAttempt: false };
          const decision = decideClaim({ record: found, lease: live }, me, options);
          const isFree =
            live === null || (live.owner === me.instance && live.session !== me.session);
          const isOpen = found.status === 'runnable' && isFree;
          expect(decision.kind === 'claim' || decision.kind === 'atCap').toBe(isOpen);
          if (decision.kind !== 'claim' && decision.kind !== 'atCap') return;
          const burns = live !== null || found.owner !== null;
          expect(decision.attempts).toBe(found.attempts + (burns ? 1 : 0));
          expect(decision.kind === 'atCap').toBe(burns && found.attempts + 1 >= maxAttempts);
        },
      ),
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
