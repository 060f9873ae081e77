/** An etcd cluster that a worker cannot reach, or that has lost its quorum, while a job runs over it. */
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { EtcdMember } from '../support/server/cluster.ts';
import { ClusterFleet, LEASE_MS, RECOVERY_MS, SPLITS } from '../support/cluster-fleet.ts';
import { startProxy } from '../support/server/proxy.ts';
import { machineMs } from '../support/time-line.ts';
import { patiently } from '../../support/patience.js';

let job: ClusterFleet;
beforeEach(async () => {
  job = await ClusterFleet.start();
});
afterEach(() => job.close());

describe('three members', () => {
  test('cluster - the history is compacted while a worker is cut off for longer than its lease, and it is served again', async () => {
    const proxies = await Promise.all(
      job.cluster.endpoints.map((endpoint) => startProxy(endpoint)),
    );
    await job.run((index) =>
      index === 0 ? proxies.map(({ endpoint }) => endpoint) : job.rotated(index),
    );
    for (const proxy of proxies) proxy.cut();
    await job.fleet.until('the others hold all', () =>
      ['b', 'c'].every((id) => job.fleet.leasesOf(id).length === 3),
    );
    await job.goOn();
    await job.fleet.recorder.settled();
    const [gateway] = job.cluster.gateways;
    await gateway!.compact((await gateway!.position()).revision);
    for (const proxy of proxies) await proxy.heal();
    await job.fleet.until(
      'it is served again',
      () => job.fleet.leasesOf('a').length === 2,
      RECOVERY_MS,
    );
    await job.goOn();
    await job.expectSound();
  });

  test('cluster - the quorum is away for three leases, and the job goes on where it was', async () => {
    await job.run();
    const [first, second] = job.cluster.members as [EtcdMember, EtcdMember];
    await job.fleet.recorder.settled();
    await Promise.all([first.kill(), second.kill()]);
    const lostMs = machineMs();
    await job.fleet.until('all handlers stop', () =>
      SPLITS.every((split) => job.fleet.timeLine.has({ what: 'aborted', split, sinceMs: lostMs })),
    );
    // A member that led renews on until it notices, which takes it two election timeouts at most.
    expect(machineMs() - lostMs).toBeLessThan(LEASE_MS + patiently(2_000));
    await job.fleet.stays(
      'nobody works',
      () => !job.fleet.timeLine.has({ what: 'started', sinceMs: lostMs }),
      lostMs + 3 * LEASE_MS - machineMs(),
    );
    await job.cluster.restartAll();
    await job.goOn();
    await job.expectSound();
  });
});
