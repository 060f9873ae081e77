/**
 * Properties of the balance decision, each from its contract in `src/protocol/assign.ts`, on fleets in any state: owners
 * that are gone or over their budgets, withheld splits, cordoned instances, bars, weights of every scale.
 */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { seededRandom } from '../../src/base/random.ts';
import { assign, type AssignInput } from '../../src/protocol/assign.ts';
import {
  anyFleet,
  exact,
  fedBack,
  fleet,
  HEAVIEST,
  instance,
  loadsOf,
  modestWeight,
  movedCount,
  ownersOf,
  plain,
  shuffled,
  split,
  violations,
} from './balance.ts';
import { slowAssign } from './reference.ts';

const small = anyFleet({ instancesMax: 5, splitsMax: 14, slotsMax: 5 });
const restricted = anyFleet({
  instancesMax: 6,
  splitsMax: 20,
  slotsMax: 6,
  bars: true,
  cordons: true,
});

function check(arbitrary: fc.Arbitrary<AssignInput>, holds: (input: AssignInput) => void): void {
  fc.assert(fc.property(arbitrary, holds), { numRuns: 1_000 });
}

describe('assign: guarantees', () => {
  test('assign - the same input gives the same result, in whatever order it comes', () => {
    fc.assert(
      fc.property(restricted, fc.integer(), (input, seed) => {
        const random = seededRandom(seed);
        const first = plain(assign(input));
        expect(plain(assign(structuredClone(input)))).toEqual(first);
        expect(plain(assign(shuffled(input, () => random.next())))).toEqual(first);
      }),
      { numRuns: 1_000 },
    );
  });

  test('assign - no split is given to two instances', () => {
    check(restricted, (input) => {
      const result = assign(input);
      const all = [...[...result.byInstance.values()].flat(), ...result.unassigned];
      expect(new Set(all).size).toBe(all.length);
      expect(all.length).toBe(input.splits.length);
    });
  });

  test('assign - its own result, fed back as ownership, comes out unchanged', () => {
    check(fc.oneof(small, restricted), (input) => {
      const first = assign(input);
      expect(plain(assign(fedBack(input, first)))).toEqual(plain(first));
    });
  });

  test('assign - no single move lowers the imbalance', () => {
    check(small, (input) => expect(violations(input, assign(input))).toEqual([]));
  });

  test('assign - cordons and bars are kept while everything placeable is placed', () => {
    check(restricted, (input) => expect(violations(input, assign(input))).toEqual([]));
  });

  test('assign - every split is placed unless all slots are taken or it is withheld', () => {
    check(small, (input) => {
      const result = assign(input);
      const slots = input.instances.reduce((sum, { maxInFlight }) => sum + maxInFlight, 0);
      const waiting = result.unassigned.filter((id) => !input.withheld.has(id));
      if (waiting.length > 0) expect(ownersOf(result).size).toBe(slots);
    });
  });

  test('assign - a settled fleet stays as it is under any other seed', () => {
    fc.assert(
      fc.property(small, fc.integer(), (input, seed) => {
        const first = assign(input);
        expect(plain(assign({ ...fedBack(input, first), seed }))).toEqual(plain(first));
      }),
      { numRuns: 500 },
    );
  });
});

describe('assign: oracles', () => {
  test('assign - comes out as the slow decision written down a second time', () => {
    const shape = { instancesMax: 6, splitsMax: 24, slotsMax: 7, weight: modestWeight };
    const any = fc.oneof(anyFleet(shape), anyFleet({ ...shape, bars: true, cordons: true }));
    check(any, (input) => expect(plain(assign(input))).toEqual(slowAssign(input)));
  });

  test('assign - takes the moves of the slow decision where one instance has to share with all', () => {
    const anyPile = fc.record({
      weights: fc.array(fc.integer({ min: 1, max: 60 }), {
        minLength: 4,
        maxLength: 30,
        size: 'max',
      }),
      count: fc.integer({ min: 2, max: 5 }),
      strays: fc.nat({ max: 8 }),
    });
    fc.assert(
      fc.property(anyPile, ({ weights, count, strays }) => {
        const instances = Array.from({ length: count }, (_, index) => instance(`w${index}`, 40));
        const splits = weights.map((weight, index) =>
          split(`s${index}`, weight, index < strays ? `w${index % count}` : 'w0'),
        );
        const input = fleet(instances, splits);
        expect(plain(assign(input))).toEqual(slowAssign(input));
      }),
      { numRuns: 500 },
    );
  });

  test('assign - no neighbour of a tiny result has a smaller sum of squared loads', () => {
    const tiny = anyFleet({ instancesMax: 4, splitsMax: 6, slotsMax: 4 });
    check(tiny, (input) => {
      const result = assign(input);
      const owners = ownersOf(result);
      const best = squares([...loadsOf(input, result).values()]);
      for (const { id, weight } of input.splits) {
        const from = owners.get(id);
        if (from === undefined) continue;
        for (const to of input.instances) {
          if (result.byInstance.get(to.id)!.length >= to.maxInFlight) continue;
          const loads = loadsOf(input, result);
          loads.set(from, loads.get(from)! - exact(weight));
          loads.set(to.id, loads.get(to.id)! + exact(weight));
          expect(squares([...loads.values()])).toBeGreaterThanOrEqual(best);
        }
      }
    });
  });

  test('assign - the highest load of a tiny fleet is within the known bounds of the best there is', () => {
    const weights = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 7 });
    fc.assert(
      fc.property(weights, fc.integer({ min: 1, max: 3 }), fc.nat(), (weights, count, owner) => {
        const instances = Array.from({ length: count }, (_, index) => instance(`w${index}`, 9));
        const best = lowestPeak(weights, count);
        const peakFrom = (owners: (index: number) => string | null): number => {
          const splits = weights.map((weight, index) => split(`s${index}`, weight, owners(index)));
          const input = fleet(instances, splits);
          return Math.max(...[...loadsOf(input, assign(input)).values()].map(Number));
        };
        // Longest processing time first: (4m - 1) / 3m (Graham, 1969).
        expect(peakFrom(() => null) * 3 * count).toBeLessThanOrEqual((4 * count - 1) * best);
        // Any local optimum: 2m / (m + 1) (Finn and Horowitz, 1979).
        const owned = peakFrom((index) => `w${(index * owner) % count}`);
        expect(owned * (count + 1)).toBeLessThanOrEqual(2 * count * best);
      }),
      { numRuns: 300 },
    );
  });
});

function squares(loads: readonly bigint[]): bigint {
  return loads.reduce((sum, load) => sum + load * load, 0n);
}

/** The smallest possible highest load, by trying every placement. */
function lowestPeak(weights: readonly number[], count: number): number {
  const loads = new Array<number>(count).fill(0);
  const place = (index: number): number => {
    if (index === weights.length) return Math.max(...loads);
    let best = Infinity;
    for (let to = 0; to < count; to += 1) {
      loads[to]! += weights[index]!;
      best = Math.min(best, place(index + 1));
      loads[to]! -= weights[index]!;
    }
    return best;
  };
  return place(0);
}

describe('assign: any fleet', () => {
  const SEEDS = 5_000;
  const STYLES = ['zero', 'one', 'equal', 'powers', 'giant', 'heaviest', 'mixed'] as const;

  function fleetOf(seed: number): AssignInput {
    const random = seededRandom(seed);
    const below = (limit: number): number => Math.floor(random.next() * limit);
    const count = 1 + below(40);
    const style = STYLES[below(STYLES.length)]!;
    const equal = 1 + below(1_000_000);
    const splitCount = below(501);
    const weigh = (index: number, by: (typeof STYLES)[number]): number => {
      if (by === 'zero') return 0;
      if (by === 'one') return 1;
      if (by === 'equal') return equal;
      if (by === 'powers') return 10 ** below(16);
      if (by === 'giant') return index === 0 ? HEAVIEST : 1 + below(100);
      if (by === 'heaviest') return HEAVIEST;
      return weigh(index, STYLES[below(6)]!);
    };
    return fleet(
      Array.from({ length: count }, (_, index) => instance(`w${index}`, below(17))),
      Array.from({ length: splitCount }, (_, index) =>
        split(`s${index}`, weigh(index, style), below(3) === 0 ? null : `w${below(count + 2)}`),
      ),
      Array.from({ length: below(4) }, () => `s${below(500)}`),
      seed,
    );
  }

  test('assign - is a fixpoint, balanced and within budgets for 5,000 seeds', () => {
    for (let seed = 1; seed <= SEEDS; seed += 1) {
      const input = fleetOf(seed);
      const first = assign(input);
      const expected = JSON.stringify(plain(first));
      const random = seededRandom(seed);
      const again = JSON.stringify(plain(assign(fedBack(input, first))));
      const permuted = JSON.stringify(plain(assign(shuffled(input, () => random.next()))));
      const broken = violations(input, first);
      const isBounded = movedCount(input, first) <= input.splits.length;
      if (again === expected && permuted === expected && broken.length === 0 && isBounded) continue;
      throw new Error(
        `seed ${seed}: fixpoint ${again === expected}, order ${permuted === expected}, ${broken.join('; ')}`,
      );
    }
  });
});
