import { describe, expect, test } from '@jest/globals';
import type { Grant, Handler } from '../../../src/index.ts';
import {
  finalPlan,
  type HandledWorker,
  holdUntilAsked,
  LEASE_MS,
  lost,
  watched,
} from '../../support/fleet.ts';
import { deferred, eventsOf, pass, sessionOf, versionsOfSplit } from '../../support/observed.ts';
import { fleet, startFleet } from '../../support/scenario.ts';

const DRAIN_MS = 5_000;

interface Handled {
  readonly worker: HandledWorker;
  readonly grants: Grant[];
  /** Handlers that run now, and the most that ever ran at once. */
  readonly running: { now: number; most: number };
}

/** One worker with one split, whose handlers are counted. */
async function handled(handler: Handler, config: { maxAttempts?: number } = {}): Promise<Handled> {
  await startFleet({ planner: finalPlan(['s0']), config });
  return start('a', handler);
}

async function start(id: string, handler: Handler): Promise<Handled> {
  const grants: Grant[] = [];
  const running = { now: 0, most: 0 };
  const worker = fleet.worker(id, async (grant) => {
    grants.push(grant);
    running.now += 1;
    running.most = Math.max(running.most, running.now);
    try {
      await handler(grant);
    } finally {
      running.now -= 1;
    }
  });
  await fleet.until('a grant', () => grants.length === 1);
  return { worker, grants, running };
}

describe('a handler that returns', () => {
  test('a return without having been asked - fails the tenancy and spends an attempt (R37)', async () => {
    const { grants } = await handled(() => undefined);
    await fleet.advance(10);
    expect(fleet.split('s0')).toMatchObject({
      attempts: 1,
      owner: null,
      lastFailure: { reason: 'returned without completing', by: 'a' },
    });
    expect(grants).toHaveLength(1);
  });

  test('a return after a request - is a release and spends nothing (R37)', async () => {
    await handled(holdUntilAsked);
    await fleet.operator().pause();
    await fleet.advance(10);
    expect(fleet.split('s0')).toMatchObject({ attempts: 0, owner: null, lastFailure: null });
    expect(fleet.lease('s0')).toBeNull();
  });

  test('a return after a request that was withdrawn since - is a release too (R37)', async () => {
    const { grants } = await handled(async (grant) => {
      if (grant.epoch !== '1') return lost(grant);
      await grant.draining.whenRequested();
      await pass(fleet, 2_000);
      expect(grant.draining.requested).toBe(false);
    });
    await fleet.operator().pause();
    await fleet.advance(500);
    expect(grants[0]!.draining).toMatchObject({ requested: true, reason: 'paused' });
    await fleet.operator().resume();
    await fleet.advance(500);
    expect(grants[0]!.draining).toMatchObject({ requested: false, reason: null });
    // A handler that still runs goes on: no silence clock ticks (R35).
    expect(fleet.lease('s0')?.state).toBe('owned');
    await fleet.until('a new tenancy', () => grants.length === 2, 2_000);
    expect(fleet.split('s0')).toMatchObject({ attempts: 0, epoch: '2', lastFailure: null });
  });

  test('a handler that goes on after a withdrawn request - keeps the split for as long as it likes (R35)', async () => {
    const { grants, worker } = await handled(lost);
    await fleet.operator().pause();
    await fleet.until('asked', () => grants[0]!.draining.requested, 500);
    await fleet.operator().resume();
    await fleet.advance(5 * DRAIN_MS);
    expect(grants).toHaveLength(1);
    expect(eventsOf(worker, 'lost')).toEqual([]);
    const committed = watched(grants[0]!.commit({ watermark: 5 }));
    await fleet.advance(10);
    expect(committed.state).toBe('resolved');
  });
});

describe('a handler that throws', () => {
  test('a throw - fails the tenancy with its message (R37)', async () => {
    await handled(() => {
      throw new Error('page 7 is torn');
    });
    await fleet.advance(10);
    expect(fleet.split('s0')).toMatchObject({
      attempts: 1,
      lastFailure: { reason: 'page 7 is torn', by: 'a', epoch: '1' },
    });
  });

  test('a throw during a drain - fails the tenancy all the same (R37)', async () => {
    await handled(async (grant) => {
      await grant.draining.whenRequested();
      throw new Error('could not flush');
    });
    await fleet.operator().pause();
    await fleet.advance(10);
    expect(fleet.split('s0')).toMatchObject({
      attempts: 1,
      lastFailure: { reason: 'could not flush' },
    });
  });

  test('a throw after the loss - is logged and ignored (R37)', async () => {
    const { worker } = await handled(async (grant) => {
      await lost(grant);
      if (grant.epoch === '1') throw new Error('aborted');
    });
    await fleet.store.expireSession(sessionOf(fleet, 'a')!);
    await fleet.until('lost', () => eventsOf(worker, 'lost').length === 1, LEASE_MS);
    await fleet.until('held again', () => fleet.split('s0')?.epoch === '2', LEASE_MS);
    expect(fleet.split('s0')).toMatchObject({ attempts: 0, lastFailure: null });
    const logged = worker.lines.filter(({ event }) => event === 'handler.threwLate');
    expect(logged.map(({ fields }) => fields.reason)).toEqual(['aborted']);
  });

  test('a throw after completing - changes nothing', async () => {
    const { worker } = await handled(async (grant) => {
      await grant.complete({ watermark: 3 });
      throw new Error('too late');
    });
    await fleet.until('the end', () => worker.run.state !== 'pending');
    expect(worker.run.value).toMatchObject({ kind: 'complete' });
    expect(fleet.split('s0')).toMatchObject({ status: 'completed', attempts: 0 });
  });
});

describe('a handler that ignores the loss of its split', () => {
  test('an old handler - keeps its process from running a second one; the leader places the split elsewhere (R27)', async () => {
    const end = deferred();
    await startFleet({ planner: finalPlan(['s0']) });
    const a = await start('a', (grant) => (grant.epoch === '1' ? end.promise : lost(grant)));
    await fleet.store.expireSession(sessionOf(fleet, 'a')!);
    await fleet.until('lost', () => eventsOf(a.worker, 'lost').length === 1, LEASE_MS);
    await fleet.advance(LEASE_MS);
    // Alone in the fleet, it waits all the same.
    expect(a.grants).toHaveLength(1);
    expect(a.worker.worker.status()).toMatchObject({ refuses: ['s0'], presence: 'present' });
    const b = await start('b', lost);
    expect(b.grants[0]!.split.id).toBe('s0');
    expect(fleet.assignment('a')?.splits).toEqual([]);
    await fleet.advance(2 * LEASE_MS);
    expect(a.running.most).toBe(1);
    end.resolve();
    await fleet.advance(1_000);
    expect(a.worker.worker.status().refuses).toEqual([]);
    void b.worker.worker.stop();
    await fleet.until('a has it again', () => a.grants.length === 2, LEASE_MS);
    expect(a.running.most).toBe(1);
  });

  test('a split of an old handler - is taken again by the same process once that has ended (R27)', async () => {
    const end = deferred();
    const a = await handled((grant) => (grant.epoch === '1' ? end.promise : lost(grant)));
    await fleet.store.expireSession(sessionOf(fleet, 'a')!);
    await fleet.advance(2 * LEASE_MS);
    expect(a.grants).toHaveLength(1);
    end.resolve();
    await fleet.until('a second grant', () => a.grants.length === 2, 2_000);
    expect(a.running.most).toBe(1);
    // Ignoring the loss for longer than an operation may take is held against it (R31).
    expect(fleet.split('s0')).toMatchObject({ attempts: 1, epoch: '2' });
  });

  test('commits of an old handler - are refused without a word to the store (R33)', async () => {
    const end = deferred();
    const a = await handled(() => end.promise);
    await fleet.operator().pause();
    await fleet.advance(DRAIN_MS + 100);
    expect(a.grants[0]!.lost.aborted).toBe(true);
    const { revision } = fleet.store;
    const sent = a.worker.client.counts.transact;
    const late = [
      a.grants[0]!.commit({ watermark: 1 }),
      a.grants[0]!.complete(),
      a.grants[0]!.fail('late'),
      a.grants[0]!.release(),
    ];
    for (const refused of late) await expect(refused).rejects.toMatchObject({ code: 'E_FENCED' });
    expect(a.worker.client.counts.transact).toBe(sent);
    expect(fleet.store.revision).toBe(revision);
    end.resolve();
  });
});

describe('a split that its own source gives back', () => {
  test('a release unasked - is refused by this worker for one lease, then taken again (R40)', async () => {
    const releasedAtMs: number[] = [];
    const { grants, worker } = await handled(async (grant) => {
      if (grant.epoch !== '1') return lost(grant);
      await grant.release();
      releasedAtMs.push(fleet.clock.nowMs());
    });
    await fleet.advance(100);
    expect(fleet.split('s0')).toMatchObject({ owner: null, attempts: 0, lastFailure: null });
    expect(worker.worker.status().refuses).toEqual(['s0']);
    await fleet.until('a second grant', () => grants.length === 2, 2 * LEASE_MS);
    const waitedMs = fleet.clock.nowMs() - releasedAtMs[0]!;
    expect(waitedMs).toBeGreaterThanOrEqual(LEASE_MS);
    expect(waitedMs).toBeLessThan(LEASE_MS + LEASE_MS / 3 + 500);
    expect(fleet.split('s0')).toMatchObject({ epoch: '2', attempts: 0 });
    expect(worker.worker.status().refuses).toEqual([]);
  });

  test('a release unasked - lets another worker have the split at once (R27, R40)', async () => {
    const { grants } = await handled(async (grant) => {
      await pass(fleet, 2_000);
      await grant.release();
    });
    const b = fleet.worker('b', lost);
    await fleet.until('b is there', () => b.worker.status().presence === 'present');
    await fleet.until('b has it', () => fleet.leasesOf('b').length === 1, 3_000);
    await fleet.advance(2 * LEASE_MS);
    expect(grants).toHaveLength(1);
    expect(fleet.split('s0')).toMatchObject({ owner: 'b', attempts: 0 });
  });

  test('a failed tenancy - is not refused: only the pause after a failure separates the tries (R40)', async () => {
    const { grants, worker } = await handled(async (grant) => {
      if (grant.epoch === '1') await grant.fail('try again');
      else await lost(grant);
    });
    await fleet.until('a second grant', () => grants.length === 2, 1_000);
    expect(worker.worker.status().refuses).toEqual([]);
    expect(versionsOfSplit(fleet, 's0').at(-1)?.record).toMatchObject({ attempts: 1, epoch: '2' });
  });
});
