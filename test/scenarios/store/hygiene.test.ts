import { getEventListeners } from 'node:events';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { Grant } from '../../../src/index.ts';
import { guardProcess, NOTHING, remainsOf, type Stoppable } from '../../support/departures.ts';
import {
  finalPlan,
  Fleet,
  type HandledWorker,
  holdUntilAsked,
  ids,
  LEASE_MS,
} from '../../support/fleet.ts';

let fleet: Fleet;
let guard: ReturnType<typeof guardProcess>;
const warnings: Error[] = [];
const noteWarning = (warning: Error): void => {
  warnings.push(warning);
};
beforeEach(() => {
  warnings.length = 0;
  process.on('warning', noteWarning);
  guard = guardProcess();
});
afterEach(async () => {
  await fleet.close();
  guard.end();
  process.off('warning', noteWarning);
  expect(guard.caught).toEqual([]);
  expect(warnings).toEqual([]);
});

const stoppable = (around: HandledWorker): Stoppable => ({
  ...around,
  stop: () => around.worker.stop(),
  status: () => around.worker.status(),
});

/** What one fleet has open now. */
function openOf(workers: readonly HandledWorker[]) {
  return {
    watches: workers.map(({ client }) => client.openWatches),
    storeWatches: fleet.store.openWatches,
    sessions: fleet.store.liveSessions.length,
    requests: workers.map(({ worker }) => worker.status().requestsInFlight),
  };
}

const timersOf = (workers: readonly HandledWorker[]): number[] =>
  workers.map(({ clock }) => clock.pendingTimers);

describe('a worker that comes and goes', () => {
  test('50 starts and stops - in every phase - leave listeners, timers, watches, sessions and keys as they were', async () => {
    fleet = new Fleet();
    const phases: readonly ((around: HandledWorker) => Promise<void>)[] = [
      // In the probe, while joining, while claiming, in the middle of planning, idle, draining.
      () => fleet.advance(0),
      (around) => {
        around.client.when('any').delay(50);
        return fleet.advance(400);
      },
      (around) => {
        around.client.when('any').delay(50);
        return fleet.advance(1_000);
      },
      () => fleet.advance(3),
      () => fleet.advance(2 * LEASE_MS),
      async () => {
        await fleet.advance(1_000);
        await fleet.operator().pause();
        await fleet.advance(1);
        await fleet.operator().resume();
      },
    ];
    for (let round = 0; round < 50; round += 1) {
      const around = fleet.worker('a', holdUntilAsked);
      await phases[round % phases.length]!(around);
      const leaving = around.worker.stop();
      await fleet.until('the end', () => around.run.state !== 'pending');
      await leaving;
      expect(remainsOf(stoppable(around))).toEqual(NOTHING);
      expect(fleet.store.openWatches).toBe(0);
    }
    await fleet.advance(2 * LEASE_MS);
    expect(fleet.store.liveSessions).toEqual([]);
    expect(fleet.clock.pendingTimers).toBe(0);
    const kinds = new Set(
      fleet.store.dump(fleet.keys.root).map(({ key }) => key.split('/').slice(2)[0]),
    );
    expect([...kinds].sort()).toEqual(['assign', 'plan', 'specs', 'splits']);
  });

  test('a dead worker - is forgotten by its peers without a trace but its name', async () => {
    fleet = new Fleet({ config: { maxAttempts: 100 } });
    const a = fleet.worker('a', holdUntilAsked);
    await fleet.advance(1_000);
    const timersBefore = timersOf([a]);
    for (let round = 0; round < 20; round += 1) {
      const b = fleet.worker(`b-${round}`, holdUntilAsked);
      await fleet.advance(1_000);
      b.crash();
      await fleet.advance(3 * LEASE_MS);
    }
    await fleet.advance(LEASE_MS);
    expect(fleet.leasesOf('a')).toHaveLength(4);
    expect(timersOf([a])[0]).toBeLessThanOrEqual(timersBefore[0]! + 2);
    const assigned = fleet.store.dump(`${fleet.keys.root}assign/`).map(({ key }) => key);
    expect(assigned).toEqual([fleet.keys.assignment('a' as never)]);
  });
});

describe('an idle fleet', () => {
  test('24 hours - leave timers, watches and sessions as they were and write nothing (invariant 7)', async () => {
    const lease = { leaseDurationMs: 60_000, reconcileIntervalMs: 60_000 };
    fleet = new Fleet({ planner: finalPlan(['s1', 's2', 's3', 's4']), config: lease });
    const grants: Grant[] = [];
    const hold = (grant: Grant): Promise<void> | void => {
      grants.push(grant);
      return holdUntilAsked(grant);
    };
    const a = fleet.worker('a', hold);
    const b = fleet.worker('b', hold);
    await fleet.until('two each', () => ['a', 'b'].every((id) => fleet.leasesOf(id).length === 2));
    await fleet.advance(240_000);
    const before = openOf([a, b]);
    const timersBefore = timersOf([a, b]);
    const revision = fleet.store.revision;
    const listeners = grants.map(({ lost }) => getEventListeners(lost, 'abort').length);
    await fleet.advance(24 * 3_600_000);
    expect(openOf([a, b])).toEqual(before);
    expect(fleet.store.revision).toBe(revision);
    expect(grants.map(({ lost }) => getEventListeners(lost, 'abort').length)).toEqual(listeners);
    for (const [index, timers] of timersOf([a, b]).entries()) {
      expect(Math.abs(timers - timersBefore[index]!)).toBeLessThanOrEqual(2);
    }
    fleet.worker('c', holdUntilAsked);
    await fleet.until('c has its share', () => fleet.leasesOf('c').length === 1, 2_000);
  });

  test('200 changes of leader and 200 cut watches - leak nothing, and a new worker gets its share', async () => {
    fleet = new Fleet({ planner: finalPlan(ids(6)) });
    const a = fleet.worker('a', holdUntilAsked);
    const b = fleet.worker('b', holdUntilAsked);
    await fleet.until('three each', () =>
      ['a', 'b'].every((id) => fleet.leasesOf(id).length === 3),
    );
    await fleet.advance(LEASE_MS);
    const before = openOf([a, b]);
    const timersBefore = timersOf([a, b]);
    const generation = fleet.plan()!.generation;
    const leases = fleet.store.dump(`${fleet.keys.root}leases/`);
    for (let flap = 0; flap < 200; flap += 1) {
      fleet.store.remove(fleet.keys.leader);
      a.client.cutWatches(50);
      b.client.cutWatches(70);
      await fleet.until('a new leader', () => fleet.leader() !== null, 10_000);
      await fleet.advance(400);
    }
    expect(fleet.plan()!.generation).toBe(generation + 200);
    await fleet.advance(2 * LEASE_MS);
    expect(openOf([a, b])).toEqual(before);
    for (const [index, timers] of timersOf([a, b]).entries()) {
      expect(Math.abs(timers - timersBefore[index]!)).toBeLessThanOrEqual(4);
    }
    // Nobody lost anything by it.
    expect(fleet.store.dump(`${fleet.keys.root}leases/`)).toEqual(leases);
    const c = fleet.worker('c', holdUntilAsked);
    await fleet.until('c has its share', () => fleet.leasesOf('c').length === 2, 2_000);
    expect(c.run.state).toBe('pending');
  });

  test('200 lost sessions - are replaced without leaving anything behind', async () => {
    fleet = new Fleet({ planner: finalPlan(['s1', 's2']) });
    const a = fleet.worker('a', holdUntilAsked);
    await fleet.until('a holds', () => fleet.leasesOf('a').length === 2);
    await fleet.advance(LEASE_MS);
    const before = openOf([a]);
    const timersBefore = timersOf([a])[0]!;
    for (let round = 0; round < 200; round += 1) {
      for (const session of fleet.store.liveSessions) fleet.store.expireSession(session);
      await fleet.until('a holds again', () => fleet.leasesOf('a').length === 2, 20_000);
    }
    await fleet.advance(LEASE_MS);
    expect(openOf([a])).toEqual(before);
    expect(Math.abs(timersOf([a])[0]! - timersBefore)).toBeLessThanOrEqual(4);
    // A live process that loses its session is not at fault (R31).
    expect(fleet.split('s1')?.attempts).toBe(0);
  });
});

describe('memory', () => {
  test('heap - of 40 starts and stops does not grow with their number', async () => {
    const collect = await collector();
    fleet = new Fleet();
    const round = async (): Promise<void> => {
      // A job of its own each time, so that only what a worker leaves behind could add up.
      const world = new Fleet();
      const around = world.worker('a', holdUntilAsked);
      await world.advance(2_000);
      const leaving = around.worker.stop();
      await world.advance(1_000);
      await leaving;
    };
    for (let count = 0; count < 20; count += 1) await round();
    collect();
    const warm = process.memoryUsage().heapUsed;
    for (let count = 0; count < 40; count += 1) await round();
    collect();
    const grown = process.memoryUsage().heapUsed - warm;
    expect(grown / 40).toBeLessThan(10_000);
  });
});

/** Runs a full garbage collection. */
async function collector(): Promise<() => void> {
  const v8 = await import('node:v8');
  const vm = await import('node:vm');
  v8.setFlagsFromString('--expose-gc');
  return vm.runInNewContext('gc') as () => void;
}
