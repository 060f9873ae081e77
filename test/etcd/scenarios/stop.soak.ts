/** After `stop()` and `close()` nothing of a worker or its store is left in the process. */
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, test } from '@jest/globals';
import { runScript } from '../support/child.ts';
import type { Restarts } from '../support/child-restarts.ts';
import { CONFIG } from '../support/fleet.ts';
import { startProxy } from '../support/server/proxy.ts';
import { type EtcdServer, startEtcd } from '../support/server.ts';
import { metric } from '../support/server/metrics.ts';
import { machineMs } from '../support/time-line.ts';
import { patiently } from '../../support/patience.js';

let server: EtcdServer | undefined;
afterEach(async () => {
  await server?.stop();
  server = undefined;
});

const ROUNDS = 50;
/** Each way, so that answers and events are still on their way when a worker has stopped. */
const LATENCY_MS = 5;

describe('stop', () => {
  test('stop - workers started and stopped fifty times in one process leave nothing, and it ends by itself', async () => {
    server = await startEtcd();
    const proxy = await startProxy(server.endpoint);
    proxy.slow(LATENCY_MS);
    const child = runScript(
      'child-restarts.ts',
      [proxy.endpoint, String(ROUNDS), JSON.stringify(CONFIG)],
      'ignore',
    );
    let output = '';
    let errors = '';
    child.stdout!.on('data', (chunk: Buffer) => (output += chunk.toString()));
    child.stderr!.on('data', (chunk: Buffer) => (errors += chunk.toString()));
    const timer = setTimeout(() => child.kill('SIGKILL'), patiently(150_000));
    const [code] = (await once(child, 'exit')) as [number | null];
    const exitedMs = machineMs();
    clearTimeout(timer);
    expect({ code, errors }).toEqual({ code: 0, errors: '' });
    const { rounds, endedAtMs } = JSON.parse(output) as Restarts;
    expect(exitedMs - endedAtMs).toBeLessThan(patiently(1_000));
    expect(rounds).toHaveLength(ROUNDS);
    for (const round of rounds) {
      expect(round).toMatchObject({
        lateCalls: 0,
        lateRequests: 0,
        requestsInFlight: 0,
        resources: [],
        listeners: rounds[0]!.listeners,
      });
    }
    // Code that is compiled late grows the heap a little; what a worker leaves would do so each time.
    expect(rounds.at(-1)!.heapBytes).toBeLessThan(rounds[4]!.heapBytes * 1.1);
    // Nothing of it is left on the server either: no session, no watch, no connection, and no key under a lease.
    // The proxy hears of what was closed a moment after the process has ended.
    while (proxy.open > 0) {
      expect(machineMs() - exitedMs).toBeLessThan(patiently(1_000));
      await sleep(10);
    }
    const stored = await server.gateway.list('leasehold/');
    expect(stored.length).toBeGreaterThan(0);
    expect(stored.filter(({ lease }) => lease !== 0n)).toEqual([]);
    const { leases } = (await server.gateway.call('lease/leases', {})) as { leases?: unknown[] };
    expect(leases ?? []).toEqual([]);
    expect(await metric(server.endpoint, 'etcd_debugging_mvcc_watcher_total')).toBe(0);
  }, 180_000);
});
