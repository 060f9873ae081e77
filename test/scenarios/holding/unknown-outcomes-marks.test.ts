/** Marks on leases whose answer is lost or late, or that land late: they are for operators, and decide nothing (R32). */
import { describe, expect, test } from '@jest/globals';
import { finalPlan, holdUntilAsked, LEASE_MS } from '../../support/fleet.ts';
import { FAULTS, hitsOf, landings, transaction, violations } from '../../support/faults.ts';
import { fleet, startFleet } from '../../support/scenario.ts';
import { eventsOf } from '../../support/observed.ts';

/** Each third of a lease what a lease shows is looked at again. */
const TICK_MS = LEASE_MS / 3;
const DRAIN_MS = 20_000;

describe('mark', () => {
  test.each(FAULTS)(
    '$name - is put again on a later tick, never by itself (R32)',
    async (fault) => {
      await startFleet({ planner: finalPlan(['s1']), config: { drainDeadlineMs: DRAIN_MS } });
      const a = fleet.seam('a');
      await fleet.until('a holds', () => a.held.has('s1'));
      const rules = fault.strike(a.client, transaction('mark'));
      await fleet.operator().drain('a');
      await fleet.until('asked', () => a.asked.has('s1'));
      await fleet.until('shown', () => fleet.lease('s1')?.state === 'draining', 4 * TICK_MS);
      const sends = a.client.log.filter(({ fault: struck }) => struck !== undefined);
      for (const [index, { atMs }] of sends.entries()) {
        const leastMs = (index * TICK_MS) / 2 - fleet.slackMs;
        expect(atMs - sends[0]!.atMs).toBeGreaterThanOrEqual(leastMs);
      }
      await a.coordinator.releaseDrained(['s1']);
      await fleet.advance(LEASE_MS);
      expect(hitsOf(rules)).toBeGreaterThan(0);
      expect(landings(fleet.store, 'mark')).toHaveLength(1);
      expect(violations(fleet.store)).toEqual([]);
      expect(fleet.split('s1')).toMatchObject({ epoch: '1', owner: null, attempts: 0 });
      expect(eventsOf(a, 'lost')).toEqual([]);
    },
  );

  test('never answered - delays neither the commits nor the release of a tenancy', async () => {
    await startFleet({ planner: finalPlan(['s1']) });
    const a = fleet.worker('a', async (grant) => {
      await grant.draining.whenRequested();
      await grant.commit({ watermark: 3 });
    });
    await fleet.until('a holds', () => fleet.leasesOf('a').length === 1);
    await fleet.advance(1_000);
    const rule = a.client.when(transaction('mark')).loseBefore({ silent: true });
    await fleet.operator().drain('a');
    const tookMs = await fleet.until('released', () => fleet.lease('s1') === null);
    expect(rule.hits).toBe(1);
    expect(tookMs).toBeLessThanOrEqual(20);
    expect(fleet.split('s1')).toMatchObject({ watermark: '3', owner: null });
    expect(eventsOf(a, 'lost')).toEqual([]);
  });

  test('landing late - never lands on the lease of a later tenancy of the same session (R32)', async () => {
    await startFleet({ planner: finalPlan(['s1']) });
    const a = fleet.worker('a', holdUntilAsked);
    await fleet.until('a holds', () => fleet.leasesOf('a').length === 1);
    const rule = a.client.when(transaction('mark')).lateLanding(2_500, { times: 1 });
    await fleet.operator().drain('a');
    await fleet.until('released', () => fleet.lease('s1') === null);
    await fleet.operator().undrain('a');
    await fleet.until('held again', () => fleet.lease('s1')?.epoch === '2', 2_000);
    await fleet.advance(2 * LEASE_MS);
    expect(rule.hits).toBe(1);
    expect(landings(fleet.store, 'mark')).toEqual([]);
    expect(fleet.lease('s1')).toMatchObject({ owner: 'a', epoch: '2', state: 'owned' });
    expect(eventsOf(a, 'lost')).toEqual([]);
  });

  test('landing late - never lands on the lease of another worker (R32)', async () => {
    await startFleet({ planner: finalPlan(['s1']) });
    const a = fleet.worker('a', holdUntilAsked);
    await fleet.until('a holds', () => fleet.leasesOf('a').length === 1);
    const b = fleet.worker('b', holdUntilAsked);
    await fleet.advance(1_000);
    a.client.when(transaction('mark')).lateLanding(1_500, { times: 1 });
    await fleet.operator().drain('a');
    await fleet.until('b holds', () => fleet.leasesOf('b').length === 1, 1_000);
    await fleet.advance(2 * LEASE_MS);
    expect(landings(fleet.store, 'mark')).toEqual([]);
    expect(fleet.lease('s1')).toMatchObject({ owner: 'b', state: 'owned' });
    expect([...eventsOf(a, 'lost'), ...eventsOf(b, 'lost')]).toEqual([]);
  });

  test('landing late - a mark overtaken by a withdrawn request is corrected on a later tick', async () => {
    await startFleet({ planner: finalPlan(['s1']), config: { drainDeadlineMs: DRAIN_MS } });
    const a = fleet.seam('a');
    await fleet.until('a holds', () => a.held.has('s1'));
    a.client.when(transaction('mark')).lateLanding(500, { times: 1 });
    a.client.when(transaction('mark')).loseBefore({ times: 1 });
    await fleet.operator().drain('a');
    await fleet.until('asked', () => a.asked.has('s1'));
    await fleet.operator().undrain('a');
    await fleet.until('withdrawn', () => !a.asked.has('s1'), 400);
    a.coordinator.resumeIntake('s1');
    await fleet.until('the late mark', () => fleet.lease('s1')?.state === 'draining', 1_000);
    await fleet.until('corrected', () => fleet.lease('s1')?.state === 'owned', TICK_MS + 100);
    await fleet.advance(2 * DRAIN_MS);
    expect(fleet.lease('s1')).toMatchObject({ epoch: '1', state: 'owned' });
    expect(eventsOf(a, 'lost')).toEqual([]);
  });
});
