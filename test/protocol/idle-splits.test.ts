import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { SplitId } from '../../src/base/ids.ts';
import { freeSlots, type IdleSplit, IdleSplits } from '../../src/protocol/idle-splits.ts';
import { assign, type AssignInput } from '../../src/protocol/assign.ts';
import { anyFleet, fleet, instance, split } from './balance.ts';

const idOf = (number: number): SplitId => `s${number}` as SplitId;

/** The order in which `assign` fills. */
function inOrder(splits: readonly IdleSplit[]): SplitId[] {
  return [...splits]
    .sort((a, b) => Math.max(1, b.weight) - Math.max(1, a.weight) || (a.id < b.id ? -1 : 1))
    .map(({ id }) => id);
}

const steps = fc.array(
  fc.oneof(
    fc.record({
      put: fc.nat(60),
      weight: fc.oneof(fc.nat(3), fc.constantFrom(2 ** 53 - 1, 2 ** 52)),
    }),
    fc.record({ remove: fc.nat(60) }),
    fc.record({ heaviest: fc.nat(8) }),
  ),
  { maxLength: 300 },
);

describe('idle splits', () => {
  test('the heaviest - are found after any puts and removals, and asking for them changes nothing', () => {
    fc.assert(
      fc.property(steps, (done) => {
        const idle = new IdleSplits();
        const model = new Map<SplitId, number>();
        for (const step of done) {
          if ('put' in step) {
            idle.put(idOf(step.put), step.weight);
            model.set(idOf(step.put), step.weight);
          } else if ('remove' in step) {
            idle.remove(idOf(step.remove));
            model.delete(idOf(step.remove));
          } else {
            const expected = inOrder([...model].map(([id, weight]) => ({ id, weight })));
            const found = inOrder(idle.heaviest(step.heaviest));
            const count = Math.min(step.heaviest, model.size);
            expect(found.length).toBeGreaterThanOrEqual(count);
            expect(found.slice(0, count)).toEqual(expected.slice(0, count));
          }
          expect(idle.size).toBe(model.size);
        }
      }),
      { numRuns: 300 },
    );
  });

  test('the heaviest - few of many are handed out by themselves', () => {
    const idle = new IdleSplits();
    for (let number = 0; number < 1_000; number += 1) idle.put(idOf(number), number % 100);
    expect(inOrder(idle.heaviest(3))).toEqual(['s199', 's299', 's399']);
    expect(idle.heaviest(3)).toHaveLength(3);
    expect(idle.heaviest(0)).toEqual([]);
    expect(idle.heaviest(5_000)).toHaveLength(1_000);
  });
});

describe('free slots', () => {
  test('free slots - are those of workers that may get more, beside what sticks to them', () => {
    const instances = [
      instance('a', 3),
      instance('b', 2),
      instance('c', 4, true),
      instance('d', 0),
    ];
    const splits = [
      split('s1', 1, 'a'),
      split('s2', 1, 'b'),
      split('s3', 1, 'b'),
      split('s4', 1, 'b'),
      split('s5', 1, 'c'),
      split('s6', 1, 'gone'),
      split('s7', 1, 'a'),
    ];
    // One of a's two is withheld; b is over its budget, c is cordoned, d takes nothing.
    expect(freeSlots(instances, splits, new Set(['s7' as SplitId]))).toBe(2);
  });

  test('a decision - over the engaged splits and the heaviest others is the one over all (P1)', () => {
    const fleets = fc.oneof(
      anyFleet({ instancesMax: 5, splitsMax: 60, slotsMax: 4, bars: true, cordons: true }),
      anyFleet({ instancesMax: 3, splitsMax: 60, slotsMax: 3 }),
    );
    fc.assert(
      fc.property(fleets, (input) => {
        expect([...assign(partOf(input)).byInstance]).toEqual([...assign(input).byInstance]);
      }),
      { numRuns: 2_000 },
    );
  });

  test('a decision - with every slot taken needs none of the others', () => {
    const splits = [split('s1', 1, 'a'), split('s2', 1, 'b'), split('s3', 100), split('s4', 50)];
    const input = fleet([instance('a', 1), instance('b', 1)], splits);
    expect(partOf(input).splits.map(({ id }) => id)).toEqual(['s1', 's2']);
    expect([...assign(partOf(input)).byInstance]).toEqual([...assign(input).byInstance]);
  });
});

/** What a leader decides from: everything that is engaged, and no more of the rest than there is room for. */
function partOf(input: AssignInput): AssignInput {
  const engaged = input.splits.filter(
    ({ id, owner, barred }) => owner !== null || barred !== undefined || input.withheld.has(id),
  );
  const names = new Set(engaged.map(({ id }) => id));
  const others = input.splits.filter(({ id }) => !names.has(id));
  const free = freeSlots(input.instances, engaged, input.withheld);
  const heaviest = new Set(inOrder(others).slice(0, free));
  return { ...input, splits: [...engaged, ...others.filter(({ id }) => heaviest.has(id))] };
}
