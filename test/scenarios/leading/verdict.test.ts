import { describe, expect, test } from '@jest/globals';
import type { Verdict } from '../../../src/index.ts';
import type { SplitId } from '../../../src/base/ids.ts';
import { splitCodec } from '../../../src/records/records.ts';
import type { StoreCall } from '../../../src/store/faults.ts';
import { transaction } from '../../support/faults.ts';
import { finalPlan, ids, LEASE_MS, type SeamWorker, watched } from '../../support/fleet.ts';
import {
  completeAll,
  eventsOf,
  sessionOf,
  versionsOfPlan,
  versionsOfSplit,
} from '../../support/observed.ts';
import { fleet, startFleet } from '../../support/scenario.ts';

const TICK_MS = LEASE_MS / 3;

/** Completes what a worker gains, and fails the splits in `bad`, each time. */
function completeExcept(seam: SeamWorker, bad: readonly string[]): void {
  seam.coordinator.listen((event) => {
    if (event.type !== 'gained') return;
    const { id } = event.split;
    const ending = bad.includes(id)
      ? seam.coordinator.fail(id, 'cannot be read', event.epoch)
      : seam.coordinator.commit(id, { watermark: 1, completed: true }, event.epoch);
    ending.catch(() => undefined);
  });
}

/** Three workers, the last one with room for nothing. */
function threeWorkers(bad: readonly string[]): SeamWorker[] {
  const workers = [
    fleet.seam('a'),
    fleet.seam('b'),
    fleet.seam('standby', { config: { maxInFlight: 0 } }),
  ];
  for (const worker of workers) completeExcept(worker, bad);
  return workers;
}

function allHave(workers: readonly SeamWorker[]): () => boolean {
  return () => workers.every(({ verdict }) => verdict !== null);
}

/** Matches the write of a verdict. */
const isVerdictWrite = (call: StoreCall): boolean =>
  call.kind === 'transact' &&
  call.batch.txns.some(({ writes }) =>
    writes.some((write) => 'put' in write && write.value.includes('"verdict":{')),
  );

/** Matches the judge's reading of the splits, at one revision. */
const isJudgeRead = (call: StoreCall): boolean =>
  call.kind === 'read' &&
  'prefix' in call.range &&
  call.range.prefix.endsWith('/splits/') &&
  call.read.atRevision !== undefined &&
  call.read.limit === 256;

function writtenVerdicts(): (string | undefined)[] {
  const kinds = versionsOfPlan(fleet).map(({ record }) => record.verdict?.kind);
  return kinds.filter((kind, index) => kind !== undefined && kind !== kinds[index - 1]);
}

describe('a verdict', () => {
  test.each([0, 1, 5])(
    'a final plan of %i splits - is complete on every worker, a standby included (R23)',
    async (count) => {
      await startFleet({ planner: finalPlan(ids(count)) });
      const workers = threeWorkers([]);
      await fleet.until('the verdict', allHave(workers));
      const verdict: Verdict = {
        kind: 'complete',
        completed: count,
        quarantined: 0,
        quarantinedIds: [],
      };
      expect(workers.map((worker) => worker.verdict)).toEqual([verdict, verdict, verdict]);
      await expect(workers[2]!.coordinator.verdict()).resolves.toEqual(verdict);
    },
  );

  test('one quarantined split of five - is stalled by name on every worker, also after a restart of the fleet', async () => {
    await startFleet({ planner: finalPlan(ids(5)), config: { maxAttempts: 1 } });
    const workers = threeWorkers(['s3']);
    await fleet.until('the verdict', allHave(workers));
    const stalled: Verdict = {
      kind: 'stalled',
      completed: 4,
      quarantined: 1,
      quarantinedIds: ['s3'],
    };
    expect(workers.map(({ verdict }) => verdict)).toEqual([stalled, stalled, stalled]);
    for (const { coordinator } of workers) void coordinator.stop();
    await fleet.advance(LEASE_MS);
    const again = threeWorkers(['s3']);
    await fleet.until('the verdict again', allHave(again), LEASE_MS);
    expect(again.map(({ verdict }) => verdict)).toEqual([stalled, stalled, stalled]);
    expect(again.flatMap((worker) => eventsOf(worker, 'gained'))).toEqual([]);
    // It was written once; a new leader does not judge again.
    expect(writtenVerdicts()).toEqual(['stalled']);
  });

  test('a verdict - is told once per worker, however often the plan is written afterwards', async () => {
    await startFleet({ planner: finalPlan(ids(2)) });
    const workers = threeWorkers([]);
    await fleet.until('the verdict', allHave(workers));
    await fleet.store.remove(fleet.keys.leader);
    await fleet.until('another term', () => fleet.plan()?.generation === 2, LEASE_MS);
    await fleet.advance(LEASE_MS);
    for (const worker of workers) expect(eventsOf(worker, 'verdict')).toHaveLength(1);
    expect(writtenVerdicts()).toEqual(['complete']);
  });

  test('a job with one split left - has no verdict (R23)', async () => {
    await startFleet({ planner: finalPlan(ids(3)) });
    const a = fleet.seam('a');
    await fleet.until('all held', () => a.held.size === 3);
    for (const id of ['s0', 's1']) {
      void a.coordinator.commit(id, { watermark: 1, completed: true });
    }
    await fleet.advance(5 * LEASE_MS);
    expect(a.verdict).toBeNull();
    void a.coordinator.commit('s2', { watermark: 1, completed: true });
    await fleet.until('the verdict', () => a.verdict !== null, 1_000);
  });
});

describe('a requeue against a verdict in the making', () => {
  /** One worker that leads, and one quarantined split that ends well the second time. */
  async function judged(delay: (a: SeamWorker) => void): Promise<SeamWorker> {
    await startFleet({ planner: finalPlan(['good', 'bad']), config: { maxAttempts: 1 } });
    const a = fleet.seam('a');
    delay(a);
    const bad = ['bad'];
    completeExcept(a, bad);
    await fleet.until('quarantined', () => fleet.split('bad')?.status === 'quarantined');
    await fleet.until('good is done', () => fleet.split('good')?.status === 'completed');
    bad.length = 0;
    await fleet.advance(500);
    return a;
  }

  test.each([
    ['the judge’s write is on its way', isVerdictWrite],
    ['the judge reads', isJudgeRead],
  ] as const)(
    'a requeue while %s - leaves no stale verdict, and the split runs again (R23)',
    async (_, matcher) => {
      const a = await judged((worker) => {
        const rule = worker.client.when(matcher);
        if (matcher === isVerdictWrite) rule.delay(3_000, { times: 1 });
        else rule.delayAnswer(1_500, { times: 1 });
      });
      expect(fleet.plan()?.verdict).toBeNull();
      expect(a.client.inFlight).toBeGreaterThan(0);
      const requeued = fleet.operator().requeue('bad');
      await fleet.until('the verdict', () => a.verdict !== null);
      await requeued;
      expect(a.verdict).toMatchObject({ kind: 'complete', completed: 2 });
      expect(writtenVerdicts()).toEqual(['complete']);
      expect(fleet.plan()?.requeues).toBe(1);
    },
  );

  test('a pause while the judge’s write is on its way - leaves no verdict, and it comes once the job goes on (R23)', async () => {
    const a = await judged((worker) => {
      worker.client.when(isVerdictWrite).delay(3_000, { times: 1 });
    });
    await fleet.operator().pause();
    await fleet.advance(2 * LEASE_MS);
    expect(fleet.plan()?.verdict).toBeNull();
    expect(writtenVerdicts()).toEqual([]);
    const resumed = fleet.operator().resume();
    await fleet.until('the verdict', () => a.verdict !== null, LEASE_MS);
    await resumed;
    expect(writtenVerdicts()).toEqual(['stalled']);
  });

  test('a requeue after the verdict - takes it back, and the next one follows by itself (R23, T15)', async () => {
    const a = await judged(() => undefined);
    await fleet.until('stalled', () => a.verdict?.kind === 'stalled');
    const requeued = fleet.operator().requeue('bad');
    await fleet.until('complete', () => a.verdict?.kind === 'complete', LEASE_MS);
    await requeued;
    expect(eventsOf(a, 'verdict').map(({ verdict }) => verdict.kind)).toEqual([
      'stalled',
      'complete',
    ]);
    expect(writtenVerdicts()).toEqual(['stalled', 'complete']);
    await expect(a.coordinator.verdict()).resolves.toMatchObject({ kind: 'complete' });
  });
});

describe('a completion that lands late', () => {
  test('a zombie’s completion after its lease expired - is noticed within a third of a lease (R24)', async () => {
    await startFleet({ planner: finalPlan(['s0']) });
    const b = fleet.seam('b', { config: { maxInFlight: 0 } });
    await fleet.until('b leads', () => fleet.leader() === 'b');
    const a = fleet.seam('a');
    await fleet.until('a holds it', () => a.held.size === 1);
    const session = sessionOf(fleet, 'a');
    a.client.when((call) => call.kind === 'keepAlive' && call.id === session).loseBefore();
    a.client.when('closeSession').loseBefore();
    a.client.when('openSession').loseBefore();
    const late = transaction('complete');
    a.client.when(late).delay(LEASE_MS + TICK_MS);
    const completing = watched(a.coordinator.commit('s0', { watermark: 5, completed: true }));
    await fleet.until('the lease is gone', () => fleet.lease('s0') === null, 2 * LEASE_MS);
    const record = fleet.split('s0')!;
    expect(record.status).toBe('runnable');
    await fleet.until('it is refused', () => completing.state === 'rejected', 3 * LEASE_MS);
    expect(fleet.split('s0')).toEqual(record);
    // A worker of version 0.1.0 compares no session, and its completion lands.
    const stamp = { instance: 'a', nonce: record.nonce!, write: 9 };
    const completed = { ...record, status: 'completed', owner: null, watermark: '5' } as never;
    await fleet.store.put(fleet.keys.split('s0' as SplitId), splitCodec.encode(completed, stamp));
    const lateMs = await fleet.until('the verdict', () => b.verdict !== null, LEASE_MS);
    expect(lateMs).toBeLessThanOrEqual(TICK_MS + 100 + fleet.slackMs);
    expect(b.verdict).toMatchObject({ kind: 'complete', completed: 1 });
  });
});

describe('a split that nobody can read', () => {
  const SPOILERS: readonly (readonly [string, (value: string) => string])[] = [
    ['unreadable', () => '{"nonsense'],
    ['of a newer format', (value: string) => value.replace('"minReader":1', '"minReader":99')],
    [
      'in a state of a newer version',
      (value: string) =>
        value.replace('"schema":1', '"schema":2').replace('"runnable"', '"hibernating"'),
    ],
  ];

  test.each(SPOILERS)(
    'a record that is %s - blocks the verdict with one warning, the others complete (R42)',
    async (_, spoil) => {
      await startFleet({ planner: finalPlan(ids(4)) });
      const leader = fleet.seam('leader', { config: { maxInFlight: 0 } });
      await fleet.until('the plan', () => fleet.plan()?.sealed === true);
      const key = fleet.keys.split('s2' as never);
      const before = fleet.store.dump(key)[0]!.value;
      const spoilt = spoil(before);
      await fleet.store.put(key, spoilt);
      const a = fleet.seam('a');
      completeAll(a);
      await fleet.until('the others', () =>
        ['s0', 's1', 's3'].every((id) => fleet.split(id)?.status === 'completed'),
      );
      await fleet.advance(4 * LEASE_MS);
      expect(fleet.plan()?.verdict).toBeNull();
      expect(fleet.store.dump(key)[0]!.value).toBe(spoilt);
      expect(
        eventsOf(a, 'gained')
          .map(({ split: { id } }) => id)
          .sort(),
      ).toEqual(['s0', 's1', 's3']);
      for (const { lines } of [leader, a]) {
        const warnings = lines.filter(
          ({ level, message }) => level === 'warn' && message.includes('splits/s2'),
        );
        expect(warnings.length).toBeLessThanOrEqual(1);
      }
      const blocked = leader.lines.filter(({ message }) => message.includes('no verdict'));
      expect(blocked).toHaveLength(1);
      expect(blocked[0]!.message).toContain('s2');
      for (const { coordinator } of [leader, a]) {
        expect(coordinator.status().presence).toBe('present');
      }
    },
  );
});

describe('a paused job', () => {
  test('a paused job - gets no verdict, and gets it once it goes on (R23, R29)', async () => {
    await startFleet({ planner: finalPlan(ids(2)) });
    const a = fleet.seam('a');
    await fleet.until('held', () => a.held.size === 2);
    await fleet.operator().pause();
    await fleet.advance(100);
    for (const id of ids(2)) void a.coordinator.commit(id, { watermark: 1, completed: true });
    await fleet.until('both done', () =>
      ids(2).every((id) => fleet.split(id)?.status === 'completed'),
    );
    await fleet.advance(4 * LEASE_MS);
    expect(fleet.plan()?.verdict).toBeNull();
    const resumed = fleet.operator().resume();
    await fleet.until('the verdict', () => a.verdict !== null, TICK_MS);
    await resumed;
  });

  test('a pause in the middle of a judgement - postpones the verdict, and does not lose it (R23)', async () => {
    await startFleet({ planner: finalPlan(ids(2)) });
    const a = fleet.seam('a');
    completeAll(a);
    a.client.when(isJudgeRead).delayAnswer(1_000, { times: 1 });
    await fleet.until('both done', () =>
      ids(2).every((id) => fleet.split(id)?.status === 'completed'),
    );
    await fleet.advance(200);
    await fleet.operator().pause();
    await fleet.advance(2 * LEASE_MS);
    expect(fleet.plan()?.verdict).toBeNull();
    const resumed = fleet.operator().resume();
    await fleet.until('the verdict', () => a.verdict !== null, LEASE_MS);
    await resumed;
  });

  test('an unsealed plan - gets no verdict, though every split of it has ended (R22)', async () => {
    await startFleet({
      planner: {
        fingerprint: () => 'plan:v1',
        plan: () => ({ splits: [{ id: 's0', descriptor: '' }], finality: 'open' }),
      },
      config: { replanIntervalMs: LEASE_MS },
    });
    const a = fleet.seam('a');
    completeAll(a);
    await fleet.until('done', () => fleet.split('s0')?.status === 'completed');
    await fleet.advance(5 * LEASE_MS);
    expect(fleet.plan()?.verdict).toBeNull();
    expect(versionsOfSplit(fleet, 's0').at(-1)?.record.status).toBe('completed');
  });
});

describe('the judge', () => {
  test('the judge - reads splits and the keys of specs in pages, all at one revision (R23)', async () => {
    await startFleet({ planner: finalPlan(ids(2)) });
    const a = fleet.seam('a');
    completeAll(a);
    await fleet.until('the verdict', () => a.verdict !== null);
    const pages = a.client.log
      .flatMap(({ call }) =>
        call.kind === 'read' && 'prefix' in call.range
          ? [{ prefix: call.range.prefix, ...call.read }]
          : [],
      )
      .slice(-2);
    expect(pages.map(({ prefix, keysOnly }) => [prefix, keysOnly])).toEqual([
      [`${fleet.keys.root}splits/`, false],
      [`${fleet.keys.root}specs/`, true],
    ]);
    expect(pages[0]!.atRevision).toBeDefined();
    expect(pages[1]!.atRevision).toBe(pages[0]!.atRevision);
  });
});
