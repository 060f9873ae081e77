/** Splits that wait for a place: how many, why, and who says so. */
import { describe, expect, test } from '@jest/globals';
import type { PlanAnswer, Status } from '../../../src/index.ts';
import { finalPlan, ids, LEASE_MS, type SeamWorker } from '../../support/fleet.ts';
import { completeHeld, handBackAsked } from '../../support/sources.ts';
import { deferred, eventsOf } from '../../support/observed.ts';
import { fleet, startFleet } from '../../support/scenario.ts';

const unplaced = ({ coordinator }: SeamWorker): Status['unplaced'] => coordinator.status().unplaced;
const reasons = (worker: SeamWorker): Record<string, number> =>
  Object.fromEntries((unplaced(worker)?.parts ?? []).map(({ reason, count }) => [reason, count]));
const told = (worker: SeamWorker) =>
  worker.lines
    .filter(({ event }) => event === 'splits.unplaced' || event === 'splits.placed')
    .map(({ event, fields }) => [event, fields['reason']]);

/** A leader with two lanes, both taken. */
async function fullWorker(planned: number): Promise<SeamWorker> {
  await startFleet({ planner: finalPlan(ids(planned)), config: { maxInFlight: 2 } });
  const a = fleet.seam('a');
  await fleet.until('a is full', () => a.held.size === 2);
  return a;
}

describe('splits without a place', () => {
  test('more splits than lanes - are counted, with some ids, and named once after a lease (R60)', async () => {
    const a = await fullWorker(300);
    await fleet.until('counted', () => unplaced(a)?.count === 298);
    expect(reasons(a)).toEqual({ noRoom: 298 });
    expect(unplaced(a)!.parts[0]!.splits).toHaveLength(5);
    expect(JSON.parse(JSON.stringify(unplaced(a)))).toEqual(unplaced(a));
    expect(told(a)).toEqual([]);
    await fleet.advance(10 * LEASE_MS);
    expect(told(a)).toEqual([['splits.unplaced', 'noRoom']]);
    expect(eventsOf(a, 'unplaced')).toMatchObject([{ reason: 'noRoom', count: 298 }]);
    expect(a.lines.find(({ event }) => event === 'splits.unplaced')).toMatchObject({
      level: 'warn',
      message:
        '298 splits wait for a place: every lane is taken; more workers or a larger maxInFlight would run them',
    });
  });

  test('splits that got a place - are named once more, when none waits (R60)', async () => {
    const a = await fullWorker(4);
    await fleet.advance(3 * LEASE_MS);
    expect(told(a)).toEqual([['splits.unplaced', 'noRoom']]);
    const b = fleet.seam('b');
    await fleet.until('all placed', () => b.held.size === 2);
    await fleet.advance(LEASE_MS);
    expect(told(a)).toEqual([
      ['splits.unplaced', 'noRoom'],
      ['splits.placed', 'noRoom'],
    ]);
    expect(eventsOf(a, 'placed')).toEqual([{ type: 'placed', reason: 'noRoom' }]);
    expect(unplaced(a)).toEqual({ count: 0, parts: [] });
    expect(unplaced(b)).toBeNull();
  });

  test('a queue that moves - is nothing to warn of (R60)', async () => {
    const a = await fullWorker(40);
    const isDone = (): boolean => a.verdict !== null;
    for (let turn = 0; turn < 40 && !isDone(); turn += 1) {
      await fleet.advance(LEASE_MS / 2);
      if (turn < 15) expect(reasons(a)['noRoom']).toBeGreaterThan(0);
      completeHeld(a);
    }
    await fleet.until('the verdict', isDone);
    expect(told(a)).toEqual([]);
  });

  test.each([
    ['is drained', (id: string) => fleet.operator().drain(id)],
    ['is cordoned, and held nothing', (id: string) => fleet.operator().cordon(id)],
  ])('a fleet that %s as a whole - says why nothing runs (R60)', async (_what, act) => {
    const listed = deferred<PlanAnswer>();
    await startFleet({ planner: { fingerprint: () => 'plan:v1', plan: () => listed.promise } });
    const a = fleet.seam('a');
    const b = fleet.seam('b');
    await fleet.until('both are there', () => fleet.under('workers/').length === 2);
    await act('a');
    await act('b');
    const splits = ids(4).map((id) => ({ id, descriptor: id }));
    listed.resolve({ splits, finality: 'final' });
    await fleet.advance(3 * LEASE_MS);
    const leader = [a, b].find(({ coordinator }) => coordinator.status().isLeading)!;
    expect(reasons(leader)).toEqual({ nobodyMay: 4 });
    expect([...told(a), ...told(b)]).toEqual([['splits.unplaced', 'nobodyMay']]);
  });

  test('a fleet without lanes - says why nothing runs (R60)', async () => {
    await startFleet({ config: { maxInFlight: 0 } });
    const a = fleet.seam('a');
    await fleet.advance(3 * LEASE_MS);
    expect(reasons(a)).toEqual({ nobodyMay: 4 });
    expect(told(a)).toEqual([['splits.unplaced', 'nobodyMay']]);
  });

  test('what waits for a vanished owner - is counted with its end, and no trouble (R60)', async () => {
    await startFleet({ config: { rebalanceDelayMs: 4 * LEASE_MS } });
    const a = fleet.seam('a');
    await fleet.until('a leads', () => a.coordinator.status().isLeading);
    const b = fleet.seam('b');
    await fleet.until('half and half', () => {
      handBackAsked(a);
      return a.held.size === 2 && b.held.size === 2;
    });
    b.crash();
    await fleet.until('withheld', () => reasons(a)['withheld'] === 2, 3 * LEASE_MS);
    const { until } = unplaced(a)!.parts[0]!;
    const leftMs = until! - fleet.clock.wallMs();
    expect(leftMs).toBeGreaterThan(2 * LEASE_MS);
    expect(leftMs).toBeLessThanOrEqual(4 * LEASE_MS);
    await fleet.until('given up', () => reasons(a)['withheld'] === undefined, 6 * LEASE_MS);
    expect(told(a)).toEqual([]);
  });

  test('a paused job - shows that all wait for its resumption, and warns of nothing (R60)', async () => {
    const a = await fullWorker(4);
    await fleet.operator().pause();
    await fleet.until('handed back', () => {
      handBackAsked(a);
      return a.held.size === 0;
    });
    await fleet.advance(3 * LEASE_MS);
    expect(reasons(a)).toEqual({ paused: 4 });
    expect(told(a)).toEqual([]);
  });
});
