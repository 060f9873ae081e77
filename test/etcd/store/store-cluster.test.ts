/** The etcd store on three members, of which one is lost, hung or without its peers, while it works. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { nextRevision } from '../../../src/base/decimals.ts';
import { isLeaseholdError } from '../../../src/base/errors.ts';
import { type EtcdStore, etcdStore } from '../../../src/store/etcd/index.ts';
import { CALL, newest, put, record, sessionNamed, write } from '../../store/support.ts';
import { type EtcdCluster, type EtcdMember, startCluster } from '../support/server/cluster.ts';
import { patiently } from '../../support/patience.js';

let cluster: EtcdCluster;
const stores: EtcdStore[] = [];
let tests = 0;

beforeAll(async () => {
  cluster = await startCluster();
});
afterEach(async () => {
  for (const store of stores.splice(0)) await store.close();
});
afterAll(() => cluster.stop());

/** A client that asks `first` before the others. */
function clientOf(first: EtcdMember): EtcdStore {
  const others = cluster.endpoints.filter((endpoint) => endpoint !== first.endpoint);
  const store = etcdStore({ endpoints: [first.endpoint, ...others] });
  stores.push(store);
  return store;
}

/** What a client that writes, watches and renews went through. */
interface Account {
  readonly landed: string[];
  readonly unknown: string[];
  /** Longest time between two writes that were answered. */
  longestGapMs: number;
  readonly seen: readonly string[];
  readonly kinds: ReadonlySet<string>;
  readonly lostSession: boolean;
}

/** Works through `store` while `fault` is caused and for a while after it. */
async function workThrough(store: EtcdStore, fault: () => Promise<void>): Promise<Account> {
  tests += 1;
  const prefix = `cluster/${tests}/`;
  const watch = record(store.watch({ prefix }, nextRevision(await newest(store))));
  const mine = sessionNamed(prefix);
  await store.openSession(mine, 5_000, CALL);
  const [landed, unknown]: [string[], string[]] = [[], []];
  let [longestGapMs, isOver, lostSession] = [0, false, false];
  const writing = (async () => {
    let lastMs = performance.now();
    for (let index = 0; !isOver; index += 1) {
      const name = `${prefix}${index}`;
      try {
        await write(store, put(name, '1'));
        landed.push(name);
        longestGapMs = Math.max(longestGapMs, performance.now() - lastMs);
        lastMs = performance.now();
      } catch (error) {
        if (!isLeaseholdError(error) || error.code !== 'E_OUTCOME_UNKNOWN') throw error;
        unknown.push(name);
        await sleep(20);
      }
      await sleep(2);
    }
  })();
  const renewing = (async () => {
    while (!isOver) {
      const renewal = store.keepAlive(mine, { timeoutMs: 1_000 });
      await renewal.catch((error: unknown) => {
        if (isLeaseholdError(error) && error.code === 'E_LEASE_EXPIRED') lostSession = true;
      });
      await sleep(300);
    }
  })();
  await sleep(300);
  await fault();
  await sleep(1_000);
  isOver = true;
  await Promise.all([writing, renewing]);
  await write(store, put(`${prefix}end`, '1'));
  while (!watch.isComplete && watch.changes.at(-1)?.key !== `${prefix}end`) await sleep(5);
  watch.stop();
  const seen = watch.changes.map(({ key }) => key).slice(0, -1);
  const kinds = new Set(watch.events.map(({ kind }) => kind));
  return { landed, unknown, longestGapMs, seen, kinds, lostSession };
}

/** Nothing was lost, told twice or out of order, and nobody took a member that lags behind for another store. */
function expectWhole({ landed, unknown, seen, kinds, lostSession }: Account): void {
  expect([...kinds]).toEqual(['changes']);
  const known = new Set([...landed, ...unknown]);
  expect(seen.filter((name) => !known.has(name))).toEqual([]);
  expect(landed.filter((name) => !seen.includes(name))).toEqual([]);
  expect(new Set(seen).size).toBe(seen.length);
  const numbers = seen.map((name) => Number(name.split('/').at(-1)));
  // One writer: what landed is in order, but for a write that was given up and landed late.
  const inOrder = numbers.filter((number) => !unknown.some((name) => name.endsWith(`/${number}`)));
  expect(inOrder).toEqual(inOrder.toSorted((a, b) => a - b));
  expect(lostSession).toBe(false);
}

describe('three members', () => {
  test('etcd store - the death of the leading member costs an election, and nothing else', async () => {
    const leader = await cluster.leader();
    const account = await workThrough(clientOf(leader), async () => {
      await leader.kill('SIGKILL');
      await sleep(3_000);
      await leader.restart();
    });
    expectWhole(account);
    expect(account.longestGapMs).toBeLessThan(patiently(4_500));
  });

  test('etcd store - a hung member is left for one that answers', async () => {
    const [follower] = await cluster.followers();
    const account = await workThrough(clientOf(follower!), async () => {
      follower!.pause();
      await sleep(4_000);
      follower!.resume();
    });
    expectWhole(account);
    // One write waits for its whole time.
    expect(account.longestGapMs).toBeLessThan(patiently(2_000));
    expect(account.unknown.length).toBeLessThanOrEqual(2);
  });

  test('etcd store - a member that lags behind is not taken for another store', async () => {
    const [follower] = await cluster.followers();
    const store = clientOf(await cluster.leader());
    const large = 'x'.repeat(200_000);
    let lags = 0;
    for (let round = 0; round < 10 && lags < 2; round += 1) {
      const late = clientOf(follower!);
      // It knows how far the store is, and its connection stands.
      await late.read({ keys: ['a'] }, {}, CALL);
      follower!.pause();
      // A few at a time: what one disk takes within the time of a call.
      for (let index = 0; index < 60; index += 4) {
        const names = [0, 1, 2, 3].map((offset) => `cluster/lag/${index + offset}`);
        await Promise.all(names.map((name) => write(store, put(name, large))));
      }
      const from = nextRevision(await newest(store));
      const watch = record(late.watch({ prefix: 'cluster/lag/' }, from));
      await sleep(50);
      follower!.resume();
      const { revision } = await follower!.gateway.status();
      if (revision < BigInt(from) - 1n) lags += 1;
      await write(store, put('cluster/lag/end', '1'));
      while (watch.events.length === 0) await sleep(5);
      expect(watch.changes.map(({ key }) => key)).toEqual(['cluster/lag/end']);
      watch.stop();
    }
    // Otherwise this test has shown nothing.
    expect(lags).toBeGreaterThan(0);
  });

  test('etcd store - a list of which one member is down starts as any other, whichever it is', async () => {
    const [down] = await cluster.followers();
    await down!.kill('SIGKILL');
    const up = cluster.endpoints.filter((endpoint) => endpoint !== down!.endpoint);
    for (const endpoints of [
      [down!.endpoint, ...up],
      [...up, down!.endpoint],
    ]) {
      const store = etcdStore({ endpoints });
      stores.push(store);
      const startMs = performance.now();
      const watch = record(store.watch({ prefix: 'start/' }, nextRevision(await newest(store))));
      await write(store, put('start/a', '1'));
      while (watch.events.length === 0) await sleep(5);
      expect(performance.now() - startMs).toBeLessThan(patiently(1_500));
      await sleep(1_500);
      await write(store, put('start/a', '2'));
      while (watch.events.length === 1) await sleep(5);
      expect(watch.changes.map(({ entry }) => entry?.value)).toEqual(['1', '2']);
      watch.stop();
    }
    await down!.restart();
    await sleep(1_500);
    for (const store of stores) await write(store, put('start/a', '3'));
  });
});
