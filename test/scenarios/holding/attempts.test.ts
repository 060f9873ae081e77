import { describe, expect, test } from '@jest/globals';
import type { Grant, Handler } from '../../../src/index.ts';
import {
  finalPlan,
  type HandledWorker,
  ids,
  LEASE_MS,
  type SeamWorker,
} from '../../support/fleet.ts';
import {
  eventsOf,
  handBackAll,
  idsUnder,
  pass,
  startAlone,
  timeLine,
  versionsOfSplit,
} from '../../support/observed.ts';
import { between, fleet, startFleet, startRecorded } from '../../support/scenario.ts';
import { transaction } from '../../support/faults.ts';

const TICK_MS = LEASE_MS / 3;

/** Fails the split once, beside another one that goes on, and waits until it is gained again. */
async function failOnce(worker: SeamWorker, split: string, witness: string): Promise<void> {
  const gains = eventsOf(worker, 'gained').length;
  await goOn(worker, witness);
  const failed = worker.coordinator.fail(split, 'bad luck');
  await fleet.until('gained again', () => eventsOf(worker, 'gained').length > gains);
  await failed;
}

/** Another split gets further: whatever fails now fails by itself. */
async function goOn(worker: SeamWorker, split: string): Promise<void> {
  const { watermark } = fleet.split(split)!;
  await commit(worker, split, Number(watermark ?? 0) + 1);
}

async function commit(worker: SeamWorker, split: string, watermark: number): Promise<void> {
  const committed = worker.coordinator.commitNow(split, { watermark });
  await fleet.advance(10);
  await committed;
}

describe('attempts', () => {
  test('attempts - fall to 0 with the first commit that rises, in the same write (R31)', async () => {
    await startFleet({ planner: finalPlan(ids(2)) });
    const a = await startAlone(fleet, 'a', 2);
    await failOnce(a, 's0', 's1');
    expect(fleet.split('s0')).toMatchObject({ attempts: 1, failing: { failures: 1, by: ['a'] } });
    await commit(a, 's0', 10);
    const written = versionsOfSplit(fleet, 's0').at(-1)!.record;
    expect(written).toMatchObject({ watermark: '10', attempts: 0, owner: 'a', failing: null });
  });

  test('attempts - stay when a commit stands at the watermark where the tenancy began (R31)', async () => {
    await startFleet({ planner: finalPlan(ids(2)) });
    const a = await startAlone(fleet, 'a', 2);
    await commit(a, 's0', 10);
    await failOnce(a, 's0', 's1');
    await commit(a, 's0', 10);
    expect(fleet.split('s0')).toMatchObject({ watermark: '10', attempts: 1 });
    await commit(a, 's0', 11);
    expect(fleet.split('s0')).toMatchObject({ watermark: '11', attempts: 0 });
  });

  test('attempts - stay when a commit stands at a seed’s watermark (R31)', async () => {
    const seed = { watermark: 40 };
    await startFleet({
      planner: finalPlan([{ id: 's0', descriptor: '', seed }, ...ids(3).slice(1)]),
    });
    const a = await startAlone(fleet, 'a', 3);
    await failOnce(a, 's0', 's1');
    await commit(a, 's0', 40);
    expect(fleet.split('s0')?.attempts).toBe(1);
    await commit(a, 's0', 41);
    expect(fleet.split('s0')?.attempts).toBe(0);
  });

  test('attempts - are not touched by a graceful leave or a drain (R31)', async () => {
    await startFleet({ planner: finalPlan(ids(4)) });
    const a = await startAlone(fleet, 'a', 4);
    handBackAll(a);
    await failOnce(a, 's0', 's1');
    const b = fleet.seam('b');
    await fleet.until('2 and 2', () => a.held.size === 2 && b.held.size === 2);
    void a.coordinator.stop();
    await fleet.until('b has all', () => b.held.size === 4, LEASE_MS);
    const attempts = ids(4).map((id) => fleet.split(id)?.attempts);
    expect(attempts).toEqual([1, 0, 0, 0]);
  });

  test('a failure - without a witness costs no attempt: nothing else got further in the process (R31)', async () => {
    await startFleet({ planner: finalPlan(ids(2)) });
    const a = await startAlone(fleet, 'a', 2);
    await failOnce(a, 's0', 's1');
    for (let round = 0; round < 3; round += 1) {
      const gains = eventsOf(a, 'gained').length;
      const failed = a.coordinator.fail('s0', 'the table is away');
      await fleet.until('gained again', () => eventsOf(a, 'gained').length > gains);
      await failed;
    }
    // Nor is its own progress a witness, nor one that stands still.
    await commit(a, 's1', 1);
    expect(fleet.split('s0')).toMatchObject({ attempts: 1, failing: { failures: 4 } });
  });
});

describe('a failed tenancy', () => {
  test('a failure - makes everybody wait, longer each time, up to the longest rest (R40)', async () => {
    const backoff = { initialMs: 400, factor: 3, maxMs: 5_000, jitter: 0 };
    await startFleet({ planner: finalPlan(['s0']), config: { retry: { backoff } } });
    const a = await startAlone(fleet, 'a', 1);
    const heard = timeLine(fleet, a);
    const waits: number[] = [];
    for (let round = 0; round < 5; round += 1) {
      const failed = a.coordinator.fail('s0', 'bad luck');
      await fleet.advance(1);
      await failed;
      const failedAtMs = versionsOfSplit(fleet, 's0').at(-1)!.atMs;
      const gains = heard.length;
      await fleet.until('gained', () => heard.length > gains, LEASE_MS);
      waits.push(heard.at(-1)!.atMs - failedAtMs);
    }
    const rests = [400, 1_200, 3_600, 5_000, 5_000];
    expect(waits).toEqual(rests.map((ms) => between(ms, ms + 500)));
    expect(fleet.split('s0')).toMatchObject({ failing: { failures: 5 } });
  });

  test('rests - spread by chance, so that what failed together is not tried together (R40)', async () => {
    const backoff = { initialMs: 4_000, jitter: 0.2, maxMs: 4_000 };
    await startFleet({ planner: finalPlan(ids(6)), config: { retry: { backoff } } });
    const a = await startAlone(fleet, 'a', 6);
    const failed = ids(6).map((id) => a.coordinator.fail(id, 'down'));
    await fleet.advance(20);
    await Promise.all(failed);
    const rests = ids(6).map((id) => fleet.split(id)!.rest!.ms);
    expect(Math.min(...rests)).toBeGreaterThanOrEqual(3_200);
    expect(Math.max(...rests)).toBeLessThanOrEqual(4_800);
    expect(new Set(rests).size).toBeGreaterThan(3);
  });

  test('a failure at the last attempt - has the leader set it aside with a reason, and every worker hears of it (R28)', async () => {
    await startFleet({ planner: finalPlan(ids(2)) });
    const a = await startAlone(fleet, 'a', 2);
    const standby = fleet.seam('standby', { config: { maxInFlight: 0 } });
    await fleet.until('standby', () => standby.coordinator.status().presence === 'present');
    let tries = 0;
    await fleet.until('parked', () => {
      void a.coordinator.commitNow('s1', { watermark: (tries += 1) });
      if (a.held.delete('s0')) void a.coordinator.fail('s0', 'checksum mismatch');
      return idsUnder(fleet, 'parked').length === 1;
    });
    await fleet.advance(4 * LEASE_MS);
    const { attempts, epoch } = fleet.split('s0')!;
    expect(attempts).toBeGreaterThanOrEqual(3);
    const told = {
      type: 'quarantined',
      splitId: 's0',
      attempts,
      reason: 'checksum mismatch',
      by: 'a',
    };
    expect(eventsOf(a, 'quarantined')).toEqual([told]);
    expect(eventsOf(standby, 'quarantined')).toEqual([told]);
    // The epoch rose once more: a zombie’s late commit is fenced.
    expect(fleet.split('s0')).toMatchObject({
      status: 'quarantined',
      owner: null,
      lastFailure: { reason: 'checksum mismatch', by: 'a', epoch: String(Number(epoch) - 1) },
    });
    expect(fleet.lease('s0')).toBeNull();
    expect(fleet.assignment('a')?.splits).toEqual(['s1']);
    // A worker that starts later hears of it too.
    const late = fleet.seam('late');
    await fleet.until('late hears', () => eventsOf(late, 'quarantined').length === 1, LEASE_MS);
  });
});

describe('an outage that all share', () => {
  /** Handlers that commit each second while something is up that all of them need. */
  function needy(): { isUp: boolean; handler: Handler } {
    const needed = {
      isUp: true,
      handler: async (grant: Grant): Promise<void> => {
        let { watermark } = grant.progress ?? { watermark: 0n };
        while (watermark < 900n) {
          await pass(fleet, 1_000);
          if (grant.lost.aborted) return;
          if (!needed.isUp) throw new Error('the database is away');
          watermark += 1n;
          await grant.commit({ watermark });
        }
        await grant.complete();
      },
    };
    return needed;
  }

  test('an outage of ten minutes - sets nothing aside, and work goes on within a minute of its end (R28, R31)', async () => {
    // As without options.
    await startFleet({ planner: finalPlan(ids(6)), config: { maxAttempts: 4, retry: {} } });
    const needed = needy();
    for (const id of ['a', 'b']) fleet.worker(id, needed.handler);
    await fleet.until('all run', () => ids(6).every((id) => fleet.split(id)?.watermark === '3'));
    needed.isUp = false;
    await fleet.advance(600_000);
    const before = ids(6).map((id) => fleet.split(id)!);
    expect(before.map(({ status }) => status)).toEqual(ids(6).map(() => 'runnable'));
    expect(Math.max(...before.map(({ attempts }) => attempts))).toBeLessThan(4);
    needed.isUp = true;
    const hasProgressed = (id: string, index: number): boolean =>
      Number(fleet.split(id)!.watermark) > Number(before[index]!.watermark);
    await fleet.until('all go on', () => ids(6).every(hasProgressed), 60_000);
    expect(idsUnder(fleet, 'parked')).toEqual([]);
  });

  test('a split that fails for good beside others - is found within ten minutes, whoever has it (R28)', async () => {
    await startFleet({
      planner: finalPlan(['bad', ...ids(3)]),
      config: { maxAttempts: 4, retry: {} },
    });
    const needed = needy();
    for (const id of ['a', 'b']) {
      fleet.worker(id, (grant) => {
        if (grant.split.id === 'bad') throw new Error('cannot be read');
        return needed.handler(grant);
      });
    }
    await fleet.until('found', () => fleet.split('bad')?.status === 'quarantined', 600_000, 500);
    expect(idsUnder(fleet, 'parked')).toEqual(['bad']);
    expect(fleet.split('bad')!.failing!.by.length).toBeGreaterThan(1);
  });

  test('a split that fails at one instance alone - is tried at another, and goes on there (R49)', async () => {
    await startFleet({ planner: finalPlan(ids(6)), config: { maxAttempts: 4, retry: {} } });
    const needed = needy();
    fleet.worker('well', needed.handler);
    fleet.worker('sick', async () => {
      await pass(fleet, 100);
      throw new Error('no space left on device');
    });
    await fleet.until(
      'all get on',
      () => ids(6).every((id) => Number(fleet.split(id)?.watermark ?? 0) > 2),
      120_000,
      500,
    );
    expect(idsUnder(fleet, 'parked')).toEqual([]);
    expect(fleet.leasesOf('well').length).toBeGreaterThan(4);
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
    'a source that refuses to resume - is tried until it is given up and ends stalled, the rest of its batch runs (reports that %s)',
    async (fate) => {
      const splits = ids(5).map((id) => ({ id, descriptor: '', seed: SEED }));
      startRecorded({ planner: finalPlan(splits) });
      const refusals: { atMs: number; gainedWith: number }[] = [];
      const resumed: string[] = [];
      const start = (id: string): HandledWorker =>
        fleet.worker(id, async (grant) => {
          expect(grant.progress?.watermark).toBe(12n);
          if (grant.split.id === 's3') {
            const gainedWith = fleet.store.dump(`${fleet.keys.root}leases/`).length;
            refusals.push({ atMs: fleet.clock.nowMs(), gainedWith });
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
      expect(refusals.length).toBeGreaterThan(3);
      // Others were gained with it.
      expect(refusals[0]!.gainedWith).toBeGreaterThan(1);
      expect(resumed.sort()).toEqual(['s0', 's1', 's2', 's4']);
      const freed = fleet.store
        .history(`${fleet.keys.root}leases/s3`)
        .filter(({ value }) => value === null);
      expect(freed.map(({ cause }) => cause)).toEqual(refusals.map(() => 'batch'));
      freed.forEach(({ atMs }, index) => {
        expect(atMs - refusals[index]!.atMs).toBeLessThanOrEqual(2 * TICK_MS);
      });
      for (const id of ['s0', 's1', 's2', 's4']) {
        expect(fleet.split(id)).toMatchObject({ status: 'completed', attempts: 0, epoch: '1' });
      }
    },
  );
});
