/** After `stop()` and `close()` nothing of a worker or its store is left in the process. */
import { once } from 'node:events';
import { afterEach, describe, expect, test } from '@jest/globals';
import { runScript } from './support/child.ts';
import type { Restarts } from './support/child-restarts.ts';
import { CONFIG } from './support/fleet.ts';
import { startEtcd } from './support/server.ts';
import type { EtcdServer } from './support/server.ts';
import { metric } from './support/metrics.ts';
import { machineMs } from './support/time-line.ts';

let server: EtcdServer | undefined;
afterEach(async () => {
  await server?.stop();
  server = undefined;
});

const ROUNDS = 20;

describe('stop', () => {
  test('stop - workers started and stopped twenty times in one process leave nothing, and it ends by itself', async () => {
    server = await startEtcd();
    const child = runScript(
      'child-restarts.ts',
      [server.endpoint, String(ROUNDS), JSON.stringify(CONFIG)],
      'ignore',
    );
    let output = '';
    let errors = '';
    child.stdout!.on('data', (chunk: Buffer) => (output += chunk.toString()));
    child.stderr!.on('data', (chunk: Buffer) => (errors += chunk.toString()));
    const timer = setTimeout(() => child.kill('SIGKILL'), 45_000);
    const [code] = (await once(child, 'exit')) as [number | null];
    const exitedMs = machineMs();
    clearTimeout(timer);
    expect({ code, errors }).toEqual({ code: 0, errors: '' });
    const { rounds, endedAtMs } = JSON.parse(output) as Restarts;
    expect(exitedMs - endedAtMs).toBeLessThan(1_000);
    expect(rounds).toHaveLength(ROUNDS);
    for (const round of rounds) {
      expect(round).toMatchObject({ lateCalls: 0, requestsInFlight: 0, resources: [] });
    }
    // Code that is compiled late grows the heap a little; what a worker leaves would do so each time.
    expect(rounds.at(-1)!.heapBytes).toBeLessThan(rounds[4]!.heapBytes * 1.1);
    // Nothing of it is left on the server either.
    const { leases } = (await server.gateway.call('lease/leases', {})) as { leases?: unknown[] };
    expect(leases ?? []).toEqual([]);
    expect(await metric(server.endpoint, 'etcd_debugging_mvcc_watcher_total')).toBe(0);
  });
});
