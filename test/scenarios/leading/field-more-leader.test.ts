/** Field reports about leaders that cannot renew, that die in the middle of a plan, and fleets that should rest. */
import { afterEach, describe, expect, test } from '@jest/globals';
import { writesTo } from '../../../src/store/faults.ts';
import { transaction, violations } from '../../support/faults.ts';
import {
  CONFIG,
  finalPlan,
  type HandledWorker,
  holdUntilAsked,
  ids,
  LEASE_MS,
} from '../../support/fleet.ts';
import { idsUnder, isLeaderWrite, sessionOf, versionsOfPlan } from '../../support/observed.ts';
import { RecordedFleet } from '../../support/recorded.ts';
import {
  assignmentWrites,
  eventsOf,
  Journal,
  ownersOf,
  stepWorker,
} from '../../support/sources.ts';

let fleet: RecordedFleet;
afterEach(async () => {
  await fleet.closeSound();
  expect(violations(fleet.store)).toEqual([]);
});

describe('a leader that can read but not write', () => {
  test.each(['E_STORE_DENIED', 'E_STORE_UNREACHABLE', 'E_OUTCOME_UNKNOWN'] as const)(
    'renewals and writes of leadership that are refused with %s - end it before another begins, and no split moves',
    async (code) => {
      fleet = new RecordedFleet({ planner: finalPlan(ids(8)) });
      const a = fleet.worker('a', holdUntilAsked);
      await fleet.until('a leads', () => fleet.leader() === 'a', 2_000);
      const b = fleet.worker('b', holdUntilAsked);
      const areEven = (): boolean => ['a', 'b'].every((id) => fleet.leasesOf(id).length === 4);
      await fleet.until('four each', areEven, 5_000);
      await fleet.advance(1_000);
      const before = ids(8).map((id) => ownersOf(fleet, id));
      const asked = [a, b].map((worker) => eventsOf(worker, 'revokeRequested').length);
      const leader = fleet.store.dump(fleet.keys.leader)[0]!.session!;
      expect(leader).not.toBe(sessionOf(fleet, 'a'));
      a.client.when((call) => 'id' in call && call.id === leader).refuse(code);
      a.client.when(isLeaderWrite).refuse(code);
      a.client.when(writesTo((key) => key === fleet.keys.leader)).refuse(code);
      await fleet.advance(2 * LEASE_MS);
      expect(fleet.leader()).toBe('b');
      expect(eventsOf(a, 'leadershipLost')).toHaveLength(1);
      expect(eventsOf(b, 'leadershipGained')).toHaveLength(1);
      const told = fleet.recorder.happenings.flatMap((happening) =>
        happening.kind === 'leads' || happening.kind === 'leadsNoMore'
          ? [`${happening.process} ${happening.kind}`]
          : [],
      );
      expect(told).toEqual(['0 leads', '0 leadsNoMore', '1 leads']);
      const lostAtMs = fleet.recorder.happenings.find(({ kind }) => kind === 'leadsNoMore')!.atMs;
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

describe('a leader that dies while others work on what it has stored', () => {
  const PLANNED = ids(14);
  /** Large enough that the splits take two batches. */
  const DESCRIPTOR = 'x'.repeat(60 * 1024);

  interface Run {
    readonly a: HandledWorker;
    readonly survivors: readonly HandledWorker[];
    readonly starts: Map<string, number>;
  }

  /** Three workers that finish what they are given at once; `a` leads. */
  async function threeWorkers(): Promise<Run> {
    const splits = PLANNED.map((id) => ({ id, descriptor: DESCRIPTOR }));
    fleet = new RecordedFleet({ planner: finalPlan(splits) });
    const starts = new Map<string, number>();
    const start = (id: string): HandledWorker =>
      fleet.worker(id, async (grant) => {
        starts.set(grant.split.id, (starts.get(grant.split.id) ?? 0) + 1);
        await grant.complete({ watermark: 1 });
      });
    const a = start('a');
    a.client.when(transaction('elect')).delay(100, { times: 1 });
    await fleet.clock.settle();
    const survivors = ['b', 'c'].map((id) => {
      const worker = start(id);
      // They stand for election after `a`, whoever is there first.
      worker.client.when(transaction('elect')).delay(1_000, { times: 1 });
      return worker;
    });
    return { a, survivors, starts };
  }

  /** Nobody was told an end before the plan was sealed; the survivors end it, and each split once. */
  async function expectTheEnd({ survivors, starts }: Run, finished: readonly string[]) {
    const isOver = (): boolean => survivors.every(({ run }) => run.state !== 'pending');
    const sealed = versionsOfPlan(fleet).some(({ record }) => record.sealed);
    if (!sealed) for (const { run } of survivors) expect(run.state).toBe('pending');
    await fleet.until('the end', isOver, 10 * LEASE_MS, 100);
    for (const { run } of survivors) {
      expect(run.value).toMatchObject({ kind: 'complete', completed: PLANNED.length });
    }
    const versions = versionsOfPlan(fleet);
    for (const { record } of versions)
      if (record.verdict !== null) expect(record.sealed).toBe(true);
    expect(idsUnder(fleet, 'specs')).toEqual([...PLANNED].sort());
    expect(idsUnder(fleet, 'splits')).toEqual([...PLANNED].sort());
    for (const id of finished) expect(starts.get(id)).toBe(1);
    for (const id of PLANNED) {
      const specs = fleet.store.history(`${fleet.keys.root}specs/${id}`);
      expect(specs.filter(({ key }) => key.endsWith(`/${id}`))).toHaveLength(1);
      expect(fleet.split(id)).toMatchObject({ status: 'completed', watermark: '1' });
    }
  }

  test('half a plan that others have finished - is no end: the next leader stores the rest, and keeps what is done', async () => {
    const run = await threeWorkers();
    const { a, survivors } = run;
    // The first batch of splits lands, the next one never leaves.
    let seeds = 0;
    const isSeed = transaction('seed');
    const isLater = a.client
      .when((call) => {
        if (typeof isSeed !== 'function' || !isSeed(call)) return false;
        seeds += 1;
        return seeds > 1;
      })
      .delay(60_000);
    const done = (): string[] =>
      idsUnder(fleet, 'splits').filter((id) => fleet.split(id)?.status === 'completed');
    const isHalf = (): boolean =>
      done().length >= 4 && done().length === idsUnder(fleet, 'splits').length;
    await fleet.until('what is stored is finished', isHalf, 5_000);
    expect(fleet.leader()).toBe('a');
    expect(isLater.hits).toBe(1);
    const finished = done();
    expect(finished.length).toBeLessThan(PLANNED.length);
    a.crash();
    await fleet.advance(LEASE_MS / 2);
    expect(fleet.plan()).toMatchObject({ sealed: false, verdict: null });
    for (const { verdict } of survivors.map(({ worker }) => worker.status()))
      expect(verdict).toBeNull();
    await expectTheEnd(run, finished);
  });

  test.each([false, true])(
    'a leader that dies at any write of its term - leaves a job that ends well (that write landed: %s)',
    async (lands) => {
      const stored = new Set<number>();
      for (let step = 1; ; step += 1) {
        const run = await threeWorkers();
        const { a } = run;
        let sent = 0;
        let hasDied = false;
        a.client
          .when((call) => {
            if (!isLeaderWrite(call) || hasDied) return false;
            sent += 1;
            hasDied = sent === step;
            if (hasDied) a.crash();
            return hasDied && !lands;
          })
          .loseBefore({ silent: true });
        const isOver = (): boolean => hasDied || a.run.state !== 'pending';
        await fleet.until('a died, or was done', isOver, 60_000, 100);
        // What the others were given they finish, while nobody leads.
        await fleet.advance(1_000);
        stored.add(idsUnder(fleet, 'specs').length);
        const finished = PLANNED.filter((id) => fleet.split(id)?.status === 'completed');
        await expectTheEnd(run, finished);
        if (!hasDied) break;
        await fleet.closeSound();
      }
      const halves = [...stored].filter((count) => count > 0 && count < PLANNED.length);
      expect(halves.length).toBeGreaterThan(0);
    },
    30_000,
  );
});

describe('a fleet at work', () => {
  test('a fleet at work - that nobody joins or leaves publishes nothing and moves nothing for 20 rebalance delays', async () => {
    fleet = new RecordedFleet({ planner: finalPlan(ids(10)), config: { maxInFlight: 10 } });
    const journal = new Journal();
    const names = ['a', 'b', 'c'];
    for (const name of names) stepWorker(fleet, name, journal, { stepMs: 2_000 });
    const isEven = (): boolean => names.every((name) => journal.runningOn(name).length >= 3);
    await fleet.until('3, 3 and 4', isEven, 10_000);
    await fleet.advance(2 * LEASE_MS);
    const fromMs = fleet.clock.nowMs();
    const owners = ids(10).map((id) => ownersOf(fleet, id));
    fleet.recorder.note({ kind: 'rests' });
    await fleet.advance(20 * CONFIG.rebalanceDelayMs!);
    fleet.recorder.note({ kind: 'restIsOver' });
    expect(assignmentWrites(fleet, fromMs)).toEqual([]);
    expect(ids(10).map((id) => ownersOf(fleet, id))).toEqual(owners);
    for (const id of ids(10))
      expect(journal.of(id, 'start')).toHaveLength(owners[Number(id.slice(1))]!.length);
  });
});
