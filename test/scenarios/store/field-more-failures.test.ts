/** Field reports about sources that refuse, handlers that kill or hang, and stores that shut a worker out. */
import { afterEach, describe, expect, test } from '@jest/globals';
import type { StoreCall } from '../../../src/store/faults.ts';
import type { Grant } from '../../../src/driver/grant.ts';
import { landings, transaction, violations } from '../../support/faults.ts';
import { CONFIG, finalPlan, type HandledWorker, ids, LEASE_MS, lost } from '../../support/fleet.ts';
import { pass, versionsOfSplit } from '../../support/observed.ts';
import { RecordedFleet } from '../../support/recorded.ts';
import { eventsOf, Journal, ownersOf, stepWorker } from '../../support/sources.ts';

let fleet: RecordedFleet;
/** Checks that a test breaks on purpose: a run that has to fail. */
let broken: string[] = [];
afterEach(async () => {
  await fleet.closeSound(...broken);
  broken = [];
  expect(violations(fleet.store)).toEqual([]);
});

const TICK_MS = 1_000;
const DRAIN_MS = CONFIG.drainDeadlineMs!;

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
      fleet = new RecordedFleet({ planner: finalPlan(splits) });
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

describe('a split that kills who starts it', () => {
  test('a split that kills who starts it - takes three processes with it, and is in no assignment ever after', async () => {
    fleet = new RecordedFleet({ planner: finalPlan([...ids(11), 'bad']) });
    const live = new Map<string, HandledWorker>();
    const crashes: string[] = [];
    const start = (name: string): void => {
      const worker = fleet.worker(name, async (grant: Grant) => {
        if (grant.split.id === 'bad') {
          // The others of its batch have begun.
          await pass(fleet, 1);
          crashes.push(name);
          live.get(name)!.crash();
          void pass(fleet, 1_000).then(() => {
            start(name);
          });
          await new Promise(() => undefined);
        }
        await grant.commit({ watermark: (grant.progress?.watermark ?? 0n) + 1n });
        await Promise.race([pass(fleet, 3_000), lost(grant)]);
        if (!grant.lost.aborted) await grant.complete();
      });
      live.set(name, worker);
    };
    for (const name of ['a', 'b', 'c']) start(name);
    const isOver = (): boolean => [...live.values()].every(({ run }) => run.state !== 'pending');
    await fleet.until('every run ends', isOver, 30 * LEASE_MS, 200);
    expect(crashes).toHaveLength(3);
    const stalled = { kind: 'stalled', completed: 11, quarantined: 1, quarantinedIds: ['bad'] };
    for (const { run } of live.values()) expect(run.value).toEqual(stalled);
    expect(fleet.split('bad')).toMatchObject({
      attempts: 3,
      owner: null,
      lastFailure: { by: crashes[2] },
    });
    expect(ownersOf(fleet, 'bad')).toEqual(crashes);
    const versions = versionsOfSplit(fleet, 'bad');
    const setAsideAtMs = versions.find(({ record }) => record.status === 'quarantined')!.atMs;
    const since = fleet.store
      .history(`${fleet.keys.root}assign/`)
      .filter(({ atMs, value }) => atMs > setAsideAtMs + 200 && value?.includes('"bad"') === true);
    expect(since).toEqual([]);
    expect(landings(fleet.store, 'claim', 'bad')).toHaveLength(3);
  }, 30_000);
});

describe('a fatal error beside a handler that never returns', () => {
  const anyCall = (call: StoreCall): boolean => call.kind !== 'watch';

  test('a store that denies all access - ends the run within a lease, and its handlers are told to stop', async () => {
    const { a, tookMs, report } = await ends(({ client }) => {
      client.when(anyCall).refuse('E_STORE_DENIED');
    });
    expect(a.run.error).toMatchObject({ code: 'E_STORE_DENIED', kind: 'fatal' });
    // Renewals are tried until the session may not be believed in; then nobody lets it in again.
    expect(tookMs).toBeLessThanOrEqual(LEASE_MS);
    expect(
      eventsOf(a, 'lost')
        .map(({ splitId }) => splitId)
        .sort(),
    ).toEqual(['normal', 'stuck']);
    expect(report).toMatchObject({ reason: 'failed' });
    expect(report.error).toContain('E_STORE_DENIED');
    // What was not allowed is not there; what hung on the sessions goes with them.
    expect(fleet.split('normal')?.watermark).toBeNull();
    await fleet.advance(LEASE_MS);
    expect(fleet.store.dump(`${fleet.keys.root}leases/`)).toEqual([]);
    expect(fleet.leader()).toBeNull();
  });

  /** One worker with a split that drains and one whose handler hangs; then `strike`, which must end its run. */
  async function ends(strike: (a: HandledWorker) => void) {
    broken = ['failed'];
    fleet = new RecordedFleet({ planner: finalPlan(['normal', 'stuck']) });
    const grants = new Map<string, Grant>();
    const a = fleet.worker('a', async (grant) => {
      grants.set(grant.split.id, grant);
      if (grant.split.id === 'stuck') await new Promise(() => undefined);
      await Promise.race([grant.draining.whenRequested(), lost(grant)]);
      if (!grant.lost.aborted) await grant.commit({ watermark: 41 });
    });
    await fleet.until('both run', () => grants.size === 2, 5_000);
    await fleet.advance(1_000);
    const struckAtMs = fleet.clock.nowMs();
    strike(a);
    await fleet.until('run ends', () => a.run.state !== 'pending', 3 * LEASE_MS, 10);
    const stuck = grants.get('stuck')!;
    expect(stuck.lost.aborted).toBe(true);
    const revision = fleet.store.revision;
    const sent = a.client.counts.transact;
    for (const late of [stuck.commit({ watermark: 99 }), stuck.complete()]) {
      await expect(late).rejects.toMatchObject({ code: 'E_FENCED' });
    }
    expect(fleet.store.revision).toBe(revision);
    expect(a.client.counts.transact).toBe(sent);
    return { a, tookMs: fleet.clock.nowMs() - struckAtMs, report: await a.worker.stop() };
  }

  test('the same instance id elsewhere - ends the run by the drain deadline, and both splits go on there', async () => {
    const journal = new Journal();
    const { a, tookMs, report } = await ends(() => {
      stepWorker(fleet, 'a', journal);
    });
    expect(a.run.error).toMatchObject({
      code: 'E_INSTANCE_ID_TAKEN',
      details: { instanceId: 'a' },
    });
    expect(tookMs).toBeLessThanOrEqual(DRAIN_MS + TICK_MS);
    expect(eventsOf(a, 'lost').map(({ splitId }) => splitId)).toContain('stuck');
    expect(report).toMatchObject({ reason: 'failed' });
    await fleet.until('both go on', () => journal.runningOn('a').length === 2, 2 * LEASE_MS);
    await fleet.advance(2 * LEASE_MS);
    for (const id of ['normal', 'stuck']) {
      expect(journal.of(id, 'commit').length).toBeGreaterThan(3);
      expect(Number(fleet.split(id)!.watermark)).toBeLessThan(99);
    }
  });
});
