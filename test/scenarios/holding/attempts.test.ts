import { describe, expect, test } from '@jest/globals';
import { looksAt } from '../../../src/store/faults.ts';
import type { Handler } from '../../../src/index.ts';
import {
  finalPlan,
  type HandledWorker,
  holdUntilAsked,
  ids,
  LEASE_MS,
  lost,
  type SeamWorker,
} from '../../support/fleet.ts';
import {
  eventsOf,
  handBackAll,
  idsUnder,
  pass,
  sessionOf,
  startAlone,
  timeLine,
  versionsOfSplit,
} from '../../support/observed.ts';
import { fleet, startFleet, startRecorded } from '../../support/scenario.ts';
import { assignmentWrites, ownersOf } from '../../support/sources.ts';
import { transaction } from '../../support/faults.ts';

const TICK_MS = LEASE_MS / 3;
const REBALANCE_MS = 6_000;

/** Fails the split once and waits until it is gained again. */
async function failOnce(worker: SeamWorker, split: string): Promise<void> {
  const gains = eventsOf(worker, 'gained').length;
  const failed = worker.coordinator.fail(split, 'bad luck');
  await fleet.until('gained again', () => eventsOf(worker, 'gained').length > gains);
  await failed;
}

async function commit(worker: SeamWorker, split: string, watermark: number): Promise<void> {
  const committed = worker.coordinator.commit(split, { watermark });
  await fleet.advance(10);
  await committed;
}

describe('attempts', () => {
  test('attempts - fall to 0 with the first commit that rises, in the same write (R31)', async () => {
    await startFleet({ planner: finalPlan(['s0']) });
    const a = await startAlone(fleet, 'a', 1);
    await failOnce(a, 's0');
    expect(fleet.split('s0')?.attempts).toBe(1);
    await commit(a, 's0', 10);
    const written = versionsOfSplit(fleet, 's0').at(-1)!.record;
    expect(written).toMatchObject({ watermark: '10', attempts: 0, owner: 'a' });
  });

  test('attempts - stay when a commit stands at the watermark where the tenancy began (R31)', async () => {
    await startFleet({ planner: finalPlan(['s0']) });
    const a = await startAlone(fleet, 'a', 1);
    await commit(a, 's0', 10);
    await failOnce(a, 's0');
    await commit(a, 's0', 10);
    expect(fleet.split('s0')).toMatchObject({ watermark: '10', attempts: 1 });
    await commit(a, 's0', 11);
    expect(fleet.split('s0')).toMatchObject({ watermark: '11', attempts: 0 });
  });

  test('attempts - stay when a commit stands at a seed’s watermark (R31)', async () => {
    const seed = { watermark: 40 };
    await startFleet({ planner: finalPlan([{ id: 's0', descriptor: '', seed }]) });
    const a = await startAlone(fleet, 'a', 1);
    await failOnce(a, 's0');
    await commit(a, 's0', 40);
    expect(fleet.split('s0')?.attempts).toBe(1);
    await commit(a, 's0', 41);
    expect(fleet.split('s0')?.attempts).toBe(0);
  });

  test('attempts - are not touched by a graceful leave or a drain (R31)', async () => {
    await startFleet({ planner: finalPlan(ids(4)) });
    const a = await startAlone(fleet, 'a', 4);
    handBackAll(a);
    await failOnce(a, 's0');
    const b = fleet.seam('b');
    await fleet.until('2 and 2', () => a.held.size === 2 && b.held.size === 2);
    void a.coordinator.stop();
    await fleet.until('b has all', () => b.held.size === 4, LEASE_MS);
    const attempts = ids(4).map((id) => fleet.split(id)?.attempts);
    expect(attempts).toEqual([1, 0, 0, 0]);
  });

  test('attempts - are not touched when a live process loses its session and takes its splits again (R31)', async () => {
    await startFleet({ planner: finalPlan(ids(3)) });
    const a = await startAlone(fleet, 'a', 3);
    for (let round = 1; round <= 4; round += 1) {
      await fleet.store.expireSession(sessionOf(fleet, 'a')!);
      await fleet.until('lost', () => eventsOf(a, 'lost').length === 3 * round, LEASE_MS);
      await fleet.until('held again', () => a.held.size === 3, LEASE_MS);
    }
    expect(ids(3).map((id) => fleet.split(id)?.attempts)).toEqual([0, 0, 0]);
    expect(fleet.split('s0')?.epoch).toBe('5');
  });

  test('an attempt - is spent when another worker takes over after a crash (R31)', async () => {
    await startFleet({ planner: finalPlan(['s0']) });
    const a = await startAlone(fleet, 'a', 1);
    const b = fleet.seam('b');
    a.crash();
    await fleet.until('b has it', () => b.held.has('s0'), 2 * LEASE_MS + REBALANCE_MS);
    expect(fleet.split('s0')).toMatchObject({ attempts: 1, owner: 'b', epoch: '2' });
  });

  test('an attempt - is spent when a restarted process takes its splits back (R31)', async () => {
    await startFleet({ planner: finalPlan(['s0']) });
    const a = await startAlone(fleet, 'a', 1);
    a.crash();
    const again = fleet.seam('a');
    await fleet.until('it has it', () => again.held.has('s0'), LEASE_MS);
    expect(fleet.split('s0')).toMatchObject({ attempts: 1, owner: 'a', epoch: '2' });
  });

  test('an attempt - is spent when timers alone were held up, and the loss of the lease was heard of first (R31)', async () => {
    await startFleet({ planner: finalPlan(['s0']) });
    const a = await startAlone(fleet, 'a', 1);
    a.clock.freeze('runs');
    await fleet.advance(LEASE_MS + 1_000);
    a.clock.thaw();
    await fleet.until('held again', () => eventsOf(a, 'gained').length === 2, 2 * LEASE_MS);
    expect(eventsOf(a, 'sessionLost')).toEqual([{ type: 'sessionLost', reason: 'stalled' }]);
    expect(fleet.split('s0')).toMatchObject({ attempts: 1, owner: 'a' });
  });

  test('an attempt - is spent when the event loop was blocked until the session was gone (R31)', async () => {
    await startFleet({ planner: finalPlan(['s0']) });
    const a = await startAlone(fleet, 'a', 1);
    a.freeze('runs');
    await fleet.advance(LEASE_MS + 2_000);
    a.thaw();
    await fleet.until('lost', () => eventsOf(a, 'lost').length === 1, LEASE_MS);
    await fleet.until('held again', () => a.held.has('s0'), LEASE_MS);
    expect(eventsOf(a, 'sessionLost')).toEqual([{ type: 'sessionLost', reason: 'stalled' }]);
    expect(fleet.split('s0')).toMatchObject({ attempts: 1, epoch: '2' });
  });
});

describe('a failed tenancy', () => {
  test('a failure - makes everybody wait 500 ms, doubling, at most half a lease (R40)', async () => {
    await startFleet({ planner: finalPlan(['s0']), config: { maxAttempts: 100 } });
    const a = await startAlone(fleet, 'a', 1);
    const heard = timeLine(fleet, a);
    const waits: number[] = [];
    for (let round = 0; round < 6; round += 1) {
      const failed = a.coordinator.fail('s0', 'bad luck');
      await fleet.advance(1);
      await failed;
      const failedAtMs = versionsOfSplit(fleet, 's0').at(-1)!.atMs;
      const gains = heard.length;
      await fleet.until('gained', () => heard.length > gains, LEASE_MS);
      waits.push(heard.at(-1)!.atMs - failedAtMs);
    }
    expect(waits).toEqual([500, 1_000, 2_000, 4_000, 4_500, 4_500]);
    expect(fleet.split('s0')).toMatchObject({ attempts: 6 });
  });

  test('a failure at the cap - quarantines with a reason, and every worker hears of it (R28)', async () => {
    await startFleet({ planner: finalPlan(ids(2)) });
    const a = await startAlone(fleet, 'a', 2);
    const standby = fleet.seam('standby', { config: { maxInFlight: 0 } });
    await fleet.until('standby', () => standby.coordinator.status().presence === 'present');
    await failOnce(a, 's0');
    await failOnce(a, 's0');
    const failed = a.coordinator.fail('s0', 'checksum mismatch');
    await fleet.until('parked', () => idsUnder(fleet, 'parked').length === 1);
    await failed;
    await fleet.advance(4 * LEASE_MS);
    const told = {
      type: 'quarantined',
      splitId: 's0',
      attempts: 3,
      reason: 'checksum mismatch',
      by: 'a',
    };
    expect(eventsOf(a, 'quarantined')).toEqual([told]);
    expect(eventsOf(standby, 'quarantined')).toEqual([told]);
    // The epoch rose once more: a zombie’s late commit is fenced.
    expect(fleet.split('s0')).toMatchObject({
      status: 'quarantined',
      attempts: 3,
      owner: null,
      epoch: '4',
      lastFailure: { reason: 'checksum mismatch', by: 'a', epoch: '3' },
    });
    expect(fleet.lease('s0')).toBeNull();
    expect(fleet.assignment('a')?.splits).toEqual(['s1']);
    expect(eventsOf(a, 'gained').filter(({ split: { id } }) => id === 's0')).toHaveLength(3);
    // A worker that starts later hears of it too.
    const late = fleet.seam('late');
    await fleet.until('late hears', () => eventsOf(late, 'quarantined').length === 1, LEASE_MS);
  });
});

describe('a split whose owner dies at the cap', () => {
  /** A leader that hears of leases late, so that a process may announce itself again before its lease is missed. */
  async function slowLeader(): Promise<SeamWorker> {
    const leader = fleet.seam('leader', { config: { maxInFlight: 0 } });
    leader.client.when(looksAt((prefix) => prefix.endsWith('/leases/'))).delayEvents(500);
    await fleet.until('it leads', () => fleet.leader() === 'leader');
    return leader;
  }

  test('an expired split at the cap - is set aside by the leader, and claimed by nobody (R28, T12)', async () => {
    await startFleet({ planner: finalPlan(ids(2)), config: { maxAttempts: 1 } });
    const leader = fleet.seam('leader', { config: { maxInFlight: 0 } });
    await fleet.until('it leads', () => fleet.leader() === 'leader');
    const a = await startAlone(fleet, 'a', 2);
    const b = fleet.seam('b');
    await commit(a, 's1', 5);
    a.crash();
    await fleet.until('parked', () => idsUnder(fleet, 'parked').length === 2, 2 * LEASE_MS);
    await fleet.advance(2 * LEASE_MS);
    for (const id of ids(2)) {
      expect(fleet.split(id)).toMatchObject({
        status: 'quarantined',
        owner: null,
        attempts: 1,
        epoch: '2',
        lastFailure: { by: 'a', epoch: '1' },
      });
    }
    // What was done is not forgotten.
    expect(fleet.split('s1')?.watermark).toBe('5');
    expect(eventsOf(b, 'gained')).toEqual([]);
    for (const worker of [leader, b]) expect(eventsOf(worker, 'quarantined')).toHaveLength(2);
    expect(leader.verdict).toMatchObject({ kind: 'stalled', quarantinedIds: ids(2) });
  });

  test('a live process that lost its session at the cap - takes its split back, nothing is set aside (R28, R31)', async () => {
    await startFleet({ planner: finalPlan(['s0']), config: { maxAttempts: 1 } });
    const leader = await slowLeader();
    const a = await startAlone(fleet, 'a', 1);
    await fleet.store.expireSession(sessionOf(fleet, 'a')!);
    await fleet.until('lost', () => eventsOf(a, 'lost').length === 1, LEASE_MS);
    await fleet.until('held again', () => a.held.has('s0'), LEASE_MS);
    await fleet.advance(2 * LEASE_MS);
    expect(fleet.split('s0')).toMatchObject({ status: 'runnable', attempts: 0, epoch: '2' });
    expect(eventsOf(leader, 'quarantined')).toEqual([]);
  });

  test('a live process that cannot take its split back - is waited for one lease, no longer (R28)', async () => {
    await startFleet({ planner: finalPlan(['s0']), config: { maxAttempts: 1 } });
    const leader = await slowLeader();
    const stuck: Handler = () => new Promise(() => undefined);
    const a = fleet.worker('a', stuck);
    await fleet.until('a holds it', () => fleet.leasesOf('a').length === 1);
    await fleet.store.expireSession(sessionOf(fleet, 'a')!);
    await fleet.until('a is back', () => a.events.some(({ type }) => type === 'lost'), LEASE_MS);
    await fleet.until('announced', () => a.worker.status().presence === 'present', LEASE_MS);
    await fleet.advance(LEASE_MS - 1_000);
    expect(fleet.split('s0')?.status).toBe('runnable');
    await fleet.until('parked', () => idsUnder(fleet, 'parked').length === 1, 1_000 + 2 * TICK_MS);
    expect(fleet.split('s0')).toMatchObject({ status: 'quarantined', attempts: 1 });
    expect(eventsOf(leader, 'quarantined')).toHaveLength(1);
  });
});

describe('a poison split', () => {
  /** Starts workers that die when they meet `bad`, and are started again a second later. */
  function restarting(names: readonly string[], bad: string, handler: Handler) {
    const live = new Map<string, HandledWorker>();
    const crashes: string[] = [];
    const start = (name: string): void => {
      const worker = fleet.worker(name, async (grant) => {
        if (grant.split.id !== bad) {
          await handler(grant);
          return;
        }
        await pass(fleet, 200);
        crashes.push(name);
        live.get(name)!.crash();
        void pass(fleet, 1_000).then(() => {
          start(name);
        });
        await new Promise(() => undefined);
      });
      live.set(name, worker);
    };
    for (const name of names) start(name);
    return { live, crashes };
  }

  test('a split that kills its process - is set aside after three crashes, the others complete', async () => {
    await startFleet({ planner: finalPlan([...ids(11), 'bad']) });
    const slowly: Handler = async (grant) => {
      await grant.commit({ watermark: (grant.progress?.watermark ?? 0n) + 1n });
      await Promise.race([pass(fleet, 5_000), lost(grant)]);
      if (grant.lost.aborted) return;
      await grant.complete();
    };
    const { live, crashes } = restarting(['a', 'b', 'c'], 'bad', slowly);
    await fleet.until(
      'every run ends',
      () => [...live.values()].every(({ run }) => run.state === 'resolved'),
      30 * LEASE_MS,
      200,
    );
    expect(crashes).toHaveLength(3);
    for (const { run } of live.values()) {
      expect(run.value).toEqual({
        kind: 'stalled',
        completed: 11,
        quarantined: 1,
        quarantinedIds: ['bad'],
      });
    }
    expect(ownersOf(fleet, 'bad')).toEqual(crashes);
    const { lastFailure, attempts, owner } = fleet.split('bad')!;
    expect([attempts, owner]).toEqual([3, null]);
    expect(lastFailure).toMatchObject({ by: crashes.at(-1) });
    expect(lastFailure?.reason).toContain('without releasing');
    // Once it is set aside it is in no assignment ever after.
    const versions = versionsOfSplit(fleet, 'bad');
    const setAsideAtMs = versions.find(({ record }) => record.status === 'quarantined')!.atMs;
    const since = assignmentWrites(fleet, setAsideAtMs + 200 + fleet.slackMs);
    expect(since.filter(({ value }) => value?.includes('"bad"') === true)).toEqual([]);
  });

  test('neighbours of a poison split - are not punished for it (R31)', async () => {
    await startFleet({ planner: finalPlan([...ids(7), 'z-bad']) });
    const tenancies = new Map<string, number>();
    const inSteps: Handler = async (grant) => {
      const { id } = grant.split;
      const count = (tenancies.get(id) ?? 0) + 1;
      tenancies.set(id, count);
      await grant.commit({ watermark: count });
      await Promise.race([pass(fleet, 3 * LEASE_MS), lost(grant)]);
      if (!grant.lost.aborted) await grant.complete({ watermark: count + 1 });
    };
    const { live, crashes } = restarting(['a'], 'z-bad', inSteps);
    await fleet.until('the end', () => live.get('a')!.run.state === 'resolved', 30 * LEASE_MS, 200);
    expect(crashes).toHaveLength(3);
    expect(live.get('a')!.run.value).toMatchObject({
      kind: 'stalled',
      completed: 7,
      quarantinedIds: ['z-bad'],
    });
    expect(ids(7).map((id) => fleet.split(id)?.attempts)).toEqual(ids(7).map(() => 0));
  });

  test('a healthy job - spends nothing', async () => {
    await startFleet({ planner: finalPlan(ids(3)) });
    fleet.worker('a', holdUntilAsked);
    await fleet.advance(5 * LEASE_MS);
    expect(ids(3).map((id) => fleet.split(id)?.attempts)).toEqual([0, 0, 0]);
  });
});

describe('a source that refuses to resume', () => {
  const SEED = { watermark: 12, state: 'offset 12' };
  /** What becomes of the first two failure reports of each worker. */
  const FATES = {
    'are taken': () => undefined,
    'are refused by the store': ({ client }: HandledWorker) => {
      client.when(transaction('fail', 's3')).refuse('E_STORE_UNREACHABLE', { times: 2 });
    },
    'are lost': ({ client }: HandledWorker) => {
      client.when(transaction('fail', 's3')).loseBefore({ times: 2 });
    },
    'land unheard': ({ client }: HandledWorker) => {
      client.when(transaction('fail', 's3')).loseAfter({ times: 2 });
    },
  };

  test.each(Object.keys(FATES) as (keyof typeof FATES)[])(
    'a source that refuses to resume - spends three attempts and ends stalled, the rest of its batch runs (reports that %s)',
    async (fate) => {
      const splits = ids(5).map((id) => ({ id, descriptor: '', seed: SEED }));
      startRecorded({ planner: finalPlan(splits) });
      const refusals: { atMs: number; attempts: number; gainedWith: number }[] = [];
      const resumed: string[] = [];
      const start = (id: string): HandledWorker =>
        fleet.worker(id, async (grant) => {
          expect(grant.progress?.watermark).toBe(12n);
          if (grant.split.id === 's3') {
            const { attempts } = fleet.split('s3')!;
            const gainedWith = fleet.store.dump(`${fleet.keys.root}leases/`).length;
            refusals.push({ atMs: fleet.clock.nowMs(), attempts, gainedWith });
            throw new Error('offset 12 is out of range');
          }
          resumed.push(grant.split.id);
          await grant.commit({ watermark: 13 });
          await pass(fleet, 500);
          await grant.complete({ watermark: 14 });
        });
      const workers = ['a', 'b'].map(start);
      workers.forEach(FATES[fate]);
      const isOver = (): boolean => workers.every(({ run }) => run.state !== 'pending');
      await fleet.until('both end', isOver, 5 * LEASE_MS);
      for (const { run } of workers) {
        const stalled = { kind: 'stalled', completed: 4, quarantined: 1, quarantinedIds: ['s3'] };
        expect(run.value).toEqual(stalled);
      }
      expect(refusals.map(({ attempts }) => attempts)).toEqual([0, 1, 2]);
      // Others were gained with it.
      expect(refusals[0]!.gainedWith).toBeGreaterThan(1);
      expect(resumed.sort()).toEqual(['s0', 's1', 's2', 's4']);
      const freed = fleet.store
        .history(`${fleet.keys.root}leases/s3`)
        .filter(({ value }) => value === null);
      expect(freed.map(({ cause }) => cause)).toEqual(['batch', 'batch', 'batch']);
      freed.forEach(({ atMs }, index) => {
        expect(atMs - refusals[index]!.atMs).toBeLessThanOrEqual(2 * TICK_MS);
      });
      for (const id of ['s0', 's1', 's2', 's4']) {
        expect(fleet.split(id)).toMatchObject({ status: 'completed', attempts: 0, epoch: '1' });
      }
    },
  );
});
