/** Three members, the leading one killed: for how long nothing is committed. */
import { setTimeout as sleep } from 'node:timers/promises';
import { startCluster } from '../../etcd/support/server/cluster.ts';
import { quantile, rounded, startWorker, until } from './support.ts';

const ROUNDS = 7;
const QUICK_ROUNDS = 3;

export interface Failover {
  readonly p50Ms: number;
  readonly maxMs: number;
}

export async function measureFailover(isQuick: boolean): Promise<Failover> {
  const cluster = await startCluster({ unsafeNoFsync: false });
  const [endpoint, ...others] = cluster.endpoints;
  const { worker, stop } = startWorker({
    endpoint: endpoint!,
    others,
    job: 'failover',
    instanceId: 'committer',
    splits: 1,
  });
  const committedMs: number[] = [];
  worker
    .run(async (grant) => {
      for (let watermark = 1; !grant.draining.requested; watermark += 1) {
        await grant.commit({ watermark });
        committedMs.push(performance.now());
        await sleep(2);
      }
    })
    .catch(() => undefined);
  const gapsMs: number[] = [];
  try {
    for (let round = 0; round < (isQuick ? QUICK_ROUNDS : ROUNDS); round += 1) {
      await until('commits', goesOn(committedMs));
      await sleep(1_000);
      const leader = await cluster.leader();
      const killedMs = performance.now();
      await leader.kill();
      await until('commits again', goesOn(committedMs));
      gapsMs.push(gapAround(committedMs, killedMs));
      await cluster.restartAll();
    }
  } finally {
    await stop();
    await cluster.stop();
  }
  return { p50Ms: rounded(quantile(gapsMs, 0.5), 0), maxMs: rounded(Math.max(...gapsMs), 0) };
}

/** Whether a second's worth of commits has come since it was asked first. */
function goesOn(committedMs: readonly number[]): () => boolean {
  const fromMs = performance.now();
  const { length } = committedMs;
  return () => committedMs.length >= length + 50 && performance.now() - fromMs > 1_000;
}

/** The longest time without a commit that ended after `sinceMs`. */
function gapAround(committedMs: readonly number[], sinceMs: number): number {
  const first = Math.max(
    1,
    committedMs.findIndex((atMs) => atMs > sinceMs),
  );
  let gap = 0;
  for (let index = first; index < committedMs.length; index += 1) {
    gap = Math.max(gap, committedMs[index]! - committedMs[index - 1]!);
  }
  return gap;
}
