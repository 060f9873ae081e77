/** Two live processes under one instance id: exactly one of them dies, and says why (R14). */
import { describe, expect, test } from '@jest/globals';
import type { SplitId } from '../../../src/base/ids.ts';
import {
  finalPlan,
  ids,
  LEASE_MS,
  type Outcome,
  type SeamWorker,
  watched,
} from '../../support/fleet.ts';
import { commitHeld, eventsOf, Journal, stepWorker } from '../../support/sources.ts';
import { fleet, startFleet } from '../../support/scenario.ts';

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
  test('live twins - the one that was there dies once the second has announced itself', async () => {
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
    'live twins - a twin that wakes from a pause %s dies, not its successor',
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

  test('live twins - one run rejects with E_INSTANCE_ID_TAKEN and no split has two live handlers after it', async () => {
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
