import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Revision } from '../../../src/base/decimals.ts';
import { KnownKeys } from '../../../src/coordinator/link/known-keys.ts';
import type { Change, Entry } from '../../../src/store/port.ts';

const RANGE = { prefix: 'k' };
const at = (revision: number): Revision => String(revision) as Revision;

function put(key: string, revision: number): Change {
  const entry: Entry = {
    key,
    value: `v${revision}`,
    createRevision: at(revision),
    modRevision: at(revision),
    session: null,
  };
  return { key, modRevision: at(revision), entry };
}
const gone = (key: string, revision: number): Change => ({
  key,
  modRevision: at(revision),
  entry: null,
});

/** What a range held at `revision`, after a history. */
function listing(history: readonly Change[], revision: number): Entry[] {
  const state = new Map<string, Entry>();
  for (const { key, modRevision, entry } of history) {
    if (Number(modRevision) > revision) continue;
    if (entry === null) state.delete(key);
    else state.set(key, entry);
  }
  return [...state.values()];
}

const KEYS = ['k1', 'k2', 'k3'];

/** A history of puts and deletes, one a revision, from revision 9 on so that decimals of two lengths are compared. */
const histories = fc
  .array(fc.record({ key: fc.constantFrom(...KEYS), isPut: fc.boolean() }), { maxLength: 25 })
  .map((steps) =>
    steps.map(({ key, isPut }, index) => (isPut ? put(key, index + 9) : gone(key, index + 9))),
  );

describe('known keys', () => {
  test('a change - at or below the revision known of its key is dropped (R9)', () => {
    const known = new KnownKeys();
    expect(known.apply(put('k1', 9))).toBe(true);
    expect(known.apply(put('k1', 10))).toBe(true);
    expect(known.apply(put('k1', 9))).toBe(false);
    expect(known.apply(gone('k1', 10))).toBe(false);
    expect(known.get('k1')?.value).toBe('v10');
    // The order is one per key: an older change of another key is news.
    expect(known.apply(put('k2', 3))).toBe(true);
  });

  test('a delete - leaves a tombstone: an older put does not bring the key back (R9)', () => {
    const known = new KnownKeys();
    known.apply(gone('k1', 12));
    expect(known.apply(put('k1', 11))).toBe(false);
    expect(known.get('k1')).toBeNull();
    expect(known.revisionOf('k1')).toBe('12');
    expect(known.apply(put('k1', 13))).toBe(true);
  });

  test('a listing - deletes what it does not hold, unless something newer is known', () => {
    const known = new KnownKeys();
    for (const change of [put('k1', 9), put('k2', 20), put('x', 9)]) known.apply(change);
    const changes = known.changesOf(RANGE, [], at(15));
    expect(changes).toEqual([gone('k1', 15)]);
    // Out of its range nothing is said.
    expect(known.get('x')).not.toBeNull();
  });

  test('any interleaving - of changes in any order, repeated, with listings at any revision, ends at the newest state (R9)', () => {
    fc.assert(
      fc.property(
        histories.chain((history) =>
          fc.record({
            history: fc.constant(history),
            order: fc.shuffledSubarray(
              history.map((_, index) => index),
              {
                minLength: history.length,
              },
            ),
            repeats: fc.array(fc.nat({ max: Math.max(0, history.length - 1) }), { maxLength: 10 }),
            listings: fc.array(
              fc.record({ at: fc.nat({ max: 40 }), revision: fc.nat({ max: 40 }) }),
              { maxLength: 4 },
            ),
          }),
        ),
        ({ history, order, repeats, listings }) => {
          const known = new KnownKeys();
          const deliveries: (() => void)[] = [...order, ...repeats]
            .filter((index) => index < history.length)
            .map((index) => () => void known.apply(history[index]!));
          for (const { at: place, revision } of listings) {
            deliveries.splice(place % (deliveries.length + 1), 0, () => {
              const asOf = Math.min(revision, history.length) + 8;
              for (const change of known.changesOf(RANGE, listing(history, asOf), at(asOf))) {
                known.apply(change);
              }
              known.listed(RANGE, at(asOf));
            });
          }
          for (const deliver of deliveries) {
            const before = new Map(KEYS.map((key) => [key, Number(known.revisionOf(key) ?? 0)]));
            deliver();
            for (const key of KEYS) {
              const now = known.revisionOf(key);
              // A tombstone may be dropped by a listing; a value never steps back.
              if (now !== undefined) expect(Number(now)).toBeGreaterThanOrEqual(before.get(key)!);
            }
          }
          const last = listing(history, Infinity);
          for (const key of KEYS) {
            expect(known.get(key)).toEqual(last.find((entry) => entry.key === key) ?? null);
          }
        },
      ),
      { numRuns: 500 },
    );
  });

  test('a key that a listing did not hold - is not brought back by an older word (R9)', () => {
    const known = new KnownKeys();
    known.apply(gone('k1', 12));
    expect(known.changesOf(RANGE, [], at(20))).toEqual([]);
    known.listed(RANGE, at(20));
    // The tombstone went; the listing speaks for it, and for keys never heard of.
    expect(known.size).toBe(0);
    expect(known.apply(put('k1', 11))).toBe(false);
    expect(known.apply(put('k2', 20))).toBe(false);
    expect(known.apply(put('k2', 21))).toBe(true);
    expect(known.apply(put('x', 1))).toBe(true);
  });

  test('clear - forgets everything (R8)', () => {
    const known = new KnownKeys();
    known.apply(put('k1', 30));
    known.listed(RANGE, at(30));
    known.clear();
    expect(known.size).toBe(0);
    expect(known.apply(put('k1', 2))).toBe(true);
  });
});
