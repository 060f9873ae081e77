import { describe, expect, test } from '@jest/globals';
import type { PlannedSplit } from '../../../src/coordinator/api/api.ts';
import { checkPlanAnswer } from '../../../src/coordinator/leading/plan-check.ts';

const COUNT = 3_500;

/** Lists splits one by one, and says how far it was read and whether it was told to end. */
class Listing implements Iterable<PlannedSplit> {
  read = 0;
  hasEnded = false;

  *[Symbol.iterator](): Iterator<PlannedSplit> {
    try {
      for (; this.read < COUNT; this.read += 1) yield { id: `s${this.read}`, descriptor: '' };
    } finally {
      this.hasEnded = true;
    }
  }
}

describe('a long answer of a planner', () => {
  test('a long answer - is read in parts of a thousand splits', async () => {
    const listing = new Listing();
    const pauses: number[] = [];
    const plan = await checkPlanAnswer({ splits: listing, finality: 'final' }, async () => {
      pauses.push(listing.read);
    });
    expect(pauses).toEqual([999, 1_999, 2_999]);
    expect(plan.splits.map(({ id }) => id)).toEqual(
      Array.from({ length: COUNT }, (_, index) => `s${index}`),
    );
  });

  test('a long answer - is read no further once nobody wants it, and its iterator is ended', async () => {
    const listing = new Listing();
    const over = new Error('the term is over');
    const check = checkPlanAnswer({ splits: listing, finality: 'final' }, () =>
      Promise.reject(over),
    );
    await expect(check).rejects.toBe(over);
    expect(listing).toMatchObject({ read: 999, hasEnded: true });
  });

  test('a long answer - with a split listed twice far apart is refused as a whole (R43)', async () => {
    const splits = [...new Listing(), { id: 's7', descriptor: '' }];
    const check = checkPlanAnswer({ splits, finality: 'final' }, () => Promise.resolve());
    await expect(check).rejects.toThrow(/s7.*listed twice/);
  });
});
