/** A plan that is larger than anything that fits into one request, under the limits that etcd has by default. */
import { afterEach, describe, expect, test } from '@jest/globals';
import { ids } from '../support/fleet.ts';
import { encode, endOfPrefix } from './support/gateway.ts';
import type { Gateway } from './support/gateway.ts';
import { type EtcdFleet, startFleet } from './support/fleet.ts';
import { manySplits } from './support/many-splits.ts';
import { machineMs } from './support/time-line.ts';

let fleet: EtcdFleet | undefined;
afterEach(async () => {
  await fleet?.close();
  fleet = undefined;
});

const SPLITS = 20_000;
const WORKERS = 19;
/** All workers and the recorder share one event loop here. */
const LEASE_MS = 8_000;

describe('publication', () => {
  test('publication - twenty thousand splits are stored once each, also when the leader is killed among them', async () => {
    const planned = (id: string) =>
      manySplits(SPLITS, () => fleet!.timeLine.noteFor(id)({ what: 'planned' }));
    const started = await startFleet({
      config: {
        leaseDurationMs: LEASE_MS,
        opTimeoutMs: 2_000,
        drainDeadlineMs: 2_000,
        replanIntervalMs: 60_000,
      },
      work: { stepMs: 60_000 },
    });
    fleet = started.fleet;
    const { gateway } = started.server;
    const { timeLine, keys } = fleet;
    const startMs = machineMs();
    const leader = fleet.child('first', { manySplits: SPLITS });
    await fleet.until('it leads', () => fleet!.leader()?.owner === 'first');
    for (const id of ids(WORKERS, 'worker-')) fleet.worker(id, { planner: planned(id) });
    await fleet.until('it publishes', () => fleet!.split('m2000') !== null);
    await leader.kill();
    expect(fleet.plan()).toMatchObject({ sealed: false });
    await fleet.until('all is published', () => fleet!.plan()?.sealed === true, 50_000);
    await fleet.until(
      'all lanes work',
      () => timeLine.all({ what: 'started' }).length >= WORKERS * 8,
    );
    expect(timeLine.first({ what: 'started' })!.atMs - startMs).toBeLessThan(60_000);
    expect(timeLine.all({ what: 'planned' }).map(({ worker }) => worker === 'first')).toEqual([
      true,
      false,
    ]);
    expect(timeLine.all({ what: 'leadershipGained' })).toHaveLength(2);
    expect(timeLine.all({ what: 'sessionLost' })).toEqual([]);
    expect(timeLine.all({ what: 'leadershipLost' })).toEqual([]);
    expect(fleet.plan()!.planned).toBe(SPLITS);
    for (const kind of ['specs/', 'splits/'])
      expect(await count(gateway, keys.root + kind)).toBe(SPLITS);
    expect(await fleet.verify()).toEqual([]);
    // Each was created once, and a spec never written again.
    const specs = fleet.recorder.entries.filter(({ key }) => key.startsWith(`${keys.root}specs/`));
    expect(specs).toHaveLength(SPLITS);
  });
});

async function count(gateway: Gateway, prefix: string): Promise<number> {
  const answer = await gateway.call('kv/range', {
    key: encode(prefix),
    range_end: endOfPrefix(prefix),
    count_only: true,
  });
  return Number(answer.count);
}
