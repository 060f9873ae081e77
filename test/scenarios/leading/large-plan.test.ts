/** What a plan costs its leader when it is large: counted in looks at its index and in turns of the event loop, not in time. */
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { SplitIndex } from '../../../src/coordinator/leading/split-index.ts';
import { writesTo } from '../../../src/store/faults.ts';
import { completeAll } from '../../support/observed.ts';
import { finalPlan, Fleet, ids, LEASE_MS } from '../../support/fleet.ts';

/** How often an index of splits was looked at: each split that a call hands out or asks for counts as one. */
let looks = 0;
/** Records that were put into an index, or learnt of by its leader, in this turn of the event loop; and the most so far. */
let taken = 0;
let mostTaken = 0;

const methods = SplitIndex.prototype as unknown as Record<string, (...args: unknown[]) => unknown>;

beforeEach(() => {
  [looks, taken, mostTaken] = [0, 0, 0];
  const names = Object.entries(Object.getOwnPropertyDescriptors(SplitIndex.prototype))
    .filter(([name, { value }]) => name !== 'constructor' && typeof value === 'function')
    .map(([name]) => name);
  for (const name of names) {
    const original = methods[name]!;
    jest.spyOn(methods, name).mockImplementation(function (this: unknown, ...args) {
      looks += 1;
      if (name === 'set') noteTaken();
      const found = original.apply(this, args);
      return isIterable(found) ? counted(found) : found;
    });
  }
});

let fleet: Fleet;
afterEach(async () => {
  await fleet.close();
  jest.restoreAllMocks();
});

function isIterable(value: unknown): value is Iterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.iterator in value;
}

function* counted(found: Iterable<unknown>): Iterable<unknown> {
  for (const one of found) {
    looks += 1;
    yield one;
  }
}

function noteTaken(): void {
  if (taken === 0) {
    setImmediate(() => {
      taken = 0;
    });
  }
  taken += 1;
  mostTaken = Math.max(mostTaken, taken);
}

/** Publishes a plan over a slow store, with four workers that hold what they have; says what that took. */
async function publish(count: number): Promise<{ decisions: number; looks: number }> {
  const planner = finalPlan(ids(count));
  fleet = new Fleet({ planner, config: { maxInFlight: 8 } });
  const workers = ids(4, 'w').map((id) => fleet.seam(id));
  for (const { client } of workers) client.when('transact').delay(150);
  await fleet.until('sealed', () => fleet.plan()?.sealed === true, 10 * LEASE_MS);
  const decisions = workers
    .flatMap(({ transitions }) => transitions)
    .filter(({ event }) => event === 'balance.due').length;
  // All work meanwhile, and nobody's lease ran out.
  expect(workers.map(({ held }) => held.size)).toEqual([8, 8, 8, 8]);
  expect(fleet.plan()).toMatchObject({ generation: 1, planned: count });
  return { decisions, looks };
}

describe('a large plan', () => {
  test('a large plan - costs its leader in proportion to its size while it is stored, whatever is decided meanwhile', async () => {
    const small = await publish(3_000);
    await fleet.close();
    looks = 0;
    const large = await publish(12_000);
    expect(small.decisions).toBeGreaterThan(4);
    expect(large.decisions).toBeGreaterThan(3 * small.decisions);
    // Four times the splits: four times the looks, not sixteen times.
    expect(large.looks / small.looks).toBeLessThan(5);
    expect(large.looks).toBeLessThan(10 * 12_000);
  });

  test('a large plan - is decided on at most every 200 ms while it is stored (R25)', async () => {
    await publish(3_000);
    const leader = fleet.leader();
    expect(leader).not.toBeNull();
    const { decisions } = await publish(6_000);
    expect(decisions).toBeLessThanOrEqual(1 + fleet.clock.nowMs() / 200);
  });

  test('a large plan - of which every lane is full costs nothing to look after', async () => {
    await publish(3_000);
    looks = 0;
    await fleet.advance(2 * LEASE_MS);
    // The leader looks at what is held, each third of a lease; not at what waits.
    expect(looks).toBeLessThan(1_000);
  });

  test('a large plan - fills the lanes of a newcomer while the names of others wait to be claimed', async () => {
    fleet = new Fleet({ planner: finalPlan(ids(300)) });
    const a = fleet.seam('a', { config: { maxInFlight: 4 } });
    a.client.when(writesTo((key) => key.includes('/leases/'))).loseBefore({ silent: true });
    await fleet.until('a is named', () => fleet.assignment('a')?.splits.length === 4);
    fleet.seam('b', { config: { maxInFlight: 3 } });
    await fleet.until('b is named', () => fleet.assignment('b')?.splits.length === 3, 1_000);
    await fleet.advance(400);
    const names = ['a', 'b'].flatMap((id) => fleet.assignment(id)!.splits);
    expect(new Set(names).size).toBe(7);
    expect(fleet.leasesOf('a')).toEqual([]);
  });

  test('a large plan - is stored, and read by the next leader, in parts between which leases are renewed', async () => {
    const planner = finalPlan(ids(5_000));
    fleet = new Fleet({ planner });
    const first = fleet.seam('first');
    await fleet.until('sealed', () => fleet.plan()?.sealed === true);
    expect(mostTaken).toBeGreaterThan(0);
    // The store answers at once: without parts, all of it would be one turn of the event loop.
    expect(mostTaken).toBeLessThanOrEqual(1_000);
    mostTaken = 0;
    const heir = fleet.seam('heir');
    await fleet.until('both hold', () => heir.held.size === 8);
    first.crash();
    await fleet.until('it leads', () => fleet.plan()?.generation === 2, 3 * LEASE_MS);
    await fleet.until('it decides', () => fleet.assignment('first') === null, 3 * LEASE_MS);
    expect(mostTaken).toBeGreaterThan(0);
    // What the first one held is read once more.
    expect(mostTaken).toBeLessThanOrEqual(1_000 + 8);
    expect(fleet.plan()).toMatchObject({ sealed: true, planned: 5_000 });
  });

  test('a large plan - is worked off to its verdict, heaviest first', async () => {
    const splits = ids(2_500).map((id, index) => ({ id, descriptor: '', weight: 1 + (index % 7) }));
    fleet = new Fleet({ planner: finalPlan(splits), config: { maxInFlight: 64 } });
    const workers = ids(2, 'w').map((id) => fleet.seam(id));
    for (const worker of workers) completeAll(worker);
    await fleet.until('the verdict', () => workers.every(({ verdict }) => verdict !== null));
    expect(workers[0]!.verdict).toMatchObject({ kind: 'complete', completed: 2_500 });
  }, 120_000);
});
