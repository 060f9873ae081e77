import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { Grant, Progress } from '../../src/index.ts';
import { type StoreCall, writesTo } from '../../src/store/faults.ts';
import { guardProcess } from '../support/departures.ts';
import {
  finalPlan,
  Fleet,
  type HandledWorker,
  holdUntilAsked,
  ids,
  lost,
  watched,
} from '../support/fleet.ts';

let fleet: Fleet;
let guard: ReturnType<typeof guardProcess>;
beforeEach(() => {
  guard = guardProcess();
  fleet = new Fleet({ planner: finalPlan(['s1']) });
});
afterEach(async () => {
  await fleet.close();
  guard.end();
  expect(guard.caught).toEqual([]);
});

const isSplitKey = (key: string): boolean => key.includes('/splits/');

/** A worker whose grants the test holds in its own hands. */
async function granted(count = 1): Promise<{ a: HandledWorker; grants: Map<string, Grant> }> {
  const grants = new Map<string, Grant>();
  const a = fleet.worker(
    'a',
    async (grant) => {
      grants.set(grant.split.id, grant);
      await Promise.race([lost(grant), new Promise(() => undefined)]);
    },
    { config: { maxInFlight: 100 } },
  );
  await fleet.until('the grants', () => grants.size === count);
  await fleet.advance(20);
  return { a, grants };
}

const writesSplit = writesTo(isSplitKey) as (call: StoreCall) => boolean;

/** Writes of split records since `from`, and the transactions they came in. */
function splitWrites(a: HandledWorker, from: number): { batches: number; txns: number } {
  const batches = a.client.log.filter(({ sequence, call }) => sequence > from && writesSplit(call));
  const txns = batches.map(({ call }) => (call.kind === 'transact' ? call.batch.txns.length : 0));
  return { batches: batches.length, txns: txns.reduce((sum, count) => sum + count, 0) };
}

const lastCall = (a: HandledWorker): number => a.client.log.at(-1)!.sequence;

describe('commits', () => {
  test('a lone commit - is sent at once and resolves when it is durable', async () => {
    const { a, grants } = await granted();
    const from = lastCall(a);
    const commit = watched(grants.get('s1')!.commit({ watermark: 5 }));
    await fleet.advance(0);
    expect(commit.state).toBe('resolved');
    expect(splitWrites(a, from)).toEqual({ batches: 1, txns: 1 });
    expect(fleet.split('s1')?.watermark).toBe('5');
  });

  test('a commit - is not resolved before the store has answered', async () => {
    const { a, grants } = await granted();
    a.client.when(writesTo(isSplitKey)).delayAnswer(1_000);
    const commit = watched(grants.get('s1')!.commit({ watermark: 5 }));
    await fleet.advance(900);
    expect(fleet.split('s1')?.watermark).toBe('5');
    expect(commit.state).toBe('pending');
    await fleet.advance(100);
    expect(commit.state).toBe('resolved');
  });

  test('a newer commit - replaces an unsent older one, and both resolve (R38)', async () => {
    const { a, grants } = await granted();
    const grant = grants.get('s1')!;
    a.client.when(writesTo(isSplitKey)).delay(500, { times: 1 });
    const from = lastCall(a);
    const first = watched(grant.commit({ watermark: 1, state: 'one' }));
    await fleet.advance(10);
    const later = Array.from({ length: 50 }, (_, index) =>
      watched(
        grant.commit(
          index === 20 ? { watermark: index + 2, state: 'mid' } : { watermark: index + 2 },
        ),
      ),
    );
    await fleet.advance(100);
    expect([first, ...later].every(({ state }) => state === 'pending')).toBe(true);
    await fleet.advance(500);
    expect([first, ...later].every(({ state }) => state === 'resolved')).toBe(true);
    expect(splitWrites(a, from)).toEqual({ batches: 2, txns: 2 });
    expect(fleet.split('s1')).toMatchObject({ watermark: '51' });
    // A commit without a state keeps the one before it, also one that was never sent.
    expect(Buffer.from(fleet.split('s1')!.state!, 'base64').toString()).toBe('mid');
  });

  test('commits of many splits - issued together travel together', async () => {
    await fleet.close();
    fleet = new Fleet({ planner: finalPlan(ids(60)) });
    const { a, grants } = await granted(60);
    const from = lastCall(a);
    const commits = [...grants.values()].map((grant) => watched(grant.commit({ watermark: 9 })));
    await fleet.advance(0);
    expect(commits.every(({ state }) => state === 'resolved')).toBe(true);
    expect(splitWrites(a, from)).toEqual({ batches: 1, txns: 60 });
  });

  test('100 commits - cost no chart event beyond one for each lane they wake (R38)', async () => {
    const { a, grants } = await granted();
    const grant = grants.get('s1')!;
    await grant.commit({ watermark: 0 });
    const before = a.worker.status().chartEvents;
    const transitions = a.transitions.length;
    for (let index = 1; index <= 100; index += 1) {
      const commit = watched(grant.commit({ watermark: index }));
      await fleet.clock.settle();
      expect(commit.state).toBe('resolved');
    }
    expect(a.worker.status().chartEvents - before).toBe(0);
    expect(a.transitions).toHaveLength(transitions);
    // A lane that has come to rest is woken by one event; the commits after it find it awake.
    await fleet.advance(9_000);
    expect(a.worker.status().lanes[0]?.state).toBe('idle');
    const rested = a.worker.status().chartEvents;
    for (let index = 101; index <= 200; index += 1) {
      void grant.commit({ watermark: index });
      await fleet.clock.settle();
    }
    expect(a.worker.status().chartEvents - rested).toBe(1);
    // Nor does an idle worker tick its lanes: what moves are its renewals and its checks.
    await fleet.advance(9_000);
    const idle = a.transitions.length;
    await fleet.advance(90_000);
    const moved = new Set(a.transitions.slice(idle).map(({ chart }) => chart));
    expect([...moved].sort()).toEqual(['follow', 'session']);
  });

  test('a commit after lost - rejects at once and never reaches the store', async () => {
    const { a, grants } = await granted();
    const grant = grants.get('s1')!;
    fleet.store.remove(fleet.keys.lease('s1' as never));
    await fleet.until('lost', () => grant.lost.aborted);
    expect(grant.lost.reason).toMatchObject({ code: 'E_FENCED' });
    a.client.freeze();
    const calls = a.client.log.length;
    for (const attempt of [
      () => grant.commit({ watermark: 1 }),
      () => grant.complete({ watermark: 1 }),
      () => grant.complete(),
      () => grant.fail('no'),
      () => grant.release(),
    ]) {
      const outcome = watched(attempt());
      await Promise.resolve();
      await Promise.resolve();
      expect(outcome).toMatchObject({
        state: 'rejected',
        error: { code: 'E_FENCED', kind: 'fenced' },
      });
    }
    expect(a.client.log).toHaveLength(calls);
    a.client.thaw();
  });

  test('a watermark that stands still - is no fault', async () => {
    const { grants } = await granted();
    const grant = grants.get('s1')!;
    await grant.commit({ watermark: 10, state: 'a' });
    await grant.commit({ watermark: 10n, state: 'b' });
    expect(Buffer.from(fleet.split('s1')!.state!, 'base64').toString()).toBe('b');
  });
});

describe('progress', () => {
  test('watermarks - beyond 2^53 and below zero come back exactly (R43)', async () => {
    await fleet.close();
    const seen = new Map<string, Progress | null>();
    fleet = new Fleet({
      planner: finalPlan([
        { id: 'low', descriptor: '', seed: { watermark: -(2n ** 100n) } },
        { id: 'none', descriptor: '' },
        { id: 'high', descriptor: '', seed: { watermark: 2n ** 53n + 1n } },
      ]),
    });
    let isFirst = true;
    const a = fleet.worker('a', async (grant) => {
      seen.set(grant.split.id, grant.progress);
      if (isFirst && grant.split.id === 'low') await grant.commit({ watermark: -(2n ** 60n) });
      if (isFirst && grant.split.id === 'high') await grant.commit({ watermark: 10n ** 38n });
      await holdUntilAsked(grant);
    });
    await fleet.advance(1_000);
    expect(seen.get('low')).toEqual({ watermark: -(2n ** 100n), state: null });
    expect(seen.get('none')).toBeNull();
    expect(seen.get('high')).toEqual({ watermark: 2n ** 53n + 1n, state: null });
    isFirst = false;
    void a.worker.stop();
    await fleet.until('a is gone', () => a.run.state !== 'pending');
    fleet.worker('b', async (grant) => {
      seen.set(grant.split.id, grant.progress);
      await holdUntilAsked(grant);
    });
    await fleet.advance(1_000);
    expect(seen.get('low')?.watermark).toBe(-(2n ** 60n));
    expect(seen.get('high')?.watermark).toBe(10n ** 38n);
  });

  test('state - comes back byte for byte, up to 256 KiB (R43)', async () => {
    const { grants } = await granted();
    const grant = grants.get('s1')!;
    const bytes = Uint8Array.from({ length: 256 * 1024 }, (_, index) => (index * 31) % 256);
    // A view into a larger buffer hands over its own part only.
    await grant.commit({ watermark: 1, state: new Uint8Array(bytes.buffer, 3, 5) });
    expect(Buffer.from(fleet.split('s1')!.state!, 'base64')).toEqual(
      Buffer.from(bytes.slice(3, 8)),
    );
    await grant.commit({ watermark: 2, state: bytes });
    expect(new Uint8Array(Buffer.from(fleet.split('s1')!.state!, 'base64'))).toEqual(bytes);
    await grant.commit({ watermark: 3 });
    expect(fleet.split('s1')!.state).not.toBeNull();
    await expect(
      grant.commit({ watermark: 4, state: new Uint8Array(256 * 1024 + 1) }),
    ).rejects.toMatchObject({ code: 'E_PROGRESS_INVALID', kind: 'usage' });
    expect(fleet.split('s1')!.watermark).toBe('3');
  });

  test('descriptors - reach the handler as the bytes that were planned; a string is UTF-8', async () => {
    await fleet.close();
    const bytes = Uint8Array.from([0, 255, 128, 10]);
    fleet = new Fleet({
      planner: finalPlan([
        { id: 'bytes', descriptor: bytes },
        { id: 'text', descriptor: 'grün €', weight: 7 },
        { id: 'empty', descriptor: new Uint8Array() },
      ]),
    });
    const { grants } = await granted(3);
    expect(grants.get('bytes')!.split).toEqual({ id: 'bytes', descriptor: bytes, weight: 1 });
    const { descriptor, weight } = grants.get('text')!.split;
    expect(new TextDecoder().decode(descriptor)).toBe('grün €');
    expect(weight).toBe(7);
    expect(grants.get('empty')!.split.descriptor).toHaveLength(0);
  });
});

describe('endings', () => {
  test('a handler - whose complete() was refused as bad input and that returns then, has failed (R37)', async () => {
    const refused: unknown[] = [];
    fleet.worker('a', async (grant) => {
      await grant.complete({ watermark: NaN }).catch((error: unknown) => refused.push(error));
    });
    await fleet.until('a failure', () => fleet.split('s1')?.attempts === 1, 5_000);
    expect(refused[0]).toMatchObject({ code: 'E_PROGRESS_INVALID' });
    expect(fleet.split('s1')?.lastFailure?.reason).toBe('returned without completing');
  });

  test('complete() - without progress ends at the last commit, also one that is still unsent', async () => {
    const { a, grants } = await granted();
    const grant = grants.get('s1')!;
    a.client.when(writesTo(isSplitKey)).delay(200, { times: 1 });
    const commits = [grant.commit({ watermark: 5 }), grant.commit({ watermark: 8, state: 'x' })];
    const completed = watched(grant.complete());
    await fleet.advance(300);
    expect(completed.state).toBe('resolved');
    await Promise.all(commits);
    expect(fleet.split('s1')).toMatchObject({ watermark: '8', status: 'completed' });
    await fleet.until('the end', () => a.run.state !== 'pending');
    expect(a.run.value?.kind).toBe('complete');
  });

  test('complete() - of a split that was never committed leaves its watermark unset', async () => {
    const { grants } = await granted();
    await grants.get('s1')!.complete();
    expect(fleet.split('s1')).toMatchObject({ watermark: null, status: 'completed' });
  });

  test('an ended grant - takes nothing more', async () => {
    const { a, grants } = await granted();
    const grant = grants.get('s1')!;
    await grant.complete({ watermark: 4 });
    const from = lastCall(a);
    await expect(grant.commit({ watermark: 5 })).rejects.toMatchObject({
      code: expect.stringMatching(/E_FENCED|E_STOPPED/),
    });
    await expect(grant.fail('late')).rejects.toMatchObject({
      code: expect.stringMatching(/E_FENCED|E_STOPPED/),
    });
    expect(splitWrites(a, from).txns).toBe(0);
    expect(fleet.split('s1')).toMatchObject({ watermark: '4', status: 'completed', attempts: 0 });
  });
});

describe('draining', () => {
  test('draining - tells that the split is asked back, why, and that the request was withdrawn (R35)', async () => {
    const { grants } = await granted();
    const grant = grants.get('s1')!;
    expect(grant.draining).toMatchObject({ requested: false, reason: null });
    const asked = watched(grant.draining.whenRequested());
    await fleet.operator().pause();
    await fleet.advance(10);
    expect(asked.state).toBe('resolved');
    expect(grant.draining).toMatchObject({ requested: true, reason: 'paused' });
    expect(watched(grant.draining.whenRequested()).state).toBe('pending');
    await fleet.clock.settle();
    await fleet.operator().resume();
    await fleet.advance(10);
    expect(grant.draining).toMatchObject({ requested: false, reason: null });
    const again = watched(grant.draining.whenRequested());
    await fleet.advance(60_000);
    // The handler that still runs has gone on: nothing took the split from it.
    expect(again.state).toBe('pending');
    expect(grant.lost.aborted).toBe(false);
    await fleet.operator().pause();
    await fleet.advance(10);
    expect(again.state).toBe('resolved');
  });

  test('draining - whenRequested() resolves when the grant ends, so that nobody waits for ever', async () => {
    const { grants } = await granted();
    const grant = grants.get('s1')!;
    const waiting = watched(grant.draining.whenRequested());
    fleet.store.remove(fleet.keys.lease('s1' as never));
    await fleet.until('lost', () => grant.lost.aborted);
    await fleet.advance(0);
    expect(waiting.state).toBe('resolved');
    expect(grant.draining.requested).toBe(false);
  });
});
