/** What following a range must do in the stories that matter. */
import { describe, expect, test } from '@jest/globals';
import { begin, type Driven } from './drive.ts';

function after(...types: string[]): Driven {
  const follow = begin('follow');
  follow.sendAll(...types);
  return follow;
}

const WAYS = {
  listing: [],
  pausing: ['listing.failed'],
  'watching.quiet': ['listing.arrived'],
  'watching.checking': ['listing.arrived', 'check.due'],
  refused: ['listing.arrived', 'watch.refused'],
} as const;
const STATES = Object.keys(WAYS) as (keyof typeof WAYS)[];

function at(state: keyof typeof WAYS): Driven {
  const follow = after(...WAYS[state]);
  expect(follow.state).toBe(state);
  follow.asked();
  return follow;
}

describe('listing', () => {
  test('follow - a range is read as a whole before it is watched', () => {
    const follow = begin('follow');
    expect([follow.state, follow.asked()]).toEqual(['listing', ['list']]);
    follow.sendAll('listing.arrived');
    expect([follow.state, follow.asked()]).toEqual(['watching.quiet', ['watch']]);
  });

  test('follow - a reading that fails is made again, ever more slowly, up to two seconds, without end', async () => {
    const follow = at('listing');
    for (const pauseMs of [200, 400, 800, 1_600, 2_000, 2_000, 2_000]) {
      follow.sendAll('listing.failed');
      await follow.advance(pauseMs - 1);
      expect([pauseMs, follow.state, follow.asked()]).toEqual([pauseMs, 'pausing', []]);
      await follow.advance(1);
      expect([pauseMs, follow.state, follow.asked()]).toEqual([pauseMs, 'listing', ['list']]);
    }
    follow.sendAll('listing.arrived', 'watch.compacted', 'listing.failed');
    follow.asked();
    await follow.advance(200);
    expect(follow.asked()).toEqual(['list']);
  });
});

describe('watching', () => {
  test('follow - a check is one reading beside the watch, and its failure is made up for by the next one', () => {
    for (const end of ['check.passed', 'check.failed']) {
      const follow = at('watching.quiet');
      follow.sendAll('check.due', 'check.due');
      expect([follow.state, follow.asked()]).toEqual(['watching.checking', ['verify']]);
      follow.sendAll(end);
      expect([follow.state, follow.asked()]).toEqual(['watching.quiet', []]);
    }
  });

  test.each(['watching.quiet', 'watching.checking', 'refused'] as const)(
    'follow - a watch that was compacted away while %s is begun anew from another reading',
    (state) => {
      const follow = at(state);
      follow.sendAll('watch.compacted');
      expect([follow.state, follow.asked()]).toEqual(['listing', ['unwatch', 'list']]);
    },
  );

  test('follow - a watch that is refused goes on with a check once it is accepted', () => {
    const follow = at('watching.checking');
    follow.sendAll('watch.refused', 'check.passed', 'check.due');
    expect([follow.state, follow.asked()]).toEqual(['refused', []]);
    follow.sendAll('watch.accepted');
    expect([follow.state, follow.asked()]).toEqual(['watching.checking', ['verify']]);
  });
});

describe('at any time', () => {
  test.each(STATES)(
    'follow - another store is read anew, whatever it was when %s',
    async (state) => {
      const follow = at(state);
      follow.sendAll('store.reset');
      const isWatching = state.startsWith('watching') || state === 'refused';
      const ends = isWatching ? ['unwatch'] : [];
      expect([follow.state, follow.asked(), follow.timers]).toEqual([
        'listing',
        [...ends, 'list'],
        [],
      ]);
    },
  );

  test.each(STATES)(
    'follow - nothing is read or heard after the end, whatever it was when %s',
    async (state) => {
      const follow = at(state);
      follow.sendAll('follow.closed');
      expect([follow.state, follow.asked(), follow.timers]).toEqual(['closed', ['unwatch'], []]);
      await follow.advance(60_000);
      expect(follow.asked()).toEqual([]);
    },
  );
});
