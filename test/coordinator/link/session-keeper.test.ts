import { afterEach, describe, expect, test } from '@jest/globals';
import { seededRandom } from '../../../src/base/random.ts';
import { SessionKeeper } from '../../../src/coordinator/link/session-keeper.ts';
import { StoreGate } from '../../../src/coordinator/link/store-gate.ts';
import { ChartHost } from '../../../src/coordinator/loop/chart-host.ts';
import { TimerSet } from '../../../src/coordinator/loop/timers.ts';
import { workerClock, type WorkerClock } from '../../../src/testing/worker-clock.ts';
import type { MemoryStoreOptions } from '../../../src/store/memory.ts';
import { type Parts, parts, TIMEOUT_MS } from '../../support/parts.ts';

const TTL_MS = 9_000;
/** 5 % of the life, at least 250 ms, before the store ends it (R10). */
const MARGIN_MS = 450;

interface Kept {
  readonly rig: Parts;
  readonly clock: WorkerClock;
  readonly keeper: SessionKeeper;
  readonly told: string[];
}

let open: Kept | undefined;
afterEach(() => {
  expect(open?.rig.crashes ?? []).toEqual([]);
  open = undefined;
});

function kept(options: Partial<MemoryStoreOptions> = {}): Kept {
  const rig = parts(options);
  const clock = workerClock(rig.clock);
  const timers = new TimerSet(clock);
  const gate = new StoreGate(rig.client, timers, {
    opTimeoutMs: TIMEOUT_MS,
    root: '',
    leaderKey: 'leader',
  });
  const charts = new ChartHost(
    timers,
    () => undefined,
    (error) => rig.crashes.push(error),
  );
  const told: string[] = [];
  const at = (): number => rig.clock.nowMs();
  const keeper = new SessionKeeper(
    { gate, clock: timers, random: seededRandom(3), mailbox: rig.mailbox, charts },
    { of: 'worker', ttlMs: TTL_MS },
    {
      opened: () => told.push(`opened at ${at()}`),
      unopened: () => told.push(`failed at ${at()}`),
      expired: (_, reason) => told.push(`${reason} at ${at()}`),
    },
  );
  open = { rig, clock, keeper, told };
  return open;
}

describe('a session', () => {
  test('session - is opened once and renewed before it ends, for as long as it is wanted', async () => {
    const { rig, keeper, told } = kept();
    keeper.open();
    keeper.open();
    await rig.clock.advance(10 * TTL_MS);
    expect(told).toEqual(['opened at 0']);
    expect(rig.store.liveSessions).toEqual([keeper.id]);
    expect(rig.client.counts.openSession).toBe(1);
    // A third of the life at most: one failure leaves time for two more tries.
    expect(rig.client.counts.keepAlive).toBeGreaterThanOrEqual(30);
    expect(rig.client.counts.keepAlive).toBeLessThan(40);
  });

  test('the deadline - counts from when the last answered renewal was sent, not from its answer (R10)', async () => {
    const { rig, keeper, told } = kept();
    rig.client.when('openSession').delayAnswer(900);
    rig.client.when('keepAlive').delayAnswer(900);
    keeper.open();
    await rig.clock.advance(900);
    expect(keeper.leftMs).toBe(TTL_MS - MARGIN_MS - 900);
    await rig.clock.advance(5_000);
    const renewals = rig.client.log.filter(({ call }) => call.kind === 'keepAlive');
    const answered = renewals.filter(({ atMs }) => atMs + 900 <= rig.clock.nowMs());
    const lastSentMs = answered.at(-1)!.atMs;
    rig.client.partition({ silent: true });
    const endMs = lastSentMs + TTL_MS - MARGIN_MS;
    await rig.clock.advance(endMs - rig.clock.nowMs() - 1);
    expect(keeper.isValid()).toBe(true);
    await rig.clock.advance(1);
    expect(told.at(-1)).toBe(`deadline at ${endMs}`);
    expect(keeper.id).toBeNull();
    expect(keeper.leftMs).toBe(0);
  });

  test('the deadline - comes before the store gives the keys away (R10)', async () => {
    const { rig, keeper, told } = kept();
    keeper.open();
    await rig.clock.advance(20_000);
    const id = keeper.id!;
    rig.store.put('key', 'v', id);
    rig.client.partition({ silent: true });
    while (told.length === 1) await rig.clock.advance(10);
    expect(rig.store.dump('key')).toHaveLength(1);
    await rig.clock.advance(MARGIN_MS + 20);
    expect(rig.store.dump('key')).toHaveLength(0);
  });

  test('a grant shorter than asked - counts as granted; a longer one does not count (R10)', async () => {
    const short = kept({ grantTtlMs: () => 6_000 });
    short.keeper.open();
    await short.rig.clock.advance(0);
    expect(short.keeper.leftMs).toBe(6_000 - 300);
    short.rig.client.partition({ silent: true });
    await short.rig.clock.advance(5_700);
    expect(short.told.at(-1)).toBe('deadline at 5700');
    const long = kept({ grantTtlMs: () => 60_000 });
    long.keeper.open();
    await long.rig.clock.advance(0);
    expect(long.keeper.leftMs).toBe(TTL_MS - MARGIN_MS);
  });

  test('a failed renewal - is tried again at once and costs nothing when it lands in time', async () => {
    const { rig, keeper, told } = kept();
    keeper.open();
    await rig.clock.advance(1_000);
    const rule = rig.client.when('keepAlive').loseBefore({ times: 5 });
    await rig.clock.advance(30_000);
    expect(rule.hits).toBe(5);
    expect(told).toEqual(['opened at 0']);
  });

  test('a session that is gone in the store - is reported with the first renewal that hears of it, once', async () => {
    const { rig, keeper, told } = kept();
    keeper.open();
    await rig.clock.advance(1_000);
    rig.store.expireSession(keeper.id!);
    await rig.clock.advance(TTL_MS / 3);
    expect(told).toHaveLength(2);
    expect(told[1]).toMatch(/^gone at /);
    const calls = rig.client.log.length;
    await rig.clock.advance(10 * TTL_MS);
    expect(told).toHaveLength(2);
    expect(rig.client.log).toHaveLength(calls);
  });

  test('an expired session - is never used again, whatever is answered late (R11)', async () => {
    const { rig, keeper, told } = kept();
    keeper.open();
    await rig.clock.advance(1_000);
    const id = keeper.id!;
    rig.client.when('keepAlive').delayAnswer(700);
    await rig.clock.advance(2_500);
    keeper.abandon('denied');
    await rig.clock.advance(1_000);
    expect(keeper.id).toBeNull();
    expect(keeper.isValid()).toBe(false);
    expect(told).toEqual(['opened at 0', 'denied at 3500']);
    // Its keys go at once: the store is told in the background.
    expect(rig.store.liveSessions).not.toContain(id);
    keeper.open();
    await rig.clock.advance(0);
    expect(keeper.id).not.toBe(id);
    expect(
      rig.client.log.filter(({ call, atMs }) => call.kind === 'keepAlive' && atMs > 3_500),
    ).toEqual([]);
  });

  test('isValid - notices the deadline by itself: a blocked loop fires no timers (R10)', async () => {
    const { rig, clock, keeper, told } = kept();
    keeper.open();
    await rig.clock.advance(1_000);
    clock.freeze('runs');
    await rig.clock.advance(2 * TTL_MS);
    expect(told).toEqual(['opened at 0']);
    expect(keeper.isValid()).toBe(false);
    expect(told[1]).toBe(`deadline at ${1_000 + 2 * TTL_MS}`);
    expect(keeper.stallMs).toBeGreaterThan(TTL_MS);
    clock.thaw();
    await rig.clock.advance(100);
    expect(told).toHaveLength(2);
  });

  test('a wall clock that steps - changes nothing (R10)', async () => {
    const { rig, clock, keeper, told } = kept();
    keeper.open();
    for (const step of [3_600_000, -7_200_000, 86_400_000]) {
      clock.stepWall(step);
      await rig.clock.advance(TTL_MS);
    }
    expect(told).toEqual(['opened at 0']);
  });
});

describe('opening', () => {
  test('open - is tried until it is answered, under the same id while that is young (R4)', async () => {
    const { rig, keeper, told } = kept();
    rig.client.when('openSession').loseAfter({ times: 3 });
    keeper.open();
    await rig.clock.advance(2_000);
    const ids = rig.client.log.flatMap(({ call }) =>
      call.kind === 'openSession' ? [call.id] : [],
    );
    expect(ids).toHaveLength(4);
    expect(new Set(ids).size).toBe(1);
    expect(told.slice(0, 3).every((line) => line.startsWith('failed'))).toBe(true);
    expect(told[3]).toMatch(/^opened/);
    // It has lived since the first send, not since the answer.
    expect(keeper.leftMs).toBe(TTL_MS - MARGIN_MS - rig.clock.nowMs());
  });

  test('open - that went unanswered for long goes on under a new id, and gives the old one back', async () => {
    const { rig, keeper } = kept();
    const rule = rig.client.when('openSession').loseAfter({ silent: true });
    keeper.open();
    await rig.clock.advance(TTL_MS);
    rule.remove();
    await rig.clock.advance(3_000);
    expect(keeper.id).not.toBeNull();
    await rig.clock.advance(TTL_MS);
    expect(rig.store.liveSessions).toEqual([keeper.id]);
  });

  test('open - that was given up before it was answered opens nothing, and what it may have opened is given back', async () => {
    const { rig, keeper, told } = kept();
    rig.client.when('openSession').delayAnswer(500);
    keeper.open();
    await rig.clock.advance(100);
    expect(rig.store.liveSessions).toHaveLength(1);
    keeper.stopRenewing();
    await rig.clock.advance(5_000);
    expect(told).toEqual([]);
    expect(keeper.id).toBeNull();
    expect(rig.client.counts.keepAlive).toBe(0);
    expect(rig.store.liveSessions).toEqual([]);
  });

  test('open - of a store that is replaced before it answered is put to the new one (R8)', async () => {
    const { rig, keeper, told } = kept();
    rig.client.when('openSession').loseBefore({ silent: true, times: 1 });
    keeper.open();
    await rig.clock.advance(100);
    keeper.reset();
    await rig.clock.advance(10 * TTL_MS);
    expect(told).toEqual(['opened at 200']);
    expect(rig.store.liveSessions).toEqual([keeper.id]);
  });

  test('open - of a store that forgets each session at once is asked for again without haste', async () => {
    const { rig, keeper } = kept();
    for (let round = 0; round < 10; round += 1) {
      keeper.open();
      await rig.clock.advance(200);
      const { id } = keeper;
      expect(id).not.toBeNull();
      keeper.gone(id!);
      keeper.open();
      await rig.clock.advance(1);
    }
    expect(rig.client.counts.openSession).toBe(11);
  });

  test('open - of an open session answers at once and opens no second one', async () => {
    const { rig, keeper, told } = kept();
    keeper.open();
    await rig.clock.advance(100);
    keeper.open();
    await rig.clock.advance(100);
    expect(told).toEqual(['opened at 0', 'opened at 100']);
    expect(rig.client.counts.openSession).toBe(1);
  });
});

describe('ending', () => {
  test('close - gives the session back, tells nobody and stops renewing', async () => {
    const { rig, keeper, told } = kept();
    keeper.open();
    await rig.clock.advance(100);
    await keeper.close();
    expect(rig.store.liveSessions).toEqual([]);
    await rig.clock.advance(10 * TTL_MS);
    expect(told).toEqual(['opened at 0']);
    expect(rig.client.counts.keepAlive).toBe(0);
    await keeper.close();
  });

  test('close - that is not answered resolves all the same', async () => {
    const { rig, keeper } = kept();
    keeper.open();
    await rig.clock.advance(100);
    rig.client.partition({ silent: true });
    let isClosed = false;
    void keeper.close().then(() => (isClosed = true));
    await rig.clock.advance(TIMEOUT_MS);
    expect(isClosed).toBe(true);
  });

  test('session - ends at its deadline also under a clock whose timers fire a little early (R10)', async () => {
    const { rig, clock, keeper, told } = kept();
    const setTimeout = clock.setTimeout.bind(clock);
    clock.setTimeout = (callback, delayMs) =>
      setTimeout(callback, delayMs > 2 ? delayMs - 1 : delayMs);
    keeper.open();
    await rig.clock.advance(100);
    rig.client.partition({ silent: true });
    await rig.clock.advance(TTL_MS - MARGIN_MS - 100);
    expect(told[1]).toMatch(/^deadline at /);
  });

  test('session - is given up by the worker before the store is told', async () => {
    const { rig, keeper, told } = kept();
    keeper.open();
    await rig.clock.advance(100);
    const closesWhenTold: number[] = [];
    const { length } = told;
    Object.defineProperty(told, 'push', {
      value: (...lines: string[]) => {
        closesWhenTold.push(rig.client.counts.closeSession);
        return Array.prototype.push.apply(told, lines);
      },
    });
    keeper.abandon('denied');
    expect(told).toHaveLength(length + 1);
    expect(closesWhenTold).toEqual([0]);
    await rig.clock.advance(1_000);
    expect(rig.store.liveSessions).toEqual([]);
  });

  test('a store that is replaced - ends an open session without a word to it (R8)', async () => {
    const { rig, keeper, told } = kept();
    keeper.open();
    await rig.clock.advance(100);
    keeper.reset();
    await rig.clock.advance(10 * TTL_MS);
    expect(told).toEqual(['opened at 0', 'reset at 100']);
    expect(rig.client.counts).toMatchObject({ openSession: 1, keepAlive: 0, closeSession: 0 });
  });

  test('gone - of a session that was opened before this one is nobody’s business', async () => {
    const { rig, keeper, told } = kept();
    keeper.open();
    await rig.clock.advance(100);
    const before = keeper.id!;
    keeper.abandon('closed');
    keeper.open();
    await rig.clock.advance(100);
    keeper.gone(before);
    expect(told).toEqual(['opened at 0', 'closed at 100', 'opened at 200']);
    keeper.gone(keeper.id!);
    expect(told.at(-1)).toBe('gone at 200');
  });

  test('stopRenewing - lets it run out, and says so at the deadline (R18)', async () => {
    const { rig, keeper, told } = kept();
    keeper.open();
    await rig.clock.advance(100);
    keeper.stopRenewing();
    await rig.clock.advance(TTL_MS - MARGIN_MS - 101);
    expect(keeper.isValid()).toBe(true);
    await rig.clock.advance(1);
    expect(told[1]).toBe(`deadline at ${TTL_MS - MARGIN_MS}`);
    expect(rig.client.counts.keepAlive).toBe(0);
    // Another one is renewed again.
    keeper.open();
    await rig.clock.advance(3 * TTL_MS);
    expect(told).toHaveLength(3);
  });

  test('the background end of an expired session - gives up after three tries (R11)', async () => {
    const { rig, keeper } = kept();
    keeper.open();
    await rig.clock.advance(100);
    const rule = rig.client.when('closeSession').loseBefore();
    keeper.abandon('denied');
    await rig.clock.advance(60_000);
    expect(rule.hits).toBe(3);
    // Nothing is said of a session that was never open, nor to the store.
    keeper.abandon('denied');
    await rig.clock.advance(1_000);
    expect(rule.hits).toBe(3);
    expect(keeper.id).toBeNull();
  });
});
