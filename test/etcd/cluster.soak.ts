/** Members of an etcd cluster are killed, stopped and restarted while a job runs over it. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { ClusterFleet, LEASE_MS } from './support/cluster-fleet.ts';
import { machineMs } from './support/time-line.ts';

let job: ClusterFleet;
beforeEach(async () => {
  job = await ClusterFleet.start();
});
afterEach(() => job.close());

describe('three members', () => {
  test('cluster - the leading member is killed, and the job goes on; then it comes back', async () => {
    await job.run();
    const leader = await job.cluster.leader();
    await leader.kill();
    await job.goOn();
    await job.cluster.leader();
    await leader.restart();
    await job.goOn();
    await job.expectSound();
  });

  test.each([
    ['the leading member', true],
    ['a following member', false],
  ])(
    'cluster - %s stands still for longer than a lease, and the job goes on',
    async (_, isLeader) => {
      await job.run();
      const leader = await job.cluster.leader();
      const frozen = isLeader ? leader : job.cluster.members.find((member) => member !== leader)!;
      frozen.pause();
      const pausedMs = machineMs();
      await job.goOn();
      await sleep(pausedMs + LEASE_MS * 1.2 - machineMs());
      frozen.resume();
      await job.goOn();
      await job.expectSound();
    },
  );

  test('cluster - all members are restarted one by one, and nobody loses a split', async () => {
    await job.run();
    for (const member of job.cluster.members) {
      await job.renewed();
      await member.restart();
      await job.goOn();
    }
    expect(job.fleet.timeLine.all({ what: 'lost' })).toEqual([]);
    await job.expectSound();
  });
});
