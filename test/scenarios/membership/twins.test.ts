/** Two live processes under one instance id: exactly one of them dies, and says why (R14). */
import { describe, expect, test } from '@jest/globals';
import type { InstanceId, SplitId } from '../../../src/base/ids.ts';
import { looksAt, writesTo } from '../../../src/store/faults.ts';
import {
  finalPlan,
  ids,
  LEASE_MS,
  type Outcome,
  type SeamWorker,
  watched,
} from '../../support/fleet.ts';
import { commitHeld, Journal, stepWorker } from '../../support/sources.ts';
import { fleet, startFleet, startRecorded } from '../../support/scenario.ts';
import { eventsOf, sessionOf } from '../../support/observed.ts';
import { DRAIN_MS, endBesideAStuckHandler } from '../../support/departures.ts';

interface Twin extends SeamWorker {
  readonly end: Outcome<unknown>;
}

function twin(id: string): Twin {
  const seam = fleet.seam(id);
  return Object.assign(seam, { end: watched(seam.coordinator.verdict()) });
}

/** Waits until one of the twins dies, and returns it and the one that goes on. */
async function untilOneDies(one: Twin, other: Twin, withinMs = LEASE_MS): Promise<[Twin, Twin]> {
  const hasDied = ({ end }: Twin): boolean => end.state === 'rejected';
  await fleet.until('one twin dies', () => hasDied(one) || hasDied(other), withinMs);
  const [dead, survivor] = hasDied(one) ? [one, other] : [other, one];
  const error = dead.end.error as { code: string; message: string };
  expect(error.code).toBe('E_INSTANCE_ID_TAKEN');
  expect(error.message).toContain('instanceId');
  expect(error.message).toContain('"pod-1"');
  return [dead, survivor];
}

/** The survivor owns every split, is left in peace, and brings the job to its end. */
async function expectToCarryOn(survivor: Twin, dead: Twin, count: number): Promise<void> {
  await fleet.until('the survivor owns all', () => survivor.held.size === count, 3 * LEASE_MS);
  const lostBefore = eventsOf(survivor, 'lost').length;
  const { nonce } = survivor.coordinator.status();
  for (let round = 0; round < 24; round += 1) {
    await fleet.advance(LEASE_MS / 6);
    commitHeld(survivor);
    // What the dead one may still try is refused.
    for (const [id, { epoch }] of dead.held) {
      const late = watched(dead.coordinator.commit(id, { watermark: 1_000 }, epoch));
      await fleet.advance(20);
      expect(late.state).toBe('rejected');
    }
  }
  expect(survivor.end.state).toBe('pending');
  expect(survivor.held.size).toBe(count);
  expect(eventsOf(survivor, 'lost')).toHaveLength(lostBefore);
  for (const id of survivor.held.keys()) expect(fleet.split(id)?.nonce).toBe(nonce);
  for (const id of [...survivor.held.keys()]) {
    void survivor.coordinator.commit(id, { watermark: 500, completed: true });
  }
  await fleet.until('the verdict', () => survivor.verdict !== null, LEASE_MS);
  expect(survivor.verdict?.kind).toBe('complete');
  expect(dead.end.state).toBe('rejected');
}

describe('live twins', () => {
  test('live twins - the one that was there dies once the second has announced itself (R14)', async () => {
    await startFleet();
    const first = twin('pod-1');
    await fleet.until('the first owns all', () => first.held.size === 4);
    await fleet.advance(LEASE_MS);
    const second = twin('pod-1');
    const [dead, survivor] = await untilOneDies(first, second);
    expect(dead === first).toBe(true);
    await expectToCarryOn(survivor, dead, 4);
  });

  test.each([
    ['at the very same instant', 0],
    ['one probe apart', 3],
  ])('live twins - started %s leave exactly one', async (_, lagMs) => {
    await startFleet();
    const first = twin('pod-1');
    // Answers that take time interleave their announcements.
    first.client.when('transact').delayAnswer(5, { times: 6 });
    if (lagMs > 0) await fleet.advance(lagMs);
    const second = twin('pod-1');
    second.client.when('transact').delayAnswer(7, { times: 6 });
    const [dead, survivor] = await untilOneDies(first, second);
    await expectToCarryOn(survivor, dead, 4);
  });

  test.each([
    ['shorter than the lease', LEASE_MS / 3],
    ['of two leases', 2 * LEASE_MS],
  ])(
    'live twins - a twin that wakes from a pause %s dies, not its successor (R14)',
    async (_, pauseMs) => {
      await startFleet();
      const first = twin('pod-1');
      await fleet.until('the first owns all', () => first.held.size === 4);
      commitHeld(first);
      await fleet.advance(500);
      first.freeze();
      const second = twin('pod-1');
      await fleet.advance(pauseMs);
      expect(second.held.size).toBe(4);
      expect(second.held.get('s1')?.watermark).toBe(1n);
      first.thaw();
      const [dead, survivor] = await untilOneDies(first, second);
      expect(dead === first).toBe(true);
      await expectToCarryOn(survivor, dead, 4);
    },
  );

  test('live twins - leave other workers undisturbed', async () => {
    await startFleet({ planner: finalPlan(ids(6)) });
    const other = fleet.seam('other', { config: { maxInFlight: 2 } });
    await fleet.until('the other is full', () => other.held.size === 2);
    const first = twin('pod-1');
    await fleet.until('the first owns the rest', () => first.held.size === 4);
    const second = twin('pod-1');
    const [dead, survivor] = await untilOneDies(first, second);
    expect(dead === first).toBe(true);
    await fleet.until('the survivor owns the rest', () => survivor.held.size === 4, 2 * LEASE_MS);
    expect(eventsOf(other, 'lost')).toEqual([]);
    expect(eventsOf(other, 'revokeRequested')).toEqual([]);
    expect(other.held.size).toBe(2);
  });

  test('live twins - one run rejects with E_INSTANCE_ID_TAKEN and no split has two live handlers after it (R14)', async () => {
    await startFleet();
    const journal = new Journal();
    const first = stepWorker(fleet, 'pod-1', journal);
    await fleet.until('the first works', () => journal.runningOn('pod-1').length === 4);
    const firstEpochs = new Set(journal.lines.map(({ epoch }) => epoch));
    const second = stepWorker(fleet, 'pod-1', journal);
    await fleet.until('one run ends', () => first.run.state !== 'pending', LEASE_MS);
    expect(first.run.error).toMatchObject({
      code: 'E_INSTANCE_ID_TAKEN',
      details: { instanceId: 'pod-1' },
    });
    expect(second.run.state).toBe('pending');
    const endedAtMs = fleet.clock.nowMs();
    // Until the first one has heard of the second, both may be at work where news takes time.
    const before = fleet.slackMs === 0 ? 0 : journal.overlaps.length;
    await fleet.advance(3 * LEASE_MS);
    expect(second.run.state).toBe('pending');
    expect(journal.overlaps.slice(before)).toEqual([]);
    const late = journal.lines.filter(({ atMs }) => atMs > endedAtMs);
    expect(late.filter(({ epoch }) => firstEpochs.has(epoch))).toEqual([]);
    for (const id of ['s1', 's2', 's3', 's4']) {
      expect(late.some(({ split, did }) => split === id && did === 'commit')).toBe(true);
      expect(fleet.lease(id as SplitId)?.nonce).toBe(second.worker.status().nonce);
    }
  });
});

describe('live twins among others', () => {
  test.each([
    ['while the first one leads', 'late'],
    ['at the very same instant', 'together'],
    ['while the first one is paused for two leases', 'paused'],
  ] as const)(
    'live twins among others - started %s: one ends for good, the rest of the fleet works on',
    async (_, when) => {
      const world = startRecorded({ planner: finalPlan(ids(8)), config: { maxInFlight: 4 } });
      const journal = new Journal();
      const start = (id: string) => stepWorker(world, id, journal);
      const first = start('w-1');
      if (when !== 'together') {
        await fleet.until('the first leads', () => fleet.leader() === 'w-1', 2_000);
        await fleet.until('it has four', () => journal.runningOn('w-1').length === 4, 5_000);
      }
      const others = ['w-2', 'w-3'].map(start);
      if (when !== 'together') {
        const isFull = (): boolean => fleet.store.dump(`${fleet.keys.root}leases/`).length === 8;
        await fleet.until('all held', isFull, 5_000);
        await fleet.advance(2_000);
      }
      if (when === 'paused') first.freeze();
      const second = start('w-1');
      if (when === 'paused') {
        await fleet.advance(2 * LEASE_MS);
        first.thaw();
      }
      const twins = [first, second];
      const isOver = (): boolean => twins.some(({ run }) => run.state !== 'pending');
      await fleet.until('one twin ends', isOver, LEASE_MS);
      await fleet.advance(20);
      const [dead, survivor] = first.run.state === 'pending' ? [second, first] : [first, second];
      expect(dead.run.error).toMatchObject({
        code: 'E_INSTANCE_ID_TAKEN',
        details: { instanceId: 'w-1' },
      });
      const calls = dead.client.counts;
      const lost = eventsOf(survivor, 'lost').length;
      await fleet.until('all held', () => fleet.leasesOf('w-1').length >= 2, 3 * LEASE_MS);
      await fleet.advance(4 * LEASE_MS);
      // It does not try again, and nothing more of it reaches the store.
      expect(dead.client.counts).toEqual(calls);
      expect(survivor.run.state).toBe('pending');
      expect(eventsOf(survivor, 'lost')).toHaveLength(lost);
      expect(fleet.store.dump(`${fleet.keys.root}leases/`)).toHaveLength(8);
      const { nonce } = survivor.worker.status();
      for (const id of fleet.leasesOf('w-1')) expect(fleet.lease(id)?.nonce).toBe(nonce);
      for (const other of others) {
        expect(other.run.state).toBe('pending');
        expect(eventsOf(other, 'lost')).toEqual([]);
      }
      const key = fleet.keys.presence('w-1' as InstanceId);
      expect(fleet.store.dump(key)).toHaveLength(1);
    },
  );
});

describe('a twin that came and went', () => {
  const isPresence = (key: string): boolean => key.includes('/workers/');

  /** Whom the presence names as its process. */
  function announced(): string | undefined {
    const key = `${fleet.keys.root}workers/pod-1`;
    const entry = fleet.store.dump(key)[0];
    return entry === undefined ? undefined : (JSON.parse(entry.value) as { nonce: string }).nonce;
  }

  /** A worker that changes its announcement: it gives a split up unasked, and refuses it for a lease (R40). */
  function announceAgain(seam: SeamWorker): void {
    const [id, { epoch }] = [...seam.held][0]!;
    void seam.coordinator.giveUp(id, epoch);
  }

  test('a twin that came and went - heard of while an announcement is on its way, kills nobody (R14)', async () => {
    await startFleet();
    const left = fleet.seam('pod-1');
    const end = watched(left.coordinator.verdict());
    await fleet.until('it owns all', () => left.held.size === 4);
    await fleet.advance(LEASE_MS);
    const { nonce } = left.coordinator.status();
    const heard = left.client.when(looksAt(isPresence)).delayEvents(1_900);
    const sent = left.client.when(writesTo(isPresence)).delay(1_500, { times: 2 });
    announceAgain(left);
    const other = fleet.seam('pod-1');
    // It gets no further than to announce itself.
    const ended = sessionOf(fleet, 'pod-1');
    other.client.when((call) => call.kind === 'closeSession' && call.id === ended).loseBefore();
    other.client.when(writesTo((key) => key.includes('/leases/'))).loseBefore();
    await fleet.until('the other one is announced', () => announced() !== nonce, 1_000);
    other.crash();
    await fleet.store.expireSession(sessionOf(fleet, 'pod-1') as never);
    await fleet.until('both sends have arrived', () => announced() === nonce, 4_000);
    expect(sent.hits).toBe(2);
    await fleet.advance(LEASE_MS);
    expect(heard.hits).toBeGreaterThan(0);
    expect(end.state).toBe('pending');
    expect(announced()).toBe(nonce);
    await fleet.until('it owns all again', () => left.held.size === 4, 4 * LEASE_MS);
  });
});

describe('a twin beside a handler that never returns', () => {
  test('the same instance id elsewhere - ends the run by the drain deadline, and both splits go on there', async () => {
    const journal = new Journal();
    const planner = finalPlan(['normal', 'stuck']);
    // The run has to fail.
    const world = startRecorded({ planner }, 'failed');
    const { a, tookMs, report } = await endBesideAStuckHandler(world, () => {
      stepWorker(world, 'a', journal);
    });
    expect(a.run.error).toMatchObject({
      code: 'E_INSTANCE_ID_TAKEN',
      details: { instanceId: 'a' },
    });
    expect(tookMs).toBeLessThanOrEqual(DRAIN_MS + 1_000);
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
