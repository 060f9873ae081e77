/** The memory store: the contract of all stores, and what only it can do. */
import { describe, expect, test } from '@jest/globals';
import { type Revision, revisionOf } from '../../src/base/decimals.ts';
import { InvariantViolation } from '../../src/base/errors.ts';
import { seededRandom } from '../../src/base/random.ts';
import { type VirtualClock, virtualClock } from '../../src/base/virtual-clock.ts';
import { faultyStore } from '../../src/store/faults.ts';
import { memoryStore, type MemoryStore } from '../../src/store/memory.ts';
import { describeStoreContract } from './contract.ts';
import type { StoreHarness } from './contract/harness.ts';
import { CALL, expectCode, put, readOne, record, session, tryTxn, write } from './support.ts';

function harnessOf(clock: VirtualClock, server: MemoryStore): StoreHarness {
  return {
    store: server,
    other: server,
    prefix: 'leasehold/job/',
    ttlMs: 9000,
    expiryLagMsMax: 0,
    advance: (durationMs) => clock.advance(durationMs),
    compact: async (revision) => server.compact(revision),
    dispose: async () => {
      await server.close();
      expect(clock.pendingTimers).toBe(0);
    },
  };
}

describeStoreContract('memory', async () => {
  const clock = virtualClock();
  return harnessOf(clock, memoryStore({ clock }));
});

describeStoreContract('memory with expiry lag', async () => {
  const clock = virtualClock();
  const random = seededRandom(1);
  const server = memoryStore({ clock, random, expiryLagMsMax: 500 });
  return { ...harnessOf(clock, server), expiryLagMsMax: 500 };
});

describeStoreContract('memory behind a client without faults', async () => {
  const clock = virtualClock();
  const server = memoryStore({ clock });
  const client = () => faultyStore(server, { clock, random: seededRandom(1) });
  return { ...harnessOf(clock, server), store: client(), other: client() };
});

describe('memory store', () => {
  const make = (options: Partial<Parameters<typeof memoryStore>[0]> = {}) => {
    const clock = virtualClock();
    return { clock, store: memoryStore({ clock, ...options }) };
  };
  const mine = session('mine');

  test('memory store - an empty store is at revision 1, like etcd', async () => {
    const { store } = make();
    expect(store.revision).toBe('1');
    expect(await write(store, put('a', '1'))).toBe('2');
    expect(store.compactedRevision).toBe('0');
  });

  test('memory store - a watcher never runs inside the call of a writer', async () => {
    const { store, clock } = make();
    const watch = record(store.watch({ prefix: '' }, revisionOf(2)));
    store.put('a', '1');
    store.put('b', '1');
    expect(watch.events).toEqual([]);
    await clock.settle();
    expect(watch.events).toHaveLength(2);
  });

  test('memory store - all watchers see the commits in one order', async () => {
    const { store, clock } = make();
    const seen: string[] = [];
    const follow = (name: string, prefix: string) =>
      store.watch({ prefix }, revisionOf(2)).subscribe({
        next: (event) => {
          if (event.kind === 'changes') seen.push(`${name}${event.revision}`);
        },
      });
    follow('x', 'a');
    follow('y', '');
    store.put('a', '1');
    store.put('b', '1');
    store.put('a', '2');
    await clock.settle();
    expect(seen).toEqual(['x2', 'y2', 'y3', 'x4', 'y4']);
  });

  test('memory store - what a watcher writes is delivered after what it was told', async () => {
    const { store, clock } = make();
    store.watch({ prefix: 'a' }, revisionOf(2)).subscribe({ next: () => void store.put('b', '1') });
    const all = record(store.watch({ prefix: '' }, revisionOf(2)));
    store.put('a', '1');
    await clock.settle();
    expect(all.changes.map((change) => change.key)).toEqual(['a', 'b']);
  });

  test('memory store - unsubscribing drops what is queued already', async () => {
    const { store, clock } = make();
    const watch = record(store.watch({ prefix: '' }, revisionOf(2)));
    store.put('a', '1');
    watch.stop();
    await clock.settle();
    expect(watch.events).toEqual([]);
    expect(store.openWatches).toBe(0);
  });

  test('memory store - the end of one watch leaves those of like prefixes and shared keys alone', async () => {
    const { store, clock } = make();
    const open = [{ prefix: 'a' }, { prefix: 'b' }, { keys: ['b'] }, { keys: ['b', 'c'] }].map(
      (range) => record(store.watch(range, revisionOf(2))),
    );
    open[0]!.stop();
    open[2]!.stop();
    store.put('b', '1');
    await clock.settle();
    expect(open.map(({ events }) => events.length)).toEqual([0, 1, 0, 1]);
    for (const watch of open) watch.stop();
    store.put('b', '2');
    await clock.settle();
    expect([store.stats.watchDeliveries, store.openWatches]).toEqual([2, 0]);
  });

  test('memory store - a watch from the compacted revision itself is told so', async () => {
    const { store, clock } = make();
    const revision = store.put('a', '1');
    store.compact(revision);
    const at = record(store.watch({ prefix: '' }, revision));
    const after = record(store.watch({ prefix: '' }, revisionOf(3)));
    await clock.settle();
    expect(at.events).toEqual([{ kind: 'compacted', revision }]);
    expect(at.isComplete).toBe(true);
    expect(after.events).toEqual([]);
    expect(store.openWatches).toBe(1);
  });

  test('memory store - history is bounded: the oldest revisions are compacted away', async () => {
    const { store } = make({ historyRevisionsMax: 10 });
    for (let count = 0; count < 5000; count += 1) store.put(`k${count % 7}`, String(count));
    expect(store.compactedRevision).toBe(revisionOf(5001 - 10));
    expect(store.history()).toHaveLength(10);
    const oldest = await store.read({ prefix: '' }, { atRevision: revisionOf(4991) }, CALL);
    expect(oldest).toMatchObject({ kind: 'page', entries: { length: 7 } });
    const older = await store.read({ prefix: '' }, { atRevision: revisionOf(4990) }, CALL);
    expect(older).toEqual({ kind: 'compacted', revision: store.revision });
  });

  test('memory store - a read of the future is answered as compacted: start over', async () => {
    const { store } = make();
    const future = await store.read({ prefix: '' }, { atRevision: revisionOf(2) }, CALL);
    expect(future).toEqual({ kind: 'compacted', revision: '1' });
  });

  test('memory store - what a correct caller never asks is a bug', async () => {
    const { store, clock } = make();
    const reading = (read: object) => store.read({ prefix: '' }, read, CALL);
    await expect(reading({ limit: 0 })).rejects.toThrow(InvariantViolation);
    await expect(reading({ limit: 1001 })).rejects.toThrow(InvariantViolation);
    await expect(reading({ atRevision: '0' })).rejects.toThrow(InvariantViolation);
    await expect(store.openSession(mine, 0, CALL)).rejects.toThrow(InvariantViolation);
    await expect(tryTxn(store, { writes: [put('', '1')] })).rejects.toThrow(InvariantViolation);
    expect(() => store.watch({ prefix: '' }, '0' as Revision)).toThrow(InvariantViolation);
    expect(() => store.compact(revisionOf(2))).toThrow(InvariantViolation);
    expect(() => memoryStore({ clock, expiryLagMsMax: 5 })).toThrow(InvariantViolation);
    expect(() => memoryStore({ clock, historyRevisionsMax: 0 })).toThrow(InvariantViolation);
  });

  test('memory store - a reset drops everything and tells every watch', async () => {
    const { store, clock } = make({ clusterId: 'east' });
    await store.openSession(mine, 100, CALL);
    store.put('a', '1', mine);
    const watches = [{ prefix: '' }, { keys: ['a'] }, { prefix: 'z' }].map((range) =>
      record(store.watch(range, revisionOf(3))),
    );
    store.put('b', '1');
    store.reset();
    store.put('fresh', '1');
    await clock.settle();

    const kinds = watches.map(({ events }) => events.map(({ kind }) => kind));
    expect(kinds).toEqual([['changes', 'reset'], ['reset'], ['reset']]);
    expect(watches.every(({ isComplete }) => isComplete)).toBe(true);
    expect(store.dump().map(({ key }) => key)).toEqual(['fresh']);
    expect([store.revision, store.clusterId, store.openWatches]).toEqual(['2', 'east-1', 0]);
    expect([store.liveSessions, clock.pendingTimers]).toEqual([[], 0]);
    await expectCode(store.keepAlive(mine, CALL), 'E_LEASE_EXPIRED');
  });

  test('memory store - a session can be ended from outside', async () => {
    const { store, clock } = make();
    await store.openSession(mine, 100, CALL);
    store.put('a', '1', mine);
    store.expireSession(mine);
    store.expireSession(mine);
    expect([store.dump(), store.revision, clock.pendingTimers]).toEqual([[], '3', 0]);
  });

  test('memory store - frozen expiry spares sessions until it is switched off', async () => {
    const { store, clock } = make();
    const other = session('other');
    await store.openSession(mine, 100, CALL);
    await store.openSession(other, 100, CALL);
    store.put('a', '1', mine);
    store.freezeExpiry(true);
    await clock.advance(1000);
    expect(store.liveSessions).toEqual([mine, other]);
    await store.keepAlive(other, CALL);
    store.freezeExpiry(false);
    await clock.advance(0);
    expect(store.liveSessions).toEqual([other]);
    expect(store.dump()).toEqual([]);
    await clock.advance(100);
    expect(store.liveSessions).toEqual([]);
  });

  test('memory store - the TTL granted may differ from the one asked', async () => {
    const { store, clock } = make({ grantTtlMs: (askedMs) => Math.max(askedMs, 500) });
    expect(await store.openSession(mine, 100, CALL)).toEqual({ ttlMs: 500 });
    await clock.advance(499);
    expect(await store.keepAlive(mine, CALL)).toEqual({ ttlMs: 500 });
    await clock.advance(500);
    expect(store.liveSessions).toEqual([]);
  });

  test('memory store - sessions expire late but never early when there is a lag', async () => {
    const { store, clock } = make({ random: seededRandom(3), expiryLagMsMax: 500 });
    const ids = Array.from({ length: 50 }, (_, index) => session(`s${index}`));
    for (const id of ids) await store.openSession(id, 100, CALL);
    await clock.advance(99);
    expect(store.liveSessions).toHaveLength(50);
    await clock.advance(251);
    const half = store.liveSessions.length;
    expect(half).toBeGreaterThan(5);
    expect(half).toBeLessThan(45);
    await clock.advance(250);
    expect(store.liveSessions).toEqual([]);
  });

  test('memory store - the audit keeps every write with its cause, past compaction and reset', async () => {
    const { store, clock } = make({ keepAudit: true, historyRevisionsMax: 1 });
    await store.openSession(mine, 100, CALL);
    await write(store, put('job/a', '1', mine), put('other/b', '1'));
    await clock.advance(100);
    store.reset();
    store.put('job/a', '2');
    const brief = store
      .history('job/')
      .map(({ cluster, revision, atMs, cause, value, session: under, replaced }) =>
        [cluster, revision, atMs, cause, value, under, replaced?.value ?? null].join(' '),
      );
    expect(brief).toEqual([
      'memory 2 0 batch 1 mine ',
      'memory 3 100 sessionEnd   1',
      'memory-1 2 100 hand 2  ',
    ]);
  });

  test('memory store - without the audit, history reaches back to the compaction', () => {
    const { store } = make();
    store.put('a', '1');
    store.put('b', '1');
    store.compact();
    store.put('a', '2');
    store.remove('a');
    store.remove('a');
    const values = store.history('a').map(({ value, replaced }) => [value, replaced?.value]);
    expect(values).toEqual([
      ['2', '1'],
      [null, '2'],
    ]);
  });

  test('memory store - its counters tell requests, outcomes, writes by class and deliveries', async () => {
    const { store, clock } = make();
    record(store.watch({ prefix: 'p/job/splits/' }, revisionOf(2)));
    await write(store, put('p/job/splits/a', '1'), put('p/job/plan', '1'));
    await tryTxn(store, {
      compares: [{ key: 'p/job/plan', target: 'modRevision', equals: revisionOf(9) }],
    });
    await store.read({ prefix: '' }, {}, CALL);
    await clock.settle();
    expect(store.stats).toEqual({
      requests: { openSession: 0, keepAlive: 0, closeSession: 0, read: 1, transact: 2, watch: 1 },
      outcomes: { committed: 1, conflict: 1, guardFailed: 0 },
      writes: { splits: 1, plan: 1 },
      watchDeliveries: 1,
    });
    const byFirst = make({ classify: (key) => key[0]! }).store;
    byFirst.put('xyz', '1');
    byFirst.remove('xyz');
    expect(byFirst.stats.writes).toEqual({ x: 2 });
  });

  test('memory store - closing ends timers and watches and refuses what comes after', async () => {
    const { store, clock } = make();
    await store.openSession(mine, 100, CALL);
    const watch = record(store.watch({ prefix: '' }, revisionOf(2)));
    store.put('a', '1', mine);
    await store.close();
    await clock.advance(1000);
    expect([clock.pendingTimers, watch.events, watch.isComplete]).toEqual([0, [], false]);
    expect(store.dump()).toHaveLength(1);
    await expectCode(store.keepAlive(mine, CALL), 'E_STORE_UNREACHABLE');
    await expectCode(readOne(store, 'a'), 'E_STORE_UNREACHABLE');
    record(store.watch({ prefix: '' }, revisionOf(2)));
    expect(store.openWatches).toBe(0);
  });

  test('memory store - a put by hand under a dead session is refused', () => {
    const { store } = make();
    expect(() => store.put('a', '1', mine)).toThrow('session mine is gone');
    expect(store.revision).toBe('1');
  });
});
