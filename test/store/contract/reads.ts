/** The contract of `read`. */
import { expect, test } from '@jest/globals';
import { ABSENT, nextRevision, type Revision } from '../../../src/base/decimals.ts';
import { ANSWER_BYTES_MAX, type ReadOptions } from '../../../src/store/port.ts';
import type { Contract } from './harness.ts';
import { CALL, put, readOne, readPage, write } from '../support.ts';

export function testReads(contract: Contract): void {
  testEntries(contract);
  testPages(contract);
  testCounts(contract);
  testSizes(contract);
  testPast(contract);
}

function testEntries({ harness, key }: Contract): void {
  test('store - an entry tells its value, both revisions and its session', async () => {
    const { store } = harness();
    const created = await write(store, put(key('a'), 'one'));
    const updated = await write(store, put(key('a'), 'two'));

    expect(updated).toBe(nextRevision(created));
    expect(await readOne(store, key('a'))).toEqual({
      key: key('a'),
      value: 'two',
      createRevision: created,
      modRevision: updated,
      session: null,
    });
  });

  test('store - a key that was deleted and put again has a new createRevision', async () => {
    const { store } = harness();
    await write(store, put(key('a'), 'first life'));
    await write(store, { delete: key('a') });
    expect(await readOne(store, key('a'))).toBeNull();

    const reborn = await write(store, put(key('a'), 'second life'));
    expect(await readOne(store, key('a'))).toMatchObject({
      value: 'second life',
      createRevision: reborn,
      modRevision: reborn,
    });
  });

  test('store - a value keeps every character', async () => {
    const { store } = harness();
    const value = '\u0000 "quoted" \\ \n ü € 😀 '.repeat(50);
    await write(store, put(key('a'), value));
    await write(store, put(key('empty'), ''));
    expect((await readOne(store, key('a')))?.value).toBe(value);
    expect((await readOne(store, key('empty')))?.value).toBe('');
  });

  test('store - a prefix is read in key order and nothing beside it', async () => {
    const { store } = harness();
    const inside = ['b', 'a/2', 'a/10', 'c/', 'a', 'a0'];
    await write(store, ...inside.map((name) => put(key(`in/${name}`), name)));
    await write(store, put(key('in'), 'x'), put(key('im/z'), 'x'), put(key('in0'), 'x'));

    const page = await readPage(store, { prefix: key('in/') });
    expect(page.entries.map(({ value }) => value)).toEqual(['a', 'a/10', 'a/2', 'a0', 'b', 'c/']);
    expect(page.more).toBe(false);
    expect((await readPage(store, { prefix: key('in/a/') })).entries).toHaveLength(2);
    expect((await readPage(store, { prefix: key('nothing/') })).entries).toEqual([]);
  });

  test('store - keys are read by name: in key order, each once, the absent left out', async () => {
    const { store } = harness();
    await write(store, put(key('a'), '1'), put(key('b'), '2'), put(key('c'), '3'));
    const keys = [key('c'), key('none'), key('a'), key('c')];

    const page = await readPage(store, { keys });
    expect(page.entries.map((entry) => entry.value)).toEqual(['1', '3']);
    expect(page.more).toBe(false);
  });

  test('store - keysOnly leaves values out and nothing else', async () => {
    const { store } = harness();
    const revision = await write(store, put(key('a'), 'long'));
    const page = await readPage(store, { prefix: key('a') }, { keysOnly: true });
    expect(page.entries).toEqual([
      { key: key('a'), value: '', createRevision: revision, modRevision: revision, session: null },
    ]);
  });

  test('store - a write is seen by every read that starts after its answer', async () => {
    const { store, other } = harness();
    for (const value of ['1', '2', '3', '4', '5']) {
      const revision = await write(store, put(key('a'), value));
      expect(await readOne(other, key('a'))).toMatchObject({ value, modRevision: revision });
    }
  });
}

function testPages({ harness, key }: Contract): void {
  test('store - a page says whether more follow, and the next one starts after its last key', async () => {
    const { store } = harness();
    await write(store, ...['a', 'b', 'c', 'd'].map((name) => put(key(`p/${name}`), name)));
    const values = async (limit: number, after?: string) => {
      const read = after === undefined ? { limit } : { limit, after: key(`p/${after}`) };
      const page = await readPage(store, { prefix: key('p/') }, read);
      return [page.entries.map(({ value }) => value).join(''), page.more];
    };

    expect(await values(3)).toEqual(['abc', true]);
    expect(await values(3, 'c')).toEqual(['d', false]);
    expect(await values(4)).toEqual(['abcd', false]);
    expect(await values(2, 'bb')).toEqual(['cd', false]);
    expect(await values(1, 'd')).toEqual(['', false]);
  });

  test('store - keys by name are paged like a prefix', async () => {
    const { store } = harness();
    const keys = ['c', 'a', 'none', 'b'].map(key);
    await write(store, ...['a', 'b', 'c'].map((name) => put(key(name), name)));

    const first = await readPage(store, { keys }, { limit: 2 });
    expect([first.entries.map(({ value }) => value), first.more]).toEqual([['a', 'b'], true]);
    const second = await readPage(store, { keys }, { limit: 2, after: key('b') });
    expect([second.entries.map(({ value }) => value), second.more]).toEqual([['c'], false]);
  });
}

function testCounts({ harness, key }: Contract): void {
  test('store - a page counts the keys of its range, also those that its limit leaves out', async () => {
    const { store } = harness();
    await write(store, ...['a', 'b', 'c', 'd'].map((name) => put(key(`p/${name}`), name)));
    await write(store, put(key('p'), 'x'), put(key('p0'), 'x'));
    const prefix = { prefix: key('p/') };
    const keys = { keys: ['d', 'none', 'a', 'c', 'a'].map((name) => key(`p/${name}`)) };
    const counts = async (range: typeof prefix | typeof keys, after?: string) => {
      const read = after === undefined ? {} : { after: key(`p/${after}`) };
      const limited = await readPage(store, range, { ...read, limit: 1 });
      const whole = await readPage(store, range, { ...read, keysOnly: true });
      expect(limited.entries).toHaveLength(Math.min(1, whole.entries.length));
      return [limited.count, limited.more, whole.count, whole.more];
    };

    expect(await counts(prefix)).toEqual([4, true, 4, false]);
    expect(await counts(prefix, 'b')).toEqual([2, true, 2, false]);
    expect(await counts(prefix, 'bb')).toEqual([2, true, 2, false]);
    expect(await counts(prefix, 'd')).toEqual([0, false, 0, false]);
    expect(await counts(keys)).toEqual([3, true, 3, false]);
    expect(await counts(keys, 'a')).toEqual([2, true, 2, false]);
    expect(await counts(keys, 'c')).toEqual([1, false, 1, false]);
    expect(await counts(keys, 'd')).toEqual([0, false, 0, false]);
  });

  test('store - a count is that of the revision asked for', async () => {
    const { store } = harness();
    const first = await write(store, put(key('a'), '1'), put(key('b'), '1'));
    const second = await write(store, put(key('a'), '2'), put(key('c'), '2'));
    const third = await write(store, { delete: key('a') }, { delete: key('b') });
    await write(store, put(key('a'), '3'));
    const counts = async (atRevision: typeof first) => [
      (await readPage(store, { prefix: key('') }, { atRevision })).count,
      (await readPage(store, { prefix: key('') }, { atRevision, after: key('a') })).count,
      (await readPage(store, { keys: ['a', 'b'].map(key) }, { atRevision })).count,
    ];
    expect(await counts(first)).toEqual([2, 1, 2]);
    expect(await counts(second)).toEqual([3, 2, 2]);
    expect(await counts(third)).toEqual([1, 1, 0]);
  });

  test('store - entries last written before a revision are left out, and counted all the same', async () => {
    const { store } = harness();
    await write(store, ...['a', 'b', 'c', 'd'].map((name) => put(key(name), 'old')));
    const since = await write(store, put(key('d'), 'new'), put(key('b'), 'new'));
    await write(store, put(key('a'), 'newer'));
    const keys = { keys: ['c', 'b', 'd', 'none', 'a'].map(key) };
    for (const range of [{ prefix: key('') }, keys]) {
      const values = async (read: object) => {
        const page = await readPage(store, range, { minModRevision: since, ...read });
        return [page.entries.map(({ value }) => value).join(), page.more, page.count];
      };
      expect(await values({})).toEqual(['newer,new,new', false, 4]);
      expect(await values({ limit: 2 })).toEqual(['newer,new', true, 4]);
      expect(await values({ limit: 3 })).toEqual(['newer,new,new', false, 4]);
      expect(await values({ after: key('b'), keysOnly: true })).toEqual(['', false, 2]);
      expect(await values({ atRevision: since })).toEqual(['new,new', false, 4]);
      expect(await values({ minModRevision: nextRevision(nextRevision(since)) })).toEqual([
        '',
        false,
        4,
      ]);
    }
  });

  test('store - keys asked for by name are left out where they are as known, and counted all the same', async () => {
    const { store } = harness();
    const first = await write(store, ...['a', 'b', 'c'].map((name) => put(key(name), 'old')));
    const second = await write(store, put(key('b'), 'new'));
    const names = { keys: ['c', 'none', 'a', 'b'].map(key) };
    const find = async (known: Readonly<Record<string, string>>, read: ReadOptions = {}) => {
      const revisions = new Map(
        Object.entries(known).map(([name, revision]) => [key(name), revision as Revision]),
      );
      const page = await readPage(store, names, { ...read, known: revisions });
      return [page.entries.map(({ value }) => value).join(), page.more, page.count];
    };
    const all = { a: first, b: second, c: first, none: ABSENT };
    expect(await find(all)).toEqual(['', false, 3]);
    expect(await find(all, { keysOnly: true, limit: 2 })).toEqual(['', false, 3]);
    expect(await find({ ...all, none: first })).toEqual(['', false, 3]);
    expect(await find({ ...all, b: first })).toEqual(['new', false, 3]);
    expect(await find({ a: first })).toEqual(['new,old', false, 3]);
    expect(await find({ a: first }, { limit: 1 })).toEqual(['new', true, 3]);
    // At a revision of the past the keys were what they were then.
    expect(await find(all, { atRevision: first })).toEqual(['old', false, 3]);
    expect(await find({}, { atRevision: first })).toEqual(['old,old,old', false, 3]);
    await write(store, { delete: key('c') });
    expect(await find(all)).toEqual(['', false, 2]);
  });

  test('store - of more keys than one transaction takes, all that are as known are left out', async () => {
    const { store } = harness();
    const keys = Array.from({ length: 300 }, (_, index) =>
      key(`n${String(index).padStart(3, '0')}`),
    );
    const known = new Map<string, Revision>();
    for (let start = 0; start < keys.length; start += 100) {
      const part = keys.slice(start, start + 100);
      const revision = await write(store, ...part.map((name) => put(name, 'old')));
      for (const name of part) known.set(name, revision);
    }
    const same = await readPage(store, { keys }, { keysOnly: true, known });
    expect([same.entries, same.count]).toEqual([[], 300]);
    await write(store, put(keys[250]!, 'new'));
    const news = await readPage(store, { keys }, { known });
    expect(news.entries.map(({ key: name, value }) => [name, value])).toEqual([[keys[250], 'new']]);
    expect(news.count).toBe(300);
  });
}

/** Room for a few megabytes on a busy machine. */
const LARGE = { timeoutMs: 10_000 };

function testSizes({ harness, key }: Contract): void {
  test('store - an answer above the limit is too large, and the same keys in smaller parts are not', async () => {
    const { store } = harness();
    const size = Math.ceil(ANSWER_BYTES_MAX / 5);
    const names = ['1', '2', '3', '4', '5', '6'].map((name) => key(`large/${name}`));
    for (const name of names) {
      await store.transact(
        {
          guard: [],
          txns: [{ compares: [], writes: [put(name, 'x'.repeat(size))], onConflict: [] }],
        },
        LARGE,
      );
    }
    for (const range of [{ prefix: key('large/') }, { keys: names }]) {
      const sizes = async (read: object) => {
        const page = await store.read(range, read, LARGE);
        return page.kind === 'page' ? page.entries.map(({ value }) => value.length) : page;
      };
      expect(await sizes({})).toEqual({ kind: 'tooLarge' });
      expect(await sizes({ limit: 5 })).toEqual({ kind: 'tooLarge' });
      expect(await sizes({ limit: 3 })).toEqual([size, size, size]);
      expect(await sizes({ after: names[2] })).toEqual([size, size, size]);
      expect(await sizes({ limit: 1 })).toEqual([size]);
      expect(await sizes({ keysOnly: true })).toEqual([0, 0, 0, 0, 0, 0]);
    }
  });
}

function testPast({ harness, key }: Contract): void {
  test('store - a read at a revision shows the past as it was', async () => {
    const { store } = harness();
    const first = await write(store, put(key('a'), '1'), put(key('b'), '1'));
    const second = await write(store, put(key('a'), '2'), put(key('c'), '2'));
    await write(store, { delete: key('a') }, { delete: key('b') });
    const values = async (atRevision: typeof first) => {
      const page = await readPage(store, { prefix: key('') }, { atRevision });
      expect(page.revision).toBe(atRevision);
      return page.entries.map((entry) => `${entry.key.slice(key('').length)}${entry.value}`);
    };

    expect(await values(first)).toEqual(['a1', 'b1']);
    expect(await values(second)).toEqual(['a2', 'b1', 'c2']);
    expect((await readPage(store, { prefix: key('') })).entries).toHaveLength(1);
  });

  test('store - pages at one revision fit together whatever is written in between', async () => {
    const { store } = harness();
    await write(store, ...['a', 'b', 'c'].map((name) => put(key(`p/${name}`), 'old')));
    const range = { prefix: key('p/') };
    const first = await readPage(store, range, { limit: 2 });
    await write(store, put(key('p/c'), 'new'), put(key('p/d'), 'new'), { delete: key('p/a') });

    const read = { limit: 2, after: key('p/b'), atRevision: first.revision };
    const second = await readPage(store, range, read);
    expect(second.revision).toBe(first.revision);
    expect(second.more).toBe(false);
    expect(second.entries.map((entry) => entry.value)).toEqual(['old']);
  });

  test('store - history can be read down to where it was compacted', async () => {
    const { store, compact } = harness();
    const first = await write(store, put(key('a'), '1'), put(key('b'), '1'));
    const second = await write(store, put(key('a'), '2'));
    const third = await write(store, put(key('a'), '3'), { delete: key('b') });
    await compact(second);

    const range = { prefix: key('') };
    expect((await store.read(range, { atRevision: first }, CALL)).kind).toBe('compacted');
    const atSecond = await readPage(store, range, { atRevision: second });
    expect(atSecond.entries.map((entry) => entry.value)).toEqual(['2', '1']);
    const atThird = await readPage(store, range, { atRevision: third });
    expect(atThird.entries.map((entry) => entry.value)).toEqual(['3']);
    expect((await readPage(store, range)).entries).toEqual(atThird.entries);
  });
}
