import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { InstanceId, SessionId, SplitId } from '../../src/base/ids.ts';
import {
  claimCandidates,
  consumesAttempt,
  decideClaim,
  type ClaimDecision,
  type ClaimKind,
  type LeaseView,
  type SplitView,
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

  test('claim - only an end that was not graceful consumes an attempt', () => {
    const kinds: ClaimKind[] = ['create', 'released', 'reclaim', 'expired'];
    expect(kinds.filter(consumesAttempt)).toEqual(['reclaim', 'expired']);
  });
});

type Named = SplitView & { readonly id: SplitId };

function view(id: string, fields: Partial<SplitRecord>, live: LeaseView | null = null): Named {
  return { id: id as SplitId, record: record(fields), lease: live };
}

function candidates(
  views: readonly Named[],
  held: readonly string[] = [],
): ReturnType<typeof claimCandidates> {
  return claimCandidates(views, (id) => held.includes(id), me, {
    maxAttempts: 4,
    waivesAttempt: (id) => id.startsWith('waived'),
  });
}

describe('claimCandidates', () => {
  const released = { epoch: epoch(3) };
  const expired = { epoch: epoch(2), owner: instanceId('dead') };

  test('claim - free lanes go to created, released, reclaimed and expired splits, in this order', () => {
    const { claimable, atCap } = candidates([
      view('a-expired', expired),
      view('b-mine', { ...expired, owner: me.instance }, lease('me', 'before')),
      view('c-released', released),
      view('d-fresh', {}),
      view('e-foreign', { ...expired, owner: instanceId('peer') }, lease('peer', 'theirs')),
      view('f-done', { status: 'completed' }),
      view('g-parked', { status: 'quarantined', attempts: 4 }),
      view('h-held', {}, lease('me', 'now')),
    ]);
    expect(claimable).toEqual([
      { id: 'd-fresh', claim: 'create', attempts: 0 },
      { id: 'c-released', claim: 'released', attempts: 0 },
      { id: 'b-mine', claim: 'reclaim', attempts: 1 },
      { id: 'a-expired', claim: 'expired', attempts: 1 },
    ]);
    expect(atCap).toEqual([]);
  });

  test('claim - within a kind the id decides, whatever the weights', () => {
    const order = (weights: readonly number[]): readonly string[] =>
      candidates([
        view('bbb', { weight: weights[0]! }),
        view('aaa', { weight: weights[1]! }),
        view('aa-released', { ...released, weight: weights[2]! }),
      ]).claimable.map(({ id }) => id);
    expect(order([1, 2 ** 30, 2 ** 30])).toEqual(['aaa', 'bbb', 'aa-released']);
    expect(order([2 ** 30, 1, 1])).toEqual(['aaa', 'bbb', 'aa-released']);
  });

  test('claim - splits at the cap are told apart from those to claim', () => {
    const { claimable, atCap } = candidates([
      view('worn', { ...expired, attempts: 3 }),
      view('also-worn', { ...expired, owner: me.instance, attempts: 3 }, lease('me', 'before')),
      view('waived', { ...expired, attempts: 3 }),
      view('given-back', { ...released, attempts: 3 }),
    ]);
    expect(claimable.map(({ id }) => id)).toEqual(['given-back', 'waived']);
    expect(atCap).toEqual([
      { id: 'also-worn', claim: 'reclaim', attempts: 4 },
      { id: 'worn', claim: 'expired', attempts: 4 },
    ]);
  });

  test('claim - what this worker holds or is claiming is left out', () => {
    const { claimable } = candidates([view('a', {}), view('b', {})], ['a']);
    expect(claimable.map(({ id }) => id)).toEqual(['b']);
  });

  test('claim - candidates are runnable, free and unheld, and the cap is met exactly', () => {
    const anyLease = fc.option(
      fc.record({
        owner: fc.constantFrom('me', 'peer'),
        session: fc.constantFrom('now', 'before', null),
      }),
      { nil: null },
    );
    const anyView = fc.record({
      id: fc.stringMatching(/^[a-z0-9]{1,8}$/),
      record: anyRecord,
      lease: anyLease,
    });
    const anyViews = fc.uniqueArray(anyView, { selector: ({ id }) => id, maxLength: 24 });
    fc.assert(
      fc.property(anyViews, fc.integer({ min: 1, max: 5 }), (all, maxAttempts) => {
        const views = all as unknown as Named[];
        const byId = new Map(views.map((one) => [one.id, one]));
        const held = new Set(views.slice(0, 2).map(({ id }) => id));
        const { claimable, atCap } = claimCandidates(views, (id) => held.has(id), me, {
          maxAttempts,
          waivesAttempt: () => false,
        });
        for (const [candidate, isAtCap] of [
          ...claimable.map((one) => [one, false] as const),
          ...atCap.map((one) => [one, true] as const),
        ]) {
          const { record: found, lease: live } = byId.get(candidate.id)!;
          expect(found.status).toBe('runnable');
          expect(held.has(candidate.id)).toBe(false);
          if (live !== null) {
            expect(live.owner).toBe('me');
            expect(live.session).not.toBe('now');
          }
          const burns = live !== null || found.owner !== null;
          expect(candidate.attempts).toBe(found.attempts + (burns ? 1 : 0));
          expect(isAtCap).toBe(burns && found.attempts + 1 >= maxAttempts);
        }
      }),
      { numRuns: 1_000 },
    );
  });
});
