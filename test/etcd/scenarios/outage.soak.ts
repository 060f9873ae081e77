/** A store that restarts, or is away: workers wait, and lose no more than their leases. */
import { afterEach, describe, expect, test } from '@jest/globals';
import { ids } from '../../support/fleet.ts';
import { type EtcdFleet, LEASE_MS, seconds, startFleet } from '../support/fleet.ts';
import { machineMs } from '../support/time-line.ts';

let fleet: EtcdFleet | undefined;
afterEach(async () => {
  await fleet?.close();
  fleet = undefined;
});

describe('a store that restarts', () => {
  test('outage - etcd killed and started again on its data within a lease, twice, costs nobody anything', async () => {
    const splits = ids(4);
    // A node that starts again elects itself after one to two seconds.
    const leaseMs = seconds(6);
    const config = { leaseDurationMs: leaseMs, replanIntervalMs: leaseMs };
    const started = await startFleet({ splits, config });
    fleet = started.fleet;
    const { server } = started;
    const { timeLine } = fleet;
    const a = fleet.start('a');
    const b = fleet.start('b');
    await fleet.until(
      'both work',
      () =>
        [a, b].every(({ id }) => fleet!.leasesOf(id).length === 2) &&
        splits.every((id) => fleet!.watermark(id) > 2),
    );
    const generation = fleet.plan()!.generation;
    const startedBefore = timeLine.all({ what: 'started' }).length;
    for (const turn of ['first', 'second']) {
      await fleet.until('both have renewed', () =>
        [a, b].every(({ worker }) => worker.status().sessionLeftMs > leaseMs / 2),
      );
      await server.restart();
      const before = fleet.watermarks(splits);
      await fleet.until(`all go on after the ${turn} kill`, () => fleet!.areServed(splits, before));
    }
    expect(timeLine.all({ what: 'lost' })).toEqual([]);
    expect(timeLine.all({ what: 'sessionLost' })).toEqual([]);
    expect(timeLine.all({ what: 'started' })).toHaveLength(startedBefore);
    expect(fleet.plan()!.generation).toBe(generation);
    expect(await fleet.verify()).toEqual([]);
  });

  test('outage - of three leases, every split goes on from its last commit, and one worker leads', async () => {
    const splits = ids(4);
    const started = await startFleet({ splits });
    fleet = started.fleet;
    const { server } = started;
    const { timeLine } = fleet;
    const workers = [fleet.start('a'), fleet.start('b')];
    await fleet.until(
      'both work',
      () =>
        workers.every(({ id }) => fleet!.leasesOf(id).length === 2) && fleet!.watermark('s3') > 2,
    );
    await server.kill();
    const killedMs = machineMs();
    await fleet.until('all stop', () => timeLine.all({ what: 'aborted' }).length === 4);
    expect(timeLine.all({ what: 'aborted' }).at(-1)!.atMs - killedMs).toBeLessThan(LEASE_MS);
    await fleet.stays(
      'nobody works',
      () => !timeLine.has({ what: 'started', sinceMs: killedMs }),
      killedMs + 3 * LEASE_MS - machineMs(),
    );
    const before = fleet.watermarks(splits);
    await server.restart();
    await fleet.until('all go on', () => fleet!.areServed(splits, before), 4 * LEASE_MS);
    for (const split of splits) {
      const again = timeLine.first({ what: 'started', split, sinceMs: killedMs })!;
      expect(again.watermark).toBe(before.get(split));
    }
    await fleet.until(
      'one leads',
      () => workers.filter(({ worker }) => worker.status().isLeading).length === 1,
    );
    expect(timeLine.overlaps()).toEqual([]);
    expect(await fleet.verify()).toEqual([]);
  });

  test('twins - the key that a killed process left behind is no live twin, and its successor starts', async () => {
    const started = await startFleet({ splits: ids(2) });
    fleet = started.fleet;
    const { timeLine, keys } = fleet;
    const former = fleet.child('same-name');
    await fleet.until('it works', () => ids(2).every((id) => fleet!.watermark(id) > 2));
    await former.kill();
    const before = fleet.watermarks(ids(2));
    expect(fleet.entry(keys.presence('same-name' as never))).toBeDefined();
    const startedMs = machineMs();
    const successor = fleet.start('same-name');
    await fleet.until('it goes on', () => fleet!.areServed(ids(2), before), LEASE_MS);
    // R13: by reclaiming, not by waiting for the leases of the former one.
    expect(timeLine.first({ what: 'started', sinceMs: startedMs })!.atMs - startedMs).toBeLessThan(
      LEASE_MS / 2,
    );
    expect(successor.run.state).toBe('pending');
    expect(timeLine.overlaps()).toEqual([]);
    expect(await fleet.verify()).toEqual([]);
  });
});
