import { describe, expect, test } from '@jest/globals';
import type { InstanceId, SplitId } from '../../src/base/ids.ts';
import { ownersToAwait, withheldSplits } from '../../src/protocol/withheld.ts';

const splits = [
  { id: 'a', owner: 'away' },
  { id: 'b', owner: 'away' },
  { id: 'c', owner: 'gone' },
  { id: 'd', owner: 'here' },
  { id: 'e', owner: null },
] as { id: SplitId; owner: InstanceId | null }[];

describe('withheld', () => {
  test('withheld - splits of the departed wait, and nobody else is kept waiting', () => {
    expect([...withheldSplits(splits, (instance) => instance === 'away')]).toEqual(['a', 'b']);
  });

  test('withheld - splits that nobody owns are never withheld: a graceful leaver leaves nothing behind', () => {
    expect(withheldSplits([splits[4]!], () => true).size).toBe(0);
  });

  test('withheld - an owner that an earlier leader had not given up is awaited from the election on', () => {
    const awaited = ownersToAwait(
      splits,
      (instance) => instance === 'here',
      (instance) => instance === 'away' || instance === 'here',
    );
    expect([...awaited]).toEqual(['away']);
  });

  test('withheld - an owner whose assignment is gone had been given up, and is not awaited', () => {
    expect(
      ownersToAwait(
        splits,
        () => false,
        () => false,
      ).size,
    ).toBe(0);
  });
});
