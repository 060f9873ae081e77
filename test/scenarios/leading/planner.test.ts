import { describe, expect, test } from '@jest/globals';
import {
  fatalPlannerError,
  type PlanAnswer,
  type Planner,
  type PlanRequest,
} from '../../../src/index.ts';
import {
  finalPlan,
  type HandledWorker,
  ids,
  LEASE_MS,
  type SeamWorker,
} from '../../support/fleet.ts';
import {
  completeAll,
  deferred,
  eventsOf,
  handBackAll,
  idsUnder,
  isLeaderWrite,
  pass,
  versionsOfPlan,
  versionsOfSplit,
  writerOf,
  writesOf,
} from '../../support/observed.ts';
import { between, fleet, startFleet, startRecorded } from '../../support/scenario.ts';
import { transaction } from '../../support/faults.ts';

function answer(splits: readonly string[], finality: 'open' | 'final' = 'final'): PlanAnswer {
  return { splits: splits.map((id) => ({ id, descriptor: `data of ${id}` })), finality };
}

function plannerOf(plan: (request: PlanRequest) => PlanAnswer | Promise<PlanAnswer>): Planner {
  return { fingerprint: () => 'plan:v1', plan };
}

describe('a planner slower than a lease', () => {
  test('a slow run - delays no renewal, no claim, no commit and no balancing (R18)', async () => {
    let runs = 0;
    const planner = plannerOf(async () => {
      runs += 1;
      if (runs > 1) await pass(fleet, 4 * LEASE_MS);
      return answer(ids(8), 'open');
    });
    await startFleet({ planner, config: { replanIntervalMs: LEASE_MS } });
    const a = fleet.seam('a');
    await fleet.until('the slow run', () => runs === 2);
    const b = fleet.seam('b');
    handBackAll(a);
    await fleet.until('4 and 4', () => a.held.size === 4 && b.held.size === 4, LEASE_MS);
    const committed = a.coordinator.commit([...a.held.keys()][0]!, { watermark: 7 });
    await fleet.advance(100);
    await committed;
    await fleet.advance(3 * LEASE_MS);
    expect(runs).toBe(2);
    expect(a.coordinator.status().leader).toContain('leading');
    expect(eventsOf(a, 'leadershipLost')).toEqual([]);
    expect([...a.events, ...b.events].filter(({ type }) => type === 'lost')).toEqual([]);
  });

  test('a planner that ignores its signal - writes nothing once its leader was deposed (R19)', async () => {
    await startFleet();
    let signal: AbortSignal | null = null;
    const slow = plannerOf(async (request) => {
      ({ signal } = request);
      await pass(fleet, 4 * LEASE_MS);
      return answer(['p1', 'p2', 'p3', 'p4', 'p5']);
    });
    const quick = plannerOf(() => answer(['p1', 'p2', 'p3', 'p4', 'p6']));
    const a = fleet.seam('a', { planner: slow });
    await fleet.until('a leads', () => eventsOf(a, 'leadershipGained').length === 1);
    const b = fleet.seam('b', { planner: quick });
    await fleet.advance(2 * LEASE_MS);
    // Planning slower than a lease is legal.
    expect(eventsOf(a, 'leadershipLost')).toEqual([]);
    a.client.partition();
    await fleet.until('b has planned', () => fleet.plan()?.sealed === true, 2 * LEASE_MS);
    expect(signal!.aborted).toBe(true);
    const generation = fleet.plan()?.generation;
    a.client.heal();
    const healedAtMs = fleet.clock.nowMs();
    await fleet.advance(4 * LEASE_MS);
    expect(idsUnder(fleet, 'specs')).toEqual(['p1', 'p2', 'p3', 'p4', 'p6']);
    expect(fleet.plan()).toMatchObject({ generation, planned: 5 });
    const assigned = writesOf(fleet, `${fleet.keys.root}assign/`);
    const since = assigned.filter(({ atMs }) => atMs >= healedAtMs);
    expect(since.map(writerOf).filter((writer) => writer !== 'b')).toEqual([]);
    // It carries on as an ordinary worker.
    expect(a.coordinator.status()).toMatchObject({ presence: 'present', leader: 'following' });
    expect(fleet.assignment('a')).not.toBeNull();
    expect(b.held.size).toBeGreaterThan(0);
  });

  test.each(['after', 'before'] as const)(
    'an answer of an earlier term of the same worker - is dropped, %s the new run has answered (R19)',
    async (when) => {
      await startFleet();
      const answers = [deferred<PlanAnswer>(), deferred<PlanAnswer>()];
      let runs = 0;
      const planner = plannerOf(() => answers[runs++]!.promise);
      const a = fleet.seam('a', { planner });
      await fleet.until('the first run', () => runs === 1);
      await fleet.store.remove(fleet.keys.leader);
      await fleet.until('the second run', () => runs === 2, LEASE_MS);
      expect(eventsOf(a, 'leadershipGained').map(({ generation }) => generation)).toEqual([1, 2]);
      const early = when === 'before' ? [0, 1] : [1, 0];
      for (const run of early) {
        answers[run]!.resolve(run === 0 ? answer(['old1', 'old2']) : answer(['new1']));
        await fleet.advance(1_000);
        if (run === 0 && when === 'before') expect(idsUnder(fleet, 'specs')).toEqual([]);
      }
      expect(idsUnder(fleet, 'specs')).toEqual(['new1']);
      expect(fleet.plan()).toMatchObject({ generation: 2, planned: 1, sealed: true });
    },
  );
});

describe('a planner that fails', () => {
  test('an ordinary error - is retried inside the run with growing pauses, and costs no leadership (R18)', async () => {
    await startFleet();
    const startedAtMs: number[] = [];
    const planner = plannerOf(() => {
      startedAtMs.push(fleet.clock.nowMs());
      if (startedAtMs.length <= 4) throw new Error('listing timed out');
      return answer(['s1']);
    });
    const a = fleet.seam('a', { planner });
    await fleet.until('a plan', () => fleet.plan()?.sealed === true);
    expect(startedAtMs.slice(1).map((atMs, index) => atMs - startedAtMs[index]!)).toEqual(
      [500, 1_000, 2_000, 4_000].map((ms) => between(ms)),
    );
    expect(eventsOf(a, 'plannerFailed')).toEqual(
      Array.from({ length: 4 }, () => ({
        type: 'plannerFailed',
        reason: 'listing timed out',
        isFatal: false,
      })),
    );
    expect(eventsOf(a, 'leadershipLost')).toEqual([]);
    expect(fleet.plan()?.generation).toBe(1);
    expect(a.coordinator.status().lastError).toBeNull();
  });

  test('a rejected promise - counts as a throw, and shows in the status (R18)', async () => {
    await startFleet();
    const planner = plannerOf(() => Promise.reject(new Error('listing timed out')));
    const a = fleet.seam('a', { planner });
    await fleet.until('two failures', () => eventsOf(a, 'plannerFailed').length === 2);
    expect(a.coordinator.status().lastError).toBe('listing timed out');
  });

  test('a fatal error - costs the leadership, not the splits, and another worker plans on (R18)', async () => {
    let isBroken = false;
    const broken = plannerOf(() => {
      if (isBroken) throw fatalPlannerError('no such bucket');
      return answer(ids(4), 'open');
    });
    const sound = plannerOf(() => answer(ids(5)));
    await startFleet({ config: { replanIntervalMs: LEASE_MS } });
    const a = fleet.seam('a', { planner: broken });
    await fleet.until('all held', () => a.held.size === 4);
    fleet.seam('b', { planner: sound, config: { maxInFlight: 0 } });
    isBroken = true;
    await fleet.until('b seals', () => fleet.plan()?.sealed === true, 2 * LEASE_MS);
    expect(fleet.leader()).toBe('b');
    expect(eventsOf(a, 'plannerFailed')).toEqual([
      { type: 'plannerFailed', reason: 'E_PLANNER_FAILED: no such bucket', isFatal: true },
    ]);
    expect(eventsOf(a, 'leadershipLost')).toHaveLength(1);
    await fleet.advance(LEASE_MS);
    // Those it had, and the one that b has planned.
    expect(a.coordinator.status().tenancies).toHaveLength(5);
    expect(eventsOf(a, 'lost')).toEqual([]);
  });

  test('a fatal error on the only worker - is tried again after the replan interval, not before (R18)', async () => {
    const startedAtMs: number[] = [];
    const planner = plannerOf(() => {
      startedAtMs.push(fleet.clock.nowMs());
      if (startedAtMs.length === 1) throw fatalPlannerError('no such bucket');
      return answer(['s1']);
    });
    const replanIntervalMs = 4 * LEASE_MS;
    await startFleet({ planner, config: { replanIntervalMs } });
    const a = fleet.seam('a');
    completeAll(a);
    await fleet.until('the verdict', () => a.verdict !== null, 2 * replanIntervalMs);
    const pauseMs = startedAtMs[1]! - startedAtMs[0]!;
    expect(pauseMs).toBeGreaterThanOrEqual(replanIntervalMs);
    expect(pauseMs).toBeLessThan(replanIntervalMs + LEASE_MS);
    expect(startedAtMs).toHaveLength(2);
  });
});

/** Large enough that the splits take two batches. */
const PLANNED = ids(14);
const LARGE_PLAN = finalPlan(PLANNED.map((id) => ({ id, descriptor: 'x'.repeat(60 * 1024) })));

/** The plan was stored once, sealed before its verdict, and each split of it ended once and for good. */
function expectStoredAndEnded(): void {
  expect(idsUnder(fleet, 'specs')).toEqual([...PLANNED].sort());
  expect(idsUnder(fleet, 'splits')).toEqual([...PLANNED].sort());
  for (const { record } of versionsOfPlan(fleet)) {
    if (record.verdict !== null) expect(record.sealed).toBe(true);
  }
  for (const id of PLANNED) {
    const key = `${fleet.keys.root}specs/${id}`;
    expect(writesOf(fleet, key).filter((write) => write.key === key)).toHaveLength(1);
    const statuses = versionsOfSplit(fleet, id).map(({ record }) => record.status);
    expect(statuses.filter((status) => status === 'completed')).toHaveLength(1);
    expect(statuses.at(-1)).toBe('completed');
  }
}

describe('a leader that dies while it publishes a plan', () => {
  interface Run {
    readonly survivors: readonly SeamWorker[];
    /** What was stored when the leader died. */
    readonly seeded: number;
    readonly sealed: boolean;
    /** False when the leader never sent that many writes. */
    readonly hasDied: boolean;
  }

  /** Lets `a` die at its write number `step` since it leads: just before the write arrives, or just after. */
  async function run(step: number, lands: boolean): Promise<Run> {
    await startFleet({ planner: LARGE_PLAN });
    const a = fleet.seam('a');
    completeAll(a);
    let sent = 0;
    let hasDied = false;
    a.client
      .when((call) => {
        if (call.kind !== 'transact' || fleet.leader() !== 'a' || hasDied) return false;
        sent += 1;
        hasDied = sent === step;
        if (hasDied) a.crash();
        return hasDied && !lands;
      })
      .loseBefore({ silent: true });
    await fleet.until('a died, or was done', () => hasDied || a.verdict !== null, 60_000, 500);
    const seeded = idsUnder(fleet, 'specs').length;
    const sealed = fleet.plan()?.sealed === true;
    const b = fleet.seam('b');
    const c = fleet.seam('c');
    for (const seam of [b, c]) completeAll(seam);
    await fleet.until('the verdict', () => b.verdict !== null && c.verdict !== null, 120_000, 500);
    return { survivors: [b, c], seeded, sealed, hasDied };
  }

  function check({ survivors }: Run): void {
    for (const { verdict } of survivors) {
      expect(verdict).toMatchObject({ kind: 'complete', completed: PLANNED.length });
    }
    expectStoredAndEnded();
  }

  test.each([false, true])(
    'the next leader - stores exactly the planner’s ids, whichever write was the last (it landed: %s) (R22)',
    async (lands) => {
      const seeded = new Set<number>();
      for (let step = 1; ; step += 1) {
        const result = await run(step, lands);
        check(result);
        if (!result.hasDied) break;
        seeded.add(result.seeded);
        await fleet.close();
      }
      // Some deaths were in the middle of the seeding.
      expect(
        [...seeded].filter((count) => count > 0 && count < PLANNED.length).length,
      ).toBeGreaterThan(0);
    },
  );
});

describe('a leader that dies while others work on what it has stored', () => {
  interface Run {
    readonly a: HandledWorker;
    readonly survivors: readonly HandledWorker[];
    readonly starts: Map<string, number>;
  }

  /** Three workers that finish what they are given at once; `a` leads. */
  async function threeWorkers(): Promise<Run> {
    startRecorded({ planner: LARGE_PLAN });
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
    expectStoredAndEnded();
    for (const id of finished) expect(starts.get(id)).toBe(1);
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
        await fleet.close();
      }
      const halves = [...stored].filter((count) => count > 0 && count < PLANNED.length);
      expect(halves.length).toBeGreaterThan(0);
    },
  );
});
