/** What a worker that has left must not do any more, and a guard for errors that nobody caught. */
import { expect } from '@jest/globals';
import type { Grant, Status, StopReport } from '../../src/index.ts';
import {
  type AnyFleet,
  CONFIG,
  type HandledWorker,
  LEASE_MS,
  lost,
  type Surroundings,
  watched,
} from './fleet.ts';

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

/**
 * One worker with a split that drains and one whose handler hangs; then `strike`, which must end its run. What the handler
 * that hangs sends afterwards is refused without a word to the store.
 */
export async function endBesideAStuckHandler(
  fleet: AnyFleet,
  strike: (a: HandledWorker) => void,
): Promise<{ a: HandledWorker; tookMs: number; report: StopReport }> {
  const grants = new Map<string, Grant>();
  const a = fleet.worker('a', async (grant) => {
    grants.set(grant.split.id, grant);
    if (grant.split.id === 'stuck') await new Promise(() => undefined);
    await Promise.race([grant.draining.whenRequested(), lost(grant)]);
    if (!grant.lost.aborted) await grant.commit({ watermark: 41 });
  });
  await fleet.until('both run', () => grants.size === 2, 5_000);
  await fleet.advance(1_000);
  const struckAtMs = fleet.clock.nowMs();
  strike(a);
  await fleet.until('run ends', () => a.run.state !== 'pending', 3 * LEASE_MS, 10);
  const stuck = grants.get('stuck')!;
  expect(stuck.lost.aborted).toBe(true);
  const { revision } = fleet.store;
  const sent = a.client.counts.transact;
  for (const late of [stuck.commit({ watermark: 99 }), stuck.complete()]) {
    await expect(late).rejects.toMatchObject({ code: 'E_FENCED' });
  }
  expect(fleet.store.revision).toBe(revision);
  expect(a.client.counts.transact).toBe(sent);
  return { a, tookMs: fleet.clock.nowMs() - struckAtMs, report: await a.worker.stop() };
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
