/**
 * What a fleet costs its store, pinned: whole fleets of real workers are counted against the formulas of
 * `test/bench/scale/measurements.ts`, which `npm run bench -- scale` holds against fleets of up to 1,000 workers.
 */
import { afterEach, describe, expect, test } from '@jest/globals';
import { LEASE_MS, ScaleFleet } from '../bench/scale/fleet.ts';
import {
  measureCancelledDrains,
  measureCommits,
  measureEmptyJoin,
  measureMoves,
  measurePlan,
  measureReconcile,
  measureReplan,
  measureRest,
  measureTakeover,
  RENEWAL_MS_MIN,
  type Row,
} from '../bench/scale/measurements.ts';

/** Room for some splits more than each worker's share. */
const MAX_IN_FLIGHT = 20;
const SPLITS_PER_WORKER = 8;

let fleet: ScaleFleet;

afterEach(() => fleet.close());

/** A fleet that holds a plan, and is quiet. */
async function settled(workers: number, splits = workers * SPLITS_PER_WORKER): Promise<void> {
  fleet = new ScaleFleet();
  await fleet.join(workers, MAX_IN_FLIGHT);
  await measurePlan(fleet, splits);
  expect(fleet.owners().size).toBe(splits);
}

/** Every count is what its formula says; the one named first counts something. */
function expectExact(rows: readonly Row[]): void {
  const byName = (value: (row: Row) => number): Record<string, number> =>
    Object.fromEntries(rows.map((row) => [row.what, value(row)]));
  expect(byName(({ counted }) => counted)).toEqual(byName(({ expected }) => expected));
  expect(rows[0]!.expected).toBeGreaterThan(0);
}

describe.each([10, 30])('a fleet of %i', (workers) => {
  test('plan - costs its splits by the batch, and nobody is told of a split before it is claimed', async () => {
    fleet = new ScaleFleet();
    await fleet.join(workers, MAX_IN_FLIGHT);
    expectExact(await measurePlan(fleet, workers * SPLITS_PER_WORKER));
  });

  test('replan - sends unknown ids only, and without any it writes nothing', async () => {
    await settled(workers);
    expect(await measureReplan(fleet)).toEqual([
      { what: 'replan, nothing new: batches', counted: 0, expected: 0 },
      { what: 'replan, nothing new: deliveries', counted: 0, expected: 0 },
    ]);
    expectExact(await measurePlan(fleet, workers * SPLITS_PER_WORKER + 70));
  });

  test('commit - is a share of one write, and nobody is told', async () => {
    await settled(workers);
    expectExact(await measureCommits(fleet));
  });

  test('planned move - is a mark, a release and a claim told to everybody, and the changed assignments told to two', async () => {
    await settled(workers);
    expectExact(await measureMoves(fleet, MAX_IN_FLIGHT));
  });

  test('cancelled drain - is one mark more, and another one when its handler goes on', async () => {
    await settled(workers);
    expectExact(await measureCancelledDrains(fleet, MAX_IN_FLIGHT));
  });

  test('takeover - is a claim and the changed assignments', async () => {
    await settled(workers);
    expectExact(await measureTakeover(fleet));
  });

  test('join - is one presence told to everybody, and the changed assignments told to two', async () => {
    await settled(workers);
    expectExact(await measureEmptyJoin(fleet));
  });

  test('reconcile - asks once for each range followed, and once for all own records', async () => {
    await settled(workers);
    expectExact(await measureReconcile(fleet));
  });

  test('rest - costs a renewal and a look at what is its own: nothing else is read, and nothing written or told', async () => {
    await settled(workers);
    const [renewals, ...others] = await measureRest(fleet);
    expect(others.map(({ counted }) => counted)).toEqual(others.map(({ expected }) => expected));
    expect(others.at(-1)!.counted).toBeGreaterThan(0);
    const sessions = workers + 1;
    expect(renewals!.counted).toBeGreaterThanOrEqual(sessions * 12);
    expect(renewals!.counted).toBeLessThanOrEqual(
      sessions * Math.ceil((4 * LEASE_MS) / RENEWAL_MS_MIN),
    );
  });

  test('renewals - are one each third of a lease for each worker and two for the leader, whatever they hold', async () => {
    for (const splits of [1, workers * SPLITS_PER_WORKER]) {
      await settled(workers, splits);
      fleet.isJittered = false;
      await fleet.clock.advance(LEASE_MS);
      const counted = fleet.meter.start();
      await fleet.clock.advance(4 * LEASE_MS);
      expect(counted.of('calls.keepAlive')).toBe(12 * (workers + 1));
      await fleet.close();
    }
  });
});
