/** A leader that cannot read what it must gives way to one that can (R18). */
import { describe, expect, test } from '@jest/globals';
import { type AnyFleet, finalPlan, ids, LEASE_MS } from '../../support/fleet.ts';
import type { FaultyStore, StoreCall } from '../../../src/store/faults.ts';
import { readsOf } from '../../support/faults.ts';
import { completeAll } from '../../support/observed.ts';
import { fleet, startFleet } from '../../support/scenario.ts';

const isListing = (of: AnyFleet, kind: string) => readsOf(of.keys.root + kind);

const FAULTS = {
  'that are denied': (client: FaultyStore, matcher: (call: StoreCall) => boolean) =>
    client.when(matcher).refuse('E_STORE_DENIED'),
  'that fail': (client: FaultyStore, matcher: (call: StoreCall) => boolean) =>
    client.when(matcher).refuse('E_STORE_UNREACHABLE'),
  'that are never answered': (client: FaultyStore, matcher: (call: StoreCall) => boolean) =>
    client.when(matcher).loseBefore({ silent: true }),
} as const;
type FaultName = keyof typeof FAULTS;
const faults = Object.keys(FAULTS) as FaultName[];

describe('a leader that renews and writes', () => {
  test.each(
    ['assign/', 'splits/'].flatMap((kind) => faults.map((fault) => [kind, fault] as const)),
  )(
    'a leader with readings of %s %s - resigns within two leases, and who can read leads (R18)',
    async (kind, fault) => {
      await startFleet({ planner: finalPlan(ids(4)) });
      const a = fleet.seam('a');
      const isPresent = (): boolean => a.coordinator.status().presence === 'present';
      await fleet.until('a is there', isPresent, LEASE_MS, 1);
      expect(fleet.leader()).toBeNull();
      FAULTS[fault](a.client, isListing(fleet, kind));
      await fleet.until('a was elected', () => fleet.leader() === 'a');
      const electedAtMs = fleet.clock.nowMs();
      const b = fleet.seam('b');
      await fleet.until('b leads', () => fleet.leader() === 'b', 3 * LEASE_MS);
      expect(fleet.clock.nowMs() - electedAtMs).toBeLessThan(2 * LEASE_MS + fleet.slackMs);
      await fleet.until('all are held', () => a.held.size + b.held.size === 4, LEASE_MS);
      const isBack = (): boolean => a.coordinator.status().presence === 'present';
      await fleet.until('a is a follower', isBack, LEASE_MS);
      expect(a.lines.map(({ event }) => event)).toContain('leadership.lost');
    },
  );

  test.each(faults.map((fault) => [fault]))(
    'a leader with readings of its judge %s - resigns, and another one gives the verdict (R18)',
    async (fault) => {
      await startFleet({ planner: finalPlan(ids(2)) });
      const a = fleet.seam('a');
      await fleet.until('a leads and holds', () => fleet.leader() === 'a' && a.held.size === 2);
      await fleet.advance(1_000);
      FAULTS[fault](a.client, isListing(fleet, 'specs/'));
      fleet.seam('b', { config: { maxInFlight: 0 } });
      await fleet.advance(1_000);
      completeAll(a);
      for (const id of [...a.held.keys()]) await a.coordinator.complete(id, null);
      await fleet.until('the verdict', () => a.verdict !== null, 4 * LEASE_MS);
      expect(fleet.leader()).toBe('b');
    },
  );
});

describe('a follower', () => {
  test('a follower that is not let read the leases - says so within a lease and holds nothing after it (R45, R46)', async () => {
    await startFleet({ planner: finalPlan(ids(4)) });
    const a = fleet.seam('a');
    await fleet.until('a holds', () => a.held.size === 4);
    const b = fleet.seam('b');
    await fleet.until('b is there', () => b.held.size === 2, LEASE_MS);
    const rule = b.client
      .when((call) => call.kind === 'watch' || isListing(fleet, 'leases/')(call))
      .deny();
    await fleet.advance(LEASE_MS);
    expect(b.coordinator.status().failing).toEqual(
      expect.arrayContaining([expect.objectContaining({ code: 'E_STORE_DENIED' })]),
    );
    expect(b.lines.map(({ event }) => event)).toContain('store.denied');
    await fleet.until('a has all', () => a.held.size === 4, 3 * LEASE_MS);
    expect(b.held.size).toBe(0);
    rule.remove();
    await fleet.until('b is back', () => b.held.size === 2, 3 * LEASE_MS);
  });
});
