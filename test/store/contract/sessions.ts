/** The contract of sessions and of the keys that hang on them. */
import { expect, test } from '@jest/globals';
import { nextRevision, type Revision } from '../../../src/base/decimals.ts';
import type { SessionId } from '../../../src/base/ids.ts';
import type { Contract } from './harness.ts';
import {
  batch,
  CALL,
  expectCode,
  neverHolds,
  newest,
  put,
  readOne,
  readPage,
  record,
  sessionNamed,
  tryTxns,
  write,
} from '../support.ts';

export function testSessions(contract: Contract): void {
  testEnds(contract);
  testAttachment(contract);
  testDeadSessions(contract);
  testTime(contract);
}

/** Room for a TTL that passes in real time. */
const REAL_TIME_MS = 60_000;

function testEnds({ harness, key, open, until }: Contract): void {
  test('store - the keys of a session vanish at one revision when it is closed', async () => {
    const { store } = harness();
    const [mine] = await open('mine');
    await write(store, put(key('c'), '1', mine), put(key('durable'), '1'));
    await write(store, put(key('a'), '1', mine));
    const last = await write(store, put(key('b'), '1', mine));
    const watch = record(store.watch({ prefix: key('') }, nextRevision(last)));

    await store.closeSession(mine!, CALL);
    const revision = nextRevision(last);
    const page = await readPage(store, { prefix: key('') });
    expect(page.entries.map((entry) => entry.key)).toEqual([key('durable')]);
    expect(page.revision).toBe(revision);
    await until(() => watch.events.length > 0);
    expect(watch.events).toEqual([
      {
        kind: 'changes',
        revision,
        changes: ['a', 'b', 'c'].map((name) => ({
          key: key(name),
          modRevision: revision,
          entry: null,
        })),
      },
    ]);
    watch.stop();
  });

  test('store - closing a session that is gone, or that has no keys, changes nothing', async () => {
    const { store } = harness();
    const revision = await newest(store);
    const [empty] = await open('empty');
    await store.closeSession(empty!, CALL);
    await store.closeSession(empty!, CALL);
    await store.closeSession(sessionNamed('never-opened'), CALL);
    expect(await newest(store)).toBe(revision);
  });

  test('store - a closed session may be opened again and starts without keys', async () => {
    const { store } = harness();
    const [mine] = await open('mine');
    await write(store, put(key('a'), 'first', mine));
    await store.closeSession(mine!, CALL);
    await open('mine');
    await write(store, put(key('b'), 'second', mine));
    expect(await readOne(store, key('a'))).toBeNull();
    expect(await readOne(store, key('b'))).toMatchObject({ value: 'second', session: mine });
  });
}

function testAttachment({ harness, key, open }: Contract): void {
  const sessionOf = async (name: string) => (await readOne(harness().store, key(name)))?.session;

  test('store - a put under another session takes the key from the first one', async () => {
    const { store } = harness();
    const [first, second] = await open('first', 'second');
    await write(store, put(key('a'), '1', first));
    await write(store, put(key('a'), '2', second));
    expect(await sessionOf('a')).toBe(second);

    await store.closeSession(first!, CALL);
    expect(await sessionOf('a')).toBe(second);
    await store.closeSession(second!, CALL);
    expect(await readOne(store, key('a'))).toBeNull();
  });

  test('store - a put without a session makes the key durable', async () => {
    const { store } = harness();
    const [mine] = await open('mine');
    await write(store, put(key('a'), '1', mine));
    await write(store, put(key('a'), '2'));
    expect(await sessionOf('a')).toBeNull();
    await store.closeSession(mine!, CALL);
    expect((await readOne(store, key('a')))?.value).toBe('2');
  });

  test('store - a deleted key no longer hangs on the session', async () => {
    const { store } = harness();
    const [mine] = await open('mine');
    await write(store, put(key('a'), '1', mine));
    await write(store, { delete: key('a') });
    const revision = await write(store, put(key('a'), 'durable'));
    await store.closeSession(mine!, CALL);
    expect(await newest(store)).toBe(revision);
    expect((await readOne(store, key('a')))?.value).toBe('durable');
  });
}

function testDeadSessions({ harness, key, open }: Contract): void {
  const gone = sessionNamed('gone-session');
  const writing = (name: string, value: string, under: SessionId | null = null) => ({
    writes: [put(key(name), value, under)],
  });

  test('store - a put under a dead session in a taken branch fails the whole batch', async () => {
    const { store } = harness();
    const before = await write(store, put(key('a'), '1'));
    const alive = writing('a', '2');
    const dead = writing('b', '1', gone);
    for (const txns of [[dead], [alive, dead], [dead, alive]]) {
      await expectCode(store.transact(batch(txns), CALL), 'E_LEASE_EXPIRED');
    }
    expect((await readOne(store, key('a')))?.value).toBe('1');
    expect(await newest(store)).toBe(before);
  });

  test('store - a put under a dead session in a branch not taken is no error', async () => {
    const { store } = harness();
    const never = [neverHolds(key('z'))];
    const dead = { compares: never, ...writing('b', '1', gone) };
    const { outcomes } = await tryTxns(store, [dead, writing('a', '1')]);
    expect(outcomes.map(({ kind }) => kind)).toEqual(['conflict', 'committed']);

    const unguarded = batch([writing('b', '1', gone)], never);
    expect((await store.transact(unguarded, CALL)).kind).toBe('guardFailed');
  });

  test('store - a closed session takes no more keys', async () => {
    const { store } = harness();
    const [mine] = await open('mine');
    await store.closeSession(mine!, CALL);
    const late = batch([writing('a', '1', mine)]);
    await expectCode(store.transact(late, CALL), 'E_LEASE_EXPIRED');
    expect(await readOne(store, key('a'))).toBeNull();
  });

  test('store - a session that is gone is not renewed', async () => {
    const { store } = harness();
    const [mine] = await open('mine');
    await store.closeSession(mine!, CALL);
    await expectCode(store.keepAlive(mine!, CALL), 'E_LEASE_EXPIRED');
    await expectCode(store.keepAlive(sessionNamed('never-opened'), CALL), 'E_LEASE_EXPIRED');
  });
}

function testTime({ harness, key, open }: Contract): void {
  const isThere = async () => (await readOne(harness().store, key('a'))) !== null;
  /** Waits until a session that was last renewed one TTL ago must have expired. */
  const lag = async () => harness().advance(harness().expiryLagMsMax + 1);

  test(
    'store - a session without renewal expires after its TTL and not before',
    async () => {
      const { store, advance, ttlMs } = harness();
      const [mine] = await open('mine');
      await write(store, put(key('a'), '1', mine));
      const before = await newest(store);
      await advance(ttlMs * 0.8);
      expect(await isThere()).toBe(true);
      await advance(ttlMs * 0.2);
      await lag();
      expect(await isThere()).toBe(false);
      expect(await newest(store)).toBe(nextRevision(before));
      await expectCode(store.keepAlive(mine!, CALL), 'E_LEASE_EXPIRED');
    },
    REAL_TIME_MS,
  );

  test(
    'store - a renewal gives the whole TTL again',
    async () => {
      const { store, advance, ttlMs } = harness();
      const [mine] = await open('mine');
      await write(store, put(key('a'), '1', mine));
      await advance(ttlMs * 0.6);
      expect(await store.keepAlive(mine!, CALL)).toEqual({ ttlMs });
      await advance(ttlMs * 0.8);
      expect(await isThere()).toBe(true);
      await advance(ttlMs * 0.2);
      await lag();
      expect(await isThere()).toBe(false);
    },
    REAL_TIME_MS,
  );

  test(
    'store - opening a session that lives answers the same and renews nothing',
    async () => {
      const { store, advance, ttlMs } = harness();
      const [mine] = await open('mine');
      await write(store, put(key('a'), '1', mine));
      await advance(ttlMs * 0.6);
      expect(await store.openSession(mine!, ttlMs, CALL)).toEqual({ ttlMs });
      expect(await isThere()).toBe(true);
      await advance(ttlMs * 0.4);
      await lag();
      expect(await isThere()).toBe(false);
    },
    REAL_TIME_MS,
  );

  test('store - opening a session that lives with another TTL answers the one it has, and ends nothing (R4)', async () => {
    const { store, ttlMs } = harness();
    const [mine] = await open('mine');
    await write(store, put(key('a'), '1', mine));
    expect(await store.openSession(mine!, ttlMs * 2, CALL)).toEqual({ ttlMs });
    expect(await store.openSession(mine!, ttlMs / 2, CALL)).toEqual({ ttlMs });
    expect(await store.keepAlive(mine!, CALL)).toEqual({ ttlMs });
    expect(await isThere()).toBe(true);
  });

  test(
    'store - an expired session deletes only the keys that hang on it now',
    async () => {
      const { store, advance, ttlMs } = harness();
      const [mine] = await open('mine');
      await write(store, put(key('a'), '1', mine), put(key('kept'), '1', mine));
      const revision: Revision = await write(store, put(key('kept'), '2'));
      await advance(ttlMs);
      await lag();
      const page = await readPage(store, { prefix: key('') });
      expect(page.entries.map((entry) => entry.key)).toEqual([key('kept')]);
      expect(page.revision).toBe(nextRevision(revision));
    },
    REAL_TIME_MS,
  );
}
