/** The third pass alone: what its moves lower, and how many there are. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { Fleet } from '../../src/protocol/assign-fleet.ts';
import { improve, type Placement } from '../../src/protocol/assign-improve.ts';
import { heaviestFirst } from '../../src/protocol/assign-order.ts';
import { anyWeight, instance } from './balance.ts';

interface Start {
  readonly slots: readonly number[];
  readonly splits: readonly { readonly weight: number; readonly place: number }[];
}

const anyStart: fc.Arbitrary<Start> = fc.integer({ min: 1, max: 7 }).chain((count) =>
  fc.record({
    slots: fc.array(fc.integer({ min: 0, max: 12 }), { minLength: count, maxLength: count }),
    splits: fc.array(
      fc.record({
        weight: anyWeight.map((weight) => Math.max(weight, 1)),
        place: fc.integer({ min: 0, max: count - 1 }),
      }),
      { maxLength: 40, size: 'max' },
    ),
  }),
);

/** Puts the splits on their instances, as many as there are slots. */
function placementOf({ slots, splits }: Start): Placement {
  const fleet = new Fleet(
    slots.map((maxInFlight, index) => instance(`w${index}`, maxInFlight)),
    5,
  );
  const weights = Float64Array.from(splits, ({ weight }) => weight);
  const places = Int32Array.from(splits, ({ place, weight }) => {
    if (!fleet.hasFreeSlot(place)) return -1;
    fleet.preload(place, weight);
    return place;
  });
  fleet.open();
  return { fleet, weights, places, bars: new Map(), heaviestFirst: () => heaviestFirst(weights) };
}

function squares({ fleet, weights, places }: Placement): bigint {
  const loads = fleet.ids.map(() => 0n);
  places.forEach((place, split) => {
    if (place >= 0) loads[place]! += BigInt(weights[split]!);
  });
  return loads.reduce((sum, load) => sum + load * load, 0n);
}

describe('improve', () => {
  test('improve - lowers the sum of squared loads, moves no split more than twice, and then rests', () => {
    fc.assert(
      fc.property(anyStart, (start) => {
        const placement = placementOf(start);
        const before = squares(placement);
        const placed = placement.places.map((place) => Math.sign(place + 1));
        const moves = improve(placement);
        expect(moves).toBeLessThanOrEqual(2 * start.splits.length);
        if (moves > 0) expect(squares(placement)).toBeLessThan(before);
        expect(placement.places.map((place) => Math.sign(place + 1))).toEqual(placed);
        expect(improve(placement)).toBe(0);
      }),
      { numRuns: 1_000 },
    );
  });

  test('improve - keeps the books of the fleet in step with the places', () => {
    fc.assert(
      fc.property(anyStart, (start) => {
        const placement = placementOf(start);
        improve(placement);
        const { fleet, places } = placement;
        for (let index = 0; index < fleet.size; index += 1) {
          expect(fleet.countOf(index)).toBe(places.filter((place) => place === index).length);
        }
      }),
      { numRuns: 300 },
    );
  });
});
