/** Plans whose splits carry much state: how soon a new leader has read them, and what it takes of memory meanwhile. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { Epoch } from '../../../src/base/decimals.ts';
import type { SplitId } from '../../../src/base/ids.ts';
import { seededRecord } from '../../../src/protocol/tenancy-records.ts';
import { jobKeys } from '../../../src/records/keys.ts';
import { planCodec, specCodec, splitCodec } from '../../../src/records/records.ts';
import { etcdStore } from '../../../src/store/etcd/index.ts';
import type { Store, Txn } from '../../../src/store/port.ts';
import { startEtcd } from '../../etcd/support/server.ts';
import { holdAll, startWorker, until } from './support.ts';

const KIB = 1_024;
const SIZES = [
  { splits: 1_000, stateBytes: 256 * KIB },
  { splits: 100_000, stateBytes: 16 * KIB },
];
const QUICK_SIZES = [
  { splits: 200, stateBytes: 256 * KIB },
  { splits: 5_000, stateBytes: 16 * KIB },
];
const QUOTA_BYTES = 8 * 2 ** 30;
const BATCH_BYTES = 700 * KIB;
const BATCH_SPLITS = 40;
const SEEDS_IN_FLIGHT = 4;
const CALL = { timeoutMs: 60_000 };
/** Beyond what a worker needs, a heap grows only as far as it is let. */
const HEAP_MIB = 512;

export interface Large {
  readonly splits: number;
  readonly stateBytes: number;
  /** From the start of the worker's process to the first grant. */
  readonly readyMs: number;
  /** Of the whole process of the worker. */
  readonly peakMiB: number;
}

export async function measureLarge(isQuick: boolean): Promise<Large[]> {
  const figures: Large[] = [];
  for (const size of isQuick ? QUICK_SIZES : SIZES) figures.push(await measure(size));
  return figures;
}

async function measure(size: (typeof SIZES)[number]): Promise<Large> {
  const server = await startEtcd({ quotaBytes: QUOTA_BYTES });
  try {
    const store = etcdStore({ endpoints: [server.endpoint] });
    await seed(store, size);
    await store.close();
    const child = fork(process.argv[1]!, ['etcd', '--large', server.endpoint], {
      execArgv: [`--max-old-space-size=${HEAP_MIB}`],
    });
    const gone = once(child, 'exit');
    const [answer] = (await Promise.race([once(child, 'message'), gone])) as [unknown];
    await gone;
    if (typeof answer !== 'object' || answer === null)
      throw new Error('the worker ended without an answer');
    return { ...size, ...(answer as Pick<Large, 'readyMs' | 'peakMiB'>) };
  } finally {
    await server.stop();
  }
}

/** The process of {@link measure}'s worker. */
export async function runLarge(endpoint: string): Promise<void> {
  const { worker, stop } = startWorker({ endpoint, job: 'large', instanceId: 'leader', splits: 0 });
  let isGranted = false;
  holdAll(worker, () => (isGranted = true));
  await until('the first grant', () => isGranted, 600_000);
  const readyMs = Math.round(performance.now());
  const peakMiB = Math.round(process.resourceUsage().maxRSS / KIB);
  process.send!({ readyMs, peakMiB });
  await stop();
  process.disconnect();
}

/** A sealed plan whose splits have been worked on, as `startWorker` would have made it. */
async function seed(store: Store, { splits, stateBytes }: (typeof SIZES)[number]): Promise<void> {
  const keys = jobKeys('leasehold', 'large');
  const stamp = { instance: 'seed', nonce: 'seed', write: 1 } as never;
  const put = (key: string, value: string) => ({ put: key, value, session: null });
  const spec = specCodec.encode({ weight: 1, descriptor: '' }, stamp);
  const progress = {
    watermark: '1',
    state: Buffer.alloc(stateBytes, 7).toString('base64'),
    completed: false,
  };
  const record = { ...seededRecord({ weight: 1, seed: progress }), epoch: '1' as Epoch };
  const split = splitCodec.encode(record, stamp);
  const perBatch = Math.max(1, Math.min(BATCH_SPLITS, Math.floor(BATCH_BYTES / split.length)));
  let next = 0;
  const sendAll = async (): Promise<void> => {
    while (next < splits) {
      const first = next;
      next = Math.min(splits, first + perBatch);
      const txns: Txn[] = [];
      for (let index = first; index < next; index += 1) {
        const id = `split-${index}` as SplitId;
        const writes = [put(keys.spec(id), spec), put(keys.split(id), split)];
        txns.push({ compares: [], writes, onConflict: [] });
      }
      await store.transact({ guard: [], txns }, CALL);
    }
  };
  await Promise.all(Array.from({ length: SEEDS_IN_FLIGHT }, sendAll));
  const plan = {
    fingerprint: 'bench',
    generation: 0,
    finality: 'final',
    sealed: true,
    planned: splits,
    cursor: null,
    requeues: 0,
    verdict: null,
  } as const;
  const writes = [put(keys.plan, planCodec.encode(plan, stamp))];
  await store.transact({ guard: [], txns: [{ compares: [], writes, onConflict: [] }] }, CALL);
}
