/** A plan that is larger than anything that fits into one request, under the limits that etcd has by default. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, test } from '@jest/globals';
import { ids } from '../../support/fleet.ts';
import { encode, endOfPrefix, type Gateway } from '../support/server/gateway.ts';
import { type EtcdFleet, seconds, startFleet } from '../support/fleet.ts';
import { manySplits } from '../support/many-splits.ts';
import { metric } from '../support/server/metrics.ts';
import { machineMs } from '../support/time-line.ts';
import { patiently } from '../../support/patience.js';

let fleet: EtcdFleet | undefined;
afterEach(async () => {
  await fleet?.close();
  fleet = undefined;
});

const SPLITS = 100_000;
/** Of the test's own process, beside two that lead one after the other. */
const WORKERS = 18;
const LANES = 8;
const CONFIG = {
  // All workers of this process and the recorder share one event loop.
  leaseDurationMs: seconds(15),
  opTimeoutMs: seconds(5),
  drainDeadlineMs: seconds(5),
  replanIntervalMs: seconds(60),
  maxInFlight: LANES,
};
/** What one process seeds with: 60 splits a transaction. */
const SEEDS_MAX = Math.ceil(SPLITS / 50);

describe('publication', () => {
  test('publication - a hundred thousand splits are stored once each, also when the leader is killed half-way', async () => {
    const planned = (id: string) =>
      manySplits(SPLITS, () => fleet!.timeLine.noteFor(id)({ what: 'planned' }));
    const started = await startFleet({ config: CONFIG, work: { stepMs: 60_000 } });
    fleet = started.fleet;
    const { gateway, endpoint } = started.server;
    const { timeLine, keys } = fleet;
    const isThere = (id: string) => fleet!.entry(keys.presence(id as never)) !== undefined;
    const startMs = machineMs();
    const first = fleet.child('first', { manySplits: SPLITS });
    await fleet.until('it leads', () => fleet!.leader() === 'first');
    const second = fleet.child('second', { manySplits: SPLITS });
    await fleet.until('the next one is there', () => isThere('second'));
    for (const id of ids(WORKERS, 'worker-')) fleet.start(id, { planner: planned(id) });
    await fleet.until(
      'half is stored',
      () => fleet!.split(`m${SPLITS / 2}`) !== null,
      patiently(60_000),
    );
    await first.kill();
    expect(fleet.plan()).toMatchObject({ sealed: false });
    const stored = await count(gateway, `${keys.root}specs/`);
    expect(stored).toBeLessThan(SPLITS);
    await fleet.until('all is published', () => fleet!.plan()?.sealed === true, patiently(90_000));
    // Counted by the server: among so many keys the fleet's own look at the history is slow.
    const leased = () => count(gateway, `${keys.root}leases/`);
    const soonMs = machineMs() + 2 * CONFIG.leaseDurationMs;
    while ((await leased()) < (WORKERS + 1) * LANES) {
      expect(machineMs()).toBeLessThan(soonMs);
      await sleep(200);
    }

    // The planner ran once, and once more for the leader that was killed.
    expect(timeLine.all({ what: 'planned' }).map(({ worker }) => worker)).toEqual([
      'first',
      'second',
    ]);
    expect(timeLine.all({ what: 'leadershipGained' })).toHaveLength(2);
    for (const what of ['sessionLost', 'leadershipLost', 'lost'])
      expect(timeLine.all({ what })).toEqual([]);
    // Work began long before all was stored.
    const begun = timeLine.first({ what: 'started' })!.atMs;
    expect(begun - startMs).toBeLessThan(patiently(60_000));
    expect(fleet.plan()).toMatchObject({ planned: SPLITS, finality: 'final' });
    for (const kind of ['specs/', 'splits/'])
      expect(await count(gateway, keys.root + kind)).toBe(SPLITS);
    // Bounded in number, and none was refused for its size.
    const transactions = await metric(endpoint, 'grpc_server_handled_total', ['"Txn"']);
    expect(transactions).toBeLessThan(SEEDS_MAX + 100 * (WORKERS + 2));
    expect(
      await metric(endpoint, 'grpc_server_handled_total', ['"Txn"', '"InvalidArgument"']),
    ).toBe(0);
    expect(await fleet.verify()).toEqual([]);
    // Each was created once, and a spec never written again.
    const specs = fleet.recorder.entries.filter(({ key }) => key.startsWith(`${keys.root}specs/`));
    expect(specs).toHaveLength(SPLITS);
    expect(second.hasExited).toBe(false);
  }, 180_000);
});

async function count(gateway: Gateway, prefix: string): Promise<number> {
  const answer = await gateway.call('kv/range', {
    key: encode(prefix),
    range_end: endOfPrefix(prefix),
    count_only: true,
  });
  return Number(answer.count);
}
