/** What a worker that has left must not do any more, and a guard for errors that nobody caught. */
import type { StopReport } from '../../src/coordinator/api/api.ts';
import type { Status } from '../../src/coordinator/status.ts';
import { CONFIG, type AnyFleet, LEASE_MS, type Surroundings, watched } from './fleet.ts';

export const DRAIN_MS = CONFIG.drainDeadlineMs!;
export const OPERATION_MS = CONFIG.opTimeoutMs!;
/** The longest that `stop()` may take (R17). */
export const STOP_MS = DRAIN_MS + OPERATION_MS;

/** A worker, on the seam or with a handler, as something to stop. */
export interface Stoppable extends Surroundings {
  stop(): Promise<StopReport>;
  status(): Status;
}

/** Everything of one worker that would move if anything of it still ran. */
function tracesOf(worker: Stoppable) {
  const { client, events, transitions, lines } = worker;
  return {
    calls: client.counts,
    events: events.length,
    transitions: transitions.length,
    lines: lines.length,
  };
}

/** What is left of a worker that has left: all of it must be nothing. */
export function remainsOf(worker: Stoppable) {
  return {
    timers: worker.clock.pendingTimers,
    watches: worker.client.openWatches,
    callsAwaited: worker.status().requestsInFlight,
  };
}

export const NOTHING = { timers: 0, watches: 0, callsAwaited: 0 };

/** Lets ten leases pass, or two where time really passes, and tells what the worker did in them, as before and after. */
export async function afterTenLeases(fleet: AnyFleet, worker: Stoppable) {
  const before = tracesOf(worker);
  await fleet.advance((fleet.slackMs === 0 ? 10 : 2) * LEASE_MS);
  return { before, after: tracesOf(worker) };
}

/** Keys of `instance` that hang on a session, or would make others believe that it is there. */
export function ephemeralKeysOf(fleet: AnyFleet, instance: string): string[] {
  const { root } = fleet.keys;
  return fleet.store
    .dump(root)
    .filter(({ key, value }) => {
      const kind = key.slice(root.length).split('/')[0];
      if (kind === 'workers') return key === `${root}workers/${instance}`;
      if (kind !== 'leases' && kind !== 'leader') return false;
      return value.includes(`"owner":${JSON.stringify(instance)}`);
    })
    .map(({ key }) => key.slice(root.length));
}

/** What came of stopping a worker twice at once, once more on the way, and once more after the end. */
export interface Stopping {
  readonly reports: readonly (StopReport | undefined)[];
  readonly tookMs: number;
}

/** Stops a worker in every manner at once. */
export async function stopInEveryManner(fleet: AnyFleet, worker: Stoppable): Promise<Stopping> {
  const startMs = fleet.clock.nowMs();
  const outcomes = [watched(worker.stop()), watched(worker.stop())];
  await fleet.advance(10);
  outcomes.push(watched(worker.stop()));
  const areOver = (): boolean => outcomes.every(({ state }) => state !== 'pending');
  await fleet.until('every stop', areOver, 60_000, 10);
  const tookMs = fleet.clock.nowMs() - startMs;
  outcomes.push(watched(worker.stop()));
  await fleet.advance(0);
  return { reports: outcomes.map(({ value }) => value), tookMs };
}

/** Collects what nobody caught, from now on. */
export function guardProcess(): { readonly caught: unknown[]; end(): void } {
  const caught: unknown[] = [];
  const take = (error: unknown): void => {
    caught.push(error);
  };
  process.on('unhandledRejection', take);
  process.on('uncaughtException', take);
  return {
    caught,
    end: () => {
      process.off('unhandledRejection', take);
      process.off('uncaughtException', take);
    },
  };
}
