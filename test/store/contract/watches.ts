/** The contract of `watch`. */
import { expect, test } from '@jest/globals';
import { nextRevision, type Revision, revisionOf } from '../../../src/base/decimals.ts';
import type { Change, WatchEvent } from '../../../src/store/port.ts';
import type { Contract } from './harness.ts';
import { neverHolds, newest, put, readPage, record, tryTxns, write } from '../support.ts';

/** One letter a change, upper case for a delete, one word a revision: `ab C`. */
function spell(events: readonly WatchEvent[]): string {
  const letter = ({ key, entry }: Change): string => {
    const name = key.split('/').at(-1)!;
    return entry === null ? name.toUpperCase() : name;
  };
  return events
    .map((event) => (event.kind === 'changes' ? event.changes.map(letter).join('') : event.kind))
    .join(' ');
}

export function testWatches(contract: Contract): void {
  testStreams(contract);
  testResumption(contract);
  testEndings(contract);
}

function testStreams({ harness, key, until }: Contract): void {
  test('store - a watch tells every change of its range, one event a revision, in key order', async () => {
    const { store } = harness();
    const start = await newest(store);
    const watch = record(store.watch({ prefix: key('w/') }, nextRevision(start)));
    const first = await write(
      store,
      put(key('w/b'), '1'),
      put(key('w/a'), '1'),
      put(key('x'), '1'),
    );
    await write(store, put(key('x'), '2'));
    const third = await write(store, put(key('w/a'), '2'), { delete: key('w/b') });
    await until(() => watch.events.length === 2);
    const entry = (name: string, value: string, modRevision: Revision) => ({
      key: key(name),
      modRevision,
      entry: { key: key(name), value, createRevision: first, modRevision, session: null },
    });
    expect(watch.events).toEqual([
      {
        kind: 'changes',
        revision: first,
        changes: [entry('w/a', '1', first), entry('w/b', '1', first)],
      },
      {
        kind: 'changes',
        revision: third,
        changes: [entry('w/a', '2', third), { key: key('w/b'), modRevision: third, entry: null }],
      },
    ]);
    expect(watch.isComplete).toBe(false);
    watch.stop();
  });

  test('store - a watch of keys tells nothing of their neighbours', async () => {
    const { store } = harness();
    const keys = [key('b'), key('d'), key('b')];
    const watch = record(store.watch({ keys }, nextRevision(await newest(store))));
    await write(store, ...['a', 'b', 'b0', 'c', 'd'].map((name) => put(key(name), '1')));
    await write(store, put(key('c'), '2'));
    await write(store, { delete: key('d') });
    await until(() => watch.events.length === 2);
    expect(spell(watch.events)).toBe('bd D');
    watch.stop();
  });

  test('store - watches of the same and of overlapping ranges do not disturb each other', async () => {
    const { store, other } = harness();
    const from = nextRevision(await newest(store));
    const ranges = [{ prefix: key('') }, { prefix: key('w/') }, { prefix: key('w/') }];
    const watches = ranges.map((range) => record(store.watch(range, from)));
    const foreign = record(other.watch({ keys: [key('w/a')] }, from));
    await write(store, put(key('w/a'), '1'), put(key('b'), '1'));
    await until(() => [...watches, foreign].every((watch) => watch.events.length === 1));
    watches[1]!.stop();
    await write(other, { delete: key('w/a') });
    await until(() => [watches[0], watches[2], foreign].every((watch) => watch!.events.length > 1));
    expect(watches.map((watch) => spell(watch.events))).toEqual(['ba A', 'a', 'a A']);
    expect(spell(foreign.events)).toBe('a A');
    for (const watch of [...watches, foreign]) watch.stop();
  });

  test('store - a write that did not happen makes no event', async () => {
    const { store } = harness();
    const watch = record(store.watch({ prefix: key('') }, nextRevision(await newest(store))));
    await tryTxns(store, [
      { compares: [neverHolds(key('a'))], writes: [put(key('a'), '1')] },
      { writes: [{ delete: key('none') }] },
    ]);
    await write(store, put(key('marker'), '1'));
    await until(() => watch.events.length > 0);
    expect(watch.changes.map((change) => change.key)).toEqual([key('marker')]);
    watch.stop();
  });

  test('store - a watch that was ended hears nothing more', async () => {
    const { store } = harness();
    const from = nextRevision(await newest(store));
    const ended = record(store.watch({ prefix: key('') }, from));
    const lasting = record(store.watch({ prefix: key('') }, from));
    await write(store, put(key('a'), '1'));
    await until(() => ended.events.length === 1 && lasting.events.length === 1);
    ended.stop();
    await write(store, put(key('b'), '1'));
    await until(() => lasting.events.length === 2);
    expect(spell(ended.events)).toBe('a');
    lasting.stop();
  });
}

function testResumption({ harness, key, until }: Contract): void {
  test('store - a watch from any revision tells exactly what happened since, and goes on', async () => {
    const { store } = harness();
    const range = { prefix: key('w/') };
    const revisions = [
      await write(store, put(key('w/a'), '1')),
      await write(store, put(key('w/b'), '1'), put(key('w/c'), '1')),
      await write(store, put(key('elsewhere'), '1')),
      await write(store, { delete: key('w/b') }),
      await write(store, put(key('w/a'), '2')),
    ];
    const watches = revisions.map((from) => record(store.watch(range, from)));
    const late = record(store.watch(range, nextRevision(revisions.at(-1)!)));
    await write(store, put(key('w/d'), '1'));
    await until(() => [...watches, late].every((watch) => spell(watch.events).endsWith('d')));
    expect(watches.map((watch) => spell(watch.events))).toEqual([
      'a bc B a d',
      'bc B a d',
      'B a d',
      'B a d',
      'a d',
    ]);
    expect(spell(late.events)).toBe('d');
    for (const watch of [...watches, late]) watch.stop();
  });

  test('store - a page and a watch from the revision after it miss and repeat nothing', async () => {
    const { store, other } = harness();
    const range = { prefix: key('n/') };
    let reading = Promise.resolve<Awaited<ReturnType<typeof readPage>> | undefined>(undefined);
    for (let count = 0; count < 40; count += 1) {
      if (count === 10) reading = readPage(store, range);
      await write(other, put(key(`n/${String(count).padStart(2, '0')}`), '1'));
    }
    const page = (await reading)!;
    const watch = record(store.watch(range, nextRevision(page.revision)));
    await until(() => page.entries.length + watch.changes.length >= 40);
    expect(page.entries.length).toBeLessThan(40);
    const names = [...page.entries, ...watch.changes].map((seen) => Number(seen.key.slice(-2)));
    expect(names).toEqual(Array.from({ length: 40 }, (_, index) => index));
    watch.stop();
  });

  test('store - a compaction does not disturb a watch that is past it', async () => {
    const { store, compact } = harness();
    const watch = record(store.watch({ prefix: key('') }, nextRevision(await newest(store))));
    await write(store, put(key('a'), '1'));
    const revision = await write(store, put(key('b'), '1'));
    await until(() => watch.events.length === 2);
    await compact(revision);
    await write(store, put(key('c'), '1'));
    await until(() => watch.events.length === 3);
    expect(spell(watch.events)).toBe('a b c');
    watch.stop();
  });
}

function testEndings({ harness, key, until }: Contract): void {
  test('store - a watch from before the compaction says so, ends, and can start over', async () => {
    const { store, compact } = harness();
    const range = { prefix: key('') };
    const first = await write(store, put(key('a'), '1'));
    await write(store, put(key('a'), '2'));
    const last = await write(store, put(key('b'), '1'));
    await compact(last);
    const watch = record(store.watch(range, first));
    await until(() => watch.isComplete);
    expect(spell(watch.events)).toBe('compacted');

    const page = await readPage(store, range);
    const again = record(store.watch(range, nextRevision(page.revision)));
    await write(store, put(key('c'), '1'));
    await until(() => again.events.length > 0);
    expect(spell(again.events)).toBe('c');
    again.stop();
  });

  test('store - a watch from a revision that the store has not reached is reset', async () => {
    const { store } = harness();
    const ahead = revisionOf(BigInt(await newest(store)) + 1000n);
    const watch = record(store.watch({ prefix: key('') }, ahead));
    await until(() => watch.isComplete);
    expect(spell(watch.events)).toBe('reset');
  });
}
