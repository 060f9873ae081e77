/** Exact sums against BigInt, and the heap against a plain scan. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { LoadHeap, Loads } from '../../src/protocol/assign-loads.ts';
import { anyWeight, HEAVIEST } from './balance.ts';

const MEMBERS = 13;
/** Any order but the one of the indexes. */
const tieRanks = Int32Array.from({ length: MEMBERS }, (_, index) => (index * 5 + 3) % MEMBERS);
const member = fc.integer({ min: 0, max: MEMBERS - 1 });

/** Loads and their oracle after some additions, a part of which is taken back. */
function filled(changes: readonly (readonly [number, number, boolean])[]): {
  loads: Loads;
  sums: bigint[];
} {
  const loads = new Loads(tieRanks);
  const sums = new Array<bigint>(MEMBERS).fill(0n);
  for (const [index, weight, isTakenBack] of changes) {
    loads.add(index, weight);
    sums[index]! += BigInt(weight);
    if (!isTakenBack) continue;
    loads.subtract(index, weight);
    sums[index]! -= BigInt(weight);
  }
  return { loads, sums };
}

const anyChanges = fc.array(fc.tuple(member, anyWeight, fc.boolean()), {
  maxLength: 60,
  size: 'max',
});

describe('Loads', () => {
  test('Loads - whether a move improves is decided as exactly as BigInt does', () => {
    fc.assert(
      fc.property(anyChanges, member, member, anyWeight, (changes, from, to, weight) => {
        const { loads, sums } = filled(changes);
        // Around the boundary is where rounding shows.
        const gap = sums[from]! - sums[to]!;
        for (const near of [BigInt(weight), gap - 1n, gap, gap + 1n]) {
          if (near < 0n || near > BigInt(HEAVIEST)) continue;
          expect(loads.improves(from, to, Number(near))).toBe(gap > near);
        }
      }),
      { numRuns: 2_000 },
    );
  });

  test('Loads - comparing follows the sums, and ranks break ties', () => {
    fc.assert(
      fc.property(anyChanges, member, member, (changes, a, b) => {
        const { loads, sums } = filled(changes);
        const gap = sums[a]! - sums[b]!;
        const expected = gap === 0n ? Math.sign(tieRanks[a]! - tieRanks[b]!) : gap < 0n ? -1 : 1;
        expect(Math.sign(loads.compare(a, b))).toBe(expected);
        const error = Math.abs(loads.difference(a, b) - Number(gap));
        expect(error).toBeLessThanOrEqual(Math.abs(Number(gap)) * 2 ** -52);
      }),
      { numRuns: 1_000 },
    );
  });

  test('Loads - the same sum by other weights is the same load', () => {
    const loads = new Loads(Int32Array.from([0, 1, 2]));
    for (const weight of [2 ** 52 - 1, 1, HEAVIEST, 1]) loads.add(0, weight);
    for (const weight of [2 ** 52, 2 ** 52, 2 ** 52]) loads.add(1, weight);
    for (const weight of [HEAVIEST, HEAVIEST, 2]) loads.add(2, weight);
    loads.subtract(2, HEAVIEST);
    loads.add(2, 2 ** 52 - 1);
    expect(loads.difference(0, 1)).toBe(0);
    expect(loads.difference(2, 1)).toBe(0);
    expect([loads.compare(0, 1), loads.compare(2, 1)]).toEqual([-1, 1]);
  });

  test('Loads - what was added and taken back leaves nothing behind', () => {
    const loads = new Loads(Int32Array.from([0, 1]));
    const weights = [HEAVIEST, 1, 2 ** 52, HEAVIEST - 1, 2 ** 52 - 1, HEAVIEST];
    for (const weight of weights) loads.add(0, weight);
    for (const weight of weights) loads.subtract(0, weight);
    expect(loads.difference(0, 1)).toBe(0);
    loads.add(0, 5);
    loads.reset(0);
    expect(loads.difference(0, 1)).toBe(0);
  });
});

describe('LoadHeap', () => {
  test('LoadHeap - its top is what a scan finds, whatever happens to members and loads', () => {
    const step = fc.tuple(
      fc.constantFrom('add', 'subtract', 'put', 'remove'),
      member,
      fc.constantFrom(0, 1, 2, 3),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200, size: 'max' }), (steps) => {
        const loads = new Loads(tieRanks);
        const heaps = [new LoadHeap(loads, MEMBERS, 'least'), new LoadHeap(loads, MEMBERS, 'most')];
        const members = new Set<number>();
        const sums = new Array<number>(MEMBERS).fill(0);
        for (const [what, index, weight] of steps) {
          if (what === 'remove') {
            members.delete(index);
            for (const heap of heaps) heap.remove(index);
            continue;
          }
          const change =
            what === 'put' ? 0 : what === 'add' ? weight : -Math.min(weight, sums[index]!);
          if (change > 0) loads.add(index, change);
          else loads.subtract(index, -change);
          sums[index]! += change;
          members.add(index);
          for (const heap of heaps) heap.put(index);
          const order = [...members].sort(
            (a, b) => sums[a]! - sums[b]! || tieRanks[a]! - tieRanks[b]!,
          );
          const tops = heaps.map((heap) => heap.top);
          if (tops[0] !== order[0] || tops[1] !== order.at(-1)) expect(tops).toEqual(order);
        }
        expect([...heaps[0]!.members()].sort()).toEqual([...members].sort());
      }),
      { numRuns: 200 },
    );
  });

  test('LoadHeap - an empty one has no top', () => {
    const heap = new LoadHeap(new Loads(tieRanks), MEMBERS, 'least');
    expect(heap.top).toBe(-1);
    heap.put(2);
    heap.remove(2);
    heap.remove(2);
    expect(heap.top).toBe(-1);
  });
});
