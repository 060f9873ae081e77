/** How the etcd store divides the time of a call between members; no etcd is needed for it. */
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { systemClock } from '../../../src/base/clock.ts';
import { LeaseholdError } from '../../../src/base/errors.ts';
import { virtualClock, type VirtualClock } from '../../../src/base/virtual-clock.ts';
import { type Call, Caller } from '../../../src/store/etcd/caller.ts';
import { Cluster } from '../../../src/store/etcd/cluster.ts';
import { Connections } from '../../../src/store/etcd/connections.ts';
import { etcdStore } from '../../../src/store/etcd/index.ts';
import { expectCode } from '../../store/support.ts';
import { freePort } from '../support/server/ports.ts';

test('etcd store - a read that goes on to the next member when its time is up is tried for a moment, and then unreachable', async () => {
  const system = systemClock();
  let atMs = 0;
  const delays: number[] = [];
  const store = etcdStore({
    // Nobody listens there.
    endpoints: [`http://127.0.0.1:${await freePort()}`, `http://127.0.0.1:${await freePort()}`],
    clock: {
      ...system,
      nowMs: () => atMs,
      setTimeout: (callback, delayMs) => {
        delays.push(delayMs);
        return system.setTimeout(callback, delayMs);
      },
    },
  });
  const answer = store.read({ keys: ['a'] }, {}, { timeoutMs: 200 });
  // As if the event loop had been blocked while the first try was on its way.
  atMs = 60_000;
  await expectCode(answer, 'E_STORE_UNREACHABLE');
  // Of each try: when its silence shows, and when it is given up.
  expect(delays).toEqual([100, 200, 2_000, 1]);
  await store.close();
});

describe('tries', () => {
  let clock: VirtualClock;
  let connections: Connections;
  let caller: Caller;
  /** Tries in the order in which they were sent: at which endpoint, when, and how to answer. */
  let tries: Sent[];

  interface Sent {
    readonly at: string;
    readonly atMs: number;
    answer(value: string): void;
    fail(error: Error): void;
  }

  function make(endpointCount: number): void {
    const names = ['a', 'b', 'c'].slice(0, endpointCount);
    const endpoints = names.map((name) => `http://${name}:1`);
    connections = new Connections({ endpoints }, clock);
    const nothing = (): void => undefined;
    const findRival = () => Promise.resolve(undefined);
    const listener = { onKnown: nothing, onReset: nothing, onMixed: nothing, findRival };
    caller = new Caller(connections, new Cluster(listener), clock);
  }

  beforeEach(() => {
    clock = virtualClock();
    tries = [];
    make(2);
  });
  afterEach(async () => {
    caller.close();
    connections.close();
    await clock.settle();
    expect(clock.pendingTimers).toBe(0);
  });

  /** A call whose answers are given by the test. */
  function call(timeoutMs: number, isLinearizable = true): Call<string> {
    return {
      name: 'test',
      timeoutMs,
      isLinearizable,
      send: () =>
        new Promise((resolve, reject) => {
          const at = connections.current().endpoint.slice('http://'.length, -2);
          tries.push({ at, atMs: clock.nowMs(), answer: resolve, fail: reject });
        }),
      header: () => null,
    };
  }

  /** What became of a call: `pending`, its answer or its code. */
  function outcome(promise: Promise<string>): () => string {
    let state = 'pending';
    promise.then(
      (value) => (state = value),
      (error: unknown) => (state = error instanceof LeaseholdError ? error.code : String(error)),
    );
    return () => state;
  }

  const sent = (): string => tries.map(({ at, atMs }) => `${at}@${atMs}`).join(' ');

  test('etcd store - a call is answered whenever its answer comes within its time', async () => {
    const write = outcome(caller.write(call(10_000)));
    await clock.advance(9_999);
    expect([write(), sent()]).toEqual(['pending', 'a@0']);
    tries[0]!.answer('late');
    await clock.settle();
    expect(write()).toBe('late');

    const lost = outcome(caller.write(call(10_000)));
    await clock.advance(9_999);
    expect(lost()).toBe('pending');
    await clock.advance(1);
    expect([lost(), tries.length]).toEqual(['E_OUTCOME_UNKNOWN', 2]);
  });

  test('etcd store - after two seconds of silence new calls go to the next member', async () => {
    void outcome(caller.write(call(10_000)));
    await clock.advance(1_999);
    void outcome(caller.write(call(10_000)));
    await clock.advance(1);
    void outcome(caller.write(call(10_000)));
    expect(sent()).toBe('a@0 a@1999 b@2000');
    // What the first member leaves unanswered does not count against the second one.
    await clock.advance(1_999);
    void outcome(caller.write(call(10_000)));
    expect(sent()).toBe('a@0 a@1999 b@2000 b@3999');
  });

  test('etcd store - a connection on which others are answered is not silent', async () => {
    const slow = outcome(caller.write(call(10_000)));
    for (let times = 0; times < 3; times += 1) {
      await clock.advance(1_500);
      void outcome(caller.write(call(10_000)));
      tries.at(-1)!.answer('quick');
      await clock.settle();
    }
    expect(tries.every(({ at }) => at === 'a')).toBe(true);
    tries[0]!.answer('slow');
    await clock.settle();
    expect(slow()).toBe('slow');

    // A member that is cut off from the others answers what need not be the newest.
    void outcome(caller.write(call(10_000)));
    await clock.advance(1_000);
    void outcome(caller.readAt(connections.current(), call(10_000, false)));
    tries.at(-1)!.answer('local');
    await clock.advance(1_000);
    void outcome(caller.write(call(10_000)));
    expect(tries.at(-1)!.at).toBe('b');
  });

  test('etcd store - a read is tried at the next member after two seconds, and its first answer counts', async () => {
    const first = outcome(caller.read(call(10_000)));
    await clock.advance(2_000);
    expect(sent()).toBe('a@0 b@2000');
    tries[0]!.answer('slow');
    await clock.settle();
    expect(first()).toBe('slow');
    // The other try is nobody's any more.
    tries[1]!.fail(new Error('ECONNRESET'));
    await clock.settle();

    const second = outcome(caller.read(call(10_000)));
    await clock.advance(2_000);
    tries.at(-1)!.answer('elsewhere');
    await clock.settle();
    expect(second()).toBe('elsewhere');
    await clock.advance(20_000);
    expect(tries).toHaveLength(4);
  });

  test('etcd store - a read that nobody answers is sent once more than there are members, and waits to the end', async () => {
    const read = outcome(caller.read(call(10_000)));
    await clock.advance(9_999);
    expect([read(), sent()]).toEqual(['pending', 'a@0 b@2000 a@4000']);
    await clock.advance(1);
    expect(read()).toBe('E_STORE_UNREACHABLE');
  });

  test('etcd store - of a short time a read leaves half to the next member', async () => {
    const read = outcome(caller.read(call(1_000)));
    await clock.advance(1_000);
    expect([read(), sent()]).toEqual(['E_STORE_UNREACHABLE', 'a@0 b@500 a@750']);
  });

  test('etcd store - a try that fails does not end those before it', async () => {
    const broken = new LeaseholdError('E_STORE_UNREACHABLE', 'broken');
    const read = outcome(caller.read(call(10_000)));
    await clock.advance(2_000);
    connections.suspect(connections.current());
    tries[1]!.fail(broken);
    await clock.settle();
    expect([read(), sent()]).toEqual(['pending', 'a@0 b@2000 a@2000']);
    connections.suspect(connections.current());
    tries[2]!.fail(broken);
    await clock.settle();
    expect([read(), tries.length]).toEqual(['pending', 3]);
    tries[0]!.answer('first');
    await clock.settle();
    expect(read()).toBe('first');
  });

  test('etcd store - a lone member is asked once more on a new connection, and both may answer', async () => {
    make(1);
    const read = outcome(caller.read(call(5_000)));
    await clock.advance(2_000);
    expect(sent()).toBe('a@0 a@2000');
    await clock.advance(1_000);
    tries[0]!.answer('slow');
    await clock.settle();
    expect(read()).toBe('slow');
  });

  test('etcd store - what is refused for a reason is not tried elsewhere', async () => {
    const read = outcome(caller.read(call(10_000)));
    tries[0]!.fail(new LeaseholdError('E_STORE_DENIED', 'no'));
    await clock.settle();
    expect([read(), tries.length]).toEqual(['E_STORE_DENIED', 1]);
  });
});
