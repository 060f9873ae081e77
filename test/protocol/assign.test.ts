import { describe, expect, test } from '@jest/globals';
import { InvariantViolation } from '../../src/base/errors.ts';
import type { InstanceId } from '../../src/base/ids.ts';
import { assign, currentOwner } from '../../src/protocol/assign.ts';
import {
  fedBack,
  fleet,
  given,
  HEAVIEST,
  instance,
  loadsOf,
  movedCount,
  ownersOf,
  plain,
  split,
  violations,
} from './balance.ts';

const GIGABYTES = 5_000_000_000;

function names(count: number, prefix = 's'): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}${String(index).padStart(3, '0')}`);
}

describe('assign: who takes part', () => {
  test('assign - an empty fleet gets nothing', () => {
    const result = assign(fleet([], [split('a')]));
    expect(plain(result)).toEqual({ byInstance: [], unassigned: ['a'] });
  });

  test('assign - an instance without work is listed with an empty list', () => {
    const result = assign(fleet([instance('w2'), instance('w1')], []));
    expect(plain(result).byInstance).toEqual([
      ['w1', []],
      ['w2', []],
    ]);
  });

  test('assign - a lone instance takes everything up to its budget', () => {
    const result = assign(fleet([instance('w1', 2)], [split('a'), split('b'), split('c')]));
    expect(given(result, 'w1')).toHaveLength(2);
    expect(result.unassigned).toHaveLength(1);
  });

  test('assign - splits beyond the budgets of the fleet wait', () => {
    const splits = names(4).map((id) => split(id));
    const result = assign(fleet([instance('w1', 1), instance('w2', 1)], splits));
    expect(given(result, 'w1')).toHaveLength(1);
    expect(given(result, 'w2')).toHaveLength(1);
    expect(result.unassigned).toHaveLength(2);
  });

  test('assign - the heaviest splits get the slots there are', () => {
    const splits = [split('a', 1), split('b', 9), split('c', 5)];
    const result = assign(fleet([instance('w1', 2)], splits));
    expect(given(result, 'w1')).toEqual(['b', 'c']);
    expect(result.unassigned).toEqual(['a']);
  });

  test('assign - withheld splits are given to nobody, not even to who has them', () => {
    const splits = [split('a', 10, 'w1'), split('b', 10, 'gone'), split('c', 10, 'w1')];
    const result = assign(fleet([instance('w1'), instance('w2')], splits, ['b', 'c', 'unheard']));
    expect(plain(result)).toEqual({
      byInstance: [
        ['w1', ['a']],
        ['w2', []],
      ],
      unassigned: ['b', 'c'],
    });
  });

  test('assign - the budget of each instance is its own', () => {
    const splits = [
      ...['a', 'b', 'c'].map((id) => split(id, 1, 'w1')),
      split('d', 1, 'w2'),
      split('e'),
      split('f'),
    ];
    const result = assign(fleet([instance('w1', 8), instance('w2', 1)], splits));
    expect(given(result, 'w2')).toEqual(['d']);
    expect(given(result, 'w1')).toEqual(['a', 'b', 'c', 'e', 'f']);
  });

  test('assign - a budget of 0 gets nothing and gives up what it has', () => {
    const splits = [split('a', 3, 'w1'), split('b', 2, 'w2'), split('c')];
    const result = assign(fleet([instance('w1', 0), instance('w2', 3)], splits));
    expect(given(result, 'w1')).toEqual([]);
    expect(given(result, 'w2')).toEqual(['a', 'b', 'c']);
  });
});

describe('assign: who keeps what', () => {
  test('assign - a split stays with its live owner', () => {
    const splits = [split('a', 10, 'w1'), split('b', 10, 'w2')];
    const result = assign(fleet([instance('w1'), instance('w2')], splits));
    expect(given(result, 'w1')).toEqual(['a']);
    expect(given(result, 'w2')).toEqual(['b']);
  });

  test('assign - the split of an absent owner goes to who carries least', () => {
    const splits = [split('a', 10, 'w1'), split('b', 10, 'w2')];
    const result = assign(fleet([instance('w1'), instance('w3')], splits));
    expect(given(result, 'w3')).toEqual(['b']);
  });

  test('assign - an owner over its budget keeps its heaviest splits', () => {
    const splits = [
      split('a', 1, 'w1'),
      split('b', 9, 'w1'),
      split('c', 5, 'w1'),
      split('d', 5, 'w1'),
    ];
    const result = assign(fleet([instance('w1', 2), instance('w2', 1)], splits));
    expect(given(result, 'w1')).toEqual(['b', 'c']);
    expect(given(result, 'w2')).toEqual(['d']);
    expect(result.unassigned).toEqual(['a']);
  });

  test('assign - a balanced fleet is left alone', () => {
    const splits = [
      split('a', 5, 'w1'),
      split('b', 5, 'w2'),
      split('c', 5, 'w1'),
      split('d', 5, 'w2'),
    ];
    const result = assign(fleet([instance('w1'), instance('w2')], splits));
    expect(given(result, 'w1')).toEqual(['a', 'c']);
    expect(given(result, 'w2')).toEqual(['b', 'd']);
  });

  test('assign - a difference that no single move lowers is left alone', () => {
    const splits = [split('a', 10, 'w1'), split('b', 10, 'w1'), split('c', 10, 'w2')];
    const input = fleet([instance('w1'), instance('w2')], splits);
    expect(movedCount(input, assign(input))).toBe(0);
  });
});

describe('assign: balance', () => {
  test('assign - a newcomer gets half of what the only other one has', () => {
    const splits = names(4).map((id) => split(id, 10, 'w1'));
    const result = assign(fleet([instance('w1'), instance('w2')], splits));
    expect(given(result, 'w1')).toHaveLength(2);
    expect(given(result, 'w2')).toHaveLength(2);
  });

  test('assign - weight is balanced, not the number of splits', () => {
    const light = names(4).map((id) => split(id, 1, 'w1'));
    const input = fleet([instance('w1'), instance('w2')], [split('heavy', 100, 'w1'), ...light]);
    const result = assign(input);
    const holder = ownersOf(result).get(input.splits[0]!.id)!;
    expect(given(result, holder)).toEqual(['heavy']);
    expect([...loadsOf(input, result).values()].sort()).toEqual([100n, 4n]);
  });

  test('assign - weights of gigabytes and of 2^53-1 are balanced exactly', () => {
    for (const weight of [GIGABYTES, HEAVIEST]) {
      const splits = [split('a', weight, 'w1'), split('b', weight, 'w1'), split('c', 1)];
      const input = fleet([instance('w1'), instance('w2')], splits);
      const result = assign(input);
      expect(violations(input, result)).toEqual([]);
      expect(ownersOf(result).get(input.splits[0]!.id)).not.toBe(
        ownersOf(result).get(input.splits[1]!.id),
      );
    }
  });

  test('assign - one unit decides between loads far above 2^53', () => {
    const heavy = names(8).map((id) => split(id, HEAVIEST, 'w1'));
    const even = names(8, 'e').map((id) => split(id, HEAVIEST, 'w2'));
    const even3 = names(8, 'f').map((id) => split(id, HEAVIEST, 'w3'));
    const input = fleet(
      [instance('w1', 99), instance('w2', 99), instance('w3', 99)],
      [...heavy, ...even, ...even3, split('x', 3, 'w1'), split('y', 2, 'w2'), split('z', 1)],
    );
    const result = assign(input);
    expect(ownersOf(result).get(input.splits.at(-1)!.id)).toBe('w3');
    expect(violations(input, result)).toEqual([]);
    expect(movedCount(input, result)).toBe(0);
  });

  test('assign - a weight of 0 counts as 1', () => {
    const splits = [split('a', 0, 'w1'), split('b', 0, 'w1'), split('c', 0, 'w1')];
    const input = fleet([instance('w1'), instance('w2')], splits);
    expect(given(assign(input), 'w2')).toHaveLength(1);
  });

  test('assign - ties break by the seed and the id, so all jobs do not load the same instance', () => {
    const instances = names(5, 'w').map((id) => instance(id));
    const takers = new Set(
      Array.from({ length: 40 }, (_, seed) => {
        const input = fleet(instances, [split('a')], [], seed);
        return ownersOf(assign(input)).get(input.splits[0]!.id);
      }),
    );
    expect(takers.size).toBe(5);
  });

  test('assign - a joiner is fed with as few moves as there can be when all splits weigh the same', () => {
    const instances = names(50, 'w').map((id) => instance(id, 4096));
    const splits = names(1_000).map((id) => split(id, 7));
    const settled = fedBack(fleet(instances, splits), assign(fleet(instances, splits)));
    // Owners in runs of adjacent ids are the hard case: whoever comes first must not give for all.
    for (const owners of [
      settled.splits,
      splits.map((one, index) => split(one.id, 7, `w${String((index / 20) | 0).padStart(3, '0')}`)),
    ]) {
      const joined = fleet([...instances, instance('x', 4096)], owners);
      expect(movedCount(joined, assign(joined))).toBe(Math.floor(1_000 / 51));
    }
  });
});

describe('assign: cordoned and barred', () => {
  test('assign - a cordoned instance keeps what it has and gets nothing new', () => {
    const splits = [...names(6).map((id) => split(id, 5, 'w1')), split('new', 1)];
    const input = fleet([instance('w1', 8, true), instance('w2', 8)], splits);
    const result = assign(input);
    expect(given(result, 'w1')).toEqual(names(6));
    expect(given(result, 'w2')).toEqual(['new']);
  });

  test('assign - a fleet that is cordoned throughout leaves new splits waiting', () => {
    const input = fleet([instance('w1', 8, true)], [split('a', 1, 'w1'), split('b')]);
    const result = assign(input);
    expect(given(result, 'w1')).toEqual(['a']);
    expect(result.unassigned).toEqual(['b']);
  });

  test('assign - a cordoned instance keeps no more than its budget', () => {
    const splits = names(3).map((id, index) => split(id, index + 1, 'w1'));
    const result = assign(fleet([instance('w1', 1, true), instance('w2')], splits));
    expect(given(result, 'w1')).toEqual(['s002']);
    expect(given(result, 'w2')).toEqual(['s000', 's001']);
  });

  test('assign - a refused split goes elsewhere, however loaded the others are', () => {
    const splits = [split('a', 1, 'w1', ['w1']), split('b', 5, 'w1'), split('c', 9, 'w2')];
    const result = assign(fleet([instance('w1'), instance('w2')], splits));
    expect(given(result, 'w1')).toEqual(['b']);
    expect(given(result, 'w2')).toEqual(['a', 'c']);
  });

  test('assign - a refused split stays named while nobody else may get it (R27)', () => {
    const instances = [instance('w1', 2), instance('w2', 1), instance('w3', 5, true)];
    const splits = [split('a', 1, 'w1', ['w1']), split('b', 9, 'w2')];
    const input = fleet(instances, splits);
    expect(given(assign(input), 'w1')).toEqual(['a']);
    expect(plain(assign(fedBack(input, assign(input))))).toEqual(plain(assign(input)));
  });

  test('assign - a split that nobody holds is not given to an instance that refuses it', () => {
    const result = assign(fleet([instance('w1')], [split('a', 1, null, ['w1'])]));
    expect(result.unassigned).toEqual(['a']);
  });

  test('assign - a refused split takes no slot from one that its owner accepts', () => {
    const splits = [split('a', 100, 'w1', ['w1']), split('b', 1, 'w1')];
    const result = assign(fleet([instance('w1', 1), instance('w2', 1)], splits));
    expect(given(result, 'w1')).toEqual(['b']);
    expect(given(result, 'w2')).toEqual(['a']);
  });

  test('assign - balancing never moves a split to an instance that refuses it', () => {
    const splits = names(6).map((id) => split(id, 10, 'w1', ['w2']));
    const result = assign(fleet([instance('w1'), instance('w2'), instance('w3')], splits));
    expect(given(result, 'w2')).toEqual([]);
    expect(given(result, 'w3')).toHaveLength(3);
  });

  test('assign - a slot that balancing frees goes to a split that only fits there', () => {
    // w1 is full; `only` may go nowhere else. Balancing moves a split of w1 to w2, and then there is room.
    const splits = [split('a', 10, 'w1'), split('b', 10, 'w1'), split('only', 1, null, ['w2'])];
    const input = fleet([instance('w1', 2), instance('w2', 2)], splits);
    const result = assign(input);
    expect(given(result, 'w1')).toContain('only');
    expect(violations(input, result)).toEqual([]);
  });

  test('assign - a bar against an instance that is not there means nothing', () => {
    const result = assign(fleet([instance('w1')], [split('a', 1, 'gone', ['gone'])]));
    expect(given(result, 'w1')).toEqual(['a']);
  });
});

describe('assign: scenarios', () => {
  test('assign - heavy splits are spread first and finished work weighs nothing', () => {
    const instances = [instance('w1', 10), instance('w2', 10)];
    const heavy = names(5, 'h').map((id) => split(id, 1_000));
    const light = names(5, 'l').map((id) => split(id, 10));
    const input = fleet(instances, [...heavy, ...light]);
    const first = assign(input);
    const isHeavy = (id: string): boolean => id.startsWith('h');
    const heavyCounts = ['w1', 'w2'].map((id) => given(first, id).filter(isHeavy).length);
    expect(heavyCounts.sort()).toEqual([2, 3]);
    const [a, b] = [...loadsOf(input, first).values()];
    expect(Math.abs(Number(a! - b!))).toBeLessThanOrEqual(1_000);

    for (const finished of ['w1', 'w2'] as InstanceId[]) {
      const left = fedBack(input, first).splits.filter(({ owner }) => owner !== finished);
      const added = names(4, 'n').map((id) => split(id, 1_000));
      const second = fleet(instances, [...left, ...added]);
      const [c, d] = [...loadsOf(second, assign(second)).values()];
      expect(Math.abs(Number(c! - d!))).toBeLessThanOrEqual(1_000);
    }
  });

  test('assign - unequal budgets are filled and the rest waits', () => {
    const instances = [instance('a', 1), instance('b', 5), instance('c', 0)];
    const six = assign(
      fleet(
        instances,
        names(6).map((id) => split(id)),
      ),
    );
    expect(['a', 'b', 'c'].map((id) => given(six, id).length)).toEqual([1, 5, 0]);
    expect(six.unassigned).toEqual([]);
    let input = fleet(
      instances,
      names(9).map((id) => split(id)),
    );
    for (let left = 9; left > 0; left -= 1) {
      const result = assign(input);
      expect(ownersOf(result).size).toBe(Math.min(left, 6));
      expect(result.unassigned).toHaveLength(Math.max(left - 6, 0));
      const done = [...ownersOf(result).keys()][0];
      const next = fedBack(input, result);
      input = { ...next, splits: next.splits.filter(({ id }) => id !== done) };
    }
  });

  test('assign - one leaver moves only its own splits, each once', () => {
    const instances = names(5, 'w').map((id) => instance(id, 20));
    const fresh = fleet(
      instances,
      names(20).map((id) => split(id, 3)),
    );
    const settled = fedBack(fresh, assign(fresh));
    for (const leaver of instances) {
      const rest = { ...settled, instances: instances.filter((one) => one !== leaver) };
      const owners = ownersOf(assign(rest));
      for (const { id, owner } of settled.splits) {
        if (owner !== leaver.id) expect(owners.get(id)).toBe(owner);
      }
      expect(owners.size).toBe(20);
    }
  });
});

describe('assign: input that breaks the rules', () => {
  test('assign - two splits or two instances of one name are refused', () => {
    const twice = [split('a'), split('b'), split('a', 2)];
    expect(() => assign(fleet([instance('w1')], twice))).toThrow(InvariantViolation);
    expect(() => assign(fleet([instance('w1'), instance('w1')], []))).toThrow(/w1 is listed twice/);
  });

  test('assign - a weight that is not a whole number of 0 to 2^53-1 is refused', () => {
    for (const weight of [-1, 0.5, NaN, Infinity, 2 ** 53]) {
      expect(() => assign(fleet([instance('w1')], [split('a', weight)]))).toThrow(
        InvariantViolation,
      );
    }
  });

  test('assign - neither the input nor its lists are changed', () => {
    const input = fleet(
      [instance('w2'), instance('w1')],
      [split('b', 9, 'w2'), split('a', 9, 'w2')],
    );
    const before = structuredClone(input);
    assign(input);
    expect(input).toEqual(before);
  });
});

describe('currentOwner', () => {
  const [a, b, c] = ['a', 'b', 'c'] as InstanceId[];
  const isLive = (id: InstanceId): boolean => id !== c;

  test('currentOwner - a published decision goes before what is owned', () => {
    const split = { published: a!, leaseOwner: b!, recordOwner: b! };
    expect(currentOwner(split, isLive)).toBe(a);
  });

  test('currentOwner - a decision for an instance that is gone counts for nothing', () => {
    const split = { published: c!, leaseOwner: b!, recordOwner: a! };
    expect(currentOwner(split, isLive)).toBe(b);
  });

  test('currentOwner - the lease goes before the record, and the record is the last resort', () => {
    expect(currentOwner({ published: null, leaseOwner: a!, recordOwner: b! }, isLive)).toBe(a);
    expect(currentOwner({ published: null, leaseOwner: null, recordOwner: b! }, isLive)).toBe(b);
    expect(
      currentOwner({ published: null, leaseOwner: null, recordOwner: null }, isLive),
    ).toBeNull();
  });
});
