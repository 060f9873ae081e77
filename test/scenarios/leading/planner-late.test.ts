/** Planners that owe an answer: named, and given up for those of other workers. */
import { describe, expect, test } from '@jest/globals';
import type { PlanAnswer, Planner, PlanRequest } from '../../../src/index.ts';
import { finalPlan, ids, LEASE_MS, type SeamWorker } from '../../support/fleet.ts';
import { eventsOf } from '../../support/observed.ts';
import { fleet, startFleet } from '../../support/scenario.ts';

const MINUTE_MS = 60_000;
const PLAN_TIMEOUT_MS = 5 * MINUTE_MS;
const FAILING_MS = 2 * MINUTE_MS;

const never = (): Promise<PlanAnswer> => new Promise(() => undefined);
const planner = (plan: (request: PlanRequest) => PlanAnswer | Promise<PlanAnswer>): Planner => ({
  fingerprint: () => 'plan:v1',
  plan,
});
const broken = planner(() => {
  throw new Error('no such table');
});
const sound = finalPlan(ids(4), 'plan:v1');

/** Leads first: nobody else is there yet. */
async function leaderWith(own: Planner): Promise<SeamWorker> {
  const a = fleet.seam('a', { planner: own });
  await fleet.until('a leads', () => a.coordinator.status().isLeading);
  return a;
}

const late = (worker: SeamWorker) => worker.lines.filter(({ event }) => event === 'planner.late');
const terms = (...workers: SeamWorker[]): number =>
  workers.flatMap((worker) => eventsOf(worker, 'leadershipGained')).length;

describe('a planner that owes an answer', () => {
  test.each([
    ['hangs', planner(never), 0],
    ['always throws', broken, 1],
  ])(
    'a planner that %s - is named with its age within a minute, then ever more seldom (R58)',
    async (_what, own, failuresMin) => {
      await startFleet();
      const a = await leaderWith(own);
      await fleet.advance(MINUTE_MS);
      expect(late(a)).toHaveLength(1);
      expect(late(a)[0]).toMatchObject({ level: 'warn' });
      expect(late(a)[0]!.message).toMatch(/^the planner has given no answer for 30 s/);
      const [event] = eventsOf(a, 'plannerLate');
      expect(event).toMatchObject({ forMs: 30_000 });
      expect(event!.failures).toBeGreaterThanOrEqual(failuresMin);
      expect(a.coordinator.status().planner).toMatchObject({ state: 'late' });
      await fleet.advance(59 * MINUTE_MS);
      expect(late(a).length).toBeGreaterThan(4);
      expect(late(a).length).toBeLessThan(9);
      expect(a.coordinator.status().planner!.forMs).toBeGreaterThan(59 * MINUTE_MS);
      expect(a.coordinator.status().charts.leader).toContain('enumerating.overdue');
    },
  );

  test.each([
    ['hangs', planner(never), PLAN_TIMEOUT_MS],
    ['always throws', broken, FAILING_MS],
  ])(
    'a planner that %s - is given up in time for one that works, and its worker keeps its place (R59)',
    async (_what, own, patienceMs) => {
      await startFleet();
      const a = await leaderWith(own);
      const b = fleet.seam('b', { planner: sound });
      await fleet.advance(patienceMs - LEASE_MS);
      expect(fleet.plan()?.sealed).toBe(false);
      await fleet.until('b seals', () => fleet.plan()?.sealed === true, 3 * LEASE_MS);
      expect(fleet.leader()).toBe('b');
      expect(eventsOf(a, 'leadershipLost')[0]!.reason).toMatch(/another worker may try$/);
      await fleet.until('both work', () => a.held.size === 2 && b.held.size === 2);
    },
  );

  test('a run that hangs - is aborted through its signal, and what it says later is dropped (R59)', async () => {
    await startFleet();
    let signal: AbortSignal | null = null;
    let answer: (answer: PlanAnswer) => void = () => undefined;
    let runs = 0;
    const a = await leaderWith(
      planner((request) => {
        runs += 1;
        if (runs > 1) return sound.plan(request);
        ({ signal } = request);
        return new Promise((resolve) => (answer = resolve));
      }),
    );
    await fleet.until('another run', () => runs === 2, PLAN_TIMEOUT_MS + LEASE_MS);
    expect(signal!.aborted).toBe(true);
    answer({ splits: [{ id: 'late', descriptor: '' }], finality: 'final' });
    await fleet.until('the sound plan', () => a.held.size === 4);
    expect(fleet.split('late')).toBeNull();
    // Alone, it never stopped leading.
    expect(terms(a)).toBe(1);
  });

  test('a slow planner - that takes four times its time comes to its end, alone (R59)', async () => {
    await startFleet();
    const a = await leaderWith(
      planner(async (request) => {
        await new Promise((resolve) => fleet.clock.setTimeout(() => resolve(null), 20 * MINUTE_MS));
        return sound.plan(request);
      }),
    );
    // 5, 10 and 20 minutes in vain, and 20 of the next 40.
    await fleet.until('a plan', () => fleet.plan()?.sealed === true, 56 * MINUTE_MS, 1_000);
    expect(terms(a)).toBe(1);
  });

  test('planners that all fail - pass the leadership on ever more seldom, and somebody always leads (R59)', async () => {
    await startFleet();
    const a = await leaderWith(broken);
    const b = fleet.seam('b', { planner: planner(never) });
    const c = fleet.seam('c', { planner: broken });
    const counts: number[] = [];
    for (let hour = 0; hour < 4; hour += 1) {
      const before = terms(a, b, c);
      for (let minute = 0; minute < 60; minute += 1) {
        await fleet.advance(MINUTE_MS - 3 * LEASE_MS);
        await fleet.until('somebody leads', () => fleet.leader() !== null, 3 * LEASE_MS);
        await fleet.advance(2 * LEASE_MS);
      }
      counts.push(terms(a, b, c) - before);
    }
    expect(counts[0]).toBeLessThanOrEqual(10);
    expect(counts[3]).toBeLessThanOrEqual(4);
  }, 120_000);

  test('a worker whose planner failed - comes last when the leader dies (R59)', async () => {
    await startFleet();
    const a = await leaderWith(broken);
    const b = fleet.seam('b', { planner: sound });
    await fleet.until('b leads', () => fleet.leader() === 'b', FAILING_MS + 3 * LEASE_MS);
    const c = fleet.seam('c', { planner: sound });
    await fleet.until('c is there', () => c.coordinator.status().presence === 'present');
    await fleet.advance(LEASE_MS);
    b.crash();
    await fleet.until('c leads', () => fleet.leader() === 'c', 3 * LEASE_MS);
    expect(eventsOf(a, 'leadershipGained')).toHaveLength(1);
  });
});
