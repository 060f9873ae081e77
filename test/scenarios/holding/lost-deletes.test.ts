/** A delete that the next owner does not hear of costs it a third of a lease, and no name (R24, R27). */
import { describe, expect, test } from '@jest/globals';
import { looksAt } from '../../../src/store/faults.ts';
import { finalPlan, ids, LEASE_MS } from '../../support/fleet.ts';
import { handBackAsked } from '../../support/sources.ts';
import { fleet, startFleet } from '../../support/scenario.ts';
import { eventsOf } from '../../support/observed.ts';

describe('a lost delete', () => {
  test.each([
    ['longer', 4 * LEASE_MS],
    ['shorter', LEASE_MS / 2],
  ] as const)(
    'a lost delete of a lease - is found within a third of a lease, be the reconcile interval %s (R24, R27)',
    async (_, reconcileIntervalMs) => {
      await startFleet({ planner: finalPlan(ids(4)), config: { reconcileIntervalMs } });
      const a = fleet.seam('a');
      handBackAsked(a);
      await fleet.until('a holds all', () => a.held.size === 4);
      const b = fleet.seam('b');
      b.client
        .when(looksAt((key) => key === `${fleet.keys.root}leases/`))
        .delayEvents(10 * LEASE_MS);
      await fleet.until('b is named', () => fleet.assignment('b')?.splits.length === 2, LEASE_MS);
      const named = [...fleet.assignment('b')!.splits];
      await fleet.until('they are free', () => fleet.leasesOf('a').length === 2, LEASE_MS);
      const freeAtMs = fleet.clock.nowMs();
      await fleet.until('b holds them', () => b.held.size === 2, LEASE_MS);
      expect(fleet.clock.nowMs() - freeAtMs).toBeLessThan(LEASE_MS / 3 + 500 + fleet.slackMs);
      expect([...b.held.keys()].sort()).toEqual(named.sort());
      expect(eventsOf(a, 'gained')).toHaveLength(4);
    },
  );
});
