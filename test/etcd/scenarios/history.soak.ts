/** Workers whose streams were cut, and who come back to a store that has forgotten what happened meanwhile. */
import { afterEach, describe, expect, test } from '@jest/globals';
import { encode, type Gateway } from '../support/server/gateway.ts';
import { type EtcdFleet, seconds, startFleet } from '../support/fleet.ts';
import { HandLeader } from '../support/hand-leader.ts';
import { metric } from '../support/server/metrics.ts';
import { startProxy } from '../support/server/proxy.ts';
import { machineMs } from '../support/time-line.ts';
import { patiently } from '../../support/patience.js';

let fleet: EtcdFleet | undefined;
afterEach(async () => {
  await fleet?.close();
  fleet = undefined;
});

/** A node that starts again elects itself after one to two seconds: the cut is shorter than this lease. */
const LEASE_MS = seconds(6);
/** A commit that the cut left unanswered goes out again within two seconds: a drain waits for it. */
const DRAIN_MS = seconds(4);
const config = {
  leaseDurationMs: LEASE_MS,
  replanIntervalMs: LEASE_MS,
  drainDeadlineMs: DRAIN_MS,
};
const FINGERPRINT = 'plan:v1';
const planner = {
  fingerprint: () => FINGERPRINT,
  plan: () => ({ splits: [], finality: 'open' as const }),
};

/** A tick and what a busy machine needs. */
const TICK_MS = patiently(500);

describe('a watch that is cut', () => {
  test.each([
    ['compacted away', true],
    ['kept', false],
  ])(
    'reconnection - with the history %s meanwhile, a worker acts on what is there now',
    async (_, isCompacted) => {
      const started = await startFleet({ planner, config });
      fleet = started.fleet;
      const { server } = started;
      const { timeLine, keys } = fleet;
      const leader = await HandLeader.elect(server.gateway, keys, FINGERPRINT);
      await leader.seed(['s1', 's2', 's3']);
      await leader.assign('a', ['s1', 's2']);
      await leader.assign('b', ['s3']);
      const proxy = await startProxy(server.endpoint);
      const a = fleet.start('a', { store: { endpoints: [proxy.endpoint] } });
      fleet.start('b');
      await fleet.until('both work', () =>
        ['s1', 's2', 's3'].every((id) => fleet!.watermark(id) > 2),
      );

      await fleet.until('it has renewed', () => a.worker.status().sessionLeftMs > LEASE_MS / 2);
      proxy.cut();
      const cutMs = machineMs();
      await putUnrelated(server.gateway, 1_000);
      await leader.seed(['s9']);
      await leader.assign('a', ['s2', 's9']);
      await leader.assign('b', ['s3', 's1']);
      await fleet.recorder.settled();
      if (isCompacted) {
        await server.gateway.compact((await server.gateway.position()).revision);
      }
      await server.restart();
      const accepted = proxy.counters.accepted;
      await proxy.heal();
      const healedMs = machineMs();
      expect(healedMs - cutMs).toBeLessThan(LEASE_MS);

      await fleet.until('a has given up s1 and started s9', () => {
        const isGiven = timeLine.has({ worker: 'a', what: 'ended', split: 's1' });
        return isGiven && timeLine.has({ worker: 'a', what: 'started', split: 's9' });
      });
      expect(machineMs() - healedMs).toBeLessThan(6 * TICK_MS);
      await fleet.until('b works on s1', () =>
        timeLine.has({ worker: 'b', what: 'started', split: 's1' }),
      );
      // Asked back and handed over, not lost; what it kept went on.
      expect(timeLine.all({ worker: 'a', what: 'lost' })).toEqual([]);
      expect(timeLine.all({ worker: 'a', what: 'started', split: 's2' })).toHaveLength(1);
      expect(a.run.state).toBe('pending');
      const watches = await metric(server.endpoint, 'grpc_server_started_total', ['"Watch"']);
      expect(watches).toBeLessThan(10);
      expect(proxy.counters.accepted - accepted).toBeLessThan(10);
      expect(timeLine.overlaps()).toEqual([]);
      expect(await fleet.verify()).toEqual([]);
    },
  );
});

/** Writes keys of nobody, a hundred at once. */
async function putUnrelated(gateway: Gateway, count: number): Promise<void> {
  for (let first = 0; first < count; first += 100) {
    const success = Array.from({ length: 100 }, (_, index) => ({
      request_put: { key: encode(`unrelated-${first + index}`), value: encode('x') },
    }));
    await gateway.call('kv/txn', { success });
  }
}
