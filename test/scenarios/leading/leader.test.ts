import { describe, expect, test } from '@jest/globals';
import { fatalPlannerError, type Planner } from '../../../src/index.ts';
import { writesTo } from '../../../src/store/faults.ts';
import { finalPlan, holdUntilAsked, ids, LEASE_MS, type SeamWorker } from '../../support/fleet.ts';
import {
  completeAll,
  eventsOf,
  handBackAll,
  isLeaderWrite,
  leaderSession,
  placesOf,
  sessionOf,
  timeLine,
  versionsOfPlan,
  writerOf,
  writesOf,
} from '../../support/observed.ts';
import { fleet, startFleet, startRecorded } from '../../support/scenario.ts';
import { ownersOf } from '../../support/sources.ts';

const TICK_MS = LEASE_MS / 3;

/** Starts workers one after the other, so that their announcements are in this order. */
async function startInOrder<Names extends readonly string[]>(
  ...names: Names
): Promise<{ [Index in keyof Names]: SeamWorker }> {
  const workers: SeamWorker[] = [];
  for (const name of names) {
    const worker = fleet.seam(name);
    workers.push(worker);
    await fleet.until(`${name} is there`, () => worker.coordinator.status().presence === 'present');
  }
  await fleet.until('a leader', () => fleet.leader() !== null);
  return workers as { [Index in keyof Names]: SeamWorker };
}

/** Starts workers in order, and waits until they hold every split of a plan of `count`. */
async function settled<Names extends readonly string[]>(
  count: number,
  ...names: Names
): Promise<{ [Index in keyof Names]: SeamWorker }> {
  const workers = await startInOrder(...names);
  const held = (): number => workers.reduce((sum, { held: splits }) => sum + splits.size, 0);
  const isEven = (): boolean =>
    workers.every(({ held: splits }) => splits.size === count / names.length);
  for (const worker of workers) handBackAll(worker);
  await fleet.until(`${count} held`, () => held() === count && isEven());
  await fleet.advance(1_000);
  return workers;
}

function movesOf(worker: SeamWorker): string[] {
  const moves = ['gained', 'revokeRequested', 'lost'];
  return worker.events.map(({ type }) => type).filter((type) => moves.includes(type));
}

/** An open plan whose planner says that it is beyond help while `isBroken` holds. */
function breakablePlanner(splits: readonly string[], isBroken: () => boolean): Planner {
  return {
    fingerprint: () => 'plan:v1',
    plan: () => {
      if (isBroken()) throw fatalPlannerError('the catalogue is gone');
      return { splits: splits.map((id) => ({ id, descriptor: '' })), finality: 'open' };
    },
  };
}

describe('candidates', () => {
  test('candidates - lead in the order of their announcements, whatever their names (R20)', async () => {
    await startFleet();
    const [z, m, c] = await startInOrder('z', 'm', 'c');
    expect(fleet.leader()).toBe('z');
    const heard = timeLine(fleet, z, m, c);
    z.crash();
    await fleet.until('m leads', () => fleet.leader() === 'm', 2 * LEASE_MS);
    m.crash();
    await fleet.until('c leads', () => fleet.leader() === 'c', 2 * LEASE_MS);
    expect(placesOf(heard, 'leadershipGained').map(({ id }) => id)).toEqual(['m', 'c']);
  });

  test('candidates - come one after the other: the second does not even open a session (R20)', async () => {
    await startFleet();
    const [z, m, c] = await startInOrder('z', 'm', 'c');
    const opened = c.client.counts.openSession;
    void z.coordinator.stop();
    await fleet.until('m leads', () => fleet.leader() === 'm', LEASE_MS);
    await fleet.advance(TICK_MS);
    expect(c.client.counts.openSession).toBe(opened);
    expect(eventsOf(m, 'leadershipGained')).toHaveLength(1);
  });

  test.each(['gracefully', 'by dying'])(
    'a middle candidate - leaving %s makes nobody else lead',
    async (how) => {
      let runs = 0;
      const planner = finalPlan(ids(6));
      await startFleet({
        planner: {
          ...planner,
          plan: (request) => {
            runs += 1;
            return planner.plan(request);
          },
        },
      });
      const [a, b, c] = await startInOrder('a', 'b', 'c');
      await fleet.until('a sealed plan', () => fleet.plan()?.sealed === true);
      if (how === 'gracefully') void b.coordinator.stop();
      else b.crash();
      await fleet.advance(5 * LEASE_MS);
      expect(eventsOf(c, 'leadershipGained')).toEqual([]);
      expect(fleet.leader()).toBe('a');
      expect(fleet.plan()?.generation).toBe(1);
      void a.coordinator.stop();
      await fleet.until('c leads', () => fleet.leader() === 'c', LEASE_MS + TICK_MS);
      expect(fleet.plan()?.generation).toBe(2);
      expect(runs).toBe(1);
    },
  );

  test('a worker with room for nothing - leads, and holds nothing (R20)', async () => {
    await startFleet({ planner: finalPlan(ids(4)) });
    const idle = fleet.seam('idle', { config: { maxInFlight: 0 } });
    await fleet.until('it leads', () => fleet.leader() === 'idle');
    const busy = fleet.seam('busy');
    completeAll(busy);
    await fleet.until('the verdict', () => idle.verdict !== null && busy.verdict !== null);
    expect(fleet.leader()).toBe('idle');
    expect(eventsOf(idle, 'gained')).toEqual([]);
    expect(idle.verdict).toMatchObject({ kind: 'complete', completed: 4 });
  });

  test('a cordoned worker - may lead (R20)', async () => {
    await startFleet({ planner: finalPlan(ids(2)) });
    const operator = fleet.operator();
    await operator.cordon('a');
    const [a, b] = await startInOrder('a', 'b');
    await fleet.until('b holds all', () => b.held.size === 2);
    expect(fleet.leader()).toBe('a');
    expect(eventsOf(a, 'gained')).toEqual([]);
  });
});

describe('a change of leader', () => {
  test('a lost leader session - ends no tenancy, drains nothing and moves nothing (R18)', async () => {
    await startFleet({ planner: finalPlan(ids(12)) });
    const workers = await settled(12, 'a', 'b', 'c');
    const before = workers.map(movesOf);
    const assigned = writesOf(fleet, `${fleet.keys.root}assign/`).length;
    await fleet.store.expireSession(leaderSession(fleet));
    await fleet.until('a new term', () => fleet.plan()?.generation === 2, LEASE_MS);
    await fleet.advance(3 * LEASE_MS);
    expect(workers.map(movesOf)).toEqual(before);
    // Equal content is not rewritten for a new generation (R25).
    expect(writesOf(fleet, `${fleet.keys.root}assign/`)).toHaveLength(assigned);
  });

  test('a leader that resigns - keeps its splits, and moves nobody else’s (R18)', async () => {
    let isBroken = false;
    const planner = breakablePlanner(ids(12), () => isBroken && fleet.leader() === 'a');
    await startFleet({ planner, config: { replanIntervalMs: LEASE_MS } });
    const workers = await settled(12, 'a', 'b', 'c');
    const before = workers.map(movesOf);
    isBroken = true;
    await fleet.until('b leads', () => fleet.leader() === 'b', 3 * LEASE_MS);
    await fleet.advance(3 * LEASE_MS);
    expect(workers.map(movesOf)).toEqual(before);
    expect(eventsOf(workers[0], 'leadershipLost')).toHaveLength(1);
  });

  test('a lost worker session - does not end leadership (R18)', async () => {
    await startFleet({ planner: finalPlan(ids(2)) });
    const [a] = await startInOrder('a');
    await fleet.until('both held', () => a.held.size === 2);
    const presence = fleet.store.dump(`${fleet.keys.root}workers/`)[0]!;
    await fleet.store.expireSession(presence.session!);
    await fleet.until('lost', () => eventsOf(a, 'lost').length === 2, LEASE_MS);
    await fleet.until('held again', () => a.held.size === 2);
    expect(eventsOf(a, 'leadershipLost')).toEqual([]);
    expect(fleet.plan()?.generation).toBe(1);
  });

  test('a leader key that somebody deletes - deposes the leader, who stands again (R15, R19)', async () => {
    await startFleet({ planner: finalPlan(ids(2)) });
    const [a] = await startInOrder('a');
    await fleet.until('both held', () => a.held.size === 2);
    await fleet.store.remove(fleet.keys.leader);
    await fleet.until('a new term', () => fleet.plan()?.generation === 2, LEASE_MS);
    await fleet.advance(1_000);
    expect(eventsOf(a, 'leadershipLost')).toHaveLength(1);
    expect(eventsOf(a, 'leadershipGained').map(({ generation }) => generation)).toEqual([1, 2]);
    expect(eventsOf(a, 'lost')).toEqual([]);
  });
});

describe('a leader that can renew but not write', () => {
  /** A third worker joins, so that the leader has something to write. */
  const makeWork = (): SeamWorker => fleet.seam('late');

  test.each([
    ['refused for good, the resignation too', 'E_STORE_DENIED'],
    ['never answered, the resignation neither', 'E_OUTCOME_UNKNOWN'],
  ] as const)(
    'leader writes that are %s - end its term before another begins (R18)',
    async (_, code) => {
      await startFleet({ planner: finalPlan(ids(8)) });
      const [a, b] = await settled(8, 'a', 'b');
      const heard = timeLine(fleet, a, b);
      a.client.when(isLeaderWrite).refuse(code);
      a.client.when(writesTo((key) => key === fleet.keys.leader)).refuse(code);
      const brokenAtMs = fleet.clock.nowMs();
      makeWork();
      await fleet.until('b leads', () => fleet.leader() === 'b', 5 * LEASE_MS);
      await fleet.advance(1_000);
      const [loss] = placesOf(heard, 'leadershipLost');
      const [gain] = placesOf(heard, 'leadershipGained');
      expect(loss?.id).toBe('a');
      expect(gain?.id).toBe('b');
      expect(loss!.index).toBeLessThan(gain!.index);
      // It had one lease of failing writes, no less and not much more.
      expect(loss!.atMs - brokenAtMs).toBeGreaterThanOrEqual(LEASE_MS);
      expect(loss!.atMs - brokenAtMs).toBeLessThan(LEASE_MS + TICK_MS + fleet.slackMs);
      // After the loss it sends nothing more as a leader, and it keeps its splits.
      const sentAfter = a.client.log.filter(
        ({ atMs, call }) => atMs > loss!.atMs && isLeaderWrite(call),
      );
      expect(sentAfter).toEqual([]);
      const written = writesOf(fleet, `${fleet.keys.root}assign/`);
      const since = written.filter(({ atMs }) => atMs > brokenAtMs);
      expect(new Set(since.map(writerOf))).toEqual(new Set(['b']));
      expect(placesOf(heard, 'lost').filter(({ id }) => id === 'a')).toEqual([]);
    },
  );

  test('a leader whose renewals fail - announces the loss before another announces a gain', async () => {
    await startFleet({ planner: finalPlan(ids(8)) });
    const [a, b] = await settled(8, 'a', 'b');
    const heard = timeLine(fleet, a, b);
    const workerSession = sessionOf(fleet, 'a');
    a.client
      .when((call) => call.kind === 'keepAlive' && call.id !== workerSession)
      .refuse('E_STORE_UNREACHABLE');
    a.client.when(writesTo((key) => key === fleet.keys.leader)).refuse('E_STORE_UNREACHABLE');
    await fleet.until('a gain', () => placesOf(heard, 'leadershipGained').length > 0, 3 * LEASE_MS);
    const [loss] = placesOf(heard, 'leadershipLost');
    const [gain] = placesOf(heard, 'leadershipGained');
    expect([loss?.id, gain?.id]).toEqual(['a', 'b']);
    expect(loss!.index).toBeLessThan(gain!.index);
    expect(eventsOf(a, 'lost')).toEqual([]);
    await fleet.advance(LEASE_MS);
    expect(fleet.leader()).toBe('b');
  });

  test('a full store - is no reason to resign, nobody would fare better (R7, R18)', async () => {
    await startFleet({ planner: finalPlan(ids(8)) });
    const [a] = await settled(8, 'a', 'b');
    a.client.when(isLeaderWrite).refuse('E_STORE_FULL');
    makeWork();
    await fleet.advance(5 * LEASE_MS);
    expect(eventsOf(a, 'leadershipLost')).toEqual([]);
    expect(fleet.assignment('late')).toBeNull();
    a.client.clearRules();
    await fleet.until('late is served', () => fleet.assignment('late') !== null, LEASE_MS);
  });

  test('a leader that resigned for cause - stands again after one lease, then after two (R18)', async () => {
    await startFleet({ planner: finalPlan(ids(4)) });
    const a = fleet.seam('a');
    await fleet.until('a leads', () => eventsOf(a, 'leadershipGained').length === 1);
    await fleet.until('all held', () => a.held.size === 4);
    const heard = timeLine(fleet, a);
    a.client.when(isLeaderWrite).refuse('E_OUTCOME_UNKNOWN');
    await fleet.operator().drain('a');
    await fleet.until(
      'three losses',
      () => placesOf(heard, 'leadershipLost').length === 3,
      20 * LEASE_MS,
    );
    const moments = heard.filter(({ event }) => event.type.startsWith('leadership'));
    expect(moments.map(({ event }) => event.type)).toEqual([
      'leadershipLost',
      'leadershipGained',
      'leadershipLost',
      'leadershipGained',
      'leadershipLost',
    ]);
    const pauses = [moments[1]!.atMs - moments[0]!.atMs, moments[3]!.atMs - moments[2]!.atMs];
    expect(pauses[0]).toBeGreaterThanOrEqual(LEASE_MS);
    expect(pauses[0]).toBeLessThan(LEASE_MS + TICK_MS);
    expect(pauses[1]).toBeGreaterThanOrEqual(2 * LEASE_MS);
    expect(pauses[1]).toBeLessThan(2 * LEASE_MS + TICK_MS);
    expect(versionsOfPlan(fleet).at(-1)?.record.generation).toBe(3);
  });
});

describe('a leader that can read but not write', () => {
  test.each(['E_STORE_DENIED', 'E_STORE_UNREACHABLE', 'E_OUTCOME_UNKNOWN'] as const)(
    'renewals and writes of leadership that are refused with %s - end it before another begins, and no split moves',
    async (code) => {
      const world = startRecorded({ planner: finalPlan(ids(8)) });
      const a = fleet.worker('a', holdUntilAsked);
      await fleet.until('a leads', () => fleet.leader() === 'a', 2_000);
      const b = fleet.worker('b', holdUntilAsked);
      const areEven = (): boolean => ['a', 'b'].every((id) => fleet.leasesOf(id).length === 4);
      await fleet.until('four each', areEven, 5_000);
      await fleet.advance(1_000);
      const before = ids(8).map((id) => ownersOf(fleet, id));
      const asked = [a, b].map((worker) => eventsOf(worker, 'revokeRequested').length);
      const leader = leaderSession(fleet);
      expect(leader).not.toBe(sessionOf(fleet, 'a'));
      a.client.when((call) => 'id' in call && call.id === leader).refuse(code);
      a.client.when(isLeaderWrite).refuse(code);
      a.client.when(writesTo((key) => key === fleet.keys.leader)).refuse(code);
      await fleet.advance(2 * LEASE_MS);
      expect(fleet.leader()).toBe('b');
      expect(eventsOf(a, 'leadershipLost')).toHaveLength(1);
      expect(eventsOf(b, 'leadershipGained')).toHaveLength(1);
      const told = world.recorder.happenings.flatMap((happening) =>
        happening.kind === 'leads' || happening.kind === 'leadsNoMore'
          ? [`${happening.process} ${happening.kind}`]
          : [],
      );
      expect(told).toEqual(['0 leads', '0 leadsNoMore', '1 leads']);
      const lostAtMs = world.recorder.happenings.find(({ kind }) => kind === 'leadsNoMore')!.atMs;
      const sent = a.client.log.filter(
        ({ atMs, call }) =>
          atMs > lostAtMs && (isLeaderWrite(call) || ('id' in call && call.id === leader)),
      );
      expect(sent.filter(({ call }) => call.kind !== 'closeSession')).toEqual([]);
      expect(a.run.state).toBe('pending');
      expect(ids(8).map((id) => ownersOf(fleet, id))).toEqual(before);
      for (const worker of [a, b]) expect(eventsOf(worker, 'lost')).toEqual([]);
      expect([a, b].map((worker) => eventsOf(worker, 'revokeRequested').length)).toEqual(asked);
    },
  );
});
