/**
 * Starts and stops one worker after the other in one process, in the middle of everything a worker does, and ends by
 * itself. Prints one JSON document: what was still there at each stop, and when the last one was over.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createWorker } from '../../../src/driver/worker.ts';
import { etcdStore } from '../../../src/store/etcd/index.ts';
import { finalPlan } from '../../support/fleet.ts';
import { machineMs } from './time-line.ts';

/** What one round left. */
export interface Round {
  readonly moment: string;
  /** Handler calls after `stop` had resolved. */
  readonly lateCalls: number;
  readonly requestsInFlight: number;
  /** Kinds of what keeps the process alive, as Node names them. */
  readonly resources: readonly string[];
  readonly heapBytes: number;
}

export interface Restarts {
  readonly rounds: readonly Round[];
  readonly endedAtMs: number;
}

const SETTLE_MS_MAX = 500;

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** The streams of the process itself. */
const standard = new Set(process.getActiveResourcesInfo());

const [endpoint, count, configText] = process.argv.slice(2);
const config = JSON.parse(configText!) as Record<string, number>;

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await sleep(2);
}

async function round(number: number): Promise<Round> {
  const store = etcdStore({ endpoints: [endpoint!] });
  let calls = 0;
  let isClaiming = false;
  let isPlanning = false;
  const plan = finalPlan(['s1', 's2']);
  const worker = createWorker({
    job: `job-${Math.floor(number / 4)}`,
    store,
    instanceId: 'again',
    planner: {
      fingerprint: plan.fingerprint,
      plan: (request) => {
        isPlanning = true;
        return plan.plan(request);
      },
    },
    config,
    inspect: ({ to }) => (isClaiming ||= to === 'claiming'),
  });
  const run = worker.run(async (grant) => {
    calls += 1;
    await grant.draining.whenRequested();
    await grant.commit({ watermark: number });
  });
  run.catch(() => undefined);
  const moments: [string, () => boolean][] = [
    ['planning', () => isPlanning],
    ['claiming', () => isClaiming],
    ['working', () => calls === 2],
    ['starting', () => true],
  ];
  const [moment, isThere] = moments[number % moments.length]!;
  await until(isThere);
  const stopping = worker.stop();
  // Twice, in the middle of the drain.
  await Promise.all([stopping, worker.stop()]);
  const callsAtStop = calls;
  const { requestsInFlight } = worker.status();
  await store.close();
  // Sockets take a moment to close, and late answers to arrive.
  const limitMs = machineMs() + SETTLE_MS_MAX;
  while (resources().length > 0 && machineMs() < limitMs) await sleep(10);
  collectGarbage();
  return {
    moment,
    lateCalls: calls - callsAtStop,
    requestsInFlight,
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
