import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { LeaseholdError } from '../../../src/index.ts';
import type { SessionId } from '../../../src/base/ids.ts';
import { type Batch, BATCH_BYTES_MAX, type Compare } from '../../../src/store/port.ts';
import { type Parts, parts, putItem, type TestItem, TIMEOUT_MS } from '../../support/parts.ts';

let rig: Parts;
beforeEach(() => {
  rig = parts();
});
afterEach(() => {
  rig.batcher.close();
  rig.timers.close();
  expect(rig.crashes).toEqual([]);
});

const enqueue = (...items: TestItem[]): void => {
  for (const item of items) rig.batcher.enqueue(item);
};
const kinds = (items: readonly TestItem[]): string[] =>
  items.map(({ answers }) => answers.map(({ kind }) => kind).join() || 'open');
const many = (count: number, name = 'k'): TestItem[] =>
  Array.from({ length: count }, (_, index) => putItem(`${name}${index}`));
const keysOf = (batch: Batch): string[] =>
  batch.txns.flatMap(({ writes }) =>
    writes.map((write) => ('put' in write ? write.put : write.delete)),
  );

const hasKey =
  (key: string) =>
  ({ onConflict }: Batch['txns'][number]): boolean =>
    onConflict.includes(key);

/** An item of three operations. */
const putThree = (key: string, change: Partial<TestItem> = {}): TestItem =>
  putItem(key, 'v', {
    build: () => ({
      compares: [],
      writes: ['', '-2', '-3'].map((end) => ({ put: key + end, value: 'v', session: null })),
      onConflict: [],
    }),
    ...change,
  });

/** Lets the store fall silent for every lane. */
const silence = (): void => {
  rig.client.when('transact').loseBefore({ silent: true });
};

describe('batches', () => {
  test('items - issued in one turn travel together, each with its own answer', async () => {
    rig.store.put('k1', 'taken');
    const items = many(3);
    enqueue(...items);
    await rig.clock.settle();
    expect(rig.sent().map(keysOf)).toEqual([['k0', 'k1', 'k2']]);
    expect(kinds(items)).toEqual(['committed', 'conflict', 'committed']);
    expect(items[1]!.answers[0]).toMatchObject({ found: [{ key: 'k1', value: 'taken' }] });
  });

  test('an ephemeral key - put without a session is a bug, and is not sent (R5)', async () => {
    enqueue(putItem('lease-of-nobody'));
    await rig.clock.settle();
    expect(rig.sent()).toEqual([]);
    expect(rig.crashes.splice(0).map(String)).toEqual([expect.stringContaining('R5')]);
  });

  test('a lone item - goes out at once', async () => {
    const item = putItem('k');
    enqueue(item);
    await rig.clock.settle();
    expect(rig.clock.nowMs()).toBe(0);
    expect(kinds([item])).toEqual(['committed']);
  });

  test('items - are cut at 128 operations a batch, in order (R6)', async () => {
    const items = many(300);
    enqueue(...items);
    await rig.clock.settle();
    expect(rig.sent().map(({ txns }) => txns.length)).toEqual([127, 127, 46]);
    expect(rig.sent().flatMap(keysOf)).toEqual(items.map(({ name }) => name));
    expect(kinds(items).every((kind) => kind === 'committed')).toBe(true);
  });

  test('items - are cut by the largest transaction among them, and the store takes every one (R6)', async () => {
    const items = Array.from({ length: 130 }, (_, index) => putThree(`k${index}`));
    enqueue(...items);
    await rig.clock.settle();
    expect(rig.sent().map(({ txns }) => txns.length)).toEqual([125, 5]);
    expect(kinds(items).every((kind) => kind === 'committed')).toBe(true);
  });

  test('an item - too large for the rest of a batch goes first in the next one, and smaller ones fill this one (R6)', async () => {
    const large = putThree('large');
    const items = [...many(126), large, ...many(5, 'more')];
    enqueue(...items);
    await rig.clock.settle();
    const [first, second] = rig.sent().map(keysOf);
    expect(first).toHaveLength(127);
    expect(first?.at(-1)).toBe('more0');
    expect(second?.slice(0, 4)).toEqual(['large', 'large-2', 'large-3', 'more1']);
    expect(kinds(items).every((kind) => kind === 'committed')).toBe(true);
  });

  test('items - are cut at 1 MiB a batch, and the store takes every one (R6)', async () => {
    const items = Array.from({ length: 9 }, (_, index) =>
      putItem(`k${index}`, 'ä'.repeat(175_000)),
    );
    enqueue(...items);
    await rig.clock.settle();
    expect(rig.sent().map(({ txns }) => txns.length)).toEqual([2, 2, 2, 2, 1]);
    expect(kinds(items).every((kind) => kind === 'committed')).toBe(true);
    const bytes = rig
      .sent()
      .map((batch) =>
        batch.txns.reduce(
          (sum, { writes }) =>
            sum +
            writes.reduce(
              (all, write) => all + ('put' in write ? Buffer.byteLength(write.value) : 0),
              0,
            ),
          0,
        ),
      );
    expect(Math.max(...bytes)).toBeLessThanOrEqual(BATCH_BYTES_MAX);
  });

  test('items - that write the same key never share a batch (R5)', async () => {
    const [one, two, other] = [putItem('k', '1'), putItem('k', '2'), putItem('x')];
    enqueue(one, two, other);
    await rig.clock.settle();
    expect(rig.sent().map(keysOf)).toEqual([['k', 'x'], ['k']]);
    expect(kinds([one, two, other])).toEqual(['committed', 'conflict', 'committed']);
  });

  test('session-bound items - never travel with durable ones (R6)', async () => {
    const bound = many(3, 'bound').map((item) => ({ ...item, isSessionBound: true }));
    const durable = many(3, 'durable');
    enqueue(bound[0]!, durable[0]!, bound[1]!, durable[1]!, bound[2]!, durable[2]!);
    await rig.clock.settle();
    expect(rig.sent().map(keysOf)).toEqual([
      ['bound0', 'bound1', 'bound2'],
      ['durable0', 'durable1', 'durable2'],
    ]);
  });

  test('items - travel together only under the same guard, which is the outer compare (R19)', async () => {
    const guard = (revision: string): readonly Compare[] => [
      { key: 'leader', target: 'createRevision', equals: revision as never },
    ];
    const mine = guard(rig.store.put('leader', 'me'));
    const old = guard('1');
    const items = [
      putItem('a', 'v', { guard: mine }),
      putItem('b', 'v', { guard: old }),
      putItem('c', 'v', { guard: mine }),
      putItem('d'),
    ];
    enqueue(...items);
    await rig.clock.settle();
    // One lane is never the leader's: what has no guard goes out first.
    expect(rig.sent().map(keysOf)).toEqual([['d'], ['a', 'c'], ['b']]);
    expect(rig.sent().map((batch) => batch.guard)).toEqual([[], mine, old]);
    expect(kinds(items)).toEqual(['committed', 'guardFailed', 'committed', 'committed']);
    expect(rig.store.dump('b')).toEqual([]);
  });

  test('at most four batches - are on their way; the fifth waits for an answer', async () => {
    rig.client.when('transact').delay(100);
    enqueue(...many(600));
    await rig.clock.settle();
    expect(rig.sent()).toHaveLength(4);
    expect(rig.batcher.unsettled).toBe(600);
    await rig.clock.advance(100);
    expect(rig.sent()).toHaveLength(5);
    await rig.clock.advance(100);
    expect(rig.batcher.unsettled).toBe(0);
    expect(rig.batcher.stats).toMatchObject({ batches: 5, items: 600, unanswered: 0 });
  });

  test('leader writes - never take every lane: the commits of its own splits go on (R18)', async () => {
    const guard: readonly Compare[] = [
      { key: 'leader', target: 'createRevision', equals: rig.store.put('leader', 'me') },
    ];
    const stuck = rig.client
      .when((call) => call.kind === 'transact' && call.batch.guard.length > 0)
      .loseBefore({ silent: true });
    enqueue(...many(600, 'plan').map((item) => ({ ...item, guard })));
    await rig.clock.advance(100);
    const commit = putItem('commit');
    enqueue(commit);
    await rig.clock.settle();
    expect(stuck.hits).toBe(3);
    expect(kinds([commit])).toEqual(['committed']);
  });

  test('an item - is built when it is sent, and drops out if there is nothing to write any more', async () => {
    rig.client.when('transact').delay(100);
    enqueue(...many(4 * 127));
    await rig.clock.settle();
    const late = putItem('late');
    const gone = putItem('gone', 'v', { build: () => null });
    const over = putItem('over');
    enqueue(late, gone, over);
    await rig.clock.settle();
    expect(late.builds).toBe(0);
    over.isOver = true;
    await rig.clock.advance(200);
    expect(late.builds).toBe(1);
    expect(kinds([late, gone, over])).toEqual(['committed', 'abandoned', 'abandoned']);
    expect(over.builds).toBe(0);
  });
});

describe('unknown outcomes', () => {
  test('an unanswered item - is sent again byte for byte with its first compares, until it is answered (R1)', async () => {
    const rule = rig.client.when('transact').loseAfter({ silent: true, times: 3 });
    const item = putItem('k');
    enqueue(item);
    await rig.clock.advance(3 * TIMEOUT_MS + 2_000);
    expect(rule.hits).toBe(3);
    const sent = rig.sent().map((batch) => JSON.stringify(batch.txns[0]));
    expect(sent.length).toBe(4);
    expect(new Set(sent).size).toBe(1);
    expect(item.builds).toBe(1);
    expect(item.failures).toEqual(['E_OUTCOME_UNKNOWN', 'E_OUTCOME_UNKNOWN', 'E_OUTCOME_UNKNOWN']);
    // It had landed the first time: its own stamp is found.
    expect(item.answers).toMatchObject([{ kind: 'conflict', found: [{ key: 'k', value: 'v' }] }]);
    expect(rig.store.history('k')).toHaveLength(1);
    expect(rig.batcher.stats.unanswered).toBe(3);
  });

  test('a lane that waits to send again - does not hold up the others', async () => {
    rig.client.when('transact').loseBefore({ silent: true, times: 1 });
    const first = putItem('first');
    enqueue(first);
    await rig.clock.settle();
    const second = putItem('second');
    enqueue(second);
    await rig.clock.settle();
    expect(kinds([first, second])).toEqual(['open', 'committed']);
    await rig.clock.advance(TIMEOUT_MS + 200);
    expect(kinds([first])).toEqual(['committed']);
    expect(
      rig.transitions.map(({ id, event, from, to }) => `${id} ${event}: ${from} -> ${to}`),
    ).toEqual([
      '1 batch.submitted: idle -> writing',
      '2 batch.submitted: idle -> writing',
      '1 batch.unanswered: writing -> settling',
      '1 batch.answered: settling -> writing',
    ]);
  });

  test('an item - that no longer matters is not sent again; what shares its batch is', async () => {
    rig.client.when('transact').loseBefore({ silent: true, times: 1 });
    const [kept, dropped] = [putItem('kept'), putItem('dropped')];
    enqueue(kept, dropped);
    await rig.clock.settle();
    dropped.isOver = true;
    await rig.clock.advance(TIMEOUT_MS + 200);
    expect(kinds([kept, dropped])).toEqual(['committed', 'abandoned']);
    expect(rig.sent().map(keysOf)).toEqual([['kept', 'dropped'], ['kept']]);
  });

  test('dropStale - abandons at once what waits for its next send, and frees the lane', async () => {
    silence();
    const items = many(2);
    enqueue(...items);
    await rig.clock.advance(TIMEOUT_MS);
    expect(rig.batcher.laneStates()[0]).toEqual({ lane: 1, state: 'settling', items: 2 });
    for (const item of items) item.isOver = true;
    rig.batcher.dropStale();
    expect(kinds(items)).toEqual(['abandoned', 'abandoned']);
    expect(rig.batcher.laneStates()[0]).toEqual({ lane: 1, state: 'writing', items: 0 });
    const calls = rig.sent().length;
    await rig.clock.advance(10_000);
    expect(rig.sent()).toHaveLength(calls);
  });

  test('a disposable item - is dropped when it is not answered, never sent again (R32)', async () => {
    silence();
    const mark = putItem('mark', 'v', { isDisposable: true });
    enqueue(mark);
    await rig.clock.advance(10_000);
    expect(kinds([mark])).toEqual(['abandoned']);
    expect(rig.sent()).toHaveLength(1);
    expect(rig.batcher.laneStates().every(({ items }) => items === 0)).toBe(true);
  });

  test('a late answer - to a send that counts as unknown decides nothing; the next one does (R1)', async () => {
    rig.client.when('transact').delayAnswer(TIMEOUT_MS + 50, { times: 1 });
    const item = putItem('k');
    enqueue(item);
    await rig.clock.advance(TIMEOUT_MS + 60);
    expect(kinds([item])).toEqual(['open']);
    await rig.clock.advance(500);
    expect(kinds([item])).toEqual(['conflict']);
  });

  test('a full store - is certain: items wait and land when there is room (R7)', async () => {
    const rule = rig.client.when('transact').refuse('E_STORE_FULL');
    const items = many(3);
    enqueue(...items);
    await rig.clock.advance(30_000);
    expect(kinds(items)).toEqual(['open', 'open', 'open']);
    expect(items[0]!.failures.length).toBeGreaterThan(3);
    rule.remove();
    await rig.clock.advance(3_000);
    expect(kinds(items)).toEqual(['committed', 'committed', 'committed']);
  });
});

describe('definite errors', () => {
  test('a batch refused as a whole - is split, and each item is sent by itself (R6)', async () => {
    const dead = 'dead' as SessionId;
    const items = ['a', 'b', 'c'].map((key) =>
      putItem(key, 'v', {
        isSessionBound: true,
        ...(key === 'b'
          ? {
              build: () => ({
                compares: [],
                writes: [{ put: key, value: 'v', session: dead }],
                onConflict: [],
              }),
            }
          : {}),
      }),
    );
    enqueue(...items);
    await rig.clock.settle();
    expect(rig.sent().map(keysOf)).toEqual([['a', 'b', 'c'], ['a'], ['b'], ['c']]);
    expect(kinds(items)).toEqual(['committed', 'refused', 'committed']);
    expect(items[1]!.answers[0]).toMatchObject({ error: { code: 'E_LEASE_EXPIRED' } });
    expect(items[0]!.builds).toBe(1);
    // Nothing was written by the refused batch, so the second send was no repeat of a write.
    expect(rig.store.history('a')).toHaveLength(1);
  });

  test('an item refused for want of permission - is sent again as it was, each half second, until it is let through', async () => {
    const rule = rig.client
      .when('transact')
      .refuse(new LeaseholdError('E_STORE_DENIED', 'no access'));
    const item = putItem('k');
    enqueue(item);
    await rig.clock.advance(2_400);
    expect(kinds([item])).toEqual(['open']);
    expect(rule.hits).toBe(5);
    expect(item.failures).toEqual(Array(5).fill('E_STORE_DENIED'));
    rule.remove();
    await rig.clock.advance(100);
    expect(kinds([item])).toEqual(['committed']);
    const sent = rig.sent().map((batch) => JSON.stringify(batch.txns));
    expect([sent.length, new Set(sent).size, item.builds]).toEqual([6, 1, 1]);
  });

  test('an item refused for want of permission - settles nothing: it may have landed before (R1)', async () => {
    const lost = rig.client.when('transact').loseAfter({ times: 1 });
    const item = putItem('k');
    enqueue(item);
    await rig.clock.settle();
    lost.remove();
    const rule = rig.client
      .when('transact')
      .refuse(new LeaseholdError('E_STORE_DENIED', 'no access'));
    await rig.clock.advance(1_000);
    expect(rule.hits).toBeGreaterThan(0);
    expect(kinds([item])).toEqual(['open']);
    rule.remove();
    await rig.clock.advance(1_000);
    expect(item.answers).toMatchObject([{ kind: 'conflict', found: [{ value: 'v' }] }]);
  });

  test('an item refused for want of permission - holds up nobody, and is dropped once it no longer matters', async () => {
    rig.client
      .when((call) => call.kind === 'transact' && call.batch.txns.some(hasKey('barred')))
      .refuse(new LeaseholdError('E_STORE_DENIED', 'no access'));
    const barred = putItem('barred');
    enqueue(barred);
    await rig.clock.settle();
    const items = many(5);
    enqueue(...items);
    await rig.clock.settle();
    expect(kinds([barred, ...items])).toEqual(['open', ...Array(5).fill('committed')]);
    expect(rig.batcher.unsettled).toBe(1);
    barred.isOver = true;
    rig.batcher.dropStale();
    expect([kinds([barred]), rig.batcher.unsettled]).toEqual([['abandoned'], 0]);
    const calls = rig.sent().length;
    await rig.clock.advance(5_000);
    expect(rig.sent()).toHaveLength(calls);
  });

  test.each([
    ['that cannot wait', 'E_STORE_DENIED', { isImpatient: true }],
    ['for what no permission heals', 'E_STORE_UNSUPPORTED', {}],
  ] as const)(
    'an item refused by itself %s - is answered with the error, and told of it',
    async (_what, code, change) => {
      rig.client.when('transact').refuse(new LeaseholdError(code, 'no'));
      const item = putItem('k', 'v', change);
      enqueue(item);
      await rig.clock.advance(5_000);
      expect(item.answers).toMatchObject([{ kind: 'refused', error: { code } }]);
      expect(item.failures).toEqual([code]);
      expect(rig.sent()).toHaveLength(1);
    },
  );
});

describe('the end', () => {
  test('close - abandons what is queued, on its way and unsettled, once each; answers after it decide nothing', async () => {
    rig.client.when('transact').delay(500);
    const items = many(300);
    enqueue(...items);
    await rig.clock.settle();
    rig.batcher.close();
    expect(kinds(items).every((kind) => kind === 'abandoned')).toBe(true);
    expect(rig.batcher.laneStates().every(({ state }) => state === 'closed')).toBe(true);
    const calls = rig.sent().length;
    const late = putItem('late');
    enqueue(late);
    rig.batcher.close();
    await rig.clock.advance(60_000);
    expect(kinds([late])).toEqual(['abandoned']);
    expect(kinds(items).every((kind) => kind === 'abandoned')).toBe(true);
    expect(rig.sent()).toHaveLength(calls);
  });

  test('rest - brings lanes without work to rest, once', async () => {
    enqueue(putItem('k'));
    await rig.clock.settle();
    rig.batcher.rest();
    rig.batcher.rest();
    expect(rig.transitions.map(({ event, to }) => `${event} -> ${to}`)).toEqual([
      'batch.submitted -> writing',
      'lane.rested -> idle',
    ]);
    rig.client.when('transact').delay(100);
    enqueue(putItem('l'));
    await rig.clock.settle();
    rig.batcher.rest();
    expect(rig.batcher.laneStates()[0]).toMatchObject({ state: 'writing', items: 1 });
  });
});
