/** Reading a whole range at one revision. */
import { describe, expect, test } from '@jest/globals';
import { InvariantViolation } from '../../src/base/errors.ts';
import { virtualClock } from '../../src/base/virtual-clock.ts';
import { memoryStore, type MemoryStore } from '../../src/store/memory.ts';
import type { Store } from '../../src/store/port.ts';
import { readAll, readEach, readKeysInParts } from '../../src/store/read-all.ts';
import { CALL, expectCode } from './support.ts';

/** A store with keys `p/00` and up, and its reads, before each of which `meanwhile` happens. */
function prepare(keyCount: number, meanwhile: (server: MemoryStore, reads: number) => void) {
  const server = memoryStore({ clock: virtualClock() });
  for (let index = 0; index < keyCount; index += 1) {
    server.put(`p/${String(index).padStart(2, '0')}`, 'old');
  }
  let reads = 0;
  const store: Pick<Store, 'read'> = {
    read(range, read, options) {
      reads += 1;
      meanwhile(server, reads);
      return server.read(range, read, options);
    },
  };
  return { server, store, readCount: () => reads };
}

const range = { prefix: 'p/' };

describe('read all', () => {
  test('read all - it reads every page at the revision of the first one', async () => {
    const { store, readCount } = prepare(7, (server, reads) => {
      if (reads > 1) server.put('p/06', `written before page ${reads}`);
      if (reads === 2) server.remove('p/05');
    });
    const { entries, revision } = await readAll(store, range, { ...CALL, pageEntriesMax: 3 });
    expect(entries.map(({ key, value }) => key + value)).toEqual(
      [0, 1, 2, 3, 4, 5, 6].map((index) => `p/0${index}old`),
    );
    expect([revision, readCount()]).toEqual(['8', 3]);
  });

  test('read all - a range that fits one page costs one read', async () => {
    const { store, readCount } = prepare(3, () => undefined);
    const page = await readAll(store, range, { ...CALL, pageEntriesMax: 3, keysOnly: true });
    expect(page.entries.map(({ value }) => value)).toEqual(['', '', '']);
    expect(readCount()).toBe(1);
    expect(await readAll(store, { prefix: 'none/' }, CALL)).toEqual({ entries: [], revision: '4' });
  });

  test('read all - when its revision is compacted away it starts over at a newer one', async () => {
    const { store, readCount } = prepare(4, (server, reads) => {
      if (reads !== 2) return;
      server.put('p/00', 'new');
      server.compact();
    });
    const { entries, revision } = await readAll(store, range, { ...CALL, pageEntriesMax: 2 });
    expect(entries.map(({ value }) => value)).toEqual(['new', 'old', 'old', 'old']);
    expect([revision, readCount()]).toEqual(['6', 4]);
  });

  test('read all - it gives up when history is compacted again and again', async () => {
    const { store, readCount } = prepare(4, (server) => {
      server.put('p/00', 'new');
      server.compact();
    });
    const reading = readAll(store, range, { ...CALL, pageEntriesMax: 2, restartsMax: 2 });
    await expectCode(reading, 'E_STORE_UNREACHABLE');
    expect(readCount()).toBe(6);
  });

  test('read all - a store that promises more and sends nothing is a bug, not an endless loop', async () => {
    const store: Pick<Store, 'read'> = {
      read: async () => ({
        kind: 'page',
        entries: [],
        more: true,
        count: 2,
        revision: '3' as never,
      }),
    };
    await expect(readAll(store, range, CALL)).rejects.toThrow(InvariantViolation);
  });
});

/** A store with keys of one size each, and how many entries each read asked for and got. */
function sized(sizes: readonly number[]) {
  const server = memoryStore({ clock: virtualClock() });
  sizes.forEach((size, index) => {
    server.put(`p/${String(index).padStart(4, '0')}`, 'x'.repeat(size));
  });
  const asked: (number | undefined)[] = [];
  const got: (number | string)[] = [];
  const store: Pick<Store, 'read'> = {
    async read(of, read, options) {
      asked.push('keys' in of ? of.keys.length : read.limit);
      const page = await server.read(of, read, options);
      got.push(page.kind === 'page' ? page.entries.length : page.kind);
      return page;
    },
  };
  return { server, store, asked, got };
}

function many(count: number, size: number): number[] {
  return Array.from({ length: count }, () => size);
}

const KIB = 1024;

describe('page sizes', () => {
  test('page sizes - pages of small entries grow, by double at most', async () => {
    const { store, asked } = sized(many(5_000, 10));
    expect((await readAll(store, range, CALL)).entries).toHaveLength(5_000);
    expect(asked).toEqual([256, 512, 1_000, 1_000, 1_000, 1_000, 1_000]);
  });

  test('page sizes - keys alone come a thousand at a time', async () => {
    const { store, asked } = sized(many(2_500, 100 * KIB));
    const { entries } = await readAll(store, range, { ...CALL, keysOnly: true });
    expect([entries.length, asked]).toEqual([2_500, [1_000, 1_000, 1_000]]);
  });

  test('page sizes - what is too large is halved until it fits, and then pages have a mebibyte', async () => {
    const { store, asked, got } = sized(many(40, 256 * KIB));
    expect((await readAll(store, range, CALL)).entries).toHaveLength(40);
    expect(got.slice(0, 6)).toEqual([
      'tooLarge',
      'tooLarge',
      'tooLarge',
      'tooLarge',
      'tooLarge',
      8,
    ]);
    expect(asked.slice(0, 7)).toEqual([256, 128, 64, 32, 16, 8, 3]);
    expect(new Set(got.slice(6, -1))).toEqual(new Set([3]));
  });

  test('page sizes - they follow entries that grow and shrink, down to one at a time', async () => {
    const sizes = [...many(300, 10), ...many(6, 3_000 * KIB), ...many(600, 10)];
    const { store, got } = sized(sizes);
    const { entries } = await readAll(store, range, CALL);
    expect(entries.map(({ value }) => value.length)).toEqual(sizes);
    const atOnce = got.filter((count) => typeof count === 'number');
    expect(atOnce).toContain(1);
    expect(Math.max(...atOnce.slice(-3))).toBeGreaterThan(100);
  });

  test('page sizes - the caller may ask for less', async () => {
    const { store, asked } = sized(many(7, 10));
    await readAll(store, range, { ...CALL, pageEntriesMax: 3 });
    expect(asked).toEqual([3, 3, 3]);
  });

  test('page sizes - a store that calls one entry too large is a bug, not an endless loop', async () => {
    const store: Pick<Store, 'read'> = { read: async () => ({ kind: 'tooLarge' }) };
    await expect(readAll(store, range, CALL)).rejects.toThrow(InvariantViolation);
    await expect(readKeysInParts(store, ['a', 'b'], CALL)).rejects.toThrow(InvariantViolation);
  });
});

describe('read each', () => {
  const every = { ...CALL, pageEntriesMax: 3 };

  test('read each - it hands on each page before it asks for the next one', async () => {
    const { store, readCount } = prepare(7, () => undefined);
    const seen: string[] = [];
    const result = await readEach(store, range, every, async (entries, revision) => {
      await Promise.resolve();
      seen.push(`${entries.length}@${revision} after ${readCount()}`);
    });
    expect(seen).toEqual(['3@8 after 1', '3@8 after 2', '1@8 after 3']);
    expect(result).toEqual({ revision: '8', count: 7 });
  });

  test('read each - it tells when what was handed on is void, and hands everything on again', async () => {
    const { store } = prepare(4, (server, reads) => {
      if (reads !== 2) return;
      server.remove('p/00');
      server.compact();
    });
    let seen: string[] = [];
    const restarted = (): void => void (seen = ['restarted']);
    const result = await readEach(store, range, { ...every, restarted }, (entries) => {
      seen.push(...entries.map(({ key }) => key));
    });
    expect(seen).toEqual(['restarted', 'p/01', 'p/02', 'p/03']);
    expect(result).toEqual({ revision: '6', count: 3 });
  });

  test('read each - entries written before a revision are left out, and counted', async () => {
    const { server, store } = prepare(5, () => undefined);
    const minModRevision = server.put('p/03', 'new');
    const seen: string[] = [];
    const result = await readEach(store, range, { ...every, minModRevision }, (entries) => {
      seen.push(...entries.map(({ key }) => key));
    });
    expect([seen, result]).toEqual([['p/03'], { revision: '7', count: 5 }]);
  });

  test('read each - an empty range is not handed on, and what the taker throws ends it', async () => {
    const { store, readCount } = prepare(7, () => undefined);
    const none = { prefix: 'none/' };
    const fail = (): never => {
      throw new Error('taken enough');
    };
    expect(await readEach(store, none, every, fail)).toEqual({ revision: '8', count: 0 });
    await expect(readEach(store, range, every, fail)).rejects.toThrow('taken enough');
    expect(readCount()).toBe(2);
  });
});

describe('read keys in parts', () => {
  const named = (count: number): string[] =>
    Array.from({ length: count }, (_, index) => `p/${String(index).padStart(4, '0')}`);

  test('read keys in parts - what fits one answer costs one read', async () => {
    const { store, asked } = sized(many(4, 10));
    const found = await readKeysInParts(store, ['p/0003', 'no', 'p/0000'], CALL);
    expect([...found.entries.keys()]).toEqual(['p/0000', 'p/0003']);
    expect([found.revision, found.count, asked]).toEqual(['5', 2, [3]]);
    const none = { entries: new Map(), count: 0, revision: '5' };
    expect(await readKeysInParts(store, [], CALL)).toEqual(none);
  });

  test('read keys in parts - entries written before a revision are left out, and counted', async () => {
    const { server, store } = sized(many(4, 10));
    const minModRevision = server.put('p/0002', 'new');
    const found = await readKeysInParts(store, named(5), { ...CALL, minModRevision });
    expect([[...found.entries.keys()], found.count]).toEqual([['p/0002'], 4]);
  });

  test('read keys in parts - what is too large is read by halves, at the lowest revision of all', async () => {
    const { server, store, asked } = sized(many(12, 1_000 * KIB));
    const moving: Pick<Store, 'read'> = {
      read: (of, read, options) => {
        server.put('elsewhere', '1');
        return store.read(of, read, options);
      },
    };
    const { entries, count, revision } = await readKeysInParts(moving, named(12), CALL);
    expect([[...entries.keys()], count]).toEqual([named(12), 12]);
    expect(asked).toEqual([12, 6, 3, 3, 6, 3, 3]);
    // The third of seven reads was the first to be answered.
    expect(revision).toBe(String(13 + 3));
  });

  test('read keys in parts - more keys than fit a page are read page by page, also where pages are cut short', async () => {
    const { store, asked } = sized(many(2_100, 10));
    const options = { ...CALL, keysOnly: true };
    const { entries, count } = await readKeysInParts(store, named(2_100), options);
    expect([...entries.values()].map(({ key, value }) => key + value)).toEqual(named(2_100));
    expect(count).toBe(2_100);
    expect(asked).toEqual([1_000, 1_000, 100]);

    const short: Pick<Store, 'read'> = {
      read: (of, read, options) => store.read(of, { ...read, limit: 7 }, options),
    };
    const again = await readKeysInParts(short, named(30), CALL);
    expect([[...again.entries.keys()], again.count]).toEqual([named(30), 30]);
  });
});
