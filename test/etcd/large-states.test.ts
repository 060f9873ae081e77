/** Splits that carry as much state as they may: a leader reads them all, each is granted, and a few answers are held at most. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, test } from '@jest/globals';
import type { Epoch } from '../../src/base/decimals.ts';
import { createWorker } from '../../src/index.ts';
import { seededRecord } from '../../src/protocol/tenancy-records.ts';
import { jobKeys } from '../../src/records/keys.ts';
import { planCodec, specCodec, splitCodec, STATE_BYTES_MAX } from '../../src/records/records.ts';
import { etcdStore } from '../../src/store/etcd/index.ts';
import type { Store, Txn } from '../../src/store/port.ts';
import { finalPlan, ids, JOB, watched } from '../support/fleet.ts';
import { patiently } from '../support/patience.js';
import { seconds } from './support/fleet.ts';
import { startEtcd } from './support/server.ts';

const SPLITS = ids(1_000);
const PREFIX = 'large';
const KEYS = jobKeys(PREFIX, JOB);
const STAMP = { instance: 'seed', nonce: 'seed', write: 1 } as never;
/** All of them together take 333 MiB as they are stored. */
const HELD_MIB_MAX = 160;
const LANES = 8;
const SAMPLE_MS = 20;

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

/** A plan whose splits have been worked on before. */
async function seed(store: Store): Promise<void> {
  const state = Buffer.alloc(STATE_BYTES_MAX, 7).toString('base64');
  const send = (...writes: [key: string, value: string][]): Promise<unknown> => {
    const puts = writes.map(([put, value]) => ({ put, value, session: null }));
    const txn: Txn = { compares: [], writes: puts, onConflict: [] };
    return store.transact({ guard: [], txns: [txn] }, { timeoutMs: patiently(10_000) });
  };
  const spec = specCodec.encode({ weight: 1, descriptor: '' }, STAMP);
  const progress = { watermark: '1', state, completed: false };
  const record = { ...seededRecord({ weight: 1, seed: progress }), epoch: '1' as Epoch };
  const split = splitCodec.encode(record, STAMP);
  for (const id of SPLITS as never[]) {
    await send([KEYS.spec(id), spec], [KEYS.split(id), split]);
  }
  const plan = {
    fingerprint: finalPlan(SPLITS).fingerprint(),
    generation: 0,
    finality: 'final',
    sealed: true,
    planned: SPLITS.length,
    cursor: null,
    requeues: 0,
    verdict: null,
  } as const;
  await send([KEYS.plan, planCodec.encode(plan, STAMP)]);
}

/** The most that this process held at once, garbage included, in MiB above what it held at the beginning. */
function watchMemory(): { end(): number } {
  const held = (): number => {
    const { heapUsed, external } = process.memoryUsage();
    return (heapUsed + external) / 2 ** 20;
  };
  const before = held();
  let peak = 0;
  const timer = setInterval(() => {
    peak = Math.max(peak, held() - before);
  }, SAMPLE_MS);
  return {
    end: () => {
      clearInterval(timer);
      return peak;
    },
  };
}

test('large states - a thousand splits with 256 KiB each become ready, in the memory of a few answers (R24)', async () => {
  const server = await startEtcd({ quotaBytes: 4 * 2 ** 30 });
  ends.push(() => server.stop());
  const store = etcdStore({ endpoints: [server.endpoint] });
  ends.push(() => store.close());
  await seed(store);
  const leaseDurationMs = seconds(4);
  const worker = createWorker({
    job: JOB,
    prefix: PREFIX,
    store,
    instanceId: 'a',
    planner: finalPlan(SPLITS),
    config: { leaseDurationMs, replanIntervalMs: leaseDurationMs, maxInFlight: LANES },
  });
  ends.push(() => worker.stop());
  const memory = watchMemory();
  const granted: (number | undefined)[] = [];
  const run = watched(
    worker.run(async (grant) => {
      granted.push(grant.progress?.state?.length);
      await grant.complete({ watermark: 2, state: '' });
    }),
  );
  const endMs = performance.now() + patiently(40_000);
  while (granted.length < 4 * LANES && performance.now() < endMs) await sleep(SAMPLE_MS);
  const peakMiB = memory.end();
  expect(granted.length).toBeGreaterThanOrEqual(4 * LANES);
  expect(new Set(granted)).toEqual(new Set([STATE_BYTES_MAX]));
  // It led all the while: a term that begins anew would read everything again.
  expect([run.state, worker.status().plan?.generation]).toEqual(['pending', 1]);
  expect(peakMiB).toBeGreaterThan(1);
  expect(peakMiB).toBeLessThan(HELD_MIB_MAX);
}, 60_000);
