/** Keys of start-up probes: those of today end with their session, those that older versions left are swept (R47). */
import { describe, expect, test } from '@jest/globals';
import type { InstanceId } from '../../../src/base/ids.ts';
import { finalPlan, ids, LEASE_MS } from '../../support/fleet.ts';
import { fleet, startFleet } from '../../support/scenario.ts';

const MINUTE_MS = 60_000;
const probeKeys = (): string[] => fleet.under('probe/').map(({ key }) => key);

describe('keys of probes', () => {
  test('keys of probes - that nobody has touched for ten minutes are swept, others are left alone (R47)', async () => {
    await startFleet({ planner: finalPlan(ids(2)) });
    const left = fleet.keys.probe('old' as InstanceId, 'n1');
    const used = fleet.keys.probe('starting' as InstanceId, 'n2');
    await fleet.store.put(left, 'created');
    await fleet.store.put(used, 'created');
    const a = fleet.seam('a');
    await fleet.until('held', () => a.held.size === 2);
    await fleet.advance(6 * MINUTE_MS);
    expect(probeKeys()).toEqual([left, used]);
    await fleet.store.put(used, 'changed');
    await fleet.until('swept', () => !probeKeys().includes(left), 6 * MINUTE_MS);
    expect(probeKeys()).toEqual([used]);
    await fleet.until('the other one too', () => probeKeys().length === 0, 12 * MINUTE_MS);
  });

  test('keys of probes - of a start that dies anywhere in it are gone with their session', async () => {
    await startFleet({ planner: finalPlan(ids(2)) });
    for (let lifeMs = 0; lifeMs < 100; lifeMs += 7) {
      const a = fleet.seam(`a${lifeMs}`);
      a.client.when('any').delay(10);
      await fleet.advance(lifeMs);
      a.crash();
    }
    await fleet.advance(2 * LEASE_MS);
    expect(probeKeys()).toEqual([]);
    expect(fleet.under('workers/')).toEqual([]);
  });
});
