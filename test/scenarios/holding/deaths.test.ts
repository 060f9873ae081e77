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
  idsUnder,
  onLastTrial,
  pass,
  sessionOf,
  startAlone,
  versionsOfSplit,
} from '../../support/observed.ts';
import { fleet, startFleet } from '../../support/scenario.ts';
import { assignmentWrites, ownersOf } from '../../support/sources.ts';

const TICK_MS = LEASE_MS / 3;
const REBALANCE_MS = 6_000;

async function commit(worker: SeamWorker, split: string, watermark: number): Promise<void> {
  const committed = worker.coordinator.commitNow(split, { watermark });
  await fleet.advance(10);
  await committed;
}

const suspicionOf = (id: string) => fleet.split(id)?.suspicion ?? null;

describe('a death', () => {
  test('a death - costs no attempt, and what had got further is taken over at once (R31, R48)', async () => {
    await startFleet({ planner: finalPlan(['s0']) });
    const a = await startAlone(fleet, 'a', 1);
    const b = fleet.seam('b');
    await commit(a, 's0', 5);
    a.crash();
    await fleet.until('b has it', () => b.held.has('s0'), 2 * LEASE_MS + REBALANCE_MS);
    expect(fleet.split('s0')).toMatchObject({ attempts: 0, owner: 'b', epoch: '2' });
    expect(suspicionOf('s0')).toMatchObject({ deaths: 1, relapses: 1, isCleared: true });
  });

  test('a death - makes suspects of what had got no further, and they are tried one at a time (R48)', async () => {
    await startFleet({ planner: finalPlan(ids(3)) });
    const b = fleet.seam('b', { config: { maxInFlight: 0 } });
    const a = await startAlone(fleet, 'a', 3);
    a.crash();
    await fleet.advance(4 * LEASE_MS);
    const c = fleet.seam('c');
    await fleet.until('one is tried', () => c.held.size === 1, 6 * LEASE_MS);
    await fleet.advance(1_000);
    expect(c.held.size).toBe(1);
    const [first] = c.held.keys();
    expect(suspicionOf(first!)).toMatchObject({ deaths: 1, charged: 0, isCleared: false });
    await commit(c, first!, 1);
    expect(suspicionOf(first!)).toMatchObject({ isCleared: true });
    await fleet.until('the next one', () => c.held.size === 2, LEASE_MS);
    expect(ids(3).map((id) => fleet.split(id)?.attempts)).toEqual([0, 0, 0]);
    expect(b.held.size).toBe(0);
  });

  test('a suspect - waits for a process that has outlived what was lost with it, and a line says so (R48)', async () => {
    await startFleet({ planner: finalPlan(['s0']) });
    const a = await startAlone(fleet, 'a', 1);
    a.crash();
    const again = fleet.seam('a');
    const startedAtMs = fleet.clock.nowMs();
    await fleet.until('it has it', () => again.held.has('s0'), 6 * LEASE_MS);
    const waitedMs = fleet.clock.nowMs() - startedAtMs;
    expect(waitedMs).toBeGreaterThanOrEqual(2 * LEASE_MS);
    expect(waitedMs).toBeLessThan(4 * LEASE_MS + LEASE_MS / 3);
    const said = again.lines.filter(({ event }) => event === 'splits.suspected');
    expect(said).toHaveLength(1);
  });

  test('a suspect - that is in hand for as long as what was lost, and shows nothing, makes room for the next (R48)', async () => {
    await startFleet({ planner: finalPlan(ids(2)) });
    const a = await startAlone(fleet, 'a', 2);
    a.crash();
    const again = fleet.seam('a');
    await fleet.until('both', () => again.held.size === 2, 12 * LEASE_MS);
    const [first] = again.held.keys();
    expect(suspicionOf(first!)).toMatchObject({ isCleared: true, charged: 0 });
    expect(fleet.split(first!)).toMatchObject({ watermark: null, owner: 'a' });
  });

  test('a process whose loop was blocked until its session was gone - counts as dead (R48)', async () => {
    await startFleet({ planner: finalPlan(['s0']) });
    const a = await startAlone(fleet, 'a', 1);
    a.freeze('runs');
    await fleet.advance(LEASE_MS + 2_000);
    a.thaw();
    await fleet.until('lost', () => eventsOf(a, 'lost').length === 1, LEASE_MS);
    await fleet.until('held again', () => a.held.has('s0'), 5 * LEASE_MS);
    expect(eventsOf(a, 'sessionLost')).toEqual([{ type: 'sessionLost', reason: 'stalled' }]);
    expect(fleet.split('s0')).toMatchObject({ attempts: 0, epoch: '2', suspicion: { deaths: 1 } });
  });

  test('a process whose timers alone were held up - counts as dead, though the loss of the lease was heard of first (R48)', async () => {
    await startFleet({ planner: finalPlan(['s0']) });
    const a = await startAlone(fleet, 'a', 1);
    a.clock.freeze('runs');
    await fleet.advance(LEASE_MS + 1_000);
    a.clock.thaw();
    await fleet.until('held again', () => eventsOf(a, 'gained').length === 2, 6 * LEASE_MS);
    expect(eventsOf(a, 'sessionLost')).toEqual([{ type: 'sessionLost', reason: 'stalled' }]);
    expect(suspicionOf('s0')).toMatchObject({ deaths: 1 });
  });

  test('a live process that loses its session - takes its splits again, and nobody is suspected (R31, R48)', async () => {
    await startFleet({ planner: finalPlan(ids(3)) });
    const a = await startAlone(fleet, 'a', 3);
    for (let round = 1; round <= 4; round += 1) {
      await fleet.store.expireSession(sessionOf(fleet, 'a')!);
      await fleet.until('lost', () => eventsOf(a, 'lost').length === 3 * round, LEASE_MS);
      await fleet.until('held again', () => a.held.size === 3, LEASE_MS);
    }
    expect(ids(3).map(suspicionOf)).toEqual([null, null, null]);
    expect(fleet.split('s0')?.epoch).toBe('5');
  });
});

describe('a crash loop', () => {
  test('a crash loop - of a process that dies for reasons of its own sets nothing aside, and is named (R48)', async () => {
    await startFleet({ planner: finalPlan(ids(4)) });
    for (let life = 0; life < 6; life += 1) {
      const dying = fleet.worker('a', holdUntilAsked);
      await fleet.advance(2_000 + 7_000 * life);
      dying.crash();
    }
    const a = fleet.worker('a', async (grant) => {
      await pass(fleet, 3_000);
      await grant.complete({ watermark: 1 });
    });
    await fleet.until('the end', () => a.run.state !== 'pending', 30 * LEASE_MS, 500);
    expect(a.run.value).toMatchObject({ kind: 'complete', completed: 4 });
  });
});

describe('a split whose owner dies on its last trial', () => {
  /** A leader that hears of leases late, so that a process may announce itself again before its lease is missed. */
  async function slowLeader(): Promise<SeamWorker> {
    const leader = fleet.seam('leader', { config: { maxInFlight: 0 } });
    leader.client.when(looksAt((prefix) => prefix.endsWith('/leases/'))).delayEvents(500);
    await fleet.until('it leads', () => fleet.leader() === 'leader');
    return leader;
  }

  test('an expired split on its last trial - is set aside by the leader, and claimed by nobody (R28, T12)', async () => {
    await startFleet({ planner: finalPlan(['s0']) });
    const leader = fleet.seam('leader', { config: { maxInFlight: 0 } });
    await fleet.until('it leads', () => fleet.leader() === 'leader');
    const a = await startAlone(fleet, 'a', 1);
    const b = fleet.seam('b');
    await onLastTrial(fleet, 's0');
    a.crash();
    await fleet.until('parked', () => idsUnder(fleet, 'parked').length === 1, 3 * LEASE_MS);
    await fleet.advance(2 * LEASE_MS);
    expect(fleet.split('s0')).toMatchObject({
      status: 'quarantined',
      owner: null,
      attempts: 0,
      epoch: '2',
      suspicion: { charged: 3 },
      lastFailure: { by: 'a', epoch: '1' },
    });
    expect(eventsOf(b, 'gained')).toEqual([]);
    for (const worker of [leader, b]) {
      expect(eventsOf(worker, 'quarantined')).toMatchObject([{ splitId: 's0', attempts: 3 }]);
    }
    expect(leader.verdict).toMatchObject({ kind: 'stalled', quarantinedIds: ['s0'] });
  });

  test('a live process that lost its session on the last trial - takes its split back, nothing is set aside (R28, R31)', async () => {
    await startFleet({ planner: finalPlan(['s0']) });
    const leader = await slowLeader();
    const a = await startAlone(fleet, 'a', 1);
    await onLastTrial(fleet, 's0');
    await fleet.advance(5 * LEASE_MS);
    await fleet.store.expireSession(sessionOf(fleet, 'a')!);
    await fleet.until('lost', () => eventsOf(a, 'lost').length === 1, LEASE_MS);
    await fleet.until('held again', () => a.held.has('s0'), LEASE_MS);
    await fleet.advance(2 * LEASE_MS);
    expect(fleet.split('s0')).toMatchObject({ status: 'runnable', attempts: 0, epoch: '2' });
    expect(eventsOf(leader, 'quarantined')).toEqual([]);
  });

  test('a live process that cannot take its split back - is waited for one lease, no longer (R28)', async () => {
    await startFleet({ planner: finalPlan(['s0']) });
    const leader = await slowLeader();
    const stuck: Handler = () => new Promise(() => undefined);
    const a = fleet.worker('a', stuck);
    await fleet.until('a holds it', () => fleet.leasesOf('a').length === 1);
    await onLastTrial(fleet, 's0');
    await fleet.store.expireSession(sessionOf(fleet, 'a')!);
    await fleet.until('a is back', () => a.events.some(({ type }) => type === 'lost'), LEASE_MS);
    await fleet.until('announced', () => a.worker.status().presence === 'present', LEASE_MS);
    await fleet.advance(LEASE_MS - 1_000);
    expect(fleet.split('s0')?.status).toBe('runnable');
    await fleet.until('parked', () => idsUnder(fleet, 'parked').length === 1, 1_000 + 2 * TICK_MS);
    expect(fleet.split('s0')).toMatchObject({ status: 'quarantined', suspicion: { charged: 3 } });
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

  test('a split that kills its process - is set aside after three trials, the others complete (R28, R48)', async () => {
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
      60 * LEASE_MS,
      200,
    );
    // Once it is found out with the others, and three times apart.
    expect(crashes).toHaveLength(4);
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
    expect([attempts, owner]).toEqual([0, null]);
    expect(lastFailure).toMatchObject({ by: crashes.at(-1) });
    expect(lastFailure?.reason).toContain('without releasing');
    // Once it is set aside it is in no assignment ever after.
    const versions = versionsOfSplit(fleet, 'bad');
    const setAsideAtMs = versions.find(({ record }) => record.status === 'quarantined')!.atMs;
    const since = assignmentWrites(fleet, setAsideAtMs + 200 + fleet.slackMs);
    expect(since.filter(({ value }) => value?.includes('"bad"') === true)).toEqual([]);
  });

  test('neighbours of a poison split - are not punished for it, though they had got no further (R48)', async () => {
    await startFleet({ planner: finalPlan([...ids(7), 'z-bad']) });
    const tenancies = new Map<string, number>();
    const inSteps: Handler = async (grant) => {
      const { id } = grant.split;
      const count = (tenancies.get(id) ?? 0) + 1;
      tenancies.set(id, count);
      await Promise.race([pass(fleet, 3_000), lost(grant)]);
      if (grant.lost.aborted) return;
      await grant.commit({ watermark: count });
      await Promise.race([pass(fleet, 3_000), lost(grant)]);
      if (!grant.lost.aborted) await grant.complete({ watermark: count + 1 });
    };
    const { live, crashes } = restarting(['a'], 'z-bad', inSteps);
    const isOver = (): boolean => live.get('a')!.run.state === 'resolved';
    await fleet.until('the end', isOver, 60 * LEASE_MS, 200);
    expect(crashes).toHaveLength(4);
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
