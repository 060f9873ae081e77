/** What a fleet at rest costs: bytes on the wire, counted by a proxy before the store, and processor time of its workers. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { startProxy } from '../../etcd/support/server/proxy.ts';
import { holdAll, rounded, startWorker, until } from './support.ts';

/** Times are the defaults, so that it is measured over whole intervals of reconciliation. */
const FLEET = { workers: 50, splits: 5_000, intervals: 2, reconcileMs: 30_000 };
const QUICK = { ...FLEET, workers: 10, splits: 1_000, intervals: 1 };

export interface Resting {
  readonly workers: number;
  readonly splits: number;
  /** Of the whole fleet, both ways. */
  readonly bytesPerSecond: number;
  /** Of one worker, as a share of a processor. */
  readonly workerCpu: number;
}

export async function measureResting(endpoint: string, isQuick: boolean): Promise<Resting> {
  const { workers, splits, intervals, reconcileMs } = isQuick ? QUICK : FLEET;
  const proxy = await startProxy(endpoint);
  const child = fork(process.argv[1]!, [
    ...['etcd', '--resting', proxy.endpoint],
    ...[String(workers), String(splits), String(intervals * reconcileMs)],
  ]);
  const gone = once(child, 'exit');
  try {
    await Promise.race([once(child, 'message'), failed(gone)]);
    const bytes = (): number => proxy.counters.requestBytes + proxy.counters.answerBytes;
    const before = bytes();
    const startMs = performance.now();
    const [{ cpuMs, tookMs }] = (await Promise.race([once(child, 'message'), failed(gone)])) as [
      { cpuMs: number; tookMs: number },
    ];
    const seconds = (performance.now() - startMs) / 1_000;
    return {
      workers,
      splits,
      bytesPerSecond: Math.round((bytes() - before) / seconds),
      workerCpu: rounded(cpuMs / tookMs / workers, 5),
    };
  } finally {
    child.kill('SIGKILL');
    await gone;
    await proxy.stop();
  }
}

async function failed(gone: Promise<unknown>): Promise<never> {
  await gone;
  throw new Error('the fleet ended before it was measured');
}

/** The process of {@link measureResting}: says when the fleet is at rest, then what it took. */
export async function runResting(
  endpoint: string,
  workers: number,
  splits: number,
  forMs: number,
): Promise<void> {
  process.once('disconnect', () => {
    process.exit();
  });
  let held = 0;
  for (let index = 0; index < workers; index += 1) {
    const { worker } = startWorker({
      endpoint,
      job: 'resting',
      instanceId: `worker-${index}`,
      splits,
      config: { maxInFlight: Math.ceil(splits / workers) },
    });
    holdAll(
      worker,
      () => (held += 1),
      () => (held -= 1),
    );
  }
  await until('the fleet', () => held === splits, 240_000);
  // What was written on the way here is compared once.
  await sleep(1.5 * FLEET.reconcileMs);
  process.send!('resting');
  const startMs = performance.now();
  const cpu = process.cpuUsage();
  await sleep(forMs);
  const { user, system } = process.cpuUsage(cpu);
  process.send!({ cpuMs: (user + system) / 1_000, tookMs: performance.now() - startMs });
}
