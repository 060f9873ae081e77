/** The guarantees of the balance decision on 10,000 splits, where loops that are hidden at 14 splits show. */
import { describe, expect, test } from '@jest/globals';
import { randomInteger, seededRandom } from '../../src/base/random.ts';
import { assign, type AssignInput } from '../../src/protocol/assign.ts';
import {
  fedBack,
  fleet,
  HEAVIEST,
  instance,
  loadsOf,
  movedCount,
  plain,
  shuffled,
  split,
  violations,
} from './balance.ts';

const SPLITS = 10_000;

/** Weights by style; the sums of the last two pass 2^53 many times over. */
const WEIGHTS = {
  equal: () => 7,
  bytes: (next: () => number) => 1_000_000 + Math.floor(next() * 63_000_000),
  skewed: (next: () => number) =>
    next() < 0.05 ? 1e9 + Math.floor(next() * 4e9) : 1e6 + Math.floor(next() * 63e6),
  powers: (next: () => number) => 10 ** Math.floor(next() * 16),
  heaviest: (next: () => number) => HEAVIEST - Math.floor(next() * 3),
} as const;

type Style = keyof typeof WEIGHTS;
const STYLES = Object.keys(WEIGHTS) as Style[];

/** A fleet of 50 with 10,000 splits; a third of them has no owner, the others have any. */
function large(style: Style, seed: number): AssignInput {
  const random = seededRandom(seed);
  const next = (): number => random.next();
  const instances = Array.from({ length: 50 }, (_, index) =>
    instance(`w${index}`, 150 + randomInteger(random, 100), index % 17 === 0),
  );
  const splits = Array.from({ length: SPLITS }, (_, index) => {
    const owner = randomInteger(random, 3) === 0 ? null : `w${randomInteger(random, 52)}`;
    const isPicky = randomInteger(random, 200) === 0;
    const barred = isPicky ? [`w${randomInteger(random, 50)}`, owner ?? 'w1'] : undefined;
    return split(`s${index}`, WEIGHTS[style](next), owner, barred);
  });
  const withheld = Array.from({ length: 20 }, () => `s${randomInteger(random, SPLITS)}`);
  return fleet(instances, splits, withheld, seed);
}

function settledFleet(style: Style, count: number, seed = 3): AssignInput {
  const random = seededRandom(seed);
  const instances = Array.from({ length: count }, (_, index) => instance(`w${index}`, 4096));
  const splits = Array.from({ length: SPLITS }, (_, index) =>
    split(
      `s${index}`,
      WEIGHTS[style](() => random.next()),
    ),
  );
  const unowned = fleet(instances, splits);
  return fedBack(unowned, assign(unowned));
}

describe('assign: 10,000 splits', () => {
  test.each(STYLES)('assign - keeps every guarantee for 10,000 splits of %s weight', (style) => {
    for (const seed of [1, 2]) {
      const input = large(style, seed);
      const first = assign(input);
      expect(violations(input, first)).toEqual([]);
      expect(JSON.stringify(plain(assign(fedBack(input, first))))).toBe(
        JSON.stringify(plain(first)),
      );
      const random = seededRandom(seed);
      const permuted = shuffled(input, () => random.next());
      expect(JSON.stringify(plain(assign(permuted)))).toBe(JSON.stringify(plain(first)));
    }
  });

  test.each(STYLES)('assign - a settled fleet of %s weights moves nothing', (style) => {
    const settled = settledFleet(style, 50);
    expect(movedCount(settled, assign(settled))).toBe(0);
    expect(movedCount(settled, assign({ ...settled, seed: 99 }))).toBe(0);
  });

  // Shares of a newcomer that change hands. A gap that only heavy splits fill leaves others to make up for them.
  test.each([
    ['equal', 1],
    ['bytes', 1],
    ['heaviest', 1.05],
    ['skewed', 2],
  ] as const)(
    'assign - a joiner of a fleet of %s weights costs its share of moves',
    (style, shares) => {
      const settled = settledFleet(style, 50);
      const joined = { ...settled, instances: [...settled.instances, instance('x', 4096)] };
      const result = assign(joined);
      expect(violations(joined, result)).toEqual([]);
      expect(movedCount(joined, result)).toBeLessThanOrEqual((shares * SPLITS) / 51);
    },
  );

  test('assign - one that has everything shares it out with a fleet of 49 newcomers', () => {
    const splits = Array.from({ length: SPLITS }, (_, index) =>
      split(`s${index}`, 1 + (index % 9), 'w0'),
    );
    const instances = Array.from({ length: 50 }, (_, index) => instance(`w${index}`, 4096));
    const input = fleet(
      instances,
      splits.map((one) => ({ ...one, owner: instances[0]!.id })),
    );
    const roomy = {
      ...input,
      instances: instances.map((one) => ({ ...one, maxInFlight: SPLITS })),
    };
    const result = assign(roomy);
    expect(violations(roomy, result)).toEqual([]);
    const loads = [...loadsOf(roomy, result).values()].map(Number);
    expect(Math.max(...loads) - Math.min(...loads)).toBeLessThanOrEqual(9);
  });

  test('assign - placing is exact where loads pass 2^53', () => {
    // 10,000 heaviest splits on 50 instances: every load is near 2^61, where doubles are 512 apart. One unit decides.
    const splits = Array.from({ length: SPLITS }, (_, index) => split(`s${index}`, HEAVIEST));
    const instances = Array.from({ length: 50 }, (_, index) => instance(`w${index}`, 4096));
    const base = fleet(instances, splits);
    const settled = fedBack(base, assign(base));
    const tiny = Array.from({ length: 50 }, (_, index) => split(`t${index}`, 1 + index));
    const input = { ...settled, splits: [...settled.splits, ...tiny] };
    const result = assign(input);
    expect(violations(input, result)).toEqual([]);
    for (const list of result.byInstance.values()) expect(list).toHaveLength(201);
  });
});
