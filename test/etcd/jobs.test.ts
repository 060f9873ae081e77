/** Many jobs of one process on one client of a store: what they share is counted, at the client and at the server. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createWorker, type Store, type Worker } from '../../src/index.ts';
import { etcdStore } from '../../src/store/etcd/index.ts';
import { keyOf } from '../../src/store/batch.ts';
import { patiently } from '../support/patience.js';
import { type EtcdServer, startEtcd } from './support/server.ts';
import { until } from './support/eventually.ts';
import { metric } from './support/server/metrics.ts';
import { type Proxy, startProxy } from './support/server/proxy.ts';

const JOBS = 12;
const SPLITS = 3;

/** A client that counts what workers ask of it. */
interface Counted {
  readonly store: Store;
  /** Batches with keys of a start-up probe. */
  probeBatches: number;
  /** Reads that may wait for others. */
  checks: number;
  otherReads: number;
}

function counted(inner: Store): Counted {
  const isProbe = (key: string): boolean => key.includes('/probe/');
  const counts: Counted = {
    probeBatches: 0,
    checks: 0,
    otherReads: 0,
    store: {
      name: inner.name,
      openSession: (id, ttlMs, options) => inner.openSession(id, ttlMs, options),
      keepAlive: (id, options) => inner.keepAlive(id, options),
      closeSession: (id, options) => inner.closeSession(id, options),
      read: (range, read, options) => {
        if (read.patienceMs === undefined) counts.otherReads += 1;
        else counts.checks += 1;
        return inner.read(range, read, options);
      },
      transact: (batch, options) => {
        const keys = batch.txns.flatMap(({ writes }) => writes.map(keyOf));
        if (keys.some(isProbe)) counts.probeBatches += 1;
        return inner.transact(batch, options);
      },
      watch: (range, fromRevision) => inner.watch(range, fromRevision),
      close: () => inner.close(),
    },
  };
  return counts;
}

let server: EtcdServer;
let proxy: Proxy;
beforeAll(async () => {
  server = await startEtcd();
  proxy = await startProxy(server.port);
});
afterAll(async () => {
  await proxy.stop();
  await server.stop();
});

/** Workers of `count` jobs of one split each, on one client; resolves when each holds its splits. */
async function start(name: string, count: number): Promise<Counted & { stop(): Promise<void> }> {
  const client = etcdStore({ endpoints: [proxy.endpoint] });
  const counts = counted(client);
  let held = 0;
  const workers: Worker[] = Array.from({ length: count }, (_, index) =>
    createWorker({
      job: `${name}-${index}`,
      store: counts.store,
      planner: {
        fingerprint: () => 'jobs:v1',
        plan: () => ({
          splits: Array.from({ length: SPLITS }, (_, split) => ({
            id: `s${split}`,
            descriptor: '',
          })),
          finality: 'final',
        }),
      },
      config: { leaseDurationMs: patiently(6_000), reconcileIntervalMs: patiently(1_000) },
    }),
  );
  for (const worker of workers) {
    void worker
      .run(async ({ draining }) => {
        held += 1;
        await draining.whenRequested();
      })
      .catch(() => undefined);
  }
  await until(() => held === count * SPLITS, patiently(30_000));
  return Object.assign(counts, {
    stop: async () => {
      await Promise.all(workers.map((worker) => worker.stop()));
      await client.close();
    },
  });
}

/** Reads that the server has answered, single or as transactions. */
async function answered(): Promise<number> {
  const of = (method: string): Promise<number> =>
    metric(server.endpoint, 'grpc_server_handled_total', [`grpc_method="${method}"`]);
  return (await of('Range')) + (await of('Txn'));
}

describe('many jobs on one client of a store', () => {
  test('many jobs on one client - connect no more often than one job, and probe the store once', async () => {
    const before = proxy.counters.accepted;
    const one = await start('alone', 1);
    const ofOne = proxy.counters.accepted - before;
    expect(one.probeBatches).toBe(2);
    await one.stop();
    const many = await start('many', JOBS);
    expect(proxy.counters.accepted - before - ofOne).toBeLessThanOrEqual(ofOne);
    expect(many.probeBatches).toBe(2);
    await many.stop();
  });

  test('many jobs on one client - have their checks travel together', async () => {
    const many = await start('resting', JOBS);
    // What follows a start is over.
    const settled = many.checks + 100;
    await until(() => many.checks >= settled, patiently(30_000));
    const [checks, others, calls] = [many.checks, many.otherReads, await answered()];
    await until(() => many.checks >= checks + 300, patiently(30_000));
    const made = many.checks - checks;
    const sent = (await answered()) - calls - (many.otherReads - others);
    expect(sent).toBeLessThan(made / 4);
    await many.stop();
  });
});
