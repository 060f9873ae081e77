/** Randomness and the hash: pinned, because leaders of two versions must draw and break ties alike. */
import { describe, expect, test } from '@jest/globals';
import { hash32 } from '../../src/base/hash.ts';
import { randomInteger, seededRandom, systemRandom } from '../../src/base/random.ts';

describe('random', () => {
  test('random - a seed gives the same numbers for ever', () => {
    const random = seededRandom(42);
    const draws = Array.from({ length: 5 }, () => random.next() * 2 ** 32);
    expect(draws).toEqual([551_831_576, 144_025_891, 322_543_647, 3_034_809_370, 908_029_994]);
  });

  test('random - draws are within [0, 1), spread out, and differ by seed', () => {
    for (const random of [seededRandom(0), seededRandom(-1), systemRandom()]) {
      const buckets = new Array<number>(10).fill(0);
      for (let draw = 0; draw < 10_000; draw += 1) {
        const value = random.next();
        expect(value >= 0 && value < 1).toBe(true);
        buckets[Math.floor(value * 10)]! += 1;
      }
      expect(Math.min(...buckets)).toBeGreaterThan(800);
    }
    expect(seededRandom(1).next()).not.toBe(seededRandom(2).next());
  });

  test('random - whole numbers stay below their limit and reach it', () => {
    const random = seededRandom(3);
    const drawn = new Set(Array.from({ length: 500 }, () => randomInteger(random, 6)));
    expect([...drawn].sort()).toEqual([0, 1, 2, 3, 4, 5]);
    expect(randomInteger(random, 1)).toBe(0);
  });
});

describe('hash', () => {
  test('hash - its values are pinned', () => {
    expect(hash32(0, '')).toBe(2_872_998_923);
    expect(hash32(0, 'a')).toBe(444_641_715);
    expect(hash32(1, 'a')).toBe(3_873_127_206);
    expect(hash32(7, 'worker-0001')).toBe(2_749_435_594);
    expect(hash32(2 ** 31, 'pod-é')).toBe(646_572_515);
  });

  test('hash - seeds are taken as 32 bits', () => {
    expect(hash32(-1, 'a')).toBe(hash32(2 ** 32 - 1, 'a'));
  });

  test('hash - similar names and seeds land far apart', () => {
    const values = new Set<number>();
    const buckets = new Array<number>(16).fill(0);
    for (let index = 0; index < 16_000; index += 1) {
      const value = hash32(index % 4, `worker-${index >> 2}`);
      expect(Number.isInteger(value) && value >= 0 && value < 2 ** 32).toBe(true);
      values.add(value);
      buckets[value % 16]! += 1;
    }
    expect(values.size).toBeGreaterThan(15_980);
    expect(Math.min(...buckets)).toBeGreaterThan(850);
  });
});
