/** The etcd store when members, connections and the cluster itself fail. Real time; each fault is caused by the test. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { nextRevision, type Revision, revisionOf } from '../../../src/base/decimals.ts';
import { isLeaseholdError } from '../../../src/base/errors.ts';
import { type EtcdStore, etcdStore } from '../../../src/store/etcd/index.ts';
import {
  batch,
  CALL,
  expectCode,
  newest,
  put,
  readOne,
  type Recording,
  record,
  sessionNamed,
  tryTxns,
  write,
} from '../../store/support.ts';
import { until } from '../support/eventually.ts';
import { type Proxy, startProxy } from '../support/server/proxy.ts';
import { type EtcdServer, startEtcd } from '../support/server.ts';
import { patiently } from '../../support/patience.js';

let server: EtcdServer;
let tests = 0;
const proxies: Proxy[] = [];
const stores: EtcdStore[] = [];

beforeAll(async () => {
  server = await startEtcd();
});
afterAll(() => server.stop());
beforeEach(() => {
  tests += 1;
});
afterEach(async () => {
  for (const store of stores.splice(0)) await store.close();
  for (const proxy of proxies.splice(0)) await proxy.stop();
});

const key = (name: string): string => `faults/${tests}/${name}`;

function client(...endpoints: readonly string[]): EtcdStore {
  const store = etcdStore({ endpoints });
  stores.push(store);
  return store;
}

async function proxied(): Promise<Proxy> {
  const proxy = await startProxy(server);
  proxies.push(proxy);
  return proxy;
}

async function elapsed(work: Promise<unknown>): Promise<number> {
  const startMs = performance.now();
  await work;
  return performance.now() - startMs;
}

function follow(store: EtcdStore, from: Revision, prefix = key('')): Recording {
  return record(store.watch({ prefix }, from));
}

function names(watch: Recording): string[] {
  return watch.changes.map((change) => change.key.slice(key('').length));
}

/** `a0`, `a1`, .. */
function numbered(letter: string, count: number, start = 0): string[] {
  return Array.from({ length: count }, (_, index) => `${letter}${start + index}`);
}

describe('endpoints', () => {
  test('etcd store - a read finds a member that answers, whatever the first ones do', async () => {
    const hung = await proxied();
    hung.blackHole();
    const refused = 'http://127.0.0.1:1';
    expect(await elapsed(readOne(client(refused, server.endpoint), 'a'))).toBeLessThan(
      patiently(800),
    );
    // Half of the time goes to the first try.
    const tookMs = await elapsed(readOne(client(hung.endpoint, server.endpoint), 'a'));
    expect(tookMs).toBeGreaterThan(400);
    expect(tookMs).toBeLessThan(patiently(900));
    const dead = client(refused, 'http://127.0.0.1:2');
    await expectCode(readOne(dead, 'a'), 'E_STORE_UNREACHABLE');
  });

  test('etcd store - a write is tried once; the next one goes to the next member and stays there', async () => {
    const hung = await proxied();
    const other = await proxied();
    const store = client(hung.endpoint, other.endpoint);
    await write(store, put(key('a'), '1'));
    // Asked once which cluster it belongs to.
    await until(() => other.counters.accepted === 1 && other.open === 0);
    hung.blackHole();

    const lost = store.transact(batch([{ writes: [put(key('a'), '2')] }]), { timeoutMs: 300 });
    expect(await elapsed(expectCode(lost, 'E_OUTCOME_UNKNOWN'))).toBeLessThan(patiently(500));
    const { accepted } = hung.counters;
    for (const value of ['3', '4', '5']) {
      expect(await elapsed(write(store, put(key('a'), value)))).toBeLessThan(patiently(200));
    }
    await hung.heal();
    await write(store, put(key('a'), '6'));
    expect(hung.counters.accepted).toBe(accepted);
    expect((await server.gateway.get(key('a')))?.version).toBe(5n);
  });

  test('etcd store - what is answered slowly is answered all the same, within the time of its caller', async () => {
    const slow = await proxied();
    const store = client(slow.endpoint);
    const mine = sessionNamed(key('slow'));
    const patient = { timeoutMs: 5_000 };
    await write(store, put(key('a'), '1'));
    await store.openSession(mine, 30_000, CALL);
    await store.keepAlive(mine, CALL);
    slow.slow(1_500);
    const answers = [
      store.transact(batch([{ writes: [put(key('a'), '2')] }]), patient),
      store.read({ keys: [key('a')] }, {}, patient),
      store.keepAlive(mine, patient),
    ];
    const tookMs = await elapsed(Promise.all(answers));
    expect(tookMs).toBeGreaterThan(2_900);
    expect(tookMs).toBeLessThan(patiently(4_800));
    expect((await server.gateway.get(key('a')))?.version).toBe(2n);
    await slow.heal();
    await store.closeSession(mine, patient);
  });

  test('etcd store - after two seconds of silence new calls go to another member, and those before are still answered', async () => {
    const hung = await proxied();
    const store = client(hung.endpoint, server.endpoint);
    const mine = sessionNamed(key('hung'));
    const patient = { timeoutMs: 10_000 };
    await write(store, put(key('a'), '1'));
    await store.openSession(mine, 30_000, CALL);
    await store.keepAlive(mine, CALL);
    hung.hold();
    const writing = store.transact(batch([{ writes: [put(key('a'), '2')] }]), patient);
    const renewing = store.keepAlive(mine, patient);
    const readMs = await elapsed(store.read({ keys: [key('a')] }, {}, patient));
    expect(readMs).toBeGreaterThan(1_900);
    expect(readMs).toBeLessThan(patiently(2_600));
    expect(await elapsed(write(store, put(key('b'), '1')))).toBeLessThan(patiently(500));
    expect(await elapsed(store.keepAlive(mine, patient))).toBeLessThan(patiently(500));
    expect((await readOne(store, key('a')))?.value).toBe('1');

    await hung.heal();
    expect((await writing).kind).toBe('tried');
    expect(await renewing).toEqual({ ttlMs: 30_000 });
    expect((await server.gateway.get(key('a')))?.version).toBe(2n);
    // Nothing is left of the connection that was given up.
    await until(() => hung.open === 0);
    await store.closeSession(mine, CALL);
  });

  test('etcd store - a connection that never gets through its handshake is replaced', async () => {
    const hung = await proxied();
    hung.blackHole();
    const store = client(hung.endpoint);
    await expectCode(store.read({ keys: ['a'] }, {}, { timeoutMs: 300 }), 'E_STORE_UNREACHABLE');
    await hung.heal();
    expect(await elapsed(readOne(store, 'a'))).toBeLessThan(patiently(700));
  });
});

describe('unknown outcomes', () => {
  test('etcd store - a write whose answer is lost has an unknown outcome and is not repeated', async () => {
    const proxy = await proxied();
    const store = client(proxy.endpoint, server.endpoint);
    await write(store, put(key('a'), 'before'));
    proxy.blackHole('answers');
    const sent = store.transact(batch([{ writes: [put(key('a'), 'once')] }]), { timeoutMs: 400 });
    await expectCode(sent, 'E_OUTCOME_UNKNOWN');
    await sleep(500);
    expect(await server.gateway.get(key('a'))).toMatchObject({ value: 'once', version: 2n });
  });

  test('etcd store - a kill in the midst of writes loses nothing that was answered and repeats nothing', async () => {
    const store = client(server.endpoint);
    const from = nextRevision(await newest(store));
    const outcomes = new Map<string, string>();
    let isOver = false;
    const writer = async (letter: string): Promise<void> => {
      for (let index = 0; !isOver; index += 1) {
        const name = `${letter}/${index}`;
        const txn = { writes: [put(key(name), name), { delete: key(`${name}-none`) }] };
        await store.transact(batch([txn, { writes: [put(key(letter), name)] }]), CALL).then(
          () => outcomes.set(name, 'committed'),
          (error: unknown) => {
            outcomes.set(name, isLeaseholdError(error) ? error.code : String(error));
            return sleep(20);
          },
        );
      }
    };
    const writing = Promise.all(Array.from('abcdefgh').map(writer));
    await sleep(250);
    await server.kill('SIGKILL');
    await server.restart();
    await until(() => [...outcomes.values()].at(-1) === 'committed');
    isOver = true;
    await writing;

    const unknown = [...outcomes].filter(([, outcome]) => outcome === 'E_OUTCOME_UNKNOWN');
    expect(unknown.length).toBeGreaterThanOrEqual(8);
    expect(new Set(outcomes.values())).toEqual(new Set(['committed', 'E_OUTCOME_UNKNOWN']));

    await write(store, put(key('marker'), '1'));
    const history = follow(client(server.endpoint), from);
    await until(() => history.changes.at(-1)?.key === key('marker'));
    const landed = history.changes.filter((change) =>
      outcomes.has(change.key.slice(key('').length)),
    );
    const times = new Map<string, number>();
    for (const change of landed) times.set(change.key, (times.get(change.key) ?? 0) + 1);
    expect([...times.values()].filter((count) => count > 1)).toEqual([]);
    for (const [name, outcome] of outcomes) {
      if (outcome === 'committed') expect([name, times.has(key(name))]).toEqual([name, true]);
    }
    history.stop();
  });
});

describe('sessions', () => {
  test('etcd store - a renewal that is not answered is given up in time, and the next one is answered elsewhere', async () => {
    const hung = await proxied();
    const store = client(hung.endpoint, server.endpoint);
    const mine = sessionNamed('mine');
    const other = sessionNamed('other');
    await store.openSession(mine, 5_000, CALL);
    await store.openSession(other, 6_000, CALL);
    await store.keepAlive(mine, CALL);
    hung.blackHole();
    const first = store.keepAlive(mine, { timeoutMs: 300 });
    const second = store.keepAlive(other, CALL);
    expect(await elapsed(expectCode(first, 'E_STORE_UNREACHABLE'))).toBeLessThan(patiently(500));
    await expectCode(second, 'E_STORE_UNREACHABLE');
    expect(await store.keepAlive(other, CALL)).toEqual({ ttlMs: 6_000 });
    expect(await store.keepAlive(mine, CALL)).toEqual({ ttlMs: 5_000 });
    await store.closeSession(mine, CALL);
    await expectCode(store.keepAlive(mine, CALL), 'E_LEASE_EXPIRED');
    expect(await store.keepAlive(other, CALL)).toEqual({ ttlMs: 6_000 });
    await store.closeSession(other, CALL);
  });

  test('etcd store - an opening whose answer is lost is repeated by its caller and answers the same', async () => {
    const proxy = await proxied();
    const store = client(proxy.endpoint);
    const mine = sessionNamed('repeated');
    await newest(store);
    proxy.blackHole('answers');
    await expectCode(store.openSession(mine, 5_000, { timeoutMs: 200 }), 'E_OUTCOME_UNKNOWN');
    await proxy.heal();
    expect(await store.openSession(mine, 5_000, CALL)).toEqual({ ttlMs: 5_000 });
    await store.closeSession(mine, CALL);
  });

  test('etcd store - a session outlives a stopped server, and its renewals go on', async () => {
    const store = client(server.endpoint);
    const mine = sessionNamed('stopped');
    await store.openSession(mine, 5_000, CALL);
    await store.keepAlive(mine, CALL);
    server.pause();
    // A signal takes its time.
    await sleep(50);
    try {
      await expectCode(store.keepAlive(mine, { timeoutMs: 200 }), 'E_STORE_UNREACHABLE');
      await expectCode(store.read({ keys: ['a'] }, {}, { timeoutMs: 200 }), 'E_STORE_UNREACHABLE');
    } finally {
      server.resume();
    }
    expect(await store.keepAlive(mine, CALL)).toEqual({ ttlMs: 5_000 });
    await store.closeSession(mine, CALL);
  });
});

describe('watches', () => {
  test('etcd store - after a restart a watch goes on without gap or repetition', async () => {
    const store = client(server.endpoint);
    const watch = follow(store, nextRevision(await newest(store)));
    const still = follow(store, nextRevision(await newest(store)), key('nothing/'));
    await server.gateway.put(key('a0'), '1');
    await until(() => watch.events.length === 1);
    for (const round of [1, 3]) {
      await server.restart();
      await server.gateway.put(key(`a${round}`), '1');
      await server.gateway.put(key(`a${round + 1}`), '1');
    }
    await until(() => watch.events.length === 5);
    await server.gateway.put(key('a5'), '1');
    await server.gateway.put(key('nothing/a'), '1');
    await until(() => watch.events.length === 7 && still.events.length === 1);
    expect(names(watch)).toEqual([...numbered('a', 6), 'nothing/a']);
    watch.stop();
    still.stop();
  });

  test('etcd store - reconnections that are cut again and again lose nothing of a long replay', async () => {
    const proxy = await proxied();
    const store = client(proxy.endpoint);
    const watch = follow(store, nextRevision(await newest(store)));
    const writer = client(server.endpoint);
    await write(writer, put(key('a0'), '1'));
    await until(() => watch.events.length === 1);
    proxy.cut();
    for (let start = 1; start < 3_001; start += 100) {
      // One revision each, so that the replay comes in several answers.
      const all = numbered('a', 100, start).map((name) => write(writer, put(key(name), '1')));
      await Promise.all(all);
    }
    for (let round = 0; round < 8; round += 1) {
      await proxy.heal();
      const seen = watch.events.length;
      await Promise.race([sleep(40 * round), until(() => watch.events.length > seen)]);
      proxy.cut();
    }
    await proxy.heal();
    await until(() => watch.events.length >= 3_001);
    expect(new Set(names(watch)).size).toBe(3_001);
    const revisions = watch.events.map((event) => (event.kind === 'changes' ? event.revision : ''));
    expect(revisions).toEqual(
      [...new Set(revisions)].sort((a, b) => Number(BigInt(a) - BigInt(b))),
    );
    expect(watch.events).toHaveLength(3_001);
    watch.stop();
  });

  test('etcd store - a watch that was cut off while history was compacted says so and ends', async () => {
    const proxy = await proxied();
    const store = client(proxy.endpoint);
    const watch = follow(store, nextRevision(await newest(store)));
    const idle = follow(store, nextRevision(await newest(store)), key('idle/'));
    await write(store, put(key('a'), '1'));
    await until(() => watch.events.length === 1);
    proxy.cut();
    await server.gateway.put(key('a'), '2');
    await server.gateway.put(key('a'), '3');
    const last = await server.gateway.put(key('b'), '1');
    await server.gateway.compact(last);
    await proxy.heal();
    await until(() => watch.isComplete && idle.isComplete);
    const compacted = { kind: 'compacted', revision: revisionOf(last) };
    expect(watch.events.slice(1)).toEqual([compacted]);
    expect(idle.events).toEqual([compacted]);

    const again = follow(store, nextRevision(revisionOf(last)));
    await server.gateway.put(key('c'), '1');
    await until(() => again.events.length === 1);
    expect(names(again)).toEqual(['c']);
    again.stop();
  });

  test('etcd store - a stream that falls silent is replaced by one to the next member', async () => {
    const hung = await proxied();
    const store = client(hung.endpoint, server.endpoint);
    const watch = follow(store, nextRevision(await newest(store)));
    await write(store, put(key('a'), '1'));
    await until(() => watch.events.length === 1);
    hung.blackHole();
    await server.gateway.put(key('b'), '1');
    const tookMs = await elapsed(until(() => watch.events.length === 2));
    expect(tookMs).toBeLessThan(patiently(4_000));
    expect(names(watch)).toEqual(['a', 'b']);
    // Calls follow: the member is not asked again.
    expect(await elapsed(readOne(store, key('a')))).toBeLessThan(patiently(200));
    watch.stop();
  });

  test('etcd store - a stream that has nothing to tell is kept', async () => {
    const proxy = await proxied();
    const store = client(proxy.endpoint);
    const watch = follow(store, nextRevision(await newest(store)));
    const { accepted } = proxy.counters;
    await sleep(3_300);
    await server.gateway.put(key('a'), '1');
    await until(() => watch.events.length === 1);
    expect(proxy.counters.accepted - accepted).toBeLessThanOrEqual(1);
    watch.stop();
  });

  test('etcd store - a blocked event loop costs no watch', async () => {
    const proxy = await proxied();
    const store = client(proxy.endpoint);
    const watch = follow(store, nextRevision(await newest(store)));
    await write(store, put(key('a'), '1'));
    await until(() => watch.events.length === 1);
    const { accepted } = proxy.counters;
    const endMs = performance.now() + 2_600;
    while (performance.now() < endMs);
    await sleep(1_500);
    await server.gateway.put(key('b'), '1');
    await until(() => watch.events.length === 2);
    expect(proxy.counters.accepted).toBe(accepted);
    watch.stop();
  });

  test('etcd store - a watch ended while its line is down is not opened again', async () => {
    const proxy = await proxied();
    const store = client(proxy.endpoint);
    const watch = follow(store, nextRevision(await newest(store)));
    await write(store, put(key('a'), '1'));
    await until(() => watch.events.length === 1);
    proxy.cut();
    await sleep(20);
    watch.stop();
    await proxy.heal();
    const { accepted } = proxy.counters;
    await sleep(1_500);
    expect(proxy.counters.accepted).toBe(accepted);
  });
});

describe('another store', () => {
  const isReset = ({ events, isComplete }: Recording): boolean =>
    isComplete && events.at(-1)?.kind === 'reset';

  test('etcd store - when the cluster was set up anew, every watch is reset and new ones work', async () => {
    const store = client(server.endpoint);
    const watch = follow(store, nextRevision(await newest(store)));
    const idle = record(store.watch({ keys: ['elsewhere'] }, nextRevision(await newest(store))));
    await write(store, put(key('a'), '1'));
    await until(() => watch.events.length === 1);
    const { clusterId } = store;
    expect(clusterId).toBe((await server.gateway.status()).clusterId);
    await server.restartEmpty();
    await until(() => isReset(watch) && isReset(idle));
    expect([watch.events.length, idle.events.length]).toEqual([2, 1]);
    expect(store.clusterId).not.toBe(clusterId);

    expect(await readOne(store, key('a'))).toBeNull();
    const again = follow(store, nextRevision(await newest(store)));
    await write(store, put(key('b'), '1'));
    await until(() => again.events.length === 1);
    expect(again.isComplete).toBe(false);
    again.stop();
  });

  test('etcd store - a cluster of the same id that went back in time is another one', async () => {
    const store = client(server.endpoint);
    const reader = client(server.endpoint);
    await write(store, put(key('a'), '1'));
    const snapshot = await server.snapshot();
    const inTime = nextRevision(await newest(store));
    const watch = follow(store, inTime);
    // By itself it would see nothing: what it waits for is still to come.
    const quiet = follow(store, inTime, key('quiet/'));
    const { clusterId } = store;
    await tryTxns(store, [{ writes: [put(key('b'), '1')] }]);
    const last = await write(store, put(key('c'), '1'));
    await until(() => watch.events.length === 2);
    expect(await newest(reader)).toBe(last);

    await server.restartFrom(snapshot);
    await until(() => isReset(watch) && isReset(quiet));
    expect(store.clusterId).toBe(clusterId);
    expect(await readOne(store, key('c'))).toBeNull();

    // This client learns of it by the next answer alone.
    const other = record(reader.watch({ keys: [key('x')] }, inTime));
    await sleep(200);
    expect(other.events).toEqual([]);
    await readOne(reader, key('c'));
    await until(() => isReset(other));
    const fresh = follow(reader, nextRevision(await newest(reader)));
    await write(reader, put(key('d'), '1'));
    await until(() => fresh.events.length === 1);
    fresh.stop();
  });
});
