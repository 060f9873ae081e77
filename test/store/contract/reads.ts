/** The contract of `read`. */
import { expect, test } from '@jest/globals';
import { nextRevision } from '../../../src/base/decimals.ts';
import type { Contract } from './harness.ts';
import { CALL, put, readOne, readPage, write } from '../support.ts';

export function testReads({ harness, key }: Contract): void {
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

  test('store - keysOnly leaves values out and nothing else', async () => {
    const { store } = harness();
    const revision = await write(store, put(key('a'), 'long'));
    const page = await readPage(store, { prefix: key('a') }, { keysOnly: true });
    expect(page.entries).toEqual([
      { key: key('a'), value: '', createRevision: revision, modRevision: revision, session: null },
    ]);
  });

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

  test('store - a write is seen by every read that starts after its answer', async () => {
    const { store, other } = harness();
    for (const value of ['1', '2', '3', '4', '5']) {
      const revision = await write(store, put(key('a'), value));
      expect(await readOne(other, key('a'))).toMatchObject({ value, modRevision: revision });
    }
  });
}
