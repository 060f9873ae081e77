/** The etcd store whose endpoints belong to two clusters, and the one whose cluster was replaced by another. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { nextRevision } from '../../../src/base/decimals.ts';
import { LeaseholdError } from '../../../src/base/errors.ts';
import { seededRandom } from '../../../src/base/random.ts';
import { virtualClock } from '../../../src/base/virtual-clock.ts';
import { type EtcdStore, etcdStore } from '../../../src/store/etcd/index.ts';
import { Survey } from '../../../src/store/etcd/survey.ts';
import {
  batch,
  CALL,
  expectCode,
  newest,
  put,
  readOne,
  record,
  type Recording,
  sessionNamed,
  write,
} from '../../store/support.ts';
import { patiently } from '../../support/patience.js';
import { until } from '../support/eventually.ts';
import { type Proxy, startProxy } from '../support/server/proxy.ts';
import { type EtcdServer, startEtcd } from '../support/server.ts';

let east: EtcdServer;
let west: EtcdServer;
const proxies: Proxy[] = [];
const stores: EtcdStore[] = [];

beforeAll(async () => {
  [east, west] = await Promise.all([startEtcd(), startEtcd()]);
});
afterEach(async () => {
  for (const store of stores.splice(0)) await store.close();
  for (const proxy of proxies.splice(0)) await proxy.stop();
});
afterAll(() => Promise.all([east.stop(), west.stop()]));

function client(...endpoints: readonly string[]): EtcdStore {
  const store = etcdStore({ endpoints });
  stores.push(store);
  return store;
}

async function proxied(server: EtcdServer): Promise<Proxy> {
  const proxy = await startProxy(server);
  proxies.push(proxy);
  return proxy;
}

/** Reads until the store is refused. */
async function refusalOf(store: EtcdStore, withinMs = 8_000): Promise<LeaseholdError> {
  const endMs = performance.now() + withinMs;
  while (performance.now() < endMs) {
    const answer = await readOne(store, 'a').catch((error: unknown) => error);
    if (answer instanceof LeaseholdError && answer.code === 'E_CLUSTERS_MIXED') return answer;
    await sleep(20);
  }
  throw new Error(`not refused within ${withinMs} ms`);
}

const kindsOf = ({ events }: Recording): string =>
  events.map((event) => (event.kind === 'refused' ? event.error.code : event.kind)).join(' ');

describe('two clusters in one list', () => {
  test('etcd store - endpoints of two clusters are refused in either order, with the ids of both', async () => {
    const ids = await Promise.all([east, west].map(({ gateway }) => gateway.status()));
    for (const endpoints of [
      [east.endpoint, west.endpoint],
      [west.endpoint, east.endpoint],
    ]) {
      const store = client(...endpoints);
      const mine = sessionNamed('mixed');
      const watch = record(store.watch({ prefix: 'mixed/' }, nextRevision(await newest(store))));
      const error = await refusalOf(store, 3_000);
      expect(error.kind).toBe('fatal');
      for (const part of [east.endpoint, west.endpoint, ...ids.map(({ clusterId }) => clusterId)]) {
        expect(error.message).toContain(part);
      }
      const calls = [
        store.transact(batch([{ writes: [put('mixed/a', '1')] }]), CALL),
        store.openSession(mine, 5_000, CALL),
        store.keepAlive(mine, CALL),
        store.closeSession(mine, CALL),
        store.read({ keys: ['mixed/a'] }, {}, CALL),
      ];
      for (const call of calls) await expectCode(call, 'E_CLUSTERS_MIXED');
      const late = record(store.watch({ prefix: 'mixed/' }, nextRevision('1' as never)));
      expect(late.events).toEqual([]);
      await until(() => watch.events.length > 0 && late.events.length > 0);
      expect([kindsOf(watch), kindsOf(late)]).toEqual(['E_CLUSTERS_MIXED', 'E_CLUSTERS_MIXED']);
      expect([watch.isComplete, late.isComplete]).toEqual([false, false]);
    }
    expect(await east.gateway.get('mixed/a')).toBeNull();
    expect(await west.gateway.get('mixed/a')).toBeNull();
  });

  test('etcd store - a member of another cluster that comes up later is found out', async () => {
    const absent = await proxied(west);
    absent.cut();
    const store = client(east.endpoint, absent.endpoint);
    for (let times = 0; times < 10; times += 1) {
      await write(store, put('late/a', '1'));
      await sleep(100);
    }
    await absent.heal();
    await refusalOf(store);
  });

  test('etcd store - of two clusters that are up by turns the second is a reset, until both are there', async () => {
    const [first, second] = [await proxied(east), await proxied(west)];
    second.cut();
    const store = client(first.endpoint, second.endpoint);
    const watch = record(store.watch({ prefix: 'turns/' }, nextRevision(await newest(store))));
    await write(store, put('turns/a', '1'));
    await until(() => watch.events.length === 1);
    first.cut();
    await second.heal();
    await until(() => watch.isComplete);
    expect(kindsOf(watch)).toBe('changes reset');
    expect(await readOne(store, 'turns/a')).toBeNull();
    const again = record(store.watch({ prefix: 'turns/' }, nextRevision(await newest(store))));
    await first.heal();
    await refusalOf(store);
    await until(() => again.events.length === 1);
    expect(kindsOf(again)).toBe('E_CLUSTERS_MIXED');
  });
});

describe('a cluster that is replaced', () => {
  test('etcd store - when no member of the old cluster is left, that is a reset, at once', async () => {
    const [first, second] = [await proxied(east), await proxied(east)];
    const store = client(first.endpoint, second.endpoint);
    const watch = record(store.watch({ prefix: 'again/' }, nextRevision(await newest(store))));
    await write(store, put('again/a', '1'));
    await until(() => watch.events.length === 1);
    const { clusterId } = store;
    await east.restartEmpty();
    const startMs = performance.now();
    await until(() => watch.isComplete);
    expect(kindsOf(watch)).toBe('changes reset');
    // The pause before the watch connects again, and one question.
    expect(performance.now() - startMs).toBeLessThan(patiently(1_800));
    expect(store.clusterId).not.toBe(clusterId);
    expect(await readOne(store, 'again/a')).toBeNull();
    await write(store, put('again/b', '1'));
  });

  test('etcd store - a member that does not answer holds a reset up for two seconds', async () => {
    const hung = await proxied(east);
    const store = client(east.endpoint, hung.endpoint);
    await write(store, put('hung/a', '1'));
    const watch = record(store.watch({ prefix: 'hung/' }, nextRevision(await newest(store))));
    hung.blackHole();
    await east.restartEmpty();
    const startMs = performance.now();
    // The answer waits for the verdict.
    const timeoutMs = patiently(8_000);
    expect(await store.read({ keys: ['hung/a'] }, {}, { timeoutMs })).toMatchObject({
      entries: [],
    });
    await until(() => watch.isComplete);
    expect(kindsOf(watch)).toBe('reset');
    // While the other one was down, this member was tried: two seconds until it is left, two until it is given up as a witness.
    expect(performance.now() - startMs).toBeLessThan(patiently(2 * 2_000 + 1_000));
  });
});

describe('the survey', () => {
  /** A survey whose members answer what `clusters` holds, on a clock that is stepped. */
  function survey(clusters: Record<string, string | undefined>) {
    const clock = virtualClock();
    const asked: string[] = [];
    const others: string[] = [];
    const made = new Survey({
      endpoints: Object.keys(clusters),
      clock,
      random: seededRandom(1),
      ask: async (endpoint) => {
        asked.push(endpoint);
        return clusters[endpoint];
      },
      onOther: async ({ endpoint, clusterId }) => {
        others.push(`${endpoint} ${clusterId}`);
      },
    });
    return { survey: made, clock, asked, others };
  }
  const known = { endpoint: 'a', clusterId: '1' };

  test('etcd store - every other member is asked once, and nobody when there is one only', async () => {
    const { survey: three, clock, asked, others } = survey({ a: '1', b: '1', c: '1' });
    three.start(known);
    await clock.advance(600_000);
    expect([asked, others, clock.pendingTimers]).toEqual([['b', 'c'], [], 0]);
    const lone = survey({ a: '1' });
    lone.survey.start(known);
    await lone.clock.settle();
    expect([lone.asked, await lone.survey.findRival(known)]).toEqual([[], undefined]);
  });

  test('etcd store - who is not reached is asked again, ever more seldom, until it answers', async () => {
    const clusters: Record<string, string | undefined> = { a: '1', b: '1', c: undefined };
    const { survey: three, clock, asked } = survey(clusters);
    three.start(known);
    await clock.advance(10_000);
    expect(asked.filter((endpoint) => endpoint === 'c').length).toBeGreaterThan(2);
    await clock.advance(600_000);
    const { length } = asked;
    await clock.advance(600_000);
    expect(asked.length - length).toBeGreaterThanOrEqual(10);
    expect(asked.length - length).toBeLessThanOrEqual(20);
    clusters.c = '1';
    await clock.advance(60_000);
    expect(clock.pendingTimers).toBe(0);
    expect(asked.filter((endpoint) => endpoint === 'b')).toHaveLength(1);
  });

  test('etcd store - a member of another cluster is told, and one that changes its mind asked again', async () => {
    const clusters: Record<string, string | undefined> = { a: '1', b: '2', c: '1' };
    const { survey: three, clock, others } = survey(clusters);
    three.start(known);
    await clock.settle();
    expect(others).toEqual(['b 2']);
    expect(await three.findRival({ endpoint: 'b', clusterId: '2' })).toEqual({
      endpoint: 'a',
      clusterId: '1',
    });
    clusters.b = '1';
    await clock.advance(2_000);
    expect([others, clock.pendingTimers]).toEqual([['b 2'], 0]);
    three.start({ endpoint: 'c', clusterId: '1' });
    three.stop();
    await clock.settle();
    expect(clock.pendingTimers).toBe(0);
  });
});
