import { describe, expect, test } from '@jest/globals';
import { isLocalOptimum } from '../bench/assign.ts';
import { corpus, CORPUS_NAMES } from '../bench/corpora.ts';
import { assign } from '../../src/protocol/assign.ts';
import { movedCount, ownersOf, plain, violations } from './balance.ts';

const size = { splits: 1_200, instances: 6 };

describe('corpora', () => {
  test.each(CORPUS_NAMES)(
    'corpora - %s is the same every time, and another for another seed',
    (name) => {
      expect(corpus(name, size)).toEqual(corpus(name, size));
      expect(corpus(name, size, 1).splits).not.toEqual(corpus(name, size, 2).splits);
    },
  );

  test.each(CORPUS_NAMES)(
    'corpora - %s has distinct ids in ascending order and legal weights',
    (name) => {
      const { splits, instances } = corpus(name, size);
      for (const items of [splits, instances]) {
        const ids = items.map(({ id }) => id);
        expect([...new Set(ids)].sort()).toEqual(ids);
      }
      expect(splits.every(({ weight }) => Number.isSafeInteger(weight) && weight >= 1)).toBe(true);
    },
  );

  test('corpora - the first weights are pinned, so that figures stay comparable', () => {
    const weights = corpus('unowned', size).splits.slice(0, 3);
    expect(weights.map(({ id, weight }) => [id, weight])).toEqual([
      ['objects-00000000', 17_730_560],
      ['objects-00000001', 9_548_744],
      ['objects-00000002', 6_657_107],
    ]);
  });

  test('corpora - the settled fleet is a fixpoint with nothing to move', () => {
    const settled = corpus('settled', { splits: 10_000, instances: 50 });
    expect(settled.splits.every(({ owner }) => owner !== null)).toBe(true);
    expect(movedCount(settled, assign(settled))).toBe(0);
  });

  test('corpora - the unowned pool is placed in full', () => {
    const unowned = corpus('unowned', size);
    expect(unowned.splits.every(({ owner }) => owner === null)).toBe(true);
    expect(ownersOf(assign(unowned)).size).toBe(1_200);
  });

  test.each(['joined', 'skewed-joined'] as const)(
    'corpora - %s has one empty instance, which gets work',
    (name) => {
      const joined = corpus(name, size);
      expect(joined.instances).toHaveLength(7);
      const newcomer = joined.instances[6]!.id;
      expect(joined.splits.some(({ owner }) => owner === newcomer || owner === null)).toBe(false);
      const without = { ...joined, instances: joined.instances.slice(0, 6) };
      expect(movedCount(without, assign(without))).toBe(0);
      expect(assign(joined).byInstance.get(newcomer)!.length).toBeGreaterThan(0);
    },
  );

  test('corpora - 1 split in 20 of the skewed fleet weighs 1 to 5 GiB, the rest 1 to 64 MiB', () => {
    const weights = corpus('skewed-joined', { splits: 10_000, instances: 50 }).splits.map(
      ({ weight }) => weight,
    );
    const heavy = weights.filter((weight) => weight >= 2 ** 30);
    expect(heavy.length).toBeGreaterThan(400);
    expect(heavy.length).toBeLessThan(600);
    expect(Math.max(...heavy)).toBeLessThanOrEqual(5 * 2 ** 30);
    const light = weights.filter((weight) => weight < 2 ** 30);
    expect(Math.max(...light)).toBeLessThanOrEqual(64 * 2 ** 20);
    expect(Math.min(...light)).toBeGreaterThanOrEqual(2 ** 20);
  });

  test('corpora - the checker of the bench agrees with the judge of the tests', () => {
    for (const name of CORPUS_NAMES) {
      const input = corpus(name, { splits: 300, instances: 5 });
      const result = assign(input);
      expect(violations(input, result)).toEqual([]);
      expect(isLocalOptimum(input, result)).toBe(true);
    }
    const joined = corpus('joined', size);
    const stale = assign({ ...joined, instances: joined.instances.slice(0, 6) });
    const byInstance = new Map([...stale.byInstance, [joined.instances[6]!.id, []]]);
    expect(isLocalOptimum(joined, { ...stale, byInstance })).toBe(false);
    expect(plain(stale).unassigned).toEqual([]);
  });
});
