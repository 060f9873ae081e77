/** Sessions that are lost, slow, cut off or slept through, and how a worker comes back by itself (R10, R11, R18, R41). */
import { describe, expect, test } from '@jest/globals';
import type { InstanceId } from '../../../src/base/ids.ts';
import type { CoordinationEvent } from '../../../src/coordinator/api/api.ts';
import {
  finalPlan,
  ids,
  LEASE_MS,
  type SeamWorker,
  type Surroundings,
  watched,
} from '../../support/fleet.ts';
import { violations } from '../../support/faults.ts';
import { deferred } from '../../support/observed.ts';
import { fleet, startFleet } from '../../support/scenario.ts';

/** The longest that a worker goes without renewing. */
const RENEWAL_MS = LEASE_MS / 3;
/** How long before the store can free its leases a worker has given them up: 5 % of the lease. */
const FENCE_MARGIN_MS = 450;

interface TimedEvent {
  readonly atMs: number;
  readonly event: CoordinationEvent;
}

function eventsOf(worker: Surroundings, type: string) {
  return worker.events.filter((event) => event.type === type);
}

function timed(worker: SeamWorker): TimedEvent[] {
  const events: TimedEvent[] = [];
  worker.coordinator.listen((event) => {
    events.push({ atMs: fleet.clock.nowMs(), event });
  });
  return events;
}

function codeOf(outcome: { error?: unknown }): string | undefined {
  return (outcome.error as { code?: string } | undefined)?.code;
}

function sessionOf(key: string): string {
  return fleet.store.dump(key)[0]!.session!;
}

function presenceKey(id: string): string {
  return fleet.keys.presence(id as InstanceId);
}

/** `a` and `b` hold two splits each; the first one leads. */
async function twoWorkers(first: 'a' | 'b' = 'b'): Promise<{ a: SeamWorker; b: SeamWorker }> {
  const plan = finalPlan(ids(4));
  const areThere = deferred();
  await startFleet({
    planner: { ...plan, plan: (request) => areThere.promise.then(() => plan.plan(request)) },
  });
  const one = fleet.seam(first);
  await fleet.until('it leads', () => fleet.leader() === first);
  const other = fleet.seam(first === 'a' ? 'b' : 'a');
  await fleet.until('both are seen', () => one.coordinator.status().peers.length === 1);
  areThere.resolve();
  const [a, b] = first === 'a' ? [one, other] : [other, one];
  await fleet.until('two each', () => a.held.size === 2 && b.held.size === 2);
  expect(fleet.leader()).toBe(first);
  return { a, b };
}

/** Requests of a client that mention a session, by kind, after so many calls in all. */
function mentions(worker: Surroundings, session: string, after: number): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { sequence, call } of worker.client.log) {
    if (sequence <= after) continue;
    const writes = call.kind === 'transact' ? call.batch.txns.flatMap((txn) => txn.writes) : [];
    const named = writes.filter((write) => 'put' in write && write.session === session);
    const isNamed = 'id' in call && call.id === session;
    if (!isNamed && named.length === 0) continue;
    const key = named[0] === undefined || !('put' in named[0]) ? call.kind : named[0].put;
    const kind = key.split('/').slice(0, 3).join('/');
    counts[kind] = (counts[kind] ?? 0) + 1;
  }
  return counts;
}

describe('a session revoked in the store', () => {
  test('worker - loses everything as starved, comes back under a new session, and spends no attempt (R11, R41)', async () => {
    const { a, b } = await twoWorkers();
    const before = new Map(a.held);
    const dead = sessionOf(presenceKey('a'));
    const callsBefore = a.client.log.at(-1)!.sequence;
    await fleet.store.expireSession(dead as never);
    await fleet.until('both lost', () => eventsOf(a, 'lost').length === 2, RENEWAL_MS);
    expect(eventsOf(a, 'lost')).toMatchObject([{ reason: 'starved' }, { reason: 'starved' }]);
    await fleet.until('both again', () => a.held.size === 2, RENEWAL_MS + 1_000);
    expect(sessionOf(presenceKey('a'))).not.toBe(dead);
    expect([...a.held.keys()].sort()).toEqual([...before.keys()].sort());
    for (const [id, { epoch }] of before) {
      expect(fleet.split(id)).toMatchObject({ epoch: `${Number(epoch) + 1}`, attempts: 0 });
      const late = watched(a.coordinator.commit(id, { watermark: 9 }, epoch));
      await fleet.advance(1);
      expect(codeOf(late)).toBe('E_FENCED');
      expect(fleet.split(id)?.watermark).toBeNull();
    }
    await fleet.advance(3 * LEASE_MS);
    // A batch that the dead session has spoilt is split once; whatever is refused first ends all use of it (R6).
    const used = mentions(a, dead, callsBefore);
    // On a real store so many may be on their way that none has been refused yet.
    const lanes = fleet.slackMs === 0 ? 2 : a.coordinator.status().lanes.length;
    expect(Math.max(...Object.values(used))).toBeLessThanOrEqual(lanes);
    const reopened = a.client.log.findLast(({ call }) => call.kind === 'openSession')!.sequence;
    expect(mentions(a, dead, reopened)).toEqual({});
    expect(eventsOf(a, 'sessionLost')).toHaveLength(1);
    expect(eventsOf(b, 'gained')).toHaveLength(2);
    expect(violations(fleet.store)).toEqual([]);
  });

  test('worker - a lost session does not end its leadership (R18)', async () => {
    const { a } = await twoWorkers('a');
    await fleet.store.expireSession(sessionOf(presenceKey('a')) as never);
    await fleet.until('both lost', () => eventsOf(a, 'lost').length === 2, RENEWAL_MS);
    await fleet.until('both again', () => a.held.size === 2, 2 * RENEWAL_MS);
    await fleet.advance(2 * LEASE_MS);
    expect(eventsOf(a, 'leadershipLost')).toEqual([]);
    expect(fleet.plan()?.generation).toBe(1);
  });

  test('leader - a lost leader session ends no tenancy and moves nothing (R18)', async () => {
    const { a, b } = await twoWorkers('a');
    const assignments = fleet.store.dump(`${fleet.keys.root}assign/`);
    await fleet.store.expireSession(sessionOf(fleet.keys.leader) as never);
    await fleet.until('elected again', () => fleet.plan()?.generation === 2, 2 * RENEWAL_MS);
    await fleet.advance(2 * LEASE_MS);
    expect(eventsOf(a, 'leadershipLost')).toHaveLength(1);
    for (const worker of [a, b]) {
      expect(eventsOf(worker, 'lost')).toEqual([]);
      expect(eventsOf(worker, 'sessionLost')).toEqual([]);
    }
    expect(fleet.store.dump(`${fleet.keys.root}assign/`)).toEqual(assignments);
  });
});

describe('a worker cut off in silence', () => {
  test('self-fence - stops its handlers before the store gives their splits away (R10)', async () => {
    const { a, b } = await twoWorkers();
    const [onA, onB] = [timed(a), timed(b)];
    const mine = [...a.held.keys()];
    a.client.partition({ silent: true });
    const pending = watched(a.coordinator.commit(mine[0]!, { watermark: 1 }));
    await fleet.until('moved', () => b.held.size === 4, 4 * LEASE_MS);
    const lostAt = onA.filter(({ event }) => event.type === 'lost').map(({ atMs }) => atMs);
    const gainedAt = onB.filter(({ event }) => event.type === 'gained').map(({ atMs }) => atMs);
    expect(lostAt).toHaveLength(2);
    expect(gainedAt).toHaveLength(2);
    const freedAt = fleet.store
      .history(`${fleet.keys.root}leases/`)
      .filter(({ cause }) => cause === 'sessionEnd')
      .map(({ atMs }) => atMs);
    expect(freedAt).toHaveLength(2);
    expect(Math.max(...lostAt)).toBeLessThanOrEqual(Math.min(...freedAt) - FENCE_MARGIN_MS);
    expect(Math.min(...freedAt)).toBeLessThanOrEqual(Math.min(...gainedAt));
    expect(codeOf(pending)).toBe('E_FENCED');
    const refused = watched(a.coordinator.commit(mine[1]!, { watermark: 1 }));
    await fleet.advance(0);
    expect(codeOf(refused)).toBe('E_FENCED');
  });

  test('worker - is back by itself after the healing, and the work is divided again (R11)', async () => {
    const { a, b } = await twoWorkers();
    a.client.partition({ silent: true });
    await fleet.until('moved', () => b.held.size === 4, 4 * LEASE_MS);
    a.client.heal();
    await fleet.until('back', () => a.coordinator.status().presence === 'present', LEASE_MS);
    await fleet.until('asked to share', () => b.asked.size === 2, LEASE_MS);
    await b.coordinator.releaseDrained([...b.asked]);
    await fleet.until('two again', () => a.held.size === 2);
    expect(violations(fleet.store)).toEqual([]);
    expect(fleet.split([...a.held.keys()][0]!)?.watermark).toBeNull();
  });

  test('worker - one that was cut off for less than a lease has lost nothing', async () => {
    const { a, b } = await twoWorkers();
    a.client.partition({ silent: true });
    await fleet.advance(LEASE_MS / 2);
    a.client.heal();
    await fleet.advance(4 * LEASE_MS);
    expect(eventsOf(a, 'lost')).toEqual([]);
    expect(eventsOf(b, 'gained')).toHaveLength(2);
  });
});

describe('renewals', () => {
  test.each([
    ['slow but answered', (one: Surroundings) => one.client.when('keepAlive').delayAnswer(1_900)],
    [
      'lost once',
      (one: Surroundings) => one.client.when('keepAlive').loseBefore({ times: 1, silent: true }),
    ],
    [
      'every second one lost',
      (one: Surroundings) => one.client.when('keepAlive').loseAfter({ chance: 0.5 }),
    ],
  ])('%s - nothing is lost', async (_, strike) => {
    const { a, b } = await twoWorkers('a');
    const rule = strike(a);
    await fleet.advance(10 * LEASE_MS);
    expect(rule.hits).toBeGreaterThan(0);
    for (const worker of [a, b]) {
      expect(eventsOf(worker, 'lost')).toEqual([]);
      expect(eventsOf(worker, 'leadershipLost')).toEqual([]);
    }
    expect(fleet.plan()?.generation).toBe(1);
  });

  test('answered once the deadline is over - come too late, whatever they say (R11)', async () => {
    const { a, b } = await twoWorkers();
    a.client.when('keepAlive').delayAnswer(LEASE_MS);
    await fleet.until('lost', () => eventsOf(a, 'lost').length === 2, 2 * LEASE_MS);
    a.client.clearRules();
    await fleet.until('back', () => a.held.size === 2, 2 * LEASE_MS);
    expect(eventsOf(a, 'sessionLost')).toMatchObject([{ reason: 'deadline' }]);
    expect(eventsOf(b, 'gained')).toHaveLength(2);
  });
});

describe('a loop that was blocked for longer than the lease', () => {
  test('thaw - no commit gets through, each split is lost once, and the log names the stall (R10)', async () => {
    const { a, b } = await twoWorkers();
    const mine = [...a.held.keys()];
    a.freeze('runs');
    await fleet.until('moved', () => b.held.size === 4, 4 * LEASE_MS);
    a.thaw();
    // The very first thing that the handler does, before any timer has fired.
    const commits = mine.map((id) => watched(a.coordinator.commit(id, { watermark: 5 })));
    await fleet.advance(1_000);
    for (const commit of commits) expect(codeOf(commit)).toBe('E_FENCED');
    expect(eventsOf(a, 'lost').map((event) => 'splitId' in event && event.splitId)).toEqual(mine);
    const lines = a.lines.filter(({ event }) => event === 'session.lost');
    expect(lines).toHaveLength(1);
    expect(lines[0]!.message).toMatch(/event loop was blocked for \d+ ms/);
    expect(lines[0]!.fields.stallMs).toBeGreaterThan(LEASE_MS / 3);
    for (const id of mine) expect(fleet.split(id)).toMatchObject({ owner: 'b', watermark: null });
    expect(violations(fleet.store)).toEqual([]);
  });

  test('reclaim - the same process spends an attempt, because its own loop was the cause (R31)', async () => {
    await startFleet({ planner: finalPlan(['s1']) });
    const a = fleet.seam('a');
    await fleet.until('a holds', () => a.held.has('s1'));
    a.freeze('runs');
    await fleet.advance(2 * LEASE_MS);
    a.thaw();
    await fleet.until('again', () => eventsOf(a, 'gained').length === 2);
    expect(fleet.split('s1')).toMatchObject({ epoch: '2', attempts: 1, owner: 'a' });
  });

  test('host suspend - the clock stood still, so the compare-and-swap of the commit refuses it', async () => {
    const { a, b } = await twoWorkers();
    const mine = [...a.held.keys()];
    a.freeze('stops');
    await fleet.until('moved', () => b.held.size === 4, 4 * LEASE_MS);
    a.thaw();
    const commit = watched(a.coordinator.commit(mine[0]!, { watermark: 5 }));
    await fleet.advance(1_000);
    expect(codeOf(commit)).toBe('E_FENCED');
    expect(eventsOf(a, 'lost')).toHaveLength(2);
    for (const id of mine) expect(fleet.split(id)).toMatchObject({ owner: 'b', watermark: null });
    await fleet.advance(LEASE_MS);
    expect(violations(fleet.store)).toEqual([]);
  });
});

describe('wall clocks', () => {
  /** How long it takes until the splits of a killed worker are held again, by whom ever. */
  async function takeover(step: (one: SeamWorker, other: SeamWorker) => Promise<void>) {
    await startFleet({ planner: finalPlan(ids(6)) });
    const seams = ['a', 'b', 'c'].map((id) => fleet.seam(id));
    const [a, b, c] = seams as [SeamWorker, SeamWorker, SeamWorker];
    a.clock.stepWall(-600_000);
    c.clock.stepWall(600_000);
    await fleet.until('two each', () => seams.every((seam) => seam.held.size === 2));
    await step(a, b);
    expect(seams.flatMap((seam) => eventsOf(seam, 'lost'))).toEqual([]);
    expect(seams.flatMap((seam) => eventsOf(seam, 'gained'))).toHaveLength(6);
    const renewals = [a, b].map((seam) => seam.client.counts.keepAlive);
    c.crash();
    const tookMs = await fleet.until('moved', () => a.held.size + b.held.size === 6);
    await fleet.close();
    return { tookMs, renewals };
  }

  test('steps of an hour forward and two back - change nothing, not even when (R10)', async () => {
    const plain = await takeover(() => fleet.advance(2 * LEASE_MS));
    const stepped = await takeover(async (a, b) => {
      a.clock.stepWall(3_600_000);
      await fleet.advance(LEASE_MS);
      b.clock.stepWall(3_600_000);
      a.clock.stepWall(-7_200_000);
      await fleet.advance(LEASE_MS);
    });
    expect(stepped).toEqual(plain);
  });
});
