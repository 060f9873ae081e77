/** Clocks that are set, and times that are very long. */
import { describe, expect, test } from '@jest/globals';
import { CONFIG, finalPlan, type HandledWorker, ids, LEASE_MS } from '../../support/fleet.ts';
import { fleet, startRecorded } from '../../support/scenario.ts';
import { Journal, lastRenewalAtMs, stepWorker } from '../../support/sources.ts';
import { eventsOf, sessionOf } from '../../support/observed.ts';

const TICK_MS = 1_000;
const DAY_MS = 86_400_000;

describe('wall clocks', () => {
  /** Kills one of three workers at work; tells when its splits run again, and everything that was ever stored. */
  async function takeover(offsetsMs: readonly number[], step: (workers: HandledWorker[]) => void) {
    const world = startRecorded({ planner: finalPlan(ids(6)) });
    const journal = new Journal();
    const names = ['a', 'b', 'c'];
    const workers = names.map((name, index) => {
      const worker = stepWorker(world, name, journal, { stepMs: 1_000 });
      worker.clock.stepWall(offsetsMs[index]!);
      return worker;
    });
    const areEven = (): boolean => names.every((name) => journal.runningOn(name).length === 2);
    await fleet.until('two each', areEven, 10_000);
    await fleet.advance(LEASE_MS);
    step(workers);
    await fleet.advance(LEASE_MS);
    expect(workers.flatMap((worker) => eventsOf(worker, 'lost'))).toEqual([]);
    expect(areEven()).toBe(true);
    const renewals = workers.map(({ client }) => client.counts.keepAlive);
    const victim = workers[2]!;
    const renewedAtMs = lastRenewalAtMs(victim, sessionOf(fleet, 'c')!);
    victim.crash();
    journal.died('c');
    const run = (): number => journal.runningOn('a').length + journal.runningOn('b').length;
    await fleet.until('all run', () => run() === 6, 30_000);
    const tookMs = fleet.clock.nowMs() - renewedAtMs;
    const written = fleet.store
      .history(fleet.keys.root)
      .map(({ key, value, atMs }) => `${atMs} ${key} ${value}`)
      // Since when somebody is away is noted by a wall clock, and only ever shortens a wait (R26).
      .map((line) => line.replace(/"since":\d+/, '"since":…'));
    await fleet.close();
    return { tookMs, renewals, written };
  }

  test('wall clocks - ten minutes apart and set by hours change no renewal, no takeover, and no record (R10)', async () => {
    const plain = await takeover([0, 0, 0], () => undefined);
    const atLeastMs = LEASE_MS + CONFIG.rebalanceDelayMs!;
    expect(plain.tookMs).toBeGreaterThanOrEqual(atLeastMs);
    expect(plain.tookMs).toBeLessThan(atLeastMs + 2 * TICK_MS);
    const apart = await takeover([-600_000, 0, 600_000], ([a, b]) => {
      a!.clock.stepWall(3_600_000);
      a!.clock.stepWall(-7_200_000);
      b!.clock.stepWall(3_600_000);
    });
    expect(apart.tookMs).toBe(plain.tookMs);
    expect(apart.renewals).toEqual(plain.renewals);
    // Byte for byte, at the same instants: nothing else that is stored comes from a wall clock.
    expect(apart.written).toEqual(plain.written);
    expect(plain.written.length).toBeGreaterThan(100);
  });
});

describe('30 days of patience', () => {
  test('30 days of patience - a dead peer’s splits wait, a drain of a second is not forced, and timers are few (R44)', async () => {
    const world = startRecorded({
      planner: finalPlan(ids(6)),
      config: {
        leaseDurationMs: 15_000,
        reconcileIntervalMs: 30_000,
        drainDeadlineMs: 30 * DAY_MS,
        rebalanceDelayMs: 30 * DAY_MS,
        replanIntervalMs: 60 * DAY_MS,
      },
    });
    const journal = new Journal();
    const start = (id: string) =>
      stepWorker(world, id, journal, { stepMs: 600_000, drainMs: 1_000 });
    const a = start('a');
    const b = start('b');
    const areEven = (): boolean => ['a', 'b'].every((id) => journal.runningOn(id).length === 3);
    await fleet.until('three each', areEven, 10_000);
    const left = journal.runningOn('b');
    b.crash();
    journal.died('b');
    await fleet.until('b is missed', () => fleet.leasesOf('b').length === 0, 16_000);
    const c = start('c');
    // A split of `a` moves, after a drain of one second.
    const joinedAtMs = fleet.clock.nowMs();
    await fleet.until('c has one', () => journal.runningOn('c').length === 1, 3_000);
    expect(fleet.clock.nowMs() - joinedAtMs).toBeGreaterThanOrEqual(1_000);
    const calls = [a, c].map((worker) => countTimers(worker));
    await fleet.advance(60_000);
    // What the handlers set is theirs: one timer for each step of a split.
    for (const { fired, byHandlers } of calls) expect(fired - byHandlers).toBeLessThan(60);
    expect(a.worker.status().peers).toContainEqual({ instance: 'b', state: 'withheld' });
    for (const id of left) expect(fleet.lease(id)).toBeNull();
    expect([a, c].flatMap((worker) => eventsOf(worker, 'lost'))).toEqual([]);
    expect(journal.overlaps).toEqual([]);
    // Until its time, and not beyond: the wait ends when the worker is back.
    const again = start('b');
    await fleet.until('b has them again', () => journal.runningOn('b').length > 0, 3_000);
    expect(journal.runningOn('b').every((id) => left.includes(id))).toBe(true);
    expect(again.run.state).toBe('pending');
  });

  /** Counts the timers that fire for a worker from now on; those of its handlers, which sleep ten minutes, apart. */
  function countTimers({ clock }: HandledWorker): { fired: number; byHandlers: number } {
    const count = { fired: 0, byHandlers: 0 };
    const { setTimeout: original } = clock;
    clock.setTimeout = (callback, delayMs) => {
      const counted = (): void => {
        count.fired += 1;
        if (delayMs === 600_000) count.byHandlers += 1;
        callback();
      };
      return original(counted, delayMs);
    };
    return count;
  }

  test('30 days of patience - end after 30 days', async () => {
    const lease = { leaseDurationMs: DAY_MS, reconcileIntervalMs: DAY_MS, opTimeoutMs: 60_000 };
    const world = startRecorded({
      planner: finalPlan(ids(2)),
      config: {
        ...lease,
        drainDeadlineMs: 30 * DAY_MS,
        rebalanceDelayMs: 30 * DAY_MS,
        replanIntervalMs: 60 * DAY_MS,
      },
    });
    const journal = new Journal();
    const start = (id: string) =>
      stepWorker(world, id, journal, { stepMs: 3_600_000 * 12, drainMs: 1_000 });
    start('a');
    const b = start('b');
    const areEven = (): boolean => ['a', 'b'].every((id) => journal.runningOn(id).length === 1);
    await fleet.until('one each', areEven, 10_000);
    const [left] = journal.runningOn('b');
    b.crash();
    journal.died('b');
    const freedMs = await fleet.until(
      'b is missed',
      () => fleet.lease(left!) === null,
      2 * DAY_MS,
      600_000,
    );
    expect(freedMs).toBeLessThanOrEqual(DAY_MS + 600_000);
    await fleet.advance(30 * DAY_MS - 1_200_000);
    expect(journal.runningOn('a')).not.toContain(left);
    await fleet.until('a has it', () => journal.runningOn('a').includes(left!), 1_800_000, 60_000);
  });
});
