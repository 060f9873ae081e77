import { describe, expect, test } from '@jest/globals';
import type { InstanceId, SplitId } from '../../src/base/ids.ts';
import { pausedUnplaced, unplacedOf, type UnplacedSight } from '../../src/protocol/unplaced.ts';

const id = (name: string): SplitId => name as SplitId;
const split = (name: string, barred: readonly string[] = []) => ({
  id: id(name),
  weight: 1,
  owner: null,
  barred: barred as InstanceId[],
});
const instance = (name: string, change: object = {}) => ({
  id: name as InstanceId,
  maxInFlight: 1,
  cordoned: false,
  ...change,
});

function sight(change: Partial<UnplacedSight> = {}): UnplacedSight {
  return {
    instances: [instance('a'), instance('b')],
    splits: [],
    unassigned: [],
    idle: { count: 0, has: () => false, some: () => [] },
    withheld: { splits: new Set(), until: null },
    resting: { count: 0, sample: [], until: null },
    suspects: [],
    ...change,
  };
}

describe('unplaced', () => {
  test('unplaced - with a place for everything there is nothing to tell', () => {
    expect(unplacedOf(sight({ splits: [split('s1')] }))).toEqual({ count: 0, parts: [] });
  });

  test('unplaced - what is idle is counted without being looked at, and named by a few ids (R60)', () => {
    const all = Array.from({ length: 1_000 }, (_, index) => id(`s${index}`));
    const asked: number[] = [];
    const idle = {
      count: 1_000,
      has: () => true,
      some: (count: number) => {
        asked.push(count);
        return all.slice(0, count);
      },
    };
    const { count, parts } = unplacedOf(sight({ splits: [split('s0'), split('s1')], idle }));
    expect([count, parts]).toEqual([
      998,
      [{ reason: 'noRoom', count: 998, splits: ['s2', 's3', 's4', 's5', 's6'], until: null }],
    ]);
    expect(asked).toEqual([7]);
  });

  test.each([
    ['cordoned', { cordoned: true }],
    ['drained', { maxInFlight: 0 }],
  ])('unplaced - with everybody %s it is nobody’s to take (R60)', (_what, change) => {
    const instances = [instance('a', change), instance('b', change)];
    const given = { instances, splits: [split('s1')], unassigned: [id('s1')] };
    expect(unplacedOf(sight(given)).parts).toMatchObject([{ reason: 'nobodyMay', count: 1 }]);
  });

  test('unplaced - each split counts for one reason (R60)', () => {
    const splits = [
      split('away'),
      split('barred', ['a', 'b']),
      split('full', ['a']),
      split('placed'),
      split('tried'),
    ];
    const unplaced = unplacedOf(
      sight({
        splits,
        unassigned: ['away', 'barred', 'full'].map(id),
        withheld: { splits: new Set([id('away')]), until: 7 },
        resting: { count: 3, sample: [id('r1')], until: 8 },
        suspects: ['tried', 'waits'].map(id),
      }),
    );
    expect(unplaced).toEqual({
      count: 7,
      parts: [
        { reason: 'noRoom', count: 1, splits: ['full'], until: null },
        { reason: 'barred', count: 1, splits: ['barred'], until: null },
        { reason: 'withheld', count: 1, splits: ['away'], until: 7 },
        { reason: 'resting', count: 3, splits: ['r1'], until: 8 },
        { reason: 'suspect', count: 1, splits: ['waits'], until: null },
      ],
    });
  });

  test('unplaced - a paused job has one reason (R60)', () => {
    expect(pausedUnplaced(2, [id('s1')])).toEqual({
      count: 2,
      parts: [{ reason: 'paused', count: 2, splits: ['s1'], until: null }],
    });
    expect(pausedUnplaced(0, [])).toEqual({ count: 0, parts: [] });
  });
});
