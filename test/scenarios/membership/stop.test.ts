import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import {
  createCoordinator,
  createWorker,
  type Grant,
  type StopReport,
} from '../../../src/index.ts';
import { writesTo } from '../../../src/store/faults.ts';
import {
  afterTenLeases,
  DRAIN_MS,
  ephemeralKeysOf,
  guardProcess,
  NOTHING,
  OPERATION_MS,
  remainsOf,
  STOP_MS,
  stopInEveryManner,
  type Stoppable,
} from '../../support/departures.ts';
import {
  finalPlan,
  type HandledWorker,
  holdUntilAsked,
  ids,
  JOB,
  LEASE_MS,
  lost,
  type SeamWorker,
  watched,
} from '../../support/fleet.ts';
import { between, fleet, startFleet } from '../../support/scenario.ts';

let guard: ReturnType<typeof guardProcess>;
beforeEach(() => {
  guard = guardProcess();
});
afterEach(async () => {
  guard.end();
  expect(guard.caught).toEqual([]);
});

const ofWorker = (around: HandledWorker): Stoppable => ({
  ...around,
  stop: () => around.worker.stop(),
  status: () => around.worker.status(),
});
const ofSeam = (around: SeamWorker): Stoppable => ({
  ...around,
  stop: () => around.coordinator.stop(),
  status: () => around.coordinator.status(),
});

const isLeaseKey = (key: string): boolean => key.includes('/leases/');
const never = new Promise<void>(() => undefined);

function lostOf(around: HandledWorker | SeamWorker): string[] {
  return around.events.flatMap((event) => (event.type === 'lost' ? [event.splitId] : []));
}

async function stopped(around: Stoppable): Promise<{ report: StopReport; tookMs: number }> {
  const outcome = watched(around.stop());
  const tookMs = await fleet.until('the stop', () => outcome.state !== 'pending', 60_000, 10);
  return { report: outcome.value!, tookMs };
}

describe('the report of a stop', () => {
  test('stop - hands every split back, says which, and run() rejects E_STOPPED', async () => {
    await startFleet();
    const a = fleet.worker('a', holdUntilAsked);
    await fleet.until('a holds all', () => fleet.leasesOf('a').length === 4);
    const { report, tookMs } = await stopped(ofWorker(a));
    expect(report).toEqual({
      reason: 'stopped',
      error: null,
      released: ['s1', 's2', 's3', 's4'],
      forced: [],
      unsettled: [],
    });
    expect(tookMs).toBeLessThan(100);
    await fleet.advance(0);
    expect(a.run.error).toMatchObject({ code: 'E_STOPPED' });
    expect(lostOf(a)).toEqual([]);
    for (const id of report.released) {
      expect(fleet.split(id)).toMatchObject({ owner: null, attempts: 0, status: 'runnable' });
    }
  });

  test('stop - names what it handed back or gave up while leaving, and nothing from before', async () => {
    await startFleet();
    let isStuck = true;
    const a = fleet.worker('a', async (grant) => {
      if (grant.split.id === 's2' && isStuck) await lost(grant);
      else await holdUntilAsked(grant);
    });
    await fleet.until('a holds all', () => fleet.leasesOf('a').length === 4);
    await fleet.operator().pause();
    await fleet.until('a holds nothing', () => fleet.leasesOf('a').length === 0, 60_000);
    expect(lostOf(a)).toEqual(['s2']);
    isStuck = false;
    await fleet.operator().resume();
    await fleet.until('a holds all again', () => fleet.leasesOf('a').length === 4, 60_000);
    const { report } = await stopped(ofWorker(a));
    expect(report).toMatchObject({ released: ['s1', 's2', 's3', 's4'], forced: [] });
  });

  test('stop - a handler that never returns is lost at the drain deadline and named as forced (R17, R33)', async () => {
    await startFleet();
    const grants: Grant[] = [];
    const lostAt: number[] = [];
    const a = fleet.worker('a', async (grant) => {
      grants.push(grant);
      if (grant.split.id !== 's2') return holdUntilAsked(grant);
      await lost(grant).then(() => lostAt.push(fleet.clock.nowMs()));
      return never;
    });
    await fleet.until('a holds all', () => grants.length === 4);
    const startMs = fleet.clock.nowMs();
    const { report, tookMs } = await stopped(ofWorker(a));
    expect(report).toMatchObject({ released: ['s1', 's3', 's4'], forced: ['s2'], unsettled: [] });
    expect(lostAt).toEqual([between(startMs + DRAIN_MS)]);
    expect(tookMs).toBeLessThanOrEqual(STOP_MS + fleet.slackMs);
    expect(fleet.split('s2')?.owner).toBeNull();
    expect(remainsOf(ofWorker(a))).toEqual(NOTHING);
    const stuck = grants.find((grant) => grant.split.id === 's2')!;
    await expect(stuck.commit({ watermark: 1 })).rejects.toMatchObject({ code: 'E_FENCED' });
  });

  test('stop - an ending that is not answered in time is named as unsettled, and its lease goes (R17)', async () => {
    await startFleet();
    const a = fleet.worker('a', holdUntilAsked);
    await fleet.until('a holds all', () => fleet.leasesOf('a').length === 4);
    a.client.when(writesTo((key) => key.endsWith('/splits/s3'))).loseBefore({ silent: true });
    const { report, tookMs } = await stopped(ofWorker(a));
    // The releases travelled together: one that is lost takes the others with it.
    expect(report.unsettled).toContain('s3');
    expect([...report.released, ...report.unsettled].sort()).toEqual(['s1', 's2', 's3', 's4']);
    expect(tookMs).toBeLessThanOrEqual(OPERATION_MS);
    expect(ephemeralKeysOf(fleet, 'a')).toEqual([]);
    // The presence was taken back before the session was closed: that would read as a death.
    const last = fleet.store.history(fleet.keys.presence('a' as never)).at(-1);
    expect(last).toMatchObject({ value: null, cause: 'batch' });
  });

  test('stop - after the verdict the reason is `finished`', async () => {
    await startFleet();
    const a = fleet.worker('a', (grant) => grant.complete({ watermark: 1 }));
    await fleet.until('the end', () => a.run.state === 'resolved');
    const { report } = await stopped(ofWorker(a));
    expect(report).toMatchObject({ reason: 'finished', error: null, released: [], forced: [] });
  });

  test('stop - before the start there is nothing to leave, and nothing can be started any more', async () => {
    await startFleet();
    const options = {
      job: JOB,
      store: fleet.store,
      planner: finalPlan(['s1']),
      instanceId: 'a',
      clock: fleet.clock,
    };
    const before = fleet.store.stats;
    const worker = createWorker(options);
    const report = await worker.stop();
    expect(report).toEqual({
      reason: 'stopped',
      error: null,
      released: [],
      forced: [],
      unsettled: [],
    });
    expect(await worker.stop()).toBe(report);
    await expect(worker.run(holdUntilAsked)).rejects.toMatchObject({ code: 'E_STOPPED' });
    await expect(worker.verdict()).rejects.toMatchObject({ code: 'E_STOPPED' });
    expect(await worker.stop()).toBe(report);

    const inOneTurn = createWorker(options);
    void inOneTurn.stop();
    await expect(inOneTurn.run(holdUntilAsked)).rejects.toMatchObject({ code: 'E_STOPPED' });
    const seam = createCoordinator(options);
    void seam.stop();
    expect(() => seam.start()).toThrow(expect.objectContaining({ code: 'E_STOPPED' }));

    await fleet.advance(10 * LEASE_MS);
    expect(fleet.clock.pendingTimers).toBe(0);
    expect(fleet.store.stats).toEqual(before);
  });

  test('stop - of a worker that never reached its store ends in time, and nothing throws', async () => {
    for (const silent of [true, false]) {
      await startFleet();
      const a = fleet.worker('a', holdUntilAsked);
      a.client.partition({ silent });
      await fleet.advance(300);
      const worker = ofWorker(a);
      const { reports, tookMs } = await stopInEveryManner(fleet, worker);
      expect(new Set(reports).size).toBe(1);
      expect(tookMs).toBeLessThanOrEqual(STOP_MS + fleet.slackMs);
      expect(remainsOf(worker)).toEqual(NOTHING);
      expect(a.run.error).toMatchObject({ code: 'E_STOPPED' });
      a.client.heal();
      const { before, after } = await afterTenLeases(fleet, worker);
      expect(after).toEqual(before);
    }
  });

  test('release - on the seam is a departure: parting first, gone once nothing is held (R16)', async () => {
    await startFleet();
    const a = fleet.seam('a');
    await fleet.until('a holds all', () => a.held.size === 4);
    const released = watched(a.coordinator.release(['s1', 's2', 's3', 's4']));
    await fleet.until('the end', () => remainsOf(ofSeam(a)).timers === 0);
    expect(released.state).toBe('resolved');
    expect(ephemeralKeysOf(fleet, 'a')).toEqual([]);
    const presences = fleet.store
      .history(fleet.keys.presence('a' as never))
      .map(({ value }) => value?.includes('"parting":true') ?? 'gone');
    expect(presences).toEqual([false, true, 'gone']);
    const { report } = await stopped(ofSeam(a));
    expect(report.released).toEqual(['s1', 's2', 's3', 's4']);
  });
});

describe('a graceful leaver', () => {
  test('parting - places its splits at once, waiting neither for the lease nor for the rebalance delay (R16)', async () => {
    await startFleet({
      planner: finalPlan(ids(8)),
      config: { leaseDurationMs: 30_000, rebalanceDelayMs: 60_000, reconcileIntervalMs: 60_000 },
    });
    const pause = (ms: number): Promise<void> =>
      new Promise((resolve) => fleet.clock.setTimeout(resolve, ms));
    const found: (string | undefined)[] = [];
    const a = fleet.worker('a', async (grant) => {
      await grant.commit({ watermark: 10 });
      await holdUntilAsked(grant);
      await pause(1_000);
      await grant.commit({ watermark: 17 });
    });
    const b = fleet.worker('b', async (grant) => {
      found.push(grant.progress?.watermark.toString());
      await holdUntilAsked(grant);
    });
    await fleet.until(
      '4 and 4',
      () => fleet.leasesOf('a').length === 4 && fleet.leasesOf('b').length === 4,
    );
    await fleet.advance(1_000);
    found.length = 0;
    const ofA = fleet.leasesOf('a');
    const leaving = watched(a.worker.stop());
    const tookMs = await fleet.until('b holds all', () => fleet.leasesOf('b').length === 8);
    expect(tookMs).toBeLessThan(1_000 + 500 + fleet.slackMs);
    // Each goes on from the last commit, none is replayed and none costs an attempt.
    expect(found).toEqual(['17', '17', '17', '17']);
    for (const id of ofA) expect(fleet.split(id)?.attempts).toBe(0);
    expect(lostOf(b)).toEqual([]);
    await fleet.until('a is gone', () => leaving.state === 'resolved');
  });

  test('parting - a leader that leaves is followed within a moment, not after a lease', async () => {
    await startFleet();
    const a = fleet.worker('a', holdUntilAsked);
    await fleet.until('a leads', () => fleet.leader() === 'a');
    const b = fleet.worker('b', holdUntilAsked);
    await fleet.until('b is there', () => b.worker.status().presence === 'present');
    const leaving = watched(a.worker.stop());
    const tookMs = await fleet.until('b leads', () => fleet.leader() === 'b');
    expect(tookMs).toBeLessThan(500);
    await fleet.until('b holds all', () => fleet.leasesOf('b').length === 4, 1_000);
    expect(leaving.state).toBe('resolved');
  });

  test('parting - what it says is not awaited: a slow store does not delay the drain (R17)', async () => {
    await startFleet();
    let asked = 0;
    const a = fleet.worker('a', async (grant) => {
      await holdUntilAsked(grant);
      asked += 1;
    });
    await fleet.until('a holds all', () => fleet.leasesOf('a').length === 4);
    a.client.when(writesTo((key) => key.includes('/workers/'))).delay(1_500);
    const leaving = watched(a.worker.stop());
    await fleet.advance(10);
    expect(asked).toBe(4);
    expect(fleet.leasesOf('a')).toEqual([]);
    await fleet.until('the end', () => leaving.state === 'resolved', OPERATION_MS);
  });
});

describe('a claim in flight', () => {
  test.each([500, 4_000, 6_500, 8_000, 20_000])(
    'stop - a claim that lands %s ms after it leaves no lease behind (R17)',
    async (delayMs) => {
      await startFleet();
      const a = fleet.seam('a');
      const rule = a.client.when(writesTo(isLeaseKey)).delay(delayMs);
      await fleet.until('a claims', () => rule.hits > 0);
      const { report, tookMs } = await stopped(ofSeam(a));
      expect(tookMs).toBeLessThanOrEqual(STOP_MS + fleet.slackMs);
      expect(report.released).toEqual([]);
      expect(ephemeralKeysOf(fleet, 'a')).toEqual([]);
      const b = fleet.seam('b');
      // Nothing is left to wait for, however late the claim arrives.
      await fleet.until('b holds all', () => b.held.size === 4, 2_000);
      await fleet.advance(25_000);
      expect(b.held.size).toBe(4);
      expect(fleet.leasesOf('a')).toEqual([]);
      for (const id of b.held.keys()) expect(fleet.split(id)!.attempts).toBeLessThanOrEqual(1);
      expect(a.events.filter((event) => event.type === 'gained')).toEqual([]);
    },
  );

  test('stop - a claim that landed unheard is freed by closing the session, at the cost of one attempt', async () => {
    await startFleet();
    const a = fleet.seam('a');
    const rule = a.client.when(writesTo(isLeaseKey)).loseAfter({ silent: true });
    await fleet.until('a claims', () => rule.hits > 0);
    expect(fleet.leasesOf('a')).toHaveLength(4);
    await stopped(ofSeam(a));
    expect(fleet.leasesOf('a')).toEqual([]);
    const b = fleet.seam('b');
    await fleet.until('b holds all', () => b.held.size === 4, 2_000);
    for (const id of b.held.keys()) expect(fleet.split(id)!.attempts).toBe(1);
  });

  test('stop - a worker cut off in a claim that landed keeps the lease for one time to live, not longer (R17)', async () => {
    await startFleet();
    const a = fleet.seam('a');
    const rule = a.client.when(writesTo(isLeaseKey)).loseAfter({ silent: true });
    await fleet.until('a claims', () => rule.hits > 0);
    a.client.partition({ silent: true });
    const startMs = fleet.clock.nowMs();
    await stopped(ofSeam(a));
    expect(fleet.leasesOf('a')).toHaveLength(4);
    await fleet.until('the leases end', () => fleet.leasesOf('a').length === 0);
    expect(fleet.clock.nowMs() - startMs).toBeLessThanOrEqual(LEASE_MS);
  });
});

describe('a fatal error while a handler never returns', () => {
  test('run() - rejects with it by the drain deadline; what drains is committed, the stuck split is named and refused', async () => {
    await startFleet({ planner: finalPlan(['normal', 'stuck']) });
    const grants = new Map<string, Grant>();
    const committed: string[] = [];
    const a = fleet.worker('a', async (grant) => {
      grants.set(grant.split.id, grant);
      if (grant.split.id === 'stuck') return never;
      await grant.draining.whenRequested();
      await grant.commit({ watermark: 41 });
      committed.push(grant.split.id);
    });
    await fleet.until('both run', () => grants.size === 2);
    const twin = fleet.seam('b');
    const startMs = fleet.clock.nowMs();
    // The plan now says another configuration: no retry heals that.
    const plan = fleet.store.dump(fleet.keys.plan)[0]!;
    await fleet.store.put(fleet.keys.plan, plan.value.replace('plan:v1', 'plan:v2'));
    await fleet.until('run ends', () => a.run.state !== 'pending', 60_000, 10);
    expect(a.run.error).toMatchObject({ code: 'E_FINGERPRINT_MISMATCH', kind: 'fatal' });
    expect(fleet.clock.nowMs() - startMs).toBeLessThanOrEqual(DRAIN_MS);
    expect(committed).toEqual(['normal']);
    expect(fleet.split('normal')).toMatchObject({ watermark: '41', owner: null, attempts: 0 });
    expect(lostOf(a)).toEqual(['stuck']);
    const stuck = grants.get('stuck')!;
    expect(stuck.lost.aborted).toBe(true);
    await expect(stuck.commit({ watermark: 99 })).rejects.toMatchObject({ code: 'E_FENCED' });
    await expect(stuck.complete()).rejects.toMatchObject({ code: 'E_FENCED' });
    expect(fleet.split('stuck')?.watermark).toBeNull();
    const { report } = await stopped(ofWorker(a));
    expect(report).toMatchObject({ reason: 'failed', forced: ['stuck'], released: ['normal'] });
    expect(report.error).toContain('E_FINGERPRINT_MISMATCH');
    expect(remainsOf(ofWorker(a))).toEqual(NOTHING);
    await fleet.until('the other saw it too', () => twin.coordinator.status().lastError !== null);
  });

  test('run() - rejects by the drain deadline even if the store falls silent with the error', async () => {
    await startFleet({ planner: finalPlan(['s1', 's2']) });
    const lostAt: number[] = [];
    const a = fleet.worker('a', async (grant) => {
      await lost(grant).then(() => lostAt.push(fleet.clock.nowMs()));
      return never;
    });
    await fleet.until('both run', () => fleet.leasesOf('a').length === 2);
    const startMs = fleet.clock.nowMs();
    const plan = fleet.store.dump(fleet.keys.plan)[0]!;
    await fleet.store.put(fleet.keys.plan, plan.value.replace('plan:v1', 'plan:v2'));
    await fleet.clock.settle();
    a.client.partition({ silent: true });
    await fleet.until('run ends', () => a.run.state !== 'pending', 60_000, 10);
    expect(a.run.error).toMatchObject({ code: 'E_FINGERPRINT_MISMATCH' });
    expect(fleet.clock.nowMs() - startMs).toBeLessThanOrEqual(DRAIN_MS);
    // Lost before the end, so that the endings had time to be tried.
    expect(lostAt).toEqual(Array(2).fill(startMs + DRAIN_MS - OPERATION_MS));
    expect((await a.worker.stop()).unsettled).toEqual(['s1', 's2']);
    expect(remainsOf(ofWorker(a))).toEqual(NOTHING);
  });

  test('run() - a twin ends one worker while its handler hangs, and the splits go on elsewhere (R14)', async () => {
    await startFleet({ planner: finalPlan(['s1']) });
    const a = fleet.worker('a', () => never);
    await fleet.until('a holds', () => fleet.leasesOf('a').length === 1);
    const twin = fleet.seam('a');
    const startMs = fleet.clock.nowMs();
    await fleet.until('one ends', () => a.run.state !== 'pending', 60_000, 10);
    expect(a.run.error).toMatchObject({ code: 'E_INSTANCE_ID_TAKEN' });
    expect(fleet.clock.nowMs() - startMs).toBeLessThanOrEqual(DRAIN_MS + 500);
    await fleet.until('the twin has it', () => twin.held.has('s1'));
    expect(remainsOf(ofWorker(a))).toEqual(NOTHING);
  });

  test('a fatal error - raised while stopping changes nothing: the stop goes on as it was', async () => {
    await startFleet({ planner: finalPlan(['s1']) });
    const a = fleet.worker('a', () => never);
    await fleet.until('a holds', () => fleet.leasesOf('a').length === 1);
    const leaving = watched(a.worker.stop());
    await fleet.advance(100);
    const plan = fleet.store.dump(fleet.keys.plan)[0]!;
    await fleet.store.put(fleet.keys.plan, plan.value.replace('plan:v1', 'plan:v2'));
    await fleet.until('the end', () => leaving.state !== 'pending');
    expect(leaving.value).toMatchObject({ reason: 'stopped', error: null, forced: ['s1'] });
    expect(a.run.error).toMatchObject({ code: 'E_STOPPED' });
  });
});

describe('a store that denies all access', () => {
  test('a store that denies all access - takes everything from a worker within a lease, says so, and does not end it (R45)', async () => {
    const grants = new Map<string, Grant>();
    await startFleet({ planner: finalPlan(['normal', 'stuck']) });
    const a = fleet.worker('a', async (grant) => {
      grants.set(grant.split.id, grant);
      if (grant.split.id === 'stuck') await never;
      await lost(grant);
    });
    await fleet.until('both run', () => grants.size === 2, 5_000);
    await fleet.advance(1_000);
    const rule = a.client.when('any').deny();
    await fleet.advance(LEASE_MS + 1_000);
    for (const grant of grants.values()) expect(grant.lost.aborted).toBe(true);
    const { revision } = fleet.store;
    const stuck = grants.get('stuck')!;
    for (const late of [stuck.commit({ watermark: 99 }), stuck.complete()]) {
      await expect(late).rejects.toMatchObject({ code: 'E_FENCED' });
    }
    expect(fleet.store.revision).toBe(revision);
    expect(a.run.state).toBe('pending');
    expect(a.worker.status()).toMatchObject({
      presence: 'rejoining',
      charts: { link: 'barred', leader: 'following.barred' },
      failing: expect.arrayContaining([expect.objectContaining({ code: 'E_STORE_DENIED' })]),
    });
    rule.remove();
    await fleet.until('it is back', () => a.worker.status().presence === 'present', 2 * LEASE_MS);
    const stopping = watched(a.worker.stop());
    await fleet.until('it has stopped', () => stopping.state !== 'pending', STOP_MS);
    expect(stopping.value).toMatchObject({ reason: 'stopped', error: null });
  });
});
