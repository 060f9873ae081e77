import { describe, expect, test } from '@jest/globals';
import { finalPlan, ids } from '../../support/fleet.ts';
import { pass } from '../../support/observed.ts';
import { fleet, startFleet } from '../../support/scenario.ts';

describe('splits that are not ready', () => {
  const HEAVY = 10;
  const CASES = {
    'one lane': { lanes: 1, ready: 6, weight: 1 },
    'four lanes': { lanes: 4, ready: 20, weight: 1 },
    'the heaviest': { lanes: 4, ready: 20, weight: HEAVY },
  };

  test.each(Object.keys(CASES) as (keyof typeof CASES)[])(
    'splits that are not ready - hold no lane: the others end as soon as without them, whatever their weights (%s) (R40)',
    async (name) => {
      const { lanes, ready, weight } = CASES[name];
      const waiting = ['a0', 'a1', 'a2'];
      const planned = [
        ...waiting.map((id) => ({ id, descriptor: '', weight })),
        ...ids(ready).map((id) => ({ id, descriptor: '', weight: 1 })),
      ];
      await startFleet({ planner: finalPlan(planned), config: { maxInFlight: lanes } });
      let startedAtMs = Infinity;
      fleet.worker('a', async (grant) => {
        startedAtMs = Math.min(startedAtMs, fleet.clock.nowMs());
        if (waiting.includes(grant.split.id)) return grant.release();
        await pass(fleet, 1_000);
        await grant.complete();
      });
      const areDone = (): boolean =>
        ids(ready).every((id) => fleet.split(id)?.status === 'completed');
      await fleet.until('the others are done', areDone, 60_000);
      const rounds = Math.ceil(ready / lanes);
      // Each round waits for a decision of the leader, which comes every 200 ms.
      expect(fleet.clock.nowMs() - startedAtMs).toBeLessThan(rounds * 1_250 + 2_500);
      expect(waiting.map((id) => fleet.split(id)?.status)).toEqual(waiting.map(() => 'runnable'));
    },
  );
});
