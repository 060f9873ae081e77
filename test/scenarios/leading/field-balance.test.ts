/** Field reports about dividing the work: delays of zero, churn, weights, lanes. */
import { describe, expect, test } from '@jest/globals';
import type { PlannedSplit, Planner } from '../../../src/coordinator/api/api.ts';
import type { WorkerConfig } from '../../../src/coordinator/api/config.ts';
import { createCoordinator } from '../../../src/coordinator/coordinator.ts';
import { fatalPlannerError } from '../../../src/coordinator/api/planner-error.ts';
import { memoryStore } from '../../../src/store/memory.ts';
import { CONFIG, finalPlan, ids, LEASE_MS, type SeamWorker, watched } from '../../support/fleet.ts';
import {
  assignmentWrites,
  commitHeld,
  eventsOf,
  handBackAsked,
  Journal,
  ownersOf,
  sessionOf,
  stepWorker,
} from '../../support/sources.ts';
import { fleet, startFleet } from '../../support/scenario.ts';

const DAY_MS = 86_400_000;

/** Lets every worker commit and hand back what is asked, until `condition` holds. */
function settle(
  what: string,
  seams: readonly SeamWorker[],
  condition: () => boolean,
  withinMs = 20_000,
): Promise<number> {
  const step = (): boolean => {
    for (const seam of seams) {
      commitHeld(seam);
      handBackAsked(seam);
    }
    return condition();
  };
  return fleet.until(what, step, withinMs, 100);
}

/** The most splits that any assignment of an instance ever named. */
function mostNamed(instance: string): number {
  const sizes = fleet.store
    .history(`${fleet.keys.root}assign/${instance}`)
    .map(({ value }) => (value === null ? 0 : (JSON.parse(value) as { splits: [] }).splits.length));
  return Math.max(0, ...sizes);
}

describe('a grace period', () => {
  /** Kills the holder of all splits; returns the time from its last renewal to the takeover, and whether it was kept. */
  async function takeover(rebalanceDelayMs: number | undefined) {
    const config = { rebalanceDelayMs } as Partial<WorkerConfig>;
    await startFleet({ planner: finalPlan(ids(3)), config });
    const a = fleet.seam('a', { config: { maxInFlight: 0 } });
    const b = fleet.seam('b');
    await fleet.until('b holds all', () => b.held.size === 3, 5_000);
    const c = fleet.seam('c', { config: { maxInFlight: 8 } });
    await settle('c has its share', [b, c], () => c.held.size > 0);
    await fleet.advance(LEASE_MS);
    const left = b.held.size;
    b.crash();
    const diedAtMs = fleet.clock.nowMs();
    await settle('c holds all', [c], () => c.held.size === 3, 60_000);
    const isWithheld = [a, c].some(({ transitions }) =>
      transitions.some(({ chart, id, to }) => chart === 'peer' && id === 'b' && to === 'withheld'),
    );
    expect(left).toBeGreaterThan(0);
    return { tookMs: fleet.clock.nowMs() - diedAtMs, isWithheld };
  }

  test('a grace period - of zero means at once: nothing is ever withheld', async () => {
    const { tookMs, isWithheld } = await takeover(0);
    expect(tookMs).toBeLessThanOrEqual(LEASE_MS + 500);
    expect(isWithheld).toBe(false);
  });

  test('a grace period - of one millisecond is over at once', async () => {
    const { tookMs } = await takeover(1);
    expect(tookMs).toBeLessThanOrEqual(LEASE_MS + 500);
  });

  test('a grace period - that is not set is the default of ten seconds', async () => {
    const { tookMs, isWithheld } = await takeover(undefined);
    expect(isWithheld).toBe(true);
    expect(tookMs).toBeGreaterThan(10_000);
    expect(tookMs).toBeLessThanOrEqual(LEASE_MS + 10_500);
  });

  test.each([-1, Number.NaN, Number.POSITIVE_INFINITY, 60 * DAY_MS + 1])(
    'a grace period - of %p is refused when the worker is built',
    async (rebalanceDelayMs) => {
      await startFleet();
      expect(() => build(rebalanceDelayMs)).toThrow(
        expect.objectContaining({
          code: 'E_CONFIG_INVALID',
          message: expect.stringContaining('rebalanceDelayMs'),
        }),
      );
    },
  );

  test('a grace period - of sixty days is accepted', async () => {
    await startFleet();
    expect(() => build(60 * DAY_MS)).not.toThrow();
  });

  function build(rebalanceDelayMs: number) {
    return createCoordinator({
      job: 'job',
      store: memoryStore({ clock: fleet.clock }),
      planner: finalPlan([]),
      clock: fleet.clock,
      config: { rebalanceDelayMs },
    });
  }
});

describe('membership that keeps changing', () => {
  test('membership that keeps changing - during a drain ends in an even split, with no progress lost', async () => {
    await startFleet({ planner: finalPlan(ids(12)), config: { maxInFlight: 12 } });
    const journal = new Journal();
    const start = (id: string) => stepWorker(fleet, id, journal, { drainMs: 3_000 });
    start('a');
    await fleet.until('a works on all', () => journal.runningOn('a').length === 12);
    await fleet.advance(2_000);
    start('b');
    await fleet.advance(1_000);
    const c = start('c');
    await fleet.advance(1_000);
    c.crash();
    journal.died('c');
    start('d');
    const isEven = (): boolean => ['a', 'b', 'd'].every((id) => journal.runningOn(id).length === 4);
    const { rebalanceDelayMs, drainDeadlineMs } = CONFIG as WorkerConfig;
    const boundMs = rebalanceDelayMs + LEASE_MS + drainDeadlineMs + 3_000;
    await fleet.until('4, 4 and 4', isEven, boundMs);
    // The dead worker's presence may still be there; when it has gone, nothing moves.
    await fleet.advance(boundMs);
    expect(isEven()).toBe(true);
    const settledAtMs = fleet.clock.nowMs();
    await fleet.advance(10 * rebalanceDelayMs);
    expect(assignmentWrites(fleet, settledAtMs)).toEqual([]);
    for (const id of ids(12)) {
      const owners = ownersOf(fleet, id);
      expect(owners[0]).toBe('a');
      expect(owners.length).toBeLessThanOrEqual(3);
      const watermarks = journal.of(id).map(({ watermark }) => watermark);
      expect(watermarks).toEqual([...watermarks].sort((x, y) => Number(x - y)));
    }
    expect(journal.overlaps).toEqual([]);
  }, 30_000);
});

describe('five settled workers', () => {
  /** Five workers with four of twenty splits each; the first one leads. */
  async function settled(planner: Planner, config: Partial<WorkerConfig> = {}) {
    await startFleet({ planner, config });
    const names = ['a', 'b', 'c', 'd', 'e'];
    const seams = names.map((name) => fleet.seam(name));
    const isEven = (): boolean => seams.every(({ held }) => held.size === 4);
    await settle('4 each', seams, isEven);
    const fromMs = fleet.clock.nowMs();
    await settle('quiet', seams, () => fleet.clock.nowMs() > fromMs + 1_000);
    expect(isEven()).toBe(true);
    return seams;
  }

  test('five settled workers - stay as they are when another one leads', async () => {
    let runs = 0;
    const planner: Planner = {
      fingerprint: () => 'open:v1',
      plan: ({ generation }) => {
        runs += 1;
        // The first leader finds its planner broken at its second run, and gives leadership up.
        if (generation === 1 && runs > 1) throw fatalPlannerError('broken');
        return {
          splits: ids(20).map((id) => ({ id, descriptor: '' })),
          finality: 'open',
        };
      },
    };
    const seams = await settled(planner, { replanIntervalMs: 20_000 });
    const [a] = seams as [SeamWorker];
    expect(fleet.leader()).toBe('a');
    const owners = ids(20).map((id) => ownersOf(fleet, id));
    const asked = seams.map((seam) => eventsOf(seam, 'revokeRequested').length);
    const fromMs = fleet.clock.nowMs();
    const another = (): boolean => ![null, 'a'].includes(fleet.leader());
    await settle('another one leads', seams, another, 40_000);
    await settle('two leases', seams, () => fleet.clock.nowMs() > fromMs + 4 * LEASE_MS, 60_000);
    expect(eventsOf(a, 'leadershipLost')).toHaveLength(1);
    expect(sessionOf(fleet, 'a')).not.toBeNull();
    expect(ids(20).map((id) => ownersOf(fleet, id))).toEqual(owners);
    expect(seams.map((seam) => eventsOf(seam, 'revokeRequested').length)).toEqual(asked);
    expect(assignmentWrites(fleet, fromMs)).toEqual([]);
  }, 30_000);

  test('five settled workers - move only the splits of one that leaves, each once', async () => {
    const seams = await settled(finalPlan(ids(20)));
    const [a, b, leaver, d, e] = seams as [
      SeamWorker,
      SeamWorker,
      SeamWorker,
      SeamWorker,
      SeamWorker,
    ];
    expect(fleet.leader()).toBe('a');
    const stayers = [a, b, d, e];
    const moving = [...leaver.held.keys()];
    const before = new Map(ids(20).map((id) => [id, ownersOf(fleet, id)]));
    const asked = stayers.map((seam) => eventsOf(seam, 'revokeRequested').length);
    const stopped = watched(leaver.coordinator.stop());
    const isPlaced = (): boolean => stayers.every(({ held }) => held.size === 5);
    await settle('5 each', seams, isPlaced, 3_000);
    const fromMs = fleet.clock.nowMs();
    await settle('a while', stayers, () => fleet.clock.nowMs() > fromMs + 2 * LEASE_MS, 30_000);
    expect(stopped.state).toBe('resolved');
    for (const [id, owners] of before) {
      const since = ownersOf(fleet, id).slice(owners.length);
      expect(since).toHaveLength(moving.includes(id) ? 1 : 0);
    }
    expect(stayers.map((seam) => eventsOf(seam, 'revokeRequested').length)).toEqual(asked);
    for (const seam of stayers) expect(eventsOf(seam, 'lost')).toEqual([]);
  });
});

describe('weights', () => {
  const heavy = (id: string): PlannedSplit => ({ id, descriptor: '', weight: 1_000 });
  const light = (id: string): PlannedSplit => ({ id, descriptor: '', weight: 10 });
  const weightOf = (id: string): number =>
    id.startsWith('heavy') || id.startsWith('new') ? 1_000 : 10;
  const loadOf = ({ held }: SeamWorker): number =>
    [...held.keys()].reduce((load, id) => load + weightOf(id), 0);

  test('weights - are what is balanced, and a finished split weighs nothing', async () => {
    const splits = [...ids(5, 'heavy').map(heavy), ...ids(5, 'light').map(light)];
    const planner: Planner = {
      fingerprint: () => 'open:v1',
      plan: () => ({ splits: [...splits], finality: 'open' }),
    };
    await startFleet({ planner, config: { maxInFlight: 10, replanIntervalMs: 10_000 } });
    const a = fleet.seam('a');
    const b = fleet.seam('b');
    const quiet = async (what: string, count: number): Promise<void> => {
      const isDone = (): boolean => a.held.size + b.held.size === count;
      await settle(what, [a, b], () => isDone() && b.held.size > 0, 20_000);
      const fromMs = fleet.clock.nowMs();
      await settle('quiet', [a, b], () => fleet.clock.nowMs() > fromMs + 3_000);
      expect(isDone()).toBe(true);
    };
    await quiet('ten held', 10);
    const heavies = [a, b].map(
      ({ held }) => [...held.keys()].filter((id) => weightOf(id) === 1_000).length,
    );
    expect(heavies.sort()).toEqual([2, 3]);
    expect(Math.abs(loadOf(a) - loadOf(b))).toBeLessThanOrEqual(1_000);

    // One worker finishes all it has; four heavy splits are added.
    const finished = b.held.size;
    for (const [id, { watermark }] of [...b.held]) {
      b.held.delete(id);
      void b.coordinator.commit(id, { watermark: watermark! + 1n, completed: true });
    }
    splits.push(...ids(4, 'new').map(heavy));
    await quiet('the rest and the new ones', 10 - finished + 4);
    expect(Math.abs(loadOf(a) - loadOf(b))).toBeLessThanOrEqual(1_000);
    for (const id of ids(4, 'new')) expect(a.held.has(id) || b.held.has(id)).toBe(true);
  });
});

describe('unequal workers', () => {
  test('unequal workers - are each filled to their own lanes, none beyond', async () => {
    await startFleet({ planner: finalPlan(ids(6)) });
    const c = fleet.seam('c', { config: { maxInFlight: 0 } });
    await fleet.until('c leads', () => fleet.leader() === 'c', 5_000);
    const a = fleet.seam('a', { config: { maxInFlight: 1 } });
    const b = fleet.seam('b', { config: { maxInFlight: 5 } });
    await settle('1 and 5', [a, b, c], () => a.held.size === 1 && b.held.size === 5);
    expect([mostNamed('a'), mostNamed('b'), mostNamed('c')]).toEqual([1, 5, 0]);
    // A worker without lanes leads all the same (R20).
    expect(fleet.leader()).toBe('c');
    expect(fleet.assignment('c')?.splits).toEqual([]);
  });

  test('unequal workers - start a waiting split for each one that is completed', async () => {
    await startFleet({ planner: finalPlan(ids(9)) });
    const c = fleet.seam('c', { config: { maxInFlight: 0 } });
    await fleet.until('c leads', () => fleet.leader() === 'c', 5_000);
    const a = fleet.seam('a', { config: { maxInFlight: 1 } });
    const b = fleet.seam('b', { config: { maxInFlight: 5 } });
    const held = (): number => a.held.size + b.held.size;
    await settle('six run', [a, b, c], () => held() === 6);
    await fleet.advance(LEASE_MS);
    expect(held()).toBe(6);
    for (let done = 1; done <= 9; done += 1) {
      const from = a.held.size === 1 && done % 2 === 1 ? a : b.held.size > 0 ? b : a;
      const [id] = from.held.keys();
      from.held.delete(id!);
      void from.coordinator.commit(id!, { watermark: 1_000, completed: true });
      const running = Math.min(6, 9 - done);
      await settle(`${running} run`, [a, b], () => held() === running, 2_000);
    }
    await fleet.until('the verdict', () => c.verdict !== null, 2_000);
    expect([a, b, c].map(({ verdict }) => verdict?.kind)).toEqual(Array(3).fill('complete'));
    expect([mostNamed('a'), mostNamed('b'), mostNamed('c')]).toEqual([1, 5, 0]);
    expect(eventsOf(c, 'gained')).toEqual([]);
    for (const id of ids(9)) expect(ownersOf(fleet, id)).toHaveLength(1);
  });
});
