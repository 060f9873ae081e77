import { describe, expect, test } from '@jest/globals';
import { revisionOf } from '../../../src/base/decimals.ts';
import { StoreAge } from '../../../src/coordinator/link/store-age.ts';

function followed() {
  const told: number[] = [];
  const age = new StoreAge(() => told.push(told.length + 1));
  return { age, told };
}

describe('the age of a store', () => {
  test('an answer that stands before what was known when it was asked for - shows that the store went back, once', () => {
    const { age, told } = followed();
    age.saw(revisionOf(144));
    age.answered(age.mark(), revisionOf(139));
    age.answered(age.mark(), revisionOf(140));
    expect(told).toEqual([1]);
  });

  test('an answer that was asked for before more was known - shows nothing', () => {
    const { age, told } = followed();
    const mark = age.mark();
    age.saw(revisionOf(144));
    age.answered(mark, revisionOf(139));
    expect(told).toEqual([]);
  });

  test('an answer of a store that was forgotten - shows nothing, and is not where the next one is', () => {
    const { age, told } = followed();
    age.saw(revisionOf(144));
    const mark = age.mark();
    age.forget();
    age.answered(mark, revisionOf(150));
    age.answered(age.mark(), revisionOf(20));
    expect(told).toEqual([]);
    age.answered(age.mark(), revisionOf(19));
    expect(told).toEqual([1]);
  });
});
