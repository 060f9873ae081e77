/** A store that is away for longer than a lease and comes back as another one, or as it was before: nothing hangs (R8, L1). */
import { afterEach, describe, expect, test } from '@jest/globals';
import { ids } from '../support/fleet.ts';
import { patiently } from '../support/patience.js';
import { type EtcdFleet, LEASE_MS, startFleet } from './support/fleet.ts';
import type { EtcdServer } from './support/server.ts';
import { machineMs } from './support/time-line.ts';

/** What etcd and a busy machine need on top of two leases: a start, and a reconnection that waits for its second. */
const SLACK_MS = patiently(3_000);
const NAMES = ['a', 'b', 'c'];

let fleet: EtcdFleet | undefined;
afterEach(async () => {
  await fleet?.close();
  fleet = undefined;
});

/** Three workers at work; each has committed. */
async function atWork(splits: readonly string[]): Promise<EtcdServer> {
  const started = await startFleet({ splits });
  ({ fleet } = started);
  for (const id of NAMES) fleet.start(id);
  await working(splits);
  return started.server;
}

function working(splits: readonly string[]): Promise<number> {
  return fleet!.until(
    'all work',
    () =>
      NAMES.every((id) => fleet!.leasesOf(id).length === splits.length / NAMES.length) &&
      splits.every((id) => fleet!.watermark(id) > 2),
  );
}

/** Away until every worker has lost its session, and nobody works. */
async function away(server: EtcdServer): Promise<void> {
  const killedMs = machineMs();
  await server.kill();
  const states = () => fleet!.workers.map(({ worker }) => worker.status().charts);
  await fleet!.until('all have lost their sessions', () =>
    states().every(({ presence }) => presence.startsWith('rejoining')),
  );
  await fleet!.stays('nobody is in the fleet', () => true, killedMs + 2 * LEASE_MS - machineMs());
}

/** All workers are in the fleet and serve all splits, by themselves, within two leases from now. */
async function comesBack(splits: readonly string[], sinceMs: number): Promise<void> {
  const { workers, timeLine } = fleet!;
  const isBack = (): boolean =>
    workers.every(({ worker }) => worker.status().presence === 'present') &&
    splits.every((split) => timeLine.has({ what: 'committed', split, sinceMs }));
  await fleet!.until('all are back and work', isBack, 2 * LEASE_MS + SLACK_MS);
  // A leader key that came back with the snapshot lives for one life of its session.
  const leading = () => workers.filter(({ worker }) => worker.status().isLeading);
  const leftMs = sinceMs + 2 * LEASE_MS + SLACK_MS - machineMs();
  await fleet!.until('one leads', () => leading().length > 0, leftMs);
  expect(leading()).toHaveLength(1);
  expect(workers.map(({ run }) => run.state)).toEqual(workers.map(() => 'pending'));
  expect(timeLine.overlaps()).toEqual([]);
}

describe('a store that comes back as another one', () => {
  test('restore - another store after an outage of two leases: all workers rejoin by themselves, and the job is done anew', async () => {
    const splits = ids(6);
    const server = await atWork(splits);
    await away(server);
    await server.restartEmpty();
    await comesBack(splits, machineMs());
    // Of the old store nothing is left, so that everything began again.
    const begun = fleet!.timeLine.all({ what: 'started' }).slice(-splits.length);
    expect(begun.map(({ watermark }) => watermark)).toEqual(splits.map(() => 0));
    const lines = fleet!.workers.map((worker) => worker.lines.map(({ event }) => event));
    for (const events of lines) expect(events).toContain('store.reset');
  });
});

describe('a store that comes back as it was', () => {
  test('restore - a snapshot after an outage of two leases: the job goes on from there, and no worker dies of its own earlier presence (R14)', async () => {
    const splits = ids(6);
    const started = await startFleet({ splits });
    ({ fleet } = started);
    const { server } = started;
    const { keys } = fleet;
    const former = fleet.child('a');
    for (const id of ['b', 'c']) fleet.start(id);
    await working(splits);
    const nonce = (): string | undefined => {
      const value = fleet!.entry(keys.presence('a' as never))?.value;
      return value === undefined ? undefined : (JSON.parse(value) as { nonce: string }).nonce;
    };
    const ghost = nonce();
    const snapshot = await server.saveSnapshot();
    const saved = fleet.watermarks(splits);
    await former.kill();
    fleet.start('a');
    await fleet.until('its successor is there', () => nonce() !== undefined && nonce() !== ghost);
    await working(splits);
    await away(server);
    await server.restoreSnapshot(snapshot);
    const restoredMs = machineMs();
    await comesBack(splits, restoredMs);
    for (const split of splits) {
      const again = fleet.timeLine.first({ what: 'started', split, sinceMs: restoredMs })!;
      // Within the moment that the snapshot and its reading here are apart.
      expect(Math.abs(again.watermark! - saved.get(split)!)).toBeLessThan(LEASE_MS / 50);
    }
    const successor = fleet.workers.find(({ id }) => id === 'a')!;
    expect(nonce()).toBe(successor.worker.status().nonce);
  });

  test('restore - without an outage, under the eyes of the workers: they start over within two leases', async () => {
    const splits = ids(6);
    const server = await atWork(splits);
    const snapshot = await server.saveSnapshot();
    await fleet!.stays('work goes on', () => true, 500);
    await server.restoreSnapshot(snapshot);
    await comesBack(splits, machineMs());
  });
});
