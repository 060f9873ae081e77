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

  test('memory store - keys are counted up to the last one that starts with the prefix', async () => {
    const { store } = make();
    for (const key of ['a', 'b\uffff', 'b\uffff\uffff', 'b\uffffx', 'c', '\uffff'])
      store.put(key, '1');
    const count = async (prefix: string, after?: string) => {
      const read = after === undefined ? {} : { after };
      const page = await store.read({ prefix }, read, CALL);
      return page.kind === 'page' ? page.count : page.kind;
    };
    const prefixes = ['', 'b', 'b\uffff', 'b\uffff\uffff', '\uffff', 'd'];
    expect(await Promise.all(prefixes.map((prefix) => count(prefix)))).toEqual([6, 3, 3, 1, 1, 0]);
    expect(await count('b', 'b\uffff')).toBe(2);
    expect(await count('b', 'a')).toBe(3);
    expect(await count('b', 'c')).toBe(0);
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

  /** A store at revision 4 with a durable key and one of a session, and a snapshot of it; then much happens. */
  const restored = async (options: Parameters<MemoryStore['restore']>[1]) => {
    const { store, clock } = make({ clusterId: 'east', keepAudit: true });
    await store.openSession(mine, 100, CALL);
    store.put('a', '1');
    store.put('m', '1', mine);
    store.put('a', '2');
    const snapshot = store.snapshot();
    await clock.advance(60);
    store.put('a', '3');
    store.put('b', '3');
    store.expireSession(mine);
    await store.openSession(session('later'), 100, CALL);
    const watches = [
      { range: { prefix: '' }, from: '5' },
      { range: { prefix: 'z' }, from: '2' },
    ].map(({ range, from }) => record(store.watch(range, from as Revision)));
    await clock.settle();
    store.restore(snapshot, options);
    await clock.settle();
    return { store, clock, snapshot, watches };
  };
  const kindsOf = (watch: { events: readonly { kind: string }[] }) =>
    watch.events.map(({ kind }) => kind);

  test('memory store - a snapshot that is restored is the store of then, under another id', async () => {
    const { store, clock, snapshot, watches } = await restored({});
    expect(snapshot).toEqual(store.snapshot());
    expect([store.clusterId, store.revision, store.compactedRevision]).toEqual([
      'east-1',
      '4',
      '4',
    ]);
    expect(await readOne(store, 'a')).toEqual({
      key: 'a',
      value: '2',
      createRevision: '2',
      modRevision: '4',
      session: null,
    });
    expect(await readOne(store, 'b')).toBeNull();
    const before = await store.read({ prefix: '' }, { atRevision: revisionOf(3) }, CALL);
    expect(before).toEqual({ kind: 'compacted', revision: '4' });
    expect(watches.map(kindsOf)).toEqual([['changes', 'changes', 'changes', 'reset'], ['reset']]);

    // Revisions are given out again, and the session has its whole life once more.
    expect(store.liveSessions).toEqual([mine]);
    expect(store.put('c', '1')).toBe('5');
    await clock.advance(99);
    expect(await store.keepAlive(mine, CALL)).toEqual({ ttlMs: 100 });
    await clock.advance(100);
    expect([store.liveSessions, store.dump().map(({ key }) => key)]).toEqual([[], ['a', 'c']]);
    await expectCode(store.keepAlive(session('later'), CALL), 'E_LEASE_EXPIRED');
  });

  test('memory store - one that is restored under its own id resets the watches that it had told more', async () => {
    const { store, watches } = await restored({ sameCluster: true });
    expect([store.clusterId, store.revision]).toEqual(['east', '4']);
    expect(watches.map((watch) => kindsOf(watch).at(-1))).toEqual(['reset', 'reset']);
    expect(watches.every(({ isComplete }) => isComplete)).toBe(true);
  });

  test('memory store - a restoration that loses nothing is noticed by nobody under its own id', async () => {
    const { store, clock } = make();
    store.put('a', '1');
    const watch = record(store.watch({ prefix: '' }, revisionOf(2)));
    store.restore(store.snapshot(), { sameCluster: true });
    store.put('a', '2');
    await clock.settle();
    expect(watch.changes.map(({ modRevision }) => modRevision)).toEqual(['2', '3']);
    const newer = store.snapshot();
    store.reset();
    const late = record(store.watch({ prefix: '' }, revisionOf(2)));
    store.restore(newer, { sameCluster: true });
    await clock.settle();
    expect(late.events).toEqual([{ kind: 'compacted', revision: '3' }]);
  });

  test('memory store - a client that was cut off notices a restoration by the id, or by a revision that is not there yet', async () => {
    for (const sameCluster of [false, true]) {
      const { store, clock } = make();
      const client = faultyStore(store, { clock, random: seededRandom(1) });
      store.put('a', '1');
      const snapshot = store.snapshot();
      const [ahead, behind] = [
        record(client.watch({ prefix: 'a' }, revisionOf(3))),
        record(client.watch({ prefix: 'z' }, revisionOf(3))),
      ];
      store.put('a', '2');
      store.put('a', '3');
      await clock.settle();
      client.partition();
      store.restore(snapshot, { sameCluster });
      store.put('z', 'new');
      client.heal();
      await clock.settle();
      expect(kindsOf(ahead)).toEqual(['changes', 'changes', 'reset']);
      // What it waits for is still to come: etcd gives away no more.
      expect(kindsOf(behind)).toEqual([sameCluster ? 'changes' : 'reset']);
    }
  });

  test('memory store - the audit of a restored store begins with what was restored, as put by hand', async () => {
    const audit = ({ store }: { store: MemoryStore }) =>
      store
        .history()
        .map(({ cluster, revision, cause, key, value }) =>
          [cluster, revision, cause, key, value].join(' '),
        );
    const other = await restored({});
    expect(audit(other).slice(-3)).toEqual([
      'east 7 sessionEnd m ',
      'east-1 3 hand m 1',
      'east-1 4 hand a 2',
    ]);
    const same = await restored({ sameCluster: true });
    same.store.put('c', '1');
    expect(audit(same).slice(-4)).toEqual([
      'east 7 sessionEnd m ',
      'east+1 3 hand m 1',
      'east+1 4 hand a 2',
      'east+1 5 hand c 1',
    ]);
    const { store } = make();
    store.put('a', '1');
    store.restore(store.snapshot());
    expect(store.history()).toEqual([]);
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
