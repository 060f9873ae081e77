/** How work is divided anew when workers come and go, and what lanes allow. */
import { describe, expect, test } from '@jest/globals';
import type { InstanceId } from '../../../src/base/ids.ts';
import { writesTo } from '../../../src/store/faults.ts';
import {
  fatalPlannerError,
  type PlannedSplit,
  type Planner,
  type WorkerConfig,
} from '../../../src/index.ts';
import { CONFIG, finalPlan, ids, LEASE_MS, type SeamWorker, watched } from '../../support/fleet.ts';
import {
  assignmentWrites,
  commitHeld,
  completeHeld,
  handBackAsked,
  Journal,
  ownersOf,
  settle,
  stepWorker,
  storedText,
} from '../../support/sources.ts';
import { fleet, startFleet, startRecorded } from '../../support/scenario.ts';
import { eventsOf, heldBy, sessionOf, startAlone } from '../../support/observed.ts';

/** Starts a worker alone, which then holds as many splits and has committed each once. */
async function workingAlone(id: string, count: number): Promise<SeamWorker> {
  const seam = await startAlone(fleet, id, count);
  commitHeld(seam);
  await fleet.advance(100);
  return seam;
}

/** The most splits that any assignment of an instance ever named. */
function mostNamed(instance: string): number {
  const sizes = fleet.store
    .history(`${fleet.keys.root}assign/${instance}`)
    .map(({ value }) => (value === null ? 0 : (JSON.parse(value) as { splits: [] }).splits.length));
  return Math.max(0, ...sizes);
}

describe('a newcomer', () => {
  test('a newcomer - is given a share in order, and goes on where the old owner stopped', async () => {
    await startFleet({ planner: finalPlan(ids(4)) });
    const a = await workingAlone('a', 4);
    const b = fleet.seam('b');
    const stoppedAt = new Map<string, bigint>();
    const step = (): boolean => {
      commitHeld(a);
      for (const [id, watermark] of handBackAsked(a)) stoppedAt.set(id, watermark);
      return a.held.size === 2 && b.held.size === 2;
    };
    await fleet.until('2 and 2', step, 60_000, 100);
    expect(heldBy(a, b)).toEqual(ids(4));
    expect([...stoppedAt.keys()].sort()).toEqual(heldBy(b));
    for (const [id, { watermark }] of b.held) {
      expect(watermark).toBe(stoppedAt.get(id));
      expect(fleet.split(id)?.attempts).toBe(0);
    }
    expect(eventsOf(a, 'lost')).toEqual([]);
    // The move ends there: nothing is asked back again.
    const settledAtMs = fleet.clock.nowMs();
    await settle(fleet, 'quiet', [a, b], () => fleet.clock.nowMs() > settledAtMs + 2 * LEASE_MS);
    expect(assignmentWrites(fleet, settledAtMs)).toEqual([]);
    expect(eventsOf(a, 'revokeRequested')).toHaveLength(2);
  });

  test('a newcomer - starts a handler at the drained watermark, after the old handler has ended', async () => {
    await startFleet({ planner: finalPlan(ids(4)) });
    const journal = new Journal();
    stepWorker(fleet, 'a', journal, { drainMs: 700 });
    await fleet.until('a works', () => journal.runningOn('a').length === 4);
    await fleet.advance(1_800);
    stepWorker(fleet, 'b', journal);
    await fleet.until('2 and 2', () => journal.runningOn('b').length === 2, 3_000);
    expect(journal.runningOn('a')).toHaveLength(2);
    for (const id of journal.runningOn('b')) {
      const [end] = journal.of(id, 'end');
      const [, start] = journal.of(id, 'start');
      expect(end?.worker).toBe('a');
      expect(start).toMatchObject({ worker: 'b', watermark: end!.watermark });
      expect(start!.atMs).toBeGreaterThanOrEqual(end!.atMs);
    }
    expect(journal.overlaps).toEqual([]);
  });

  test('a newcomer - that arrives during a revocation does not strand a split', async () => {
    await startFleet({ planner: finalPlan(ids(6)) });
    const a = await workingAlone('a', 6);
    const b = fleet.seam('b');
    await fleet.until('a is asked', () => a.asked.size > 0, 3_000);
    // The move stays open while another worker comes.
    const c = fleet.seam('c');
    await fleet.until('c is there', () => sessionOf(fleet, 'c') !== null, 2_000);
    await fleet.advance(500);
    expect(heldBy(b, c)).toEqual([]);
    await settle(
      fleet,
      '2, 2 and 2',
      [a, b, c],
      () => a.held.size === 2 && b.held.size === 2 && c.held.size === 2,
      LEASE_MS,
    );
    expect(heldBy(a, b, c)).toEqual(ids(6));
    const settledAtMs = fleet.clock.nowMs();
    await settle(fleet, 'quiet', [a, b, c], () => fleet.clock.nowMs() > settledAtMs + LEASE_MS);
    expect(assignmentWrites(fleet, settledAtMs)).toEqual([]);
    expect(heldBy(a, b, c)).toEqual(ids(6));
    for (const seam of [a, b, c]) expect(eventsOf(seam, 'lost')).toEqual([]);
  });
});

/** Kills one of two workers; tells how long after its keys went the other had its split, and whether that was withheld. */
async function takeover(
  rebalanceDelayMs: number,
): Promise<{ delayMs: number; isWithheld: boolean }> {
  await startFleet({ planner: finalPlan(['s0', 's1']), config: { rebalanceDelayMs } });
  const a = fleet.seam('a');
  const b = fleet.seam('b');
  await settle(fleet, '1 and 1', [a, b], () => a.held.size === 1 && b.held.size === 1);
  b.crash();
  const diedAtMs = fleet.clock.nowMs();
  await settle(fleet, 'a has both', [a], () => a.held.size === 2, 100_000);
  const takenAtMs = fleet.clock.nowMs();
  const gone = fleet.store
    .history(fleet.keys.presence('b' as InstanceId))
    .find(({ value, atMs }) => value === null && atMs > diedAtMs)!;
  expect(gone.cause).toBe('sessionEnd');
  expect(gone.atMs - diedAtMs).toBeLessThanOrEqual(LEASE_MS + fleet.slackMs);
  const isWithheld = a.transitions.some(
    ({ chart, id, to }) => chart === 'peer' && id === 'b' && to === 'withheld',
  );
  return { delayMs: takenAtMs - gone.atMs, isWithheld };
}

describe('the rebalance delay', () => {
  test('the rebalance delay - of zero places the splits of a dead worker at once (R26)', async () => {
    const { delayMs, isWithheld } = await takeover(0);
    expect(delayMs).toBeLessThan(500 + fleet.slackMs);
    expect(isWithheld).toBe(false);
  });

  test('the rebalance delay - of a millisecond is over at once', async () => {
    const { delayMs } = await takeover(1);
    expect(delayMs).toBeLessThan(500 + fleet.slackMs);
  });

  test('the rebalance delay - keeps the splits of a dead worker from everyone while it lasts (R26)', async () => {
    const delayMs = 5 * LEASE_MS;
    const took = await takeover(delayMs);
    expect(took.isWithheld).toBe(true);
    expect(took.delayMs).toBeGreaterThanOrEqual(delayMs);
    expect(took.delayMs).toBeLessThan(delayMs + 500 + fleet.slackMs);
  });

  test('the rebalance delay - ends when the dead worker is back, and its splits stay its own', async () => {
    await startFleet({
      planner: finalPlan(['s0', 's1']),
      config: { rebalanceDelayMs: 5 * LEASE_MS },
    });
    const a = fleet.seam('a');
    const b = fleet.seam('b');
    await settle(fleet, '1 and 1', [a, b], () => a.held.size === 1 && b.held.size === 1);
    const before = heldBy(b);
    b.crash();
    const diedAtMs = fleet.clock.nowMs();
    await settle(
      fleet,
      'two leases pass',
      [a],
      () => fleet.clock.nowMs() > diedAtMs + 2 * LEASE_MS,
    );
    expect(sessionOf(fleet, 'b')).toBeNull();
    const back = fleet.seam('b');
    await settle(fleet, 'it has its split', [a, back], () => back.held.size === 1, 1_000);
    expect(heldBy(back)).toEqual(before);
    expect(a.held.size).toBe(1);
  });
});

describe('a withdrawn assignment', () => {
  test('a withdrawn assignment - releases nothing, and is written again as it was (R25)', async () => {
    await startFleet({ planner: finalPlan(ids(4)) });
    const a = fleet.seam('a');
    await fleet.until('it leads', () => fleet.leader() === 'a');
    const b = fleet.seam('b');
    await settle(fleet, '2 and 2', [a, b], () => a.held.size === 2 && b.held.size === 2);
    const settledAtMs = fleet.clock.nowMs();
    await settle(fleet, 'quiet', [a, b], () => fleet.clock.nowMs() > settledAtMs + LEASE_MS);
    expect(fleet.leader()).toBe('a');
    const before = heldBy(b);
    const askedBefore = eventsOf(b, 'revokeRequested').length;

    // The leader cannot write it again for a while, so b really is without a record.
    const record = fleet.keys.assignment('b' as InstanceId);
    const rule = a.client.when(writesTo((key) => key === record)).refuse('E_STORE_UNREACHABLE');
    await fleet.store.remove(record);
    for (let round = 0; round < 24; round += 1) {
      await fleet.advance(LEASE_MS / 12);
      if (round === 5) {
        expect(fleet.assignment('b')).toBeNull();
        rule.remove();
      }
      commitHeld(a);
      commitHeld(b);
      expect(b.asked.size).toBe(0);
      expect(heldBy(b)).toEqual(before);
    }
    expect(eventsOf(b, 'lost')).toEqual([]);
    expect(eventsOf(b, 'revokeRequested')).toHaveLength(askedBefore);
    // Missing records are put back (R25).
    expect([...fleet.assignment('b')!.splits].sort()).toEqual(before);
  });

  test('a withdrawn assignment - of every worker while nobody leads leaves the fleet at work (R25)', async () => {
    await startFleet({ planner: finalPlan(ids(4)) });
    const a = fleet.seam('a');
    const b = fleet.seam('b');
    await settle(fleet, '2 and 2', [a, b], () => a.held.size === 2 && b.held.size === 2);
    const before = [heldBy(a), heldBy(b)];
    for (const { client } of [a, b]) {
      client.when(writesTo((key) => key === fleet.keys.leader)).refuse('E_STORE_UNREACHABLE');
    }
    await fleet.store.remove(fleet.keys.leader);
    await fleet.advance(20);
    for (const id of ['a', 'b']) await fleet.store.remove(fleet.keys.assignment(id as InstanceId));
    const atMs = fleet.clock.nowMs();
    await settle(fleet, 'two leases pass', [a, b], () => fleet.clock.nowMs() > atMs + 2 * LEASE_MS);
    expect(fleet.leader()).toBeNull();
    expect([heldBy(a), heldBy(b)]).toEqual(before);
    expect([...eventsOf(a, 'lost'), ...eventsOf(b, 'lost')]).toEqual([]);
    for (const { client } of [a, b]) client.clearRules();
    await settle(fleet, 'written again', [a, b], () => fleet.assignment('b') !== null, LEASE_MS);
    expect([...fleet.assignment('a')!.splits].sort()).toEqual(before[0]);
    expect([...fleet.assignment('b')!.splits].sort()).toEqual(before[1]);
  });
});

describe('lanes', () => {
  test('lanes - bound what a worker holds, and another one-lane worker widens the fleet by exactly one', async () => {
    await startFleet({ planner: finalPlan(ids(5, 'q')), config: { maxInFlight: 1 } });
    const a = fleet.seam('a');
    await settle(fleet, 'a fills its lane', [a], () => a.held.size === 1);
    const [first] = heldBy(a);
    for (let round = 0; round < 24; round += 1) {
      await fleet.advance(LEASE_MS / 12);
      commitHeld(a);
      expect(heldBy(a)).toEqual([first]);
      expect(fleet.assignment('a')?.splits).toEqual([first]);
    }
    const b = fleet.seam('b');
    await settle(fleet, 'b fills its lane', [a, b], () => b.held.size === 1, 2_000);
    const [second] = heldBy(b);
    for (let round = 0; round < 24; round += 1) {
      await fleet.advance(LEASE_MS / 12);
      commitHeld(a);
      commitHeld(b);
      expect([heldBy(a), heldBy(b)]).toEqual([[first], [second]]);
    }
    // The rest waits, untouched: not named, not claimed, not set aside.
    for (const id of ids(5, 'q')) {
      expect(fleet.split(id)).toMatchObject({ status: 'runnable', attempts: 0 });
      if (id !== first && id !== second) expect(ownersOf(fleet, id)).toEqual([]);
    }
    expect([...eventsOf(a, 'quarantined'), ...eventsOf(b, 'quarantined')]).toEqual([]);
  });

  test('lanes - hold also against an assignment that names more than they are (R40)', async () => {
    await startFleet({ planner: finalPlan(ids(3, 'q')) });
    const leader = fleet.seam('leader', { config: { maxInFlight: 0 } });
    await fleet.until('it leads', () => fleet.leader() === 'leader');
    const a = fleet.seam('a', { config: { maxInFlight: 1 } });
    await fleet.until('a fills its lane', () => a.held.size === 1, 2_000);
    const record = fleet.keys.assignment('a' as InstanceId);
    leader.client.when(writesTo((key) => key === record)).refuse('E_STORE_UNREACHABLE');
    const text = fleet.store.dump(record)[0]!.value;
    const named = { ...(JSON.parse(text) as object), splits: ids(3, 'q') };
    await fleet.store.put(record, JSON.stringify(named));
    for (let round = 0; round < 10; round += 1) {
      await fleet.advance(300);
      expect(fleet.leasesOf('a')).toEqual(heldBy(a));
      expect(a.held.size).toBe(1);
    }
    expect(fleet.assignment('a')?.splits).toHaveLength(3);
    completeHeld(a);
    await fleet.until('the next one follows', () => a.held.size === 1, 1_000);
  });

  test('lanes - that fall free are filled from the queue, until all is complete', async () => {
    await startFleet({ planner: finalPlan(ids(5, 'q')), config: { maxInFlight: 1 } });
    const a = fleet.seam('a');
    const b = fleet.seam('b');
    for (const left of [3, 2, 1, 0]) {
      await settle(
        fleet,
        'both lanes are full',
        [a, b],
        () => a.held.size + b.held.size === 2,
        2_000,
      );
      completeHeld(a);
      await fleet.advance(20);
      const open = ids(5, 'q').filter((id) => fleet.split(id)?.status === 'runnable');
      expect(open).toHaveLength(left + 1);
      if (left === 0) completeHeld(b);
    }
    await fleet.until('the verdict', () => a.verdict !== null, 2_000);
    expect(a.verdict).toMatchObject({ kind: 'complete', completed: 5 });
    expect(storedText(fleet, 'q0')).toContain('completed');
  });
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
  });
});

describe('five settled workers', () => {
  /** Five workers with four of twenty splits each; the first one leads. */
  async function settled(planner: Planner, config: Partial<WorkerConfig> = {}) {
    await startFleet({ planner, config });
    const names = ['a', 'b', 'c', 'd', 'e'];
    const seams = names.map((name) => fleet.seam(name));
    const isEven = (): boolean => seams.every(({ held }) => held.size === 4);
    await settle(fleet, '4 each', seams, isEven);
    const fromMs = fleet.clock.nowMs();
    await settle(fleet, 'quiet', seams, () => fleet.clock.nowMs() > fromMs + 1_000);
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
    await settle(fleet, 'another one leads', seams, another, 40_000);
    await settle(
      fleet,
      'two leases',
      seams,
      () => fleet.clock.nowMs() > fromMs + 4 * LEASE_MS,
      60_000,
    );
    expect(eventsOf(a, 'leadershipLost')).toHaveLength(1);
    expect(sessionOf(fleet, 'a')).not.toBeNull();
    expect(ids(20).map((id) => ownersOf(fleet, id))).toEqual(owners);
    expect(seams.map((seam) => eventsOf(seam, 'revokeRequested').length)).toEqual(asked);
    expect(assignmentWrites(fleet, fromMs)).toEqual([]);
  });

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
    await settle(fleet, '5 each', seams, isPlaced, 3_000);
    const fromMs = fleet.clock.nowMs();
    await settle(
      fleet,
      'a while',
      stayers,
      () => fleet.clock.nowMs() > fromMs + 2 * LEASE_MS,
      30_000,
    );
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
      await settle(fleet, what, [a, b], () => isDone() && b.held.size > 0, 20_000);
      const fromMs = fleet.clock.nowMs();
      await settle(fleet, 'quiet', [a, b], () => fleet.clock.nowMs() > fromMs + 3_000);
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
    await settle(fleet, '1 and 5', [a, b, c], () => a.held.size === 1 && b.held.size === 5);
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
    await settle(fleet, 'six run', [a, b, c], () => held() === 6);
    await fleet.advance(LEASE_MS);
    expect(held()).toBe(6);
    for (let done = 1; done <= 9; done += 1) {
      const from = a.held.size === 1 && done % 2 === 1 ? a : b.held.size > 0 ? b : a;
      const [id] = from.held.keys();
      from.held.delete(id!);
      void from.coordinator.commit(id!, { watermark: 1_000, completed: true });
      const running = Math.min(6, 9 - done);
      await settle(fleet, `${running} run`, [a, b], () => held() === running, 2_000);
    }
    await fleet.until('the verdict', () => c.verdict !== null, 2_000);
    expect([a, b, c].map(({ verdict }) => verdict?.kind)).toEqual(Array(3).fill('complete'));
    expect([mostNamed('a'), mostNamed('b'), mostNamed('c')]).toEqual([1, 5, 0]);
    expect(eventsOf(c, 'gained')).toEqual([]);
    for (const id of ids(9)) expect(ownersOf(fleet, id)).toHaveLength(1);
  });
});

describe('a fleet at work', () => {
  test('a fleet at work - that nobody joins or leaves publishes nothing and moves nothing for 20 rebalance delays', async () => {
    const world = startRecorded({ planner: finalPlan(ids(10)), config: { maxInFlight: 10 } });
    const journal = new Journal();
    const names = ['a', 'b', 'c'];
    for (const name of names) stepWorker(world, name, journal, { stepMs: 2_000 });
    const isEven = (): boolean => names.every((name) => journal.runningOn(name).length >= 3);
    await fleet.until('3, 3 and 4', isEven, 10_000);
    await fleet.advance(2 * LEASE_MS);
    const fromMs = fleet.clock.nowMs();
    const owners = ids(10).map((id) => ownersOf(fleet, id));
    world.recorder.note({ kind: 'rests' });
    await fleet.advance(20 * CONFIG.rebalanceDelayMs!);
    world.recorder.note({ kind: 'restIsOver' });
    expect(assignmentWrites(fleet, fromMs)).toEqual([]);
    expect(ids(10).map((id) => ownersOf(fleet, id))).toEqual(owners);
    for (const id of ids(10))
      expect(journal.of(id, 'start')).toHaveLength(owners[Number(id.slice(1))]!.length);
  });
});
