/** Sessions that are lost, slow, cut off or slept through, and how a worker comes back by itself (R10, R11, R18, R41). */
import { describe, expect, test } from '@jest/globals';
import type { CoordinationEvent } from '../../../src/index.ts';
import {
  finalPlan,
  holdUntilAsked,
  ids,
  LEASE_MS,
  type SeamWorker,
  type Surroundings,
  watched,
} from '../../support/fleet.ts';
import { violations } from '../../support/faults.ts';
import { codeOf, deferred, eventsOf, leaderSession, sessionOf } from '../../support/observed.ts';
import { fleet, startFleet, startRecorded } from '../../support/scenario.ts';
import { Journal, stepWorker } from '../../support/sources.ts';

/** The longest that a worker goes without renewing. */
const RENEWAL_MS = LEASE_MS / 3;
/** How long before the store can free its leases a worker has given them up: 5 % of the lease. */
const FENCE_MARGIN_MS = 450;

interface TimedEvent {
  readonly atMs: number;
  readonly event: CoordinationEvent;
}

function timed(worker: SeamWorker): TimedEvent[] {
  const events: TimedEvent[] = [];
  worker.coordinator.listen((event) => {
    events.push({ atMs: fleet.clock.nowMs(), event });
  });
  return events;
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

/** What the requests of a worker that mention a session are about, after so many calls in all: a key, or the kind of call. */
function mentions({ client }: Surroundings, session: string, after: number): string[] {
  return client.log.flatMap(({ sequence, call }) => {
    if (sequence <= after) return [];
    const writes = call.kind === 'transact' ? call.batch.txns.flatMap((txn) => txn.writes) : [];
    const named = writes.find((write) => 'put' in write && write.session === session);
    if (named !== undefined && 'put' in named) return [named.put];
    return 'id' in call && call.id === session ? [call.kind] : [];
  });
}

function mostOften(names: readonly string[]): number {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return Math.max(0, ...counts.values());
}

describe('a session revoked in the store', () => {
  test('worker - loses everything as starved, comes back under a new session, and spends no attempt (R11, R41)', async () => {
    const { a, b } = await twoWorkers();
    const before = new Map(a.held);
    const dead = sessionOf(fleet, 'a')!;
    const callsBefore = a.client.log.at(-1)!.sequence;
    await fleet.store.expireSession(dead);
    await fleet.until('both lost', () => eventsOf(a, 'lost').length === 2, RENEWAL_MS);
    expect(eventsOf(a, 'lost')).toMatchObject([{ reason: 'starved' }, { reason: 'starved' }]);
    await fleet.until('both again', () => a.held.size === 2, RENEWAL_MS + 1_000);
    expect(sessionOf(fleet, 'a')!).not.toBe(dead);
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
    const used = mentions(a, dead, callsBefore).map((key) => key.split('/').slice(0, 3).join('/'));
    // On a real store so many may be on their way that none has been refused yet.
    const lanes = fleet.slackMs === 0 ? 2 : a.coordinator.status().lanes.length;
    expect(mostOften(used)).toBeLessThanOrEqual(lanes);
    const reopened = a.client.log.findLast(({ call }) => call.kind === 'openSession')!.sequence;
    expect(mentions(a, dead, reopened)).toEqual([]);
    expect(eventsOf(a, 'sessionLost')).toHaveLength(1);
    expect(eventsOf(b, 'gained')).toHaveLength(2);
    expect(violations(fleet.store)).toEqual([]);
  });

  test('worker - a lost session does not end its leadership (R18)', async () => {
    const { a } = await twoWorkers('a');
    await fleet.store.expireSession(sessionOf(fleet, 'a')!);
    await fleet.until('both lost', () => eventsOf(a, 'lost').length === 2, RENEWAL_MS);
    await fleet.until('both again', () => a.held.size === 2, 2 * RENEWAL_MS);
    await fleet.advance(2 * LEASE_MS);
    expect(eventsOf(a, 'leadershipLost')).toEqual([]);
    expect(fleet.plan()?.generation).toBe(1);
  });

  test('leader - a lost leader session ends no tenancy and moves nothing (R18)', async () => {
    const { a, b } = await twoWorkers('a');
    const assignments = fleet.store.dump(`${fleet.keys.root}assign/`);
    await fleet.store.expireSession(leaderSession(fleet));
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

describe('leases that the store took away', () => {
  test('both sessions of a leader at once - everything is lost once, renewed once, and the next assignment counts it in (R11, R18, R41)', async () => {
    const world = startRecorded({ planner: finalPlan(ids(4)) });
    const journal = new Journal();
    const a = stepWorker(world, 'a', journal);
    await fleet.until('a leads', () => fleet.leader() === 'a', 2_000);
    const b = stepWorker(world, 'b', journal);
    const areEven = (): boolean => ['a', 'b'].every((id) => fleet.leasesOf(id).length === 2);
    await fleet.until('two each', areEven, 5_000);
    await fleet.advance(LEASE_MS);
    const mine = fleet.leasesOf('a').sort();
    const epochs = mine.map((id) => BigInt(fleet.split(id)!.epoch));
    const worker = sessionOf(fleet, 'a')!;
    const leader = leaderSession(fleet);
    expect(leader).not.toBe(worker);
    world.recorder.note({ kind: 'disturbed', process: 0, by: 'robbed' });
    for (const session of [worker, leader]) await fleet.store.expireSession(session);
    await fleet.until('both lost', () => eventsOf(a, 'lost').length === 2, LEASE_MS / 3);
    const noticed = a.client.log.at(-1)!.sequence;
    await fleet.until('both again', () => journal.runningOn('a').length === 2, LEASE_MS / 3);
    expect(sessionOf(fleet, 'a')).not.toBe(worker);
    expect(journal.runningOn('a')).toEqual(mine);
    mine.forEach((id, index) => {
      expect(BigInt(fleet.split(id)!.epoch)).toBeGreaterThan(epochs[index]!);
      expect(fleet.split(id)?.attempts).toBe(0);
    });
    await fleet.until('somebody leads', () => fleet.leader() !== null, LEASE_MS);
    // The next assignment: a newcomer takes a share, and the robbed one keeps one.
    stepWorker(world, 'c', journal);
    const areThree = (): boolean => ['a', 'b', 'c'].every((id) => fleet.leasesOf(id).length > 0);
    await fleet.until('all three', areThree, 5_000);
    expect(fleet.assignment('a')?.splits.length).toBeGreaterThan(0);
    await fleet.advance(3 * LEASE_MS);
    expect(
      eventsOf(a, 'lost')
        .map(({ splitId }) => splitId)
        .sort(),
    ).toEqual(mine);
    expect(eventsOf(b, 'lost')).toEqual([]);
    for (const session of [worker, leader]) {
      expect(mostOften(mentions(a, session, noticed))).toBeLessThanOrEqual(1);
    }
  });

  test.each([
    [1, true],
    [3, false],
    [2, true],
  ])(
    'renewals that are carried out and whose answers are lost, %i in a row (at the timeout: %s) - cost nothing',
    async (times, atTimeout) => {
      startRecorded({ planner: finalPlan(['s1', 's2']) });
      const a = fleet.worker('a', holdUntilAsked);
      await fleet.until('a holds both', () => fleet.leasesOf('a').length === 2, 5_000);
      await fleet.advance(LEASE_MS);
      const before = fleet.store.dump(fleet.keys.root);
      const session = sessionOf(fleet, 'a');
      const rule = a.client
        .when((call) => call.kind === 'keepAlive' && call.id === session)
        .loseAfter({ times, atTimeout });
      await fleet.advance(5 * LEASE_MS);
      expect(rule.hits).toBe(times);
      expect(fleet.store.dump(fleet.keys.root)).toEqual(before);
      expect(eventsOf(a, 'lost')).toEqual([]);
      expect(eventsOf(a, 'sessionLost')).toEqual([]);
      expect(eventsOf(a, 'leadershipLost')).toEqual([]);
    },
  );
});
