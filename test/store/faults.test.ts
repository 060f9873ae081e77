/** A client whose connection goes wrong on demand: its calls, its rules, its end. Watches: faults-watches.test.ts */
import { describe, expect, test } from '@jest/globals';
import { ABSENT } from '../../src/base/decimals.ts';
import { type ErrorCode, InvariantViolation, LeaseholdError } from '../../src/base/errors.ts';
import { looksAt, STORE_FAILURES, type StoreFailure, writesTo } from '../../src/store/faults.ts';
import type { Store } from '../../src/store/port.ts';
import {
  batch,
  CALL,
  clientOf,
  expectCode,
  put,
  readOne,
  readPage,
  record,
  session,
  write,
} from './support.ts';

/** Sends a write and tells how it stands: `pending`, `ok` or the code of its error. */
function sendPut(client: Store, key: string, value = '1'): () => string {
  let state = 'pending';
  client.transact(batch([{ writes: [put(key, value)] }]), CALL).then(
    () => (state = 'ok'),
    (error: unknown) => (state = error instanceof LeaseholdError ? error.code : String(error)),
  );
  return () => state;
}

const mine = session('mine');

describe('faults', () => {
  test('faults - a call lost before the store is unknown for writes and unreachable for reads', async () => {
    const { client, server } = clientOf();
    client.when('any').loseBefore();
    const create = batch([{ writes: [put('a', '1')] }]);
    await expectCode(client.transact(create, CALL), 'E_OUTCOME_UNKNOWN');
    await expectCode(client.openSession(mine, 100, CALL), 'E_OUTCOME_UNKNOWN');
    await expectCode(client.keepAlive(mine, CALL), 'E_OUTCOME_UNKNOWN');
    await expectCode(client.closeSession(mine, CALL), 'E_OUTCOME_UNKNOWN');
    await expectCode(client.read({ prefix: '' }, {}, CALL), 'E_STORE_UNREACHABLE');
    expect(Object.values(server.stats.requests)).toEqual([0, 0, 0, 0, 0, 0]);
    expect(client.inFlight).toBe(0);
  });

  test('faults - a call whose answer is lost has been applied', async () => {
    const { client, server } = clientOf();
    client.when('transact').loseAfter({ times: 1 });
    const create = batch([{ writes: [put('a', '1')] }]);
    await expectCode(client.transact(create, CALL), 'E_OUTCOME_UNKNOWN');
    expect(server.dump()).toHaveLength(1);
    expect((await client.transact(create, CALL)).kind).toBe('tried');
  });

  test('faults - a refusal of the store is lost like any other answer', async () => {
    const { client } = clientOf();
    const dead = batch([{ writes: [put('a', '1', mine)] }]);
    client.when('transact').loseAfter({ times: 1 });
    await expectCode(client.transact(dead, CALL), 'E_OUTCOME_UNKNOWN');
    await expectCode(client.transact(dead, CALL), 'E_LEASE_EXPIRED');
  });

  test('faults - a bug is heard whatever the rules say', async () => {
    const { client } = clientOf();
    client.when('any').loseAfter({ silent: true });
    const twice = batch([{ writes: [put('a', '1'), put('a', '2')] }]);
    await expect(client.transact(twice, CALL)).rejects.toThrow(InvariantViolation);
    expect(client.log[0]).toMatchObject({ answer: 'crash' });
  });

  test('faults - a call lost silently is never answered', async () => {
    const { client, server, clock } = clientOf();
    client.when(writesTo((key) => key === 'a')).loseBefore({ silent: true });
    client.when(writesTo((key) => key === 'b')).loseAfter({ silent: true });
    const states = [sendPut(client, 'a'), sendPut(client, 'b'), sendPut(client, 'c')];
    await clock.advance(100_000);
    expect(states.map((state) => state())).toEqual(['pending', 'pending', 'ok']);
    expect(server.dump().map(({ key }) => key)).toEqual(['b', 'c']);
    expect([client.inFlight, clock.pendingTimers]).toEqual([2, 0]);
  });

  test('faults - a loss may be told only when the time of the call is over', async () => {
    const { client, clock } = clientOf();
    client.when('transact').loseBefore({ atTimeout: true });
    const state = sendPut(client, 'a');
    await clock.advance(CALL.timeoutMs - 1);
    expect(state()).toBe('pending');
    await clock.advance(1);
    expect(state()).toBe('E_OUTCOME_UNKNOWN');
  });

  test('faults - a client that enforces timeouts ends every call in time', async () => {
    const { client, server, clock } = clientOf({ enforceTimeouts: true });
    client.when('transact').loseBefore({ silent: true, times: 1 });
    client.when('transact').delayAnswer(CALL.timeoutMs + 1, { times: 1 });
    const states = [sendPut(client, 'a'), sendPut(client, 'b'), sendPut(client, 'c')];
    await clock.settle();
    expect(clock.pendingTimers).toBe(3);
    await clock.advance(CALL.timeoutMs - 1);
    expect(states.map((state) => state())).toEqual(['pending', 'pending', 'ok']);
    await clock.advance(2);
    expect(states.map((state) => state())).toEqual([
      'E_OUTCOME_UNKNOWN',
      'E_OUTCOME_UNKNOWN',
      'ok',
    ]);
    expect(server.dump().map(({ key }) => key)).toEqual(['b', 'c']);
    expect([client.inFlight, clock.pendingTimers]).toEqual([0, 0]);
    const answers = client.log.map(({ answer }) => answer);
    expect(answers).toEqual(['E_OUTCOME_UNKNOWN', 'E_OUTCOME_UNKNOWN', 'answered']);
    await expectCode(client.transact(batch([]), { timeoutMs: 0 }), 'E_OUTCOME_UNKNOWN');
  });

  test('faults - a write may land after its caller was told that its fate is unknown', async () => {
    const { client, server, clock } = clientOf();
    client.when('transact').lateLanding(500, { times: 1 });
    const state = sendPut(client, 'a', 'late');
    await clock.advance(499);
    expect([state(), server.dump()]).toEqual(['E_OUTCOME_UNKNOWN', []]);
    await clock.advance(1);
    expect(server.dump()).toMatchObject([{ value: 'late' }]);
  });

  test('faults - a late write whose compares no longer hold changes nothing', async () => {
    const { client, server, clock } = clientOf();
    client.when('transact').lateLanding(500, { times: 1 });
    const compares = [{ key: 'a', target: 'modRevision', equals: ABSENT }] as const;
    const late = batch([{ compares, writes: [put('a', 'late')] }]);
    await expectCode(client.transact(late, CALL), 'E_OUTCOME_UNKNOWN');
    server.put('a', 'early');
    await clock.advance(500);
    expect(server.dump()).toMatchObject([{ value: 'early' }]);
    expect(server.stats.outcomes).toMatchObject({ conflict: 1 });
  });

  test('faults - a delayed call is overtaken by one that is not', async () => {
    const { client, server, clock } = clientOf();
    client.when('transact').delay(50, { times: 1 });
    const states = [sendPut(client, 'a', 'sent first'), sendPut(client, 'a', 'sent second')];
    await clock.advance(49);
    expect(states.map((state) => state())).toEqual(['pending', 'ok']);
    expect(server.dump()).toMatchObject([{ value: 'sent second' }]);
    await clock.advance(1);
    expect(states.map((state) => state())).toEqual(['ok', 'ok']);
    expect(server.dump()).toMatchObject([{ value: 'sent first' }]);
  });

  test('faults - a delayed answer belongs to a call that was applied at once', async () => {
    const { client, server, clock } = clientOf();
    client.when('transact').delayAnswer(50);
    const state = sendPut(client, 'a');
    await clock.advance(49);
    expect([state(), server.dump().length]).toEqual(['pending', 1]);
    await clock.advance(1);
    expect(state()).toBe('ok');
  });

  test('faults - a duplicated call reaches the store twice and is answered once', async () => {
    const { client, server, clock } = clientOf();
    client.when('transact').duplicate(50);
    const state = sendPut(client, 'a');
    await clock.settle();
    expect([state(), server.revision]).toEqual(['ok', '2']);
    await clock.advance(50);
    expect([server.revision, server.stats.requests.transact]).toEqual(['3', 2]);
  });

  test('faults - a refused call certainly does nothing', async () => {
    const { client, server } = clientOf();
    client.when('transact').refuse('E_STORE_FULL', { times: 1 });
    const denied = new LeaseholdError('E_STORE_DENIED', 'no such user');
    client.when('any').refuse(denied);
    const create = batch([{ writes: [put('a', '1')] }]);
    await expectCode(client.transact(create, CALL), 'E_STORE_FULL');
    await expect(client.transact(create, CALL)).rejects.toBe(denied);
    await expectCode(client.read({ prefix: '' }, {}, CALL), 'E_STORE_DENIED');
    expect(server.stats.requests).toMatchObject({ transact: 0, read: 0 });
  });

  test('faults - pages can be made short', async () => {
    const { client, server } = clientOf();
    for (const key of ['a', 'b', 'c']) server.put(key, key);
    client.when('read').shortenPages(2);
    const range = { prefix: '' };
    expect(await readPage(client, range)).toMatchObject({ entries: { length: 2 }, more: true });
    const one = await readPage(client, range, { limit: 1, after: 'a' });
    expect(one).toMatchObject({ entries: [{ value: 'b' }], more: true });
  });
});

describe('fault rules', () => {
  test('fault rules - a matcher picks by kind, by written key, by range or by predicate', async () => {
    const { client } = clientOf();
    const hit = [
      client.when('read').refuse('E_STORE_UNREACHABLE', { times: 1 }),
      client.when(looksAt((at) => at === 'plan')).refuse('E_STORE_UNREACHABLE'),
      client.when(writesTo((key) => key.startsWith('splits/'))).refuse('E_STORE_UNREACHABLE'),
      client.when((call) => call.kind === 'keepAlive').refuse('E_STORE_UNREACHABLE'),
    ];
    await expectCode(readOne(client, 'other'), 'E_STORE_UNREACHABLE');
    await expectCode(readOne(client, 'plan'), 'E_STORE_UNREACHABLE');
    await expectCode(readPage(client, { prefix: 'plan' }), 'E_STORE_UNREACHABLE');
    expect(await readOne(client, 'other')).toBeNull();
    await expectCode(write(client, put('a', '1'), put('splits/a', '1')), 'E_STORE_UNREACHABLE');
    await expectCode(write(client, { delete: 'splits/b' }), 'E_STORE_UNREACHABLE');
    await write(client, put('a', '1'));
    await expectCode(client.keepAlive(mine, CALL), 'E_STORE_UNREACHABLE');
    expect(hit.map(({ hits }) => hits)).toEqual([1, 2, 2, 1]);
  });

  test('fault rules - the first rule that applies acts alone, until it is used up or removed', async () => {
    const { client } = clientOf();
    const first = client.when('any').refuse('E_STORE_FULL', { times: 2 });
    const second = client.when('any').refuse('E_STORE_DENIED');
    const codes = [];
    for (let count = 0; count < 3; count += 1) {
      const reading = readOne(client, 'a');
      codes.push(await reading.catch((error: unknown) => (error as LeaseholdError).code));
    }
    expect(codes).toEqual(['E_STORE_FULL', 'E_STORE_FULL', 'E_STORE_DENIED']);
    second.remove();
    expect(await readOne(client, 'a')).toBeNull();
    expect([first.hits, second.hits]).toEqual([2, 1]);
    client.when('any').loseBefore();
    client.clearRules();
    expect(await readOne(client, 'a')).toBeNull();
  });

  test('fault rules - chances and spans are drawn from the seed', async () => {
    const run = async (seed: number) => {
      const { client, clock } = clientOf({ seed });
      const rule = client.when('transact').delay([10, 30], { chance: 0.5 });
      const answeredAtMs: number[] = [];
      for (let count = 0; count < 200; count += 1) {
        void client.transact(batch([]), CALL).then(() => answeredAtMs.push(clock.nowMs()));
      }
      await clock.advance(10);
      expect(new Set(answeredAtMs)).toEqual(new Set([0]));
      await clock.advance(20);
      expect(answeredAtMs).toHaveLength(200);
      expect(answeredAtMs.filter((atMs) => atMs > 0)).toHaveLength(rule.hits);
      expect(rule.hits).toBeGreaterThan(70);
      expect(rule.hits).toBeLessThan(130);
      return answeredAtMs;
    };
    expect(await run(1)).toEqual(await run(1));
    expect(await run(1)).not.toEqual(await run(2));
  });

  test('fault rules - a rule for calls cannot be set on watches', () => {
    const { client } = clientOf();
    expect(() => client.when('watch').loseBefore()).toThrow(InvariantViolation);
    expect(() => client.when('any').loseBefore({ times: 0 })).toThrow(InvariantViolation);
  });
});

describe('partition', () => {
  test('partition - nothing passes until it heals', async () => {
    const { client, server } = clientOf();
    client.partition();
    await expectCode(write(client, put('a', '1')), 'E_OUTCOME_UNKNOWN');
    await expectCode(readOne(client, 'a'), 'E_STORE_UNREACHABLE');
    expect(server.revision).toBe('1');
    client.heal();
    await write(client, put('a', '1'));
    expect(client.log.map(({ fault, answer }) => [fault, answer])).toEqual([
      ['partition', 'E_OUTCOME_UNKNOWN'],
      ['partition', 'E_STORE_UNREACHABLE'],
      [undefined, 'answered'],
    ]);
  });

  test('partition - a silent one answers nothing, also after it has healed', async () => {
    const { client, clock } = clientOf();
    client.partition({ silent: true });
    const lost = sendPut(client, 'a');
    await clock.advance(1000);
    client.heal();
    const sent = sendPut(client, 'b');
    await clock.advance(1000);
    expect([lost(), sent(), client.inFlight]).toEqual(['pending', 'ok', 1]);
  });

  test('partition - of the requests alone, nothing is applied', async () => {
    const { client, server } = clientOf();
    client.partition({ side: 'requests' });
    await expectCode(write(client, put('a', '1')), 'E_OUTCOME_UNKNOWN');
    expect(server.dump()).toEqual([]);
  });

  test('partition - of the answers alone, everything is applied', async () => {
    const { client, server } = clientOf();
    client.partition({ side: 'answers' });
    await expectCode(write(client, put('a', '1')), 'E_OUTCOME_UNKNOWN');
    expect(server.dump()).toHaveLength(1);
  });

  test('partition - it loses what is on its way when it begins', async () => {
    const { client, server, clock } = clientOf();
    client.when(writesTo((key) => key === 'a')).delay(50);
    client.when(writesTo((key) => key === 'b')).delayAnswer(50);
    const states = [sendPut(client, 'a'), sendPut(client, 'b')];
    await clock.advance(49);
    client.partition();
    await clock.advance(1);
    expect(states.map((state) => state())).toEqual(['E_OUTCOME_UNKNOWN', 'E_OUTCOME_UNKNOWN']);
    expect(server.dump().map(({ key }) => key)).toEqual(['b']);
  });
});

describe('freeze', () => {
  test('freeze - calls made meanwhile leave on thaw, in order', async () => {
    const { client, server, clock } = clientOf();
    client.freeze();
    const states = ['1', '2', '3'].map((value) => sendPut(client, 'a', value));
    await clock.advance(1000);
    expect([server.revision, client.inFlight]).toEqual(['1', 3]);
    client.thaw();
    states.push(sendPut(client, 'a', '4'));
    await clock.settle();
    expect(states.map((state) => state())).toEqual(['ok', 'ok', 'ok', 'ok']);
    expect(server.history().map(({ value }) => value)).toEqual(['1', '2', '3', '4']);
  });

  test('freeze - calls on their way still land, and their answers wait', async () => {
    const { client, server, clock } = clientOf();
    client.when(writesTo((key) => key === 'a')).delay(50);
    const states = [sendPut(client, 'a'), sendPut(client, 'b')];
    client.freeze();
    await clock.advance(1000);
    expect(server.dump()).toHaveLength(2);
    expect(states.map((state) => state())).toEqual(['pending', 'pending']);
    client.thaw();
    await clock.settle();
    expect(states.map((state) => state())).toEqual(['ok', 'ok']);
  });

  test('freeze - what arrived is heard before anything is sent, also over two freezes', async () => {
    const { client, server, clock } = clientOf();
    const order: string[] = [];
    const note = (what: string) => () => void order.push(what);
    void client.read({ prefix: '' }, {}, CALL).then(note('answer'));
    record(client.watch({ prefix: '' }, '2' as never));
    client.freeze();
    server.put('a', '1');
    void client.transact(batch([{ writes: [put('b', '1')] }]), CALL).then(note('write'));
    await clock.settle();
    client.thaw();
    client.freeze();
    await clock.settle();
    expect([order, server.revision]).toEqual([[], '2']);
    client.thaw();
    await clock.settle();
    expect([order, server.revision]).toEqual([['answer', 'write'], '3']);
  });
});

describe('failures', () => {
  test.each(STORE_FAILURES)('failures - a write fails as told: %s', async (failure) => {
    const { client, server } = clientOf();
    const rule = client.when('transact').fail(failure, { times: 1 });
    const code = failure.split(',')[0] as ErrorCode;
    await expectCode(client.transact(batch([{ writes: [put('a', '1')] }]), CALL), code);
    expect([rule.hits, server.dump().length]).toEqual([1, failure.endsWith('landed') ? 1 : 0]);
    await write(client, put('a', '2'));
  });

  test('failures - a read has no outcome: it is unreachable where that of a write would be unknown', async () => {
    const { client } = clientOf();
    const codes: [StoreFailure, ErrorCode][] = [
      ['E_OUTCOME_UNKNOWN', 'E_STORE_UNREACHABLE'],
      ['E_OUTCOME_UNKNOWN, landed', 'E_STORE_UNREACHABLE'],
      ['E_STORE_UNSUPPORTED', 'E_STORE_UNSUPPORTED'],
    ];
    for (const [failure, code] of codes) {
      const rule = client.when('read').fail(failure);
      await expectCode(readOne(client, 'a'), code);
      rule.remove();
    }
    expect(await readOne(client, 'a')).toBeNull();
  });

  test('failures - a call that is denied certainly does nothing, until the rule ends', async () => {
    const { client, server } = clientOf();
    await client.openSession(mine, 100, CALL);
    const rule = client.when((call) => call.kind !== 'read').deny();
    await expectCode(client.transact(batch([{ writes: [put('a', '1')] }]), CALL), 'E_STORE_DENIED');
    await expectCode(client.keepAlive(mine, CALL), 'E_STORE_DENIED');
    await expectCode(client.closeSession(mine, CALL), 'E_STORE_DENIED');
    expect(await readOne(client, 'a')).toBeNull();
    expect([rule.hits, server.liveSessions, client.struck]).toEqual([3, [mine], { deny: 3 }]);
    rule.remove();
    await write(client, put('a', '1'));
  });
});

describe('faulty client', () => {
  test('faulty client - it logs and counts every call', async () => {
    const { client, clock } = clientOf({ logMax: 2 });
    await client.openSession(mine, 100, CALL);
    await clock.advance(5);
    client.when('read').loseBefore({ silent: true });
    void client.read({ prefix: 'a' }, {}, CALL);
    record(client.watch({ prefix: 'b' }, '2' as never));
    expect(client.counts).toEqual({
      openSession: 1,
      keepAlive: 0,
      closeSession: 0,
      read: 1,
      transact: 0,
      watch: 1,
    });
    expect(client.log).toMatchObject([
      { sequence: 2, atMs: 5, call: { kind: 'read' }, fault: 'loseBefore', answer: 'pending' },
      { sequence: 3, atMs: 5, call: { kind: 'watch', range: { prefix: 'b' } }, answer: 'pending' },
    ]);
  });

  test('faulty client - after close nothing is pending and nothing lands, but the store lives on', async () => {
    const { client, server, clock } = clientOf({ enforceTimeouts: true });
    client.when(writesTo((key) => key === 'late')).lateLanding(50);
    client.when(writesTo((key) => key === 'silent')).loseBefore({ silent: true });
    client.when('watch').delayEvents(50);
    const watch = record(client.watch({ prefix: '' }, '2' as never));
    const states = [sendPut(client, 'late'), sendPut(client, 'silent')];
    server.put('a', '1');
    await clock.settle();
    await client.close();
    await clock.advance(1000);

    expect(states.map((state) => state())).toEqual(['E_OUTCOME_UNKNOWN', 'E_OUTCOME_UNKNOWN']);
    expect([client.inFlight, client.openWatches, server.openWatches]).toEqual([0, 0, 0]);
    expect([clock.pendingTimers, watch.events]).toEqual([0, []]);
    expect(server.dump().map(({ key }) => key)).toEqual(['a']);
    await expectCode(readOne(client, 'a'), 'E_STORE_UNREACHABLE');
    record(client.watch({ prefix: '' }, '2' as never));
    expect(server.openWatches).toBe(0);
    expect(await readOne(server, 'a')).not.toBeNull();
  });

  test('faulty client - a frozen one that is closed hears nothing more', async () => {
    const { client, clock } = clientOf();
    client.freeze();
    const state = sendPut(client, 'a');
    await client.close();
    client.thaw();
    await clock.settle();
    expect([state(), client.inFlight]).toEqual(['pending', 0]);
  });

  test('faulty client - two clients of one store fail one by one', async () => {
    const { client, server, another } = clientOf();
    client.partition();
    await write(another(), put('a', '1'));
    await expectCode(readOne(client, 'a'), 'E_STORE_UNREACHABLE');
    expect([client.name, server.dump().length]).toEqual(['memory', 1]);
  });
});
