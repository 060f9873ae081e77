/** What a fleet costs the store, and how soon others go on where a process was killed. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type BenchWorker,
  heldBy,
  holdAll,
  quantile,
  rounded,
  roundTrips,
  startWorker,
  type StoreCall,
  until,
} from './support.ts';

const CLAIMED_SPLITS = 512;
const SEEDED_SPLITS = 10_000;
const IDLE = { workers: 10, splits: 1_000, fewSplits: 10, leaseMs: 2_000, leases: 20 };
const TAKEOVER = { jobs: 8, splits: 4, leaseMs: 5_000 };

/** A worker that is told to take free splits: from the news until it holds them all. */
export async function measureClaims(
  endpoint: string,
): Promise<{ splits: number; roundTrips: number }> {
  const setup = { endpoint, job: 'claims', splits: CLAIMED_SPLITS };
  const leader = startWorker({ ...setup, instanceId: 'leader', config: { maxInFlight: 0 } });
  holdAll(leader.worker);
  await until('the plan', () => leader.worker.status().plan?.sealed === true);
  const calls: StoreCall[] = [];
  let held = 0;
  const claimer = startWorker({
    ...setup,
    instanceId: 'claimer',
    config: { maxInFlight: 4_096 },
    onCall: (call) => calls.push(call),
  });
  let toldMs = Infinity;
  const { watch } = claimer.store;
  claimer.store.watch = (range, from) => ({
    subscribe: (observer) =>
      watch(range, from).subscribe({
        ...observer,
        next(event) {
          const isNews =
            event.kind === 'changes' && event.changes.some(({ key }) => key.includes('/assign/'));
          if (isNews) toldMs = Math.min(toldMs, performance.now());
          observer.next(event);
        },
      }),
  });
  holdAll(claimer.worker, () => (held += 1));
  await until('the claims', () => held === CLAIMED_SPLITS);
  const trips = roundTrips(
    calls.filter(
      ({ kind, startMs }) => kind !== 'session' && kind !== 'opening' && startMs >= toldMs,
    ),
  );
  await claimer.stop();
  await leader.stop();
  return { splits: CLAIMED_SPLITS, roundTrips: trips };
}

/** A new plan, from nothing until it is sealed. */
export async function measureSeeding(
  endpoint: string,
): Promise<{ splits: number; transactions: number; tookMs: number }> {
  let transactions = 0;
  const startMs = performance.now();
  const { worker, stop } = startWorker({
    endpoint,
    job: 'seeding',
    instanceId: 'leader',
    splits: SEEDED_SPLITS,
    config: { maxInFlight: 0 },
    onCall: ({ batch }) => {
      const writes = batch?.txns.flatMap((txn) => txn.writes) ?? [];
      if (writes.some((write) => 'put' in write && write.put.includes('/specs/'))) {
        transactions += 1;
      }
    },
  });
  holdAll(worker);
  await until('the plan', () => worker.status().plan?.sealed === true);
  const tookMs = performance.now() - startMs;
  await stop();
  return { splits: SEEDED_SPLITS, transactions, tookMs: Math.round(tookMs) };
}

export interface Idle {
  readonly revisions: number;
  /** Renewals of one worker. */
  readonly requestsPerSecond: number;
  /** The same in a fleet that holds next to nothing. */
  readonly requestsPerSecondOfFew: number;
  /** Reads of one worker. */
  readonly readsPerSecond: number;
}

/** Two fleets at rest side by side: one holds a hundred times as many splits as the other. */
export async function measureIdle(
  endpoint: string,
  newestRevision: () => Promise<bigint>,
): Promise<Idle> {
  const counts = { many: 0, few: 0, reads: 0 };
  let isCounting = false;
  const fleet = (job: 'many' | 'few', splits: number): BenchWorker[] =>
    Array.from({ length: IDLE.workers }, (_, index) => {
      const one = startWorker({
        endpoint,
        job: `idle-${job}`,
        instanceId: `worker-${index}`,
        splits,
        config: { maxInFlight: splits, leaseDurationMs: IDLE.leaseMs },
        onCall: ({ kind }) => {
          if (!isCounting) return;
          if (kind === 'session') counts[job] += 1;
          else if (kind === 'read' && job === 'many') counts.reads += 1;
        },
      });
      holdAll(one.worker);
      return one;
    });
  const many = fleet('many', IDLE.splits);
  const few = fleet('few', IDLE.fewSplits);
  const held = (workers: readonly BenchWorker[]): number =>
    workers.reduce((sum, { worker }) => sum + heldBy(worker), 0);
  const isBalanced = (): boolean =>
    held(many) === IDLE.splits &&
    held(few) === IDLE.fewSplits &&
    [...many, ...few].every(({ worker }) => heldBy(worker) > 0);
  await until('the fleets', isBalanced, 120_000);
  await sleep(2 * IDLE.leaseMs);
  const before = await newestRevision();
  isCounting = true;
  await sleep(IDLE.leases * IDLE.leaseMs);
  isCounting = false;
  const revisions = Number((await newestRevision()) - before);
  await Promise.all([...many, ...few].map((one) => one.stop()));
  const perSecond = (count: number): number =>
    rounded((count * 1_000) / (IDLE.workers * IDLE.leases * IDLE.leaseMs));
  return {
    revisions,
    requestsPerSecond: perSecond(counts.many),
    requestsPerSecondOfFew: perSecond(counts.few),
    readsPerSecond: perSecond(counts.reads),
  };
}

export interface Takeover {
  /** Of the slowest split. */
  readonly leases: number;
  readonly medianLeases: number;
  /** The same for a process that leads: its successor must be elected first, once the lease of its leadership is over. */
  readonly leaderLeases: number;
  readonly medianLeaderLeases: number;
}

/** The splits of a process that is killed: until the handler of another process is called for each, in leases. */
export async function measureTakeover(endpoint: string): Promise<Takeover> {
  const plain = await takeover(endpoint, 'plain');
  const leading = await takeover(endpoint, 'leading');
  const inLeases = (tookMs: readonly number[], share: number): number =>
    rounded(quantile(tookMs, share) / TAKEOVER.leaseMs);
  return {
    leases: inLeases(plain, 1),
    medianLeases: inLeases(plain, 0.5),
    leaderLeases: inLeases(leading, 1),
    medianLeaderLeases: inLeases(leading, 0.5),
  };
}

type Victims = 'plain' | 'leading';

/** Kills the victims of some jobs at once; milliseconds until each of their splits is held by the survivor of its job. */
async function takeover(endpoint: string, kind: Victims): Promise<number[]> {
  const { jobs, splits, leaseMs } = TAKEOVER;
  const survivors = () =>
    Array.from({ length: jobs }, (_, index) => survivor(endpoint, kind, index));
  // Whoever is there first leads: it holds every split before the other comes.
  const first = kind === 'plain' ? survivors() : [];
  await until('the plans', () => first.every(({ held }) => held.size === splits));
  const victims = fork(process.argv[1]!, ['etcd', '--victims', endpoint, kind]);
  if (kind === 'leading') await once(victims, 'message');
  const all = kind === 'plain' ? first : survivors();
  try {
    await until('the balance', () => all.every(({ held }) => held.size === splits / 2));
    // Neither at the moment of a renewal nor always the same time after one.
    await sleep(leaseMs + Math.random() * (leaseMs / 3));
    const killedMs = performance.now();
    await kill(victims);
    await until('the takeover', () => all.every(({ held }) => held.size === splits));
    return all.flatMap(({ held }) =>
      [...held.values()].filter((atMs) => atMs > killedMs).map((atMs) => atMs - killedMs),
    );
  } finally {
    await kill(victims);
    await Promise.all(all.map(({ stop }) => stop()));
  }
}

function takeoverSetup(endpoint: string, kind: Victims, index: number) {
  const { splits, leaseMs } = TAKEOVER;
  const config = { maxInFlight: splits, leaseDurationMs: leaseMs };
  return { endpoint, job: `takeover-${kind}-${index}`, splits, config };
}

/** A worker that notes since when it holds what it holds. */
function survivor(endpoint: string, kind: Victims, index: number) {
  const held = new Map<string, number>();
  const { worker, stop } = startWorker({
    ...takeoverSetup(endpoint, kind, index),
    instanceId: 'survivor',
  });
  worker
    .run(async ({ split, draining, lost }) => {
      held.set(split.id, performance.now());
      const isLost = new Promise<unknown>((resolve) => {
        lost.addEventListener('abort', resolve);
      });
      await Promise.race([draining.whenRequested(), isLost]);
      held.delete(split.id);
    })
    .catch(() => undefined);
  return { held, stop };
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  await gone;
}

/** The process that {@link measureTakeover} kills; says when it holds everything, which it does only where it came first. */
export async function runVictims(endpoint: string, kind: Victims): Promise<void> {
  process.once('disconnect', () => {
    process.exit();
  });
  const victims = Array.from({ length: TAKEOVER.jobs }, (_, index) => {
    const { worker } = startWorker({
      ...takeoverSetup(endpoint, kind, index),
      instanceId: 'victim',
    });
    holdAll(worker);
    return worker;
  });
  if (kind === 'plain') return;
  await until('the plans', () => victims.every((worker) => heldBy(worker) === TAKEOVER.splits));
  process.send!('leading');
}
