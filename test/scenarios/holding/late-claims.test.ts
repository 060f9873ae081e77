/** Claims that are answered when nobody wants them any more (R17, R30). */
import { describe, expect, test } from '@jest/globals';
import type { Handler } from '../../../src/index.ts';
import type { SplitId } from '../../../src/base/ids.ts';
import { fleet, startFleet } from '../../support/scenario.ts';
import { finalPlan, holdUntilAsked, LEASE_MS, watched } from '../../support/fleet.ts';
import { transaction } from '../../support/faults.ts';
import { eventsOf, sessionOf } from '../../support/observed.ts';

const TICK_MS = 1_000;

describe('a claim that is answered late', () => {
  /** How a worker ceases to want what it claims. */
  type Change = 'un-named' | 'stopped' | 'aborted';

  test.each([
    ['un-named', 'delay'],
    ['un-named', 'delayAnswer'],
    ['stopped', 'delay'],
    ['stopped', 'delayAnswer'],
    ['aborted', 'delay'],
    ['aborted', 'delayAnswer'],
  ] as const satisfies readonly (readonly [Change, 'delay' | 'delayAnswer'])[])(
    'a claim in flight of a worker that is %s meanwhile (%s) - leaves nothing behind, and the next owner waits for no expiry',
    async (change, fault) => {
      await startFleet({ planner: finalPlan(['s1']) });
      const leader = fleet.seam('leader', { config: { maxInFlight: 0 } });
      await fleet.until('it leads', () => fleet.leader() === 'leader', 2_000);
      let starts = 0;
      const abort = new AbortController();
      const counted: Handler = async (grant) => {
        starts += 1;
        await holdUntilAsked(grant);
      };
      const a = fleet.worker('a', counted, { signal: abort.signal });
      const rule = a.client.when(transaction('claim'))[fault](1_500, { times: 1 });
      await fleet.until('a claims', () => rule.hits === 1, 2_000);
      const b = fleet.seam('b');
      await fleet.until('b is there', () => sessionOf(fleet, 'b') !== null, 1_000);
      const changedAtMs = fleet.clock.nowMs();
      let left: ReturnType<typeof watched> | null = null;
      if (change === 'un-named') await fleet.operator().drain('a');
      else if (change === 'stopped') left = watched(a.worker.stop());
      else abort.abort(new Error('enough'));
      await fleet.advance(1_500 + 2 * TICK_MS);
      expect(fleet.leasesOf('a')).toEqual([]);
      expect(b.held.has('s1')).toBe(true);
      expect(fleet.clock.nowMs() - changedAtMs).toBeLessThan(LEASE_MS / 2);
      const session = fleet.store.dump(fleet.keys.lease('s1' as SplitId))[0]!.session;
      expect(session).toBe(sessionOf(fleet, 'b'));
      await fleet.advance(3 * LEASE_MS);
      // Nothing is put again, and no handler was started in vain.
      expect(fleet.leasesOf('b')).toEqual(['s1']);
      expect(eventsOf(b, 'lost')).toEqual([]);
      expect(starts).toBe(0);
      expect(eventsOf(leader, 'lost')).toEqual([]);
      if (left !== null) expect(left.state).toBe('resolved');
      if (change === 'aborted') expect(a.run.error).toMatchObject({ message: 'enough' });
      const leaving = watched(a.worker.stop());
      await fleet.until('a has left', () => leaving.state === 'resolved', 10_000);
    },
  );
});
