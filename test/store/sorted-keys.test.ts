/** Ordered keys against the obvious: an array that is sorted after every change. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { SortedKeys } from '../../src/store/memory/sorted-keys.ts';

const name = fc.string({ unit: fc.constantFrom('a', 'b', '/', '0'), maxLength: 4 });

describe('sorted keys', () => {
  test('sorted keys - they are a set that can be walked in order from any key', () => {
    const step = fc.record({ isAdd: fc.boolean(), key: name });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), name, (steps, first) => {
        const keys = new SortedKeys();
        const model = new Set<string>();
        for (const { isAdd, key } of steps) {
          if (isAdd) keys.add(key);
          else keys.remove(key);
          if (isAdd) model.add(key);
          else model.delete(key);
        }
        const expected = [...model].sort().filter((key) => key >= first);
        expect([...keys.from(first)]).toEqual(expected);
        expect(keys.indexOf(first)).toBe(model.size - expected.length);
        expect(keys.indexOf(undefined)).toBe(model.size);
      }),
    );
  });

  test('sorted keys - many keys in any order are split into chunks and joined again', () => {
    const all = Array.from({ length: 5000 }, (_, index) => String(index).padStart(4, '0'));
    const shuffled = all.map((_, index) => all[(index * 1777) % all.length]!);
    const keys = new SortedKeys();
    for (const key of shuffled) keys.add(key);
    expect([...keys.from('')]).toEqual(all);
    expect([...keys.from('4990')]).toEqual(all.slice(4990));
    expect(all.map((key) => keys.indexOf(key))).toEqual(all.map((_, index) => index));
    for (const key of shuffled) if (Number(key) % 3 > 0) keys.remove(key);
    expect([...keys.from('0001')]).toEqual(all.filter((key) => Number(key) % 3 === 0).slice(1));
    for (const key of shuffled) keys.remove(key);
    expect([...keys.from('')]).toEqual([]);
  });
});
