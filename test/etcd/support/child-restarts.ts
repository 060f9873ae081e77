/**
 * Starts and stops one worker after the other in one process, in the middle of everything a worker does, and ends by
 * itself. Prints one JSON document: what was still there at each stop, and when the last one was over.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createWorker } from '../../../src/driver/worker.ts';
import { createOperator } from '../../../src/operator/operator.ts';
import { etcdStore } from '../../../src/store/etcd/index.ts';
import type { Store } from '../../../src/store/port.ts';
import { finalPlan } from '../../support/fleet.ts';
import { machineMs } from './time-line.ts';

/** What one round left. */
export interface Round {
  readonly moment: string;
  /** Handler calls after `stop` had resolved. */
  readonly lateCalls: number;
  /** Calls of the store after `stop` had resolved. */
  readonly lateRequests: number;
  readonly requestsInFlight: number;
  /** Listeners of the process itself. */
  readonly listeners: number;
  /** Kinds of what keeps the process alive, as Node names them. */
  readonly resources: readonly string[];
  readonly heapBytes: number;
}

export interface Restarts {
  readonly rounds: readonly Round[];
  readonly endedAtMs: number;
}

const SETTLE_MS_MAX = 500;
/** Longer than a tick. */
const IDLE_MS = 400;
/** When a worker is stopped, one after the other; each job sees all of them. */
const MOMENTS = ['planning', 'claiming', 'working', 'draining', 'idle', 'starting'] as const;
type Moment = (typeof MOMENTS)[number];
const moments = MOMENTS.length;

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** The streams of the process itself. */
const standard = new Set(process.getActiveResourcesInfo());

const [endpoint, count, configText] = process.argv.slice(2);
const config = JSON.parse(configText!) as Record<string, number>;

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await sleep(2);
}

/** The same store, and how often it was asked. */
function counting(store: Store): { store: Store; requests: () => number } {
  let count = 0;
  const counted =
    <Args extends unknown[], Answer>(call: (...args: Args) => Answer) =>
    (...args: Args): Answer => {
      count += 1;
      return call.apply(store, args);
    };
  return {
    store: {
      name: store.name,
      openSession: counted(store.openSession),
      keepAlive: counted(store.keepAlive),
      closeSession: counted(store.closeSession),
      read: counted(store.read),
      transact: counted(store.transact),
      watch: counted(store.watch),
      close: () => store.close(),
    },
    requests: () => count,
  };
}

async function round(number: number): Promise<Round> {
  const store = etcdStore({ endpoints: [endpoint!] });
  const asked = counting(store);
  const job = `job-${Math.floor(number / moments)}`;
  let calls = 0;
  let isDraining = false;
  let isClaiming = false;
  let isPlanning = false;
  const plan = finalPlan(['s1', 's2']);
  const worker = createWorker({
    job,
    store: asked.store,
    instanceId: 'again',
    planner: {
      fingerprint: plan.fingerprint,
      plan: (request) => {
        isPlanning = true;
        return plan.plan(request);
      },
    },
    config,
    inspect: ({ to }) => {
      isClaiming ||= to === 'claiming';
      isDraining ||= to === 'held.draining';
    },
  });
  const run = worker.run(async (grant) => {
    calls += 1;
    await grant.draining.whenRequested();
    await grant.commit({ watermark: number });
  });
  run.catch(() => undefined);
  const operator = createOperator({ job, store });
  const isWorking = (): boolean => calls === 2;
  const all: Record<Moment, () => Promise<unknown>> = {
    planning: () => until(() => isPlanning),
    claiming: () => until(() => isClaiming),
    working: () => until(isWorking),
    draining: async () => {
      await until(isWorking);
      await operator.pause();
      await until(() => isDraining);
      await operator.resume();
    },
    idle: async () => {
      await until(isWorking);
      await sleep(IDLE_MS);
    },
    starting: () => Promise.resolve(),
  };
  const moment = MOMENTS[number % moments]!;
  await all[moment]();
  const stopping = worker.stop();
  // Twice, in the middle of the drain.
  await Promise.all([stopping, worker.stop()]);
  const callsAtStop = calls;
  const requestsAtStop = asked.requests();
  const { requestsInFlight } = worker.status();
  await store.close();
  // Sockets take a moment to close, and late answers to arrive.
  const limitMs = machineMs() + SETTLE_MS_MAX;
  while (resources().length > 0 && machineMs() < limitMs) await sleep(10);
  collectGarbage();
  return {
    moment,
    lateCalls: calls - callsAtStop,
    lateRequests: asked.requests() - requestsAtStop,
    requestsInFlight,
    listeners: process.eventNames().reduce((sum, name) => sum + process.listenerCount(name), 0),
    resources: resources(),
    heapBytes: process.memoryUsage().heapUsed,
  };
}

function resources(): string[] {
  return process.getActiveResourcesInfo().filter((kind) => !standard.has(kind));
}

const rounds: Round[] = [];
for (let number = 0; number < Number(count); number += 1) rounds.push(await round(number));
process.stdout.write(JSON.stringify({ rounds, endedAtMs: machineMs() } satisfies Restarts));
