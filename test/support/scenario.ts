/**
 * The fleet of a scenario. Scenarios share its name; each has its own behind it, so that those on a real etcd can run at the
 * same time (test/etcd/support/scenario-environment.js).
 */
import type { AsyncLocalStorage } from 'node:async_hooks';
import { afterEach } from '@jest/globals';
import { type AnyFleet, Fleet, type FleetOptions } from './fleet.ts';
import { RecordedFleet } from './recorded.ts';
import { memoryWorld, type World } from './world.ts';

/** What one scenario has started. */
export interface Scenario {
  readonly fleets: AnyFleet[];
}

/** What the environment of the scenarios on etcd puts into the globals of their test file. */
interface EtcdGlobals {
  readonly runningScenarios?: AsyncLocalStorage<Scenario>;
}

const { runningScenarios } = globalThis as EtcdGlobals;
const alone: Scenario = { fleets: [] };

const startWorld: (isAlone: boolean) => Promise<World> =
  runningScenarios === undefined
    ? () => Promise.resolve(memoryWorld())
    : (await import('../etcd/support/world.ts')).startEtcdWorld;

function running(): Scenario {
  return runningScenarios?.getStore() ?? alone;
}

/** Starts the fleet of the scenario that is running; one that it had goes on until the scenario ends. */
export async function startFleet(options: FleetOptions = {}): Promise<AnyFleet> {
  const { fleets } = running();
  const started = new Fleet(options, await startWorld(options.ownStore ?? false));
  fleets.push(started);
  return started;
}

/** The same with the whole run on one time line, in memory alone; `except` names checks that the scenario itself breaks. */
export function startRecorded(
  options: FleetOptions = {},
  ...except: readonly string[]
): RecordedFleet {
  const started = new RecordedFleet(options, ...except);
  running().fleets.push(started);
  return started;
}

/** The fleet that the running scenario started last. */
export const fleet: AnyFleet = new Proxy(Object.create(Fleet.prototype) as AnyFleet, {
  get: (_, name) => {
    const one = running().fleets.at(-1);
    if (one === undefined) throw new Error('this scenario has not started its fleet');
    const value: unknown = Reflect.get(one, name, one);
    return typeof value === 'function' ? (value.bind(one) as unknown) : value;
  },
});

/** A time from `lowMs` on, and no later than `highMs`, which is the same when absent: but for the slack of the fleet. */
export function between(lowMs: number, highMs = lowMs): number {
  const { slackMs } = fleet;
  if (slackMs === 0 && highMs === lowMs) return lowMs;
  const matcher: { asymmetricMatch(found: unknown): boolean; toString(): string } = {
    asymmetricMatch: (found) =>
      typeof found === 'number' && found >= lowMs && found <= highMs + slackMs,
    toString: () => `between ${lowMs} and ${highMs + slackMs}`,
  };
  return matcher as unknown as number;
}

/** The environment does the same for scenarios that run at the same time: hooks are not called for them. */
afterEach(async () => {
  try {
    for (const one of alone.fleets) await one.close();
  } finally {
    alone.fleets.length = 0;
  }
});
