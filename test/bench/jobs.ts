/**
 * Measures many jobs of one process on one store: how long until each holds its splits, and what they cost once they rest.
 * `--jobs=<number>` takes more or fewer, `--rest=<seconds>` rests longer.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { createWorker, type Worker } from '../../src/index.ts';
import { etcdStore } from '../../src/store/etcd/index.ts';
import { startEtcd } from '../etcd/support/server.ts';
import { heldBy, holdAll, rounded, until } from './etcd/support.ts';

const JOBS = 50;
const SPLITS = 4;
/** Two rounds of reconciliation. */
const REST_SECONDS = 60;
/** What was written at the start is compared once. */
const SETTLE_MS = 45_000;
const BYTES_OF_MIB = 1024 * 1024;

/** Runs and prints: one JSON document with `--json`, else one line. Returns the exit code. */
export async function run(
  flags: readonly string[],
  print: (line: string) => void,
): Promise<number> {
  const jobs = numberOf(flags, 'jobs') ?? JOBS;
  const restMs = 1_000 * (numberOf(flags, 'rest') ?? REST_SECONDS);
  const server = await startEtcd({ unsafeNoFsync: false });
  try {
    const figures = await measure(server.endpoint, jobs, restMs);
    if (flags.includes('--json')) print(JSON.stringify(figures));
    else
      print(
        `jobs ${Object.entries(figures)
          .join(', ')
          .replaceAll(/(\w+),/g, '$1 ')}`,
      );
  } finally {
    await server.stop();
  }
  return 0;
}

async function measure(endpoint: string, jobs: number, restMs: number) {
  const store = etcdStore({ endpoints: [endpoint] });
  const warnings: string[] = [];
  const startMs = performance.now();
  const workers = Array.from({ length: jobs }, (_, index) =>
    startJob(`job-${index}`, store, (line) => warnings.push(line)),
  );
  await until('every job', () => workers.every((worker) => heldBy(worker) === SPLITS), 300_000);
  const tookMs = performance.now() - startMs;
  await sleep(SETTLE_MS);
  const cpu = process.cpuUsage();
  const restedFromMs = performance.now();
  await sleep(restMs);
  const { user, system } = process.cpuUsage(cpu);
  const idleCpu = (user + system) / 1_000 / (performance.now() - restedFromMs);
  globalThis.gc?.();
  const heap = process.memoryUsage().heapUsed / BYTES_OF_MIB;
  await Promise.all(workers.map((worker) => worker.stop()));
  await store.close();
  return {
    jobs,
    startMs: rounded(tookMs, 0),
    idleCpu: rounded(idleCpu, 4),
    heapMiB: rounded(heap, 1),
    warnings: warnings.length,
  };
}

function startJob(
  job: string,
  store: ReturnType<typeof etcdStore>,
  warned: (line: string) => void,
): Worker {
  const quiet = (): void => undefined;
  const loud = (_: unknown, message: string): void => {
    warned(message);
  };
  const worker = createWorker({
    job,
    store,
    instanceId: 'alone',
    planner: {
      fingerprint: () => 'bench',
      plan: () => ({
        splits: Array.from({ length: SPLITS }, (_, index) => ({
          id: `split-${index}`,
          descriptor: '',
        })),
        finality: 'final',
      }),
    },
    logger: { debug: quiet, info: quiet, warn: loud, error: loud },
  });
  holdAll(worker);
  return worker;
}

function numberOf(flags: readonly string[], name: string): number | undefined {
  const flag = flags.find((one) => one.startsWith(`--${name}=`));
  return flag === undefined ? undefined : Number(flag.slice(name.length + 3));
}
