/** What an awaited commit costs a worker: two processes, each with one worker, that commit as fast as they are answered. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import type { Grant } from '../../../src/index.ts';
import { rounded, startWorker } from './support.ts';

const WORKERS = 2;
const SPLITS = 64;
const COMMITS = 20_000;
const WARM_UP = 2_000;

export interface TwoWorkers {
  readonly perSecond: number;
  /** Processor time of the workers' processes, in microseconds. */
  readonly cpuUsPerCommit: number;
}

/** What a process tells of its share. */
interface Share {
  readonly cpuUs: number;
  readonly tookMs: number;
}

export async function measureTwoWorkers(endpoint: string): Promise<TwoWorkers> {
  const children = Array.from({ length: WORKERS }, (_, index) =>
    fork(process.argv[1]!, ['etcd', '--committer', endpoint, `worker-${index}`]),
  );
  try {
    const tell = async (message: string): Promise<unknown[]> => {
      const answers = children.map((child) => answerOf(child));
      for (const child of children) child.send(message);
      return Promise.all(answers);
    };
    // Each says when it holds its share.
    await Promise.all(children.map((child) => answerOf(child)));
    await tell(String(WARM_UP / WORKERS));
    const shares = (await tell(String(COMMITS / WORKERS))) as Share[];
    const cpuUs = shares.reduce((sum, share) => sum + share.cpuUs, 0);
    const tookMs = Math.max(...shares.map((share) => share.tookMs));
    return {
      perSecond: Math.round((COMMITS / tookMs) * 1_000),
      cpuUsPerCommit: rounded(cpuUs / COMMITS, 1),
    };
  } finally {
    await Promise.all(
      children.map(async (child) => {
        const gone = once(child, 'exit');
        child.disconnect();
        await gone;
      }),
    );
  }
}

async function answerOf(child: ChildProcess): Promise<unknown> {
  const [answer] = (await Promise.race([once(child, 'message'), ended(child)])) as [unknown];
  return answer;
}

async function ended(child: ChildProcess): Promise<never> {
  await once(child, 'exit');
  throw new Error('a worker of the bench ended by itself');
}

/** The process of one worker of {@link measureTwoWorkers}: commits as often as it is told. */
export async function runCommitter(endpoint: string, instanceId: string): Promise<void> {
  const { worker, stop } = startWorker({
    endpoint,
    job: 'two-workers',
    splits: SPLITS,
    config: { maxInFlight: SPLITS / WORKERS },
    instanceId,
  });
  const grants: Grant[] = [];
  void (async () => {
    for await (const grant of worker.grants()) {
      grants.push(grant);
      if (grants.length === SPLITS / WORKERS) process.send!('ready');
    }
  })();
  let watermark = 0;
  process.on('message', (count: string) => {
    void (async () => {
      let left = Number(count);
      const before = process.cpuUsage();
      const startMs = performance.now();
      await Promise.all(
        grants.map(async (grant) => {
          while (left > 0) {
            left -= 1;
            watermark += 1;
            await grant.commit({ watermark });
          }
        }),
      );
      const { user, system } = process.cpuUsage(before);
      const tookMs = performance.now() - startMs;
      process.send!({ cpuUs: user + system, tookMs } satisfies Share);
    })();
  });
  await once(process, 'disconnect');
  await Promise.all(grants.map((grant) => grant.release()));
  await stop();
}
