/**
 * Measures fenced commits through the public API, on the memory store and the clock of the host: how many a second, how
 * many events the charts handle for each, and what a held split costs in memory.
 */
import { setImmediate } from 'node:timers/promises';
import {
  createOperator,
  createWorker,
  type Grant,
  memoryStore,
  type MemoryStore,
  type Worker,
} from '../../src/index.ts';

const SPLITS = [1, 64, 1_000];
const COMMITS_TO_WARM_UP = 20_000;
const MEASURE_MS = 2_000;
/** A single split is too small to be weighed: so many are weighed together, each held by a worker of its own job. */
const SPLITS_WEIGHED_MIN = 64;

interface Case {
  readonly splits: number;
  readonly commitsPerSecond: number;
  readonly chartEventsPerCommit: number;
  readonly bytesPerHeldSplit: number;
}

/** Runs all cases and prints them: one JSON document with `--json`, else a table. Returns the exit code. */
export async function run(
  flags: readonly string[],
  print: (line: string) => void,
): Promise<number> {
  const cases: Case[] = [];
  for (const splits of SPLITS) {
    cases.push({
      splits,
      ...(await measureCommits(splits)),
      bytesPerHeldSplit: await measureMemory(splits),
    });
  }
  if (flags.includes('--json')) {
    print(JSON.stringify({ cases }));
    return 0;
  }
  print(row(['splits', 'commits/s', 'chart events/commit', 'bytes/held split']));
  for (const { splits, commitsPerSecond, chartEventsPerCommit, bytesPerHeldSplit } of cases) {
    print(row([splits, commitsPerSecond, chartEventsPerCommit, bytesPerHeldSplit]));
  }
  return 0;
}

function row(cells: readonly (string | number)[]): string {
  return cells
    .map((cell) => cell.toLocaleString('en-US'))
    .map((cell, index) => cell.padStart([7, 12, 20, 17][index]!))
    .join(' ');
}

/** Every split commits as fast as it can, one commit after the other. */
async function measureCommits(
  splits: number,
): Promise<Pick<Case, 'commitsPerSecond' | 'chartEventsPerCommit'>> {
  const store = memoryStore();
  const worker = workerOf(store, 'commits', splits);
  const grants = await take(worker, splits);
  let watermark = 0;
  const commitUntil = (isOver: () => boolean): Promise<unknown> =>
    Promise.all(
      grants.map(async (grant) => {
        while (!isOver()) {
          watermark += 1;
          await grant.commit({ watermark });
        }
      }),
    );
  await commitUntil(() => watermark >= COMMITS_TO_WARM_UP);

  const eventsBefore = worker.status().chartEvents;
  const before = watermark;
  const startMs = performance.now();
  await commitUntil(() => performance.now() - startMs >= MEASURE_MS);
  const tookMs = performance.now() - startMs;
  const commits = watermark - before;
  const events = worker.status().chartEvents - eventsBefore;
  await worker.stop();
  await store.close();
  return {
    commitsPerSecond: Math.round((commits / tookMs) * 1_000),
    chartEventsPerCommit: Number((events / commits).toFixed(4)),
  };
}

/** Heap with everything held, minus heap with the same workers on the same plans holding nothing, by split. */
async function measureMemory(splits: number): Promise<number> {
  const jobs = Math.ceil(SPLITS_WEIGHED_MIN / splits);
  const store = memoryStore();
  const names = Array.from({ length: jobs }, (_, index) => `memory-${index}`);
  const operators = names.map((job) => createOperator({ job, store }));
  const workers = names.map((job) => workerOf(store, job, splits));
  // While paused, a job is planned and assigned, but nothing is claimed.
  await Promise.all(operators.map((operator) => operator.pause()));
  const held = workers.map((worker) => take(worker, splits));
  for (const worker of workers) {
    while (worker.status().plan?.sealed !== true) await setImmediate();
  }
  const bytesBefore = await heapBytes(store);
  await Promise.all(operators.map((operator) => operator.resume()));
  const grants = await Promise.all(held);
  const bytesAfter = await heapBytes(store);
  // Grants are part of what is weighed: they must live until here.
  const count = grants.flat().length;
  await Promise.all(workers.map((worker) => worker.stop()));
  await store.close();
  return Math.round((bytesAfter - bytesBefore) / count);
}

function workerOf(store: MemoryStore, job: string, splits: number): Worker {
  return createWorker({
    job,
    store,
    instanceId: 'bench',
    planner: {
      fingerprint: () => 'bench',
      plan: () => ({
        splits: Array.from({ length: splits }, (_, index) => ({
          id: `split-${index}`,
          descriptor: `rows of split ${index}`,
        })),
        finality: 'final',
      }),
    },
    config: { maxInFlight: 4_096, opTimeoutMs: 1_000, drainDeadlineMs: 1_000 },
  });
}

/** Starts a worker and takes so many grants of it. */
async function take(worker: Worker, count: number): Promise<Grant[]> {
  const grants: Grant[] = [];
  const stream = worker.grants();
  while (grants.length < count) {
    const next = await stream.next();
    if (next.done === true) throw new Error('the worker ended before it held everything');
    grants.push(next.value);
  }
  return grants;
}

/** Bytes of the heap once everything that can be freed is; old versions in the store do not count. */
async function heapBytes(store: MemoryStore): Promise<number> {
  store.compact();
  for (let round = 0; round < 4; round += 1) {
    await setImmediate();
    globalThis.gc?.();
  }
  return process.memoryUsage().heapUsed;
}
