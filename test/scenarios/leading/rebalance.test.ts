/** How work is divided anew when workers come and go, and what lanes allow. */
import { describe, expect, test } from '@jest/globals';
import type { InstanceId } from '../../../src/base/ids.ts';
import { writesTo } from '../../../src/store/faults.ts';
import { finalPlan, ids, LEASE_MS, type SeamWorker } from '../../support/fleet.ts';
import {
  assignmentWrites,
  commitHeld,
  completeHeld,
  eventsOf,
  handBackAsked,
  Journal,
  ownersOf,
  sessionOf,
  stepWorker,
  storedText,
} from '../../support/sources.ts';
import { fleet, startFleet } from '../../support/scenario.ts';

const heldBy = (...seams: SeamWorker[]): string[] =>
  seams.flatMap((seam) => [...seam.held.keys()]).sort();

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

async function startAlone(id: string, count: number): Promise<SeamWorker> {
  const seam = fleet.seam(id);
  await fleet.until(`${id} holds all`, () => seam.held.size === count);
  commitHeld(seam);
  await fleet.advance(100);
  return seam;
}

describe('a newcomer', () => {
  test('a newcomer - is given a share in order, and goes on where the old owner stopped', async () => {
    await startFleet({ planner: finalPlan(ids(4)) });
    const a = await startAlone('a', 4);
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
    await settle('quiet', [a, b], () => fleet.clock.nowMs() > settledAtMs + 2 * LEASE_MS);
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
    const a = await startAlone('a', 6);
    const b = fleet.seam('b');
    await fleet.until('a is asked', () => a.asked.size > 0, 3_000);
    // The move stays open while another worker comes.
    const c = fleet.seam('c');
    await fleet.until('c is there', () => sessionOf(fleet, 'c') !== null, 2_000);
    await fleet.advance(500);
    expect(heldBy(b, c)).toEqual([]);
    await settle(
      '2, 2 and 2',
      [a, b, c],
      () => a.held.size === 2 && b.held.size === 2 && c.held.size === 2,
      LEASE_MS,
    );
    expect(heldBy(a, b, c)).toEqual(ids(6));
    const settledAtMs = fleet.clock.nowMs();
    await settle('quiet', [a, b, c], () => fleet.clock.nowMs() > settledAtMs + LEASE_MS);
    expect(assignmentWrites(fleet, settledAtMs)).toEqual([]);
    expect(heldBy(a, b, c)).toEqual(ids(6));
    for (const seam of [a, b, c]) expect(eventsOf(seam, 'lost')).toEqual([]);
  });
});

/** Kills one of two workers, and returns how long after its keys went the other had its split. */
async function takeoverDelayMs(rebalanceDelayMs: number): Promise<number> {
  await startFleet({ planner: finalPlan(['s0', 's1']), config: { rebalanceDelayMs } });
  const a = fleet.seam('a');
  const b = fleet.seam('b');
  await settle('1 and 1', [a, b], () => a.held.size === 1 && b.held.size === 1);
  b.crash();
  const diedAtMs = fleet.clock.nowMs();
  await settle('a has both', [a], () => a.held.size === 2, 100_000);
  const takenAtMs = fleet.clock.nowMs();
  const gone = fleet.store
    .history(fleet.keys.presence('b' as InstanceId))
    .find(({ value, atMs }) => value === null && atMs > diedAtMs)!;
  expect(gone.cause).toBe('sessionEnd');
  expect(gone.atMs - diedAtMs).toBeLessThanOrEqual(LEASE_MS + fleet.slackMs);
  return takenAtMs - gone.atMs;
}

describe('the rebalance delay', () => {
  test('the rebalance delay - of zero places the splits of a dead worker at once', async () => {
    expect(await takeoverDelayMs(0)).toBeLessThan(500 + fleet.slackMs);
  });

  test('the rebalance delay - keeps the splits of a dead worker from everyone while it lasts', async () => {
    const delayMs = 5 * LEASE_MS;
    const tookMs = await takeoverDelayMs(delayMs);
    expect(tookMs).toBeGreaterThanOrEqual(delayMs);
    expect(tookMs).toBeLessThan(delayMs + 500 + fleet.slackMs);
  });

  test('the rebalance delay - ends when the dead worker is back, and its splits stay its own', async () => {
    await startFleet({
      planner: finalPlan(['s0', 's1']),
      config: { rebalanceDelayMs: 5 * LEASE_MS },
    });
    const a = fleet.seam('a');
    const b = fleet.seam('b');
    await settle('1 and 1', [a, b], () => a.held.size === 1 && b.held.size === 1);
    const before = heldBy(b);
    b.crash();
    const diedAtMs = fleet.clock.nowMs();
    await settle('two leases pass', [a], () => fleet.clock.nowMs() > diedAtMs + 2 * LEASE_MS);
    expect(sessionOf(fleet, 'b')).toBeNull();
    const back = fleet.seam('b');
    await settle('it has its split', [a, back], () => back.held.size === 1, 1_000);
    expect(heldBy(back)).toEqual(before);
    expect(a.held.size).toBe(1);
  });
});

describe('a withdrawn assignment', () => {
  test('a withdrawn assignment - releases nothing, and is written again as it was', async () => {
    await startFleet({ planner: finalPlan(ids(4)) });
    const a = fleet.seam('a');
    await fleet.until('it leads', () => fleet.leader() === 'a');
    const b = fleet.seam('b');
    await settle('2 and 2', [a, b], () => a.held.size === 2 && b.held.size === 2);
    const settledAtMs = fleet.clock.nowMs();
    await settle('quiet', [a, b], () => fleet.clock.nowMs() > settledAtMs + LEASE_MS);
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

  test('a withdrawn assignment - of every worker while nobody leads leaves the fleet at work', async () => {
    await startFleet({ planner: finalPlan(ids(4)) });
    const a = fleet.seam('a');
    const b = fleet.seam('b');
    await settle('2 and 2', [a, b], () => a.held.size === 2 && b.held.size === 2);
    const before = [heldBy(a), heldBy(b)];
    for (const { client } of [a, b]) {
      client.when(writesTo((key) => key === fleet.keys.leader)).refuse('E_STORE_UNREACHABLE');
    }
    await fleet.store.remove(fleet.keys.leader);
    await fleet.advance(20);
    for (const id of ['a', 'b']) await fleet.store.remove(fleet.keys.assignment(id as InstanceId));
    const atMs = fleet.clock.nowMs();
    await settle('two leases pass', [a, b], () => fleet.clock.nowMs() > atMs + 2 * LEASE_MS);
    expect(fleet.leader()).toBeNull();
    expect([heldBy(a), heldBy(b)]).toEqual(before);
    expect([...eventsOf(a, 'lost'), ...eventsOf(b, 'lost')]).toEqual([]);
    for (const { client } of [a, b]) client.clearRules();
    await settle('written again', [a, b], () => fleet.assignment('b') !== null, LEASE_MS);
    expect([...fleet.assignment('a')!.splits].sort()).toEqual(before[0]);
    expect([...fleet.assignment('b')!.splits].sort()).toEqual(before[1]);
  });
});

describe('lanes', () => {
  test('lanes - bound what a worker holds, and another one-lane worker widens the fleet by exactly one', async () => {
    await startFleet({ planner: finalPlan(ids(5, 'q')), config: { maxInFlight: 1 } });
    const a = fleet.seam('a');
    await settle('a fills its lane', [a], () => a.held.size === 1);
    const [first] = heldBy(a);
    for (let round = 0; round < 24; round += 1) {
      await fleet.advance(LEASE_MS / 12);
      commitHeld(a);
      expect(heldBy(a)).toEqual([first]);
      expect(fleet.assignment('a')?.splits).toEqual([first]);
    }
    const b = fleet.seam('b');
    await settle('b fills its lane', [a, b], () => b.held.size === 1, 2_000);
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
      await settle('both lanes are full', [a, b], () => a.held.size + b.held.size === 2, 2_000);
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
