/** Reading a whole range at one revision. */
import { describe, expect, test } from '@jest/globals';
import { InvariantViolation } from '../../src/base/errors.ts';
import { virtualClock } from '../../src/base/virtual-clock.ts';
import { memoryStore, type MemoryStore } from '../../src/store/memory.ts';
import type { Store } from '../../src/store/port.ts';
import { readAll } from '../../src/store/read-all.ts';
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
      read: async () => ({ kind: 'page', entries: [], more: true, revision: '3' as never }),
    };
    await expect(readAll(store, range, CALL)).rejects.toThrow(InvariantViolation);
  });
});
