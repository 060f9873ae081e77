/** How fast work changes hands: between two processes, each with one worker, as services run. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { createOperator, type Logger } from '../../../src/index.ts';
import { etcdStore } from '../../../src/store/etcd/index.ts';
import { machineMs } from '../../etcd/support/time-line.ts';
import { holdAll, quantile, rounded, startWorker, until } from './support.ts';

const JOB = 'handover';
const SPLITS = 16;
const ROUNDS = 40;
const PAUSE_MS = 300;

/** What a process tells, on the clock of the machine. */
interface Moment {
  readonly what: 'decided' | 'granted' | 'returned';
  readonly atMs: number;
}

/** The process of one worker. */
interface Mover {
  readonly child: ChildProcess;
  held: number;
}

/** From the leader's decision to the first call of the new owner's handler; the old owner's hands back at once. */
export async function measureHandover(
  endpoint: string,
): Promise<{ p50Ms: number; p99Ms: number; moves: number }> {
  const decidedMs: number[] = [];
  const grantedMs: number[] = [];
  const start = (id: string): Mover => {
    const child = fork(process.argv[1]!, ['etcd', '--mover', endpoint, id]);
    const mover: Mover = { child, held: 0 };
    child.on('message', ({ what, atMs }: Moment) => {
      if (what === 'decided') decidedMs.push(atMs);
      else mover.held += what === 'granted' ? 1 : -1;
      if (what === 'granted') grantedMs.push(atMs);
    });
    return mover;
  };
  const [a, b] = ['a', 'b'].map(start) as [Mover, Mover];
  const store = etcdStore({ endpoints: [endpoint] });
  const operator = createOperator({ job: JOB, store });
  const isHeld = (byA: number, byB: number) => () => a.held === byA && b.held === byB;
  await until('the balance', isHeld(SPLITS / 2, SPLITS / 2));
  grantedMs.length = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    await sleep(PAUSE_MS);
    await operator.drain('b');
    await until('the drain', isHeld(SPLITS, 0));
    await sleep(PAUSE_MS);
    await operator.undrain('b');
    await until('the balance', isHeld(SPLITS / 2, SPLITS / 2));
  }
  await Promise.all(
    [a, b].map(async ({ child }) => {
      const gone = once(child, 'exit');
      child.send('stop');
      await gone;
    }),
  );
  await store.close();
  // Two processes tell their moments side by side; the moments themselves are of one clock.
  const tookMs = grantedMs.map(
    (atMs) => atMs - Math.max(...decidedMs.filter((decided) => decided <= atMs)),
  );
  return {
    p50Ms: rounded(quantile(tookMs, 0.5)),
    p99Ms: rounded(quantile(tookMs, 0.99)),
    moves: tookMs.length,
  };
}

/** The process of a worker that {@link measureHandover} moves splits to and fro. */
export async function runMover(endpoint: string, instanceId: string): Promise<void> {
  const tell = (what: Moment['what']): void => {
    process.send!({ what, atMs: machineMs() } satisfies Moment);
  };
  const silent = (): void => undefined;
  const logger: Logger = {
    debug: silent,
    info: ({ event, moved }) => {
      if (event === 'assignment.published' && moved !== 0) tell('decided');
    },
    warn: silent,
    error: silent,
  };
  const { worker, stop } = startWorker({
    endpoint,
    job: JOB,
    splits: SPLITS,
    config: { maxInFlight: SPLITS },
    instanceId,
    logger,
  });
  holdAll(
    worker,
    () => {
      tell('granted');
    },
    () => {
      tell('returned');
    },
  );
  await Promise.race([once(process, 'message'), once(process, 'disconnect')]);
  await stop();
  if (process.connected) process.disconnect();
}
