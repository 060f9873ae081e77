import { getEventListeners } from 'node:events';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import {
  createWorker,
  type Grant,
  LeaseholdError,
  type Worker,
  type WorkerOptions,
} from '../../src/index.ts';
import { writesTo } from '../../src/store/faults.ts';
import { guardProcess } from '../support/departures.ts';
import {
  completeAtOnce,
  CONFIG,
  finalPlan,
  Fleet,
  holdUntilAsked,
  watched,
} from '../support/fleet.ts';

let fleet: Fleet;
let guard: ReturnType<typeof guardProcess>;
const workers: Worker[] = [];
beforeEach(() => {
  guard = guardProcess();
  fleet = new Fleet({ planner: finalPlan(['s1', 's2']) });
});
afterEach(async () => {
  for (const worker of workers.splice(0)) void worker.stop();
  await fleet.close();
  guard.end();
  expect(guard.caught).toEqual([]);
});

/** A worker of the fleet's store that is not started yet. */
function unstarted(id: string, options: Partial<WorkerOptions> = {}): Worker {
  const worker = createWorker({
    job: 'driven',
    store: fleet.store,
    instanceId: id,
    planner: finalPlan(['s1', 's2']),
    config: CONFIG,
    clock: fleet.clock,
    ...options,
  });
  workers.push(worker);
  return worker;
}

const codeOf = (error: unknown): unknown => (error as LeaseholdError).code;

describe('run()', () => {
  test('run() - resolves to the verdict once the worker has left', async () => {
    const a = fleet.worker('a', completeAtOnce);
    await fleet.until('the end', () => a.run.state !== 'pending');
    expect(a.run.value).toEqual({
      kind: 'complete',
      completed: 2,
      quarantined: 0,
      quarantinedIds: [],
    });
    expect(a.clock.pendingTimers).toBe(0);
    expect(a.client.openWatches).toBe(0);
    expect(await a.worker.verdict()).toBe(a.run.value);
  });

  test('run() - resolves to `stalled` with the ids of quarantined splits', async () => {
    const a = fleet.worker('a', async (grant) => {
      if (grant.split.id === 's2') throw new Error('bad data');
      await grant.complete();
    });
    await fleet.until('the end', () => a.run.state !== 'pending');
    expect(a.run.value).toMatchObject({ kind: 'stalled', completed: 1, quarantinedIds: ['s2'] });
    expect(fleet.split('s2')?.lastFailure?.reason).toBe('bad data');
  });

  test('run() - on abort drains, leaves and rejects with signal.reason, and keeps no listener', async () => {
    const abort = new AbortController();
    const reason = { why: 'deploy' };
    const worker = unstarted('a');
    const run = watched(worker.run(holdUntilAsked, { signal: abort.signal }));
    await fleet.advance(1_000);
    expect(worker.status().tenancies).toHaveLength(2);
    expect(getEventListeners(abort.signal, 'abort')).toHaveLength(1);
    abort.abort(reason);
    await fleet.until('the end', () => run.state !== 'pending');
    expect(run.error).toBe(reason);
    expect(getEventListeners(abort.signal, 'abort')).toHaveLength(0);
    expect(fleet.store.dump('leasehold/driven/leases/')).toEqual([]);
    expect((await worker.stop()).released).toEqual(['s1', 's2']);
  });

  test('run() - with a signal that has fired rejects with its reason and starts nothing', async () => {
    const worker = unstarted('a');
    const run = watched(worker.run(holdUntilAsked, { signal: AbortSignal.abort('too late') }));
    await fleet.advance(1_000);
    expect(run.error).toBe('too late');
    expect(worker.status().presence).toBe('unstarted');
    expect(fleet.store.dump('leasehold/')).toEqual([]);
  });

  test('run() - keeps the listener of a signal off after a verdict and after stop()', async () => {
    const { signal } = new AbortController();
    const done = watched(unstarted('a').run(completeAtOnce, { signal }));
    await fleet.until('the verdict', () => done.state === 'resolved');
    const stopping = unstarted('b', { job: 'other' });
    const stopped = watched(stopping.run(holdUntilAsked, { signal }));
    await fleet.advance(500);
    void stopping.stop();
    await fleet.until('the stop', () => stopped.state === 'rejected');
    expect(codeOf(stopped.error)).toBe('E_STOPPED');
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  });

  test('run() and grants() - a second call is refused with E_ALREADY_STARTED, and the first goes on', async () => {
    const a = fleet.worker('a', holdUntilAsked);
    await expect(a.worker.run(holdUntilAsked)).rejects.toMatchObject({ code: 'E_ALREADY_STARTED' });
    expect(() => a.worker.grants()).toThrow(expect.objectContaining({ code: 'E_ALREADY_STARTED' }));
    const b = unstarted('b');
    b.grants();
    await expect(b.run(holdUntilAsked)).rejects.toMatchObject({ code: 'E_ALREADY_STARTED' });
    await fleet.until('a works', () => fleet.leasesOf('a').length === 2);
    expect(a.run.state).toBe('pending');
    const seam = fleet.seam('c');
    expect(() => seam.coordinator.start()).toThrow(
      expect.objectContaining({ code: 'E_ALREADY_STARTED' }),
    );
  });

  test('run() - rejects with the fatal error, and so does verdict()', async () => {
    const first = fleet.worker('a', holdUntilAsked);
    await fleet.until('a works', () => fleet.leasesOf('a').length === 2);
    const other = fleet.worker('b', holdUntilAsked, { planner: finalPlan(['s1'], 'plan:v2') });
    await fleet.until('the end', () => other.run.state !== 'pending');
    expect(other.run.error).toBeInstanceOf(LeaseholdError);
    expect(other.run.error).toMatchObject({ code: 'E_FINGERPRINT_MISMATCH', kind: 'fatal' });
    expect((other.run.error as LeaseholdError).message).toContain('"plan:v1"');
    expect((other.run.error as LeaseholdError).message).toContain('"plan:v2"');
    await expect(other.worker.verdict()).rejects.toBe(other.run.error);
    expect(first.run.state).toBe('pending');
    expect((await other.worker.stop()).reason).toBe('failed');
  });

  test('run() - startup that fails startupMaxAttempts times ends with E_STARTUP_EXHAUSTED', async () => {
    const a = fleet.worker('a', holdUntilAsked, { config: { startupMaxAttempts: 3 } });
    a.client.partition();
    await fleet.until('the end', () => a.run.state !== 'pending');
    expect(a.run.error).toMatchObject({ code: 'E_STARTUP_EXHAUSTED', kind: 'fatal' });
  });

  test('a handler - that throws what is no error still fails its tenancy with words', async () => {
    fleet.worker('a', () => {
      // eslint-disable-next-line @typescript-eslint/only-throw-error
      throw 'just words';
    });
    await fleet.until(
      'a failure',
      () => typeof fleet.split('s1')?.lastFailure?.reason === 'string',
    );
    expect(fleet.split('s1')?.lastFailure).toMatchObject({ reason: 'just words', by: 'a' });
  });

  test('a handler - runs at most maxInFlight times at once, once per tenancy', async () => {
    let running = 0;
    let most = 0;
    const seen: string[] = [];
    const pause = (): Promise<void> =>
      new Promise((resolve) => fleet.clock.setTimeout(resolve, 100));
    const a = fleet.worker(
      'a',
      async (grant) => {
        running += 1;
        most = Math.max(most, running);
        seen.push(`${grant.split.id}@${grant.epoch}`);
        await pause();
        running -= 1;
        await grant.complete();
      },
      {
        config: { maxInFlight: 3 },
        planner: finalPlan(Array.from({ length: 10 }, (_, index) => `s${index}`)),
      },
    );
    await fleet.until('the end', () => a.run.state !== 'pending');
    expect(most).toBe(3);
    expect(new Set(seen).size).toBe(10);
    expect(seen).toHaveLength(10);
  });
});

describe('grants()', () => {
  test('grants() - yields one grant per tenancy and ends with the verdict', async () => {
    const worker = unstarted('a');
    const seen: string[] = [];
    const loop = watched(
      (async () => {
        for await (const grant of worker.grants()) {
          seen.push(grant.split.id);
          await grant.complete({ watermark: 3 });
        }
      })(),
    );
    await fleet.until('the verdict', () => loop.state !== 'pending');
    expect(loop.state).toBe('resolved');
    expect(seen.sort()).toEqual(['s1', 's2']);
    expect((await worker.verdict()).kind).toBe('complete');
  });

  test('grants() - ends with stop(), also for a reader that waits', async () => {
    const worker = unstarted('a');
    const grants = worker.grants();
    const taken: Grant[] = [];
    const loop = watched(
      (async () => {
        for await (const grant of grants) taken.push(grant);
      })(),
    );
    await fleet.advance(1_000);
    expect(taken).toHaveLength(2);
    const stop = watched(worker.stop());
    await fleet.advance(10);
    expect(taken.every(({ draining }) => draining.requested)).toBe(true);
    expect(taken[0]!.draining.reason).toBe('stopping');
    await Promise.all(taken.map((grant) => grant.release()));
    await fleet.until('both ends', () => stop.state !== 'pending' && loop.state !== 'pending');
    expect(stop.value).toMatchObject({ released: ['s1', 's2'], forced: [] });
    expect(await grants.next()).toEqual({ done: true, value: undefined });
  });

  test('grants() - does not hand out a grant that was lost before anybody took it', async () => {
    const worker = unstarted('a');
    const grants = worker.grants();
    await fleet.advance(1_000);
    fleet.store.remove('leasehold/driven/leases/s1');
    await fleet.advance(1_000);
    const taken = await Promise.all([grants.next(), grants.next()]);
    const seen = taken.map(({ value }) => value as Grant);
    expect(seen.every(({ lost }) => !lost.aborted)).toBe(true);
    expect(seen.map(({ split, epoch }) => `${split.id}@${epoch}`).sort()).toEqual(['s1@2', 's2@1']);
  });

  test('await using - stops the worker at the end of the block', async () => {
    let inner: Worker | undefined;
    const block = watched(
      (async () => {
        await using worker = unstarted('a');
        inner = worker;
        const first = await worker.grants().next();
        expect((first.value as Grant).split.id).toMatch(/^s[12]$/);
        await (first.value as Grant).complete();
      })(),
    );
    await fleet.until('the end of the block', () => block.state !== 'pending');
    expect(block).toMatchObject({ state: 'resolved' });
    expect(inner!.status().presence).toBe('departed');
    expect(fleet.store.openWatches).toBe(0);
  });
});

describe('status()', () => {
  test('status() - is JSON, read from the charts, before, during and after', async () => {
    const a = fleet.worker('a', async (grant) => {
      await grant.commit({ watermark: 2n ** 70n });
      await holdUntilAsked(grant);
    });
    const roundTrip = (): unknown => JSON.parse(JSON.stringify(a.worker.status()));
    expect(roundTrip()).toEqual(a.worker.status());
    await fleet.until('a works', () => fleet.leasesOf('a').length === 2);
    await fleet.advance(1_500);
    const status = a.worker.status();
    expect(roundTrip()).toEqual(status);
    expect(status).toMatchObject({
      job: 'job',
      instanceId: 'a',
      presence: 'present',
      leader: 'leading',
      charts: {
        presence: 'present.announced',
        leader: 'leading.governing(planning.sealed|balancing.settled|judging.open)',
        session: 'open.kept',
        leaderSession: 'open.kept',
        link: 'serving',
        departure: 'staying',
      },
      failing: [],
      isLeading: true,
      isPaused: false,
      verdict: null,
      lastError: null,
      refuses: [],
      plan: { generation: 1, finality: 'final', sealed: true, planned: 2 },
    });
    expect(status.tenancies.map(({ split, state }) => [split, state])).toEqual([
      ['s1', 'held.owned'],
      ['s2', 'held.owned'],
    ]);
    expect(status.tenancies[0]).toMatchObject({
      epoch: '1',
      watermark: String(2n ** 70n),
      attempts: 0,
      problem: null,
    });
    const last = a.transitions.findLast(({ id }) => id === 's1')!;
    expect(last.to).toBe('held.owned');
    expect(status.tenancies[0]!.forMs).toBe(fleet.clock.nowMs() - last.at);
    expect(status.tenancies[0]!.forMs).toBeGreaterThan(1_000);
    // Each state counts from its own beginning.
    a.client.when(writesTo((key) => key.endsWith('/splits/s1'))).delay(400, { times: 1 });
    void fleet.operator().pause();
    await fleet.advance(150);
    expect(a.worker.status().tenancies[0]).toMatchObject({
      split: 's1',
      state: 'held.closing.sent',
    });
    expect(a.worker.status().tenancies[0]!.forMs).toBeLessThanOrEqual(150);
    void a.worker.stop();
    await fleet.until('the end', () => a.run.state !== 'pending');
    expect(roundTrip()).toEqual(a.worker.status());
    expect(a.worker.status()).toMatchObject({
      presence: 'departed',
      tenancies: [],
      leader: 'departed',
      charts: { session: 'closed', leaderSession: 'closed', departure: 'gone' },
    });
  });
});
