/** Splits that are asked back: handed over, taken at the deadline, or kept after all. */
import { describe, expect, test } from '@jest/globals';
import type { InstanceId, SplitId } from '../../../src/base/ids.ts';
import type { Grant } from '../../../src/index.ts';
import { finalPlan, ids, LEASE_MS, lost, type SeamWorker } from '../../support/fleet.ts';
import {
  commitHeld,
  handBackAsked,
  ownersOf,
  refusalOf,
  storedText,
} from '../../support/sources.ts';
import { fleet, startFleet } from '../../support/scenario.ts';
import { eventsOf, heldBy, sessionOf } from '../../support/observed.ts';

const DRAIN_MS = 5_000;

/** One worker that holds four splits and has been asked for two, by the coming of another that waits for them. */
async function askedForHalf(drainDeadlineMs = DRAIN_MS) {
  await startFleet({ planner: finalPlan(ids(4)), config: { drainDeadlineMs } });
  const a = fleet.seam('a');
  await fleet.until('a holds all', () => a.held.size === 4);
  commitHeld(a);
  const b = fleet.seam('b');
  await fleet.until('a is asked', () => a.asked.size === 2, 2_000);
  return { a, b, asked: [...a.asked].sort(), askedAtMs: fleet.clock.nowMs() };
}

/** The worker that waits dies, and its presence goes at once: the leader takes the move back. */
async function takeMoveBack(b: SeamWorker): Promise<void> {
  b.crash();
  expect(sessionOf(fleet, 'b')).not.toBeNull();
  await fleet.store.remove(fleet.keys.presence('b' as InstanceId));
  await fleet.advance(300 + fleet.slackMs);
}

/** Moves time on while `a` commits what it holds, but not `except`. */
async function workOn(a: SeamWorker, forMs: number, except: readonly string[] = []): Promise<void> {
  for (let passedMs = 0; passedMs < forMs; passedMs += 500) {
    await fleet.advance(500);
    commitHeld(a, except);
  }
}

describe('a drain that does not end', () => {
  test('a drain that does not end - is cut at the deadline, and the split moves at its last commit', async () => {
    const { a, b, asked, askedAtMs } = await askedForHalf(2_000);
    const [request] = eventsOf(a, 'revokeRequested');
    expect(request).toMatchObject({ reason: 'unassigned', deadlineMs: 2_000 });
    const lastCommits = new Map<string, bigint | null>();
    const work = (): boolean => {
      commitHeld(a);
      for (const [id, { watermark }] of a.held) lastCommits.set(id, watermark);
      return b.held.size === 2;
    };
    await fleet.until('b holds two', work, LEASE_MS, 100);
    // By the deadline: neither earlier, nor by an expiry.
    expect(fleet.clock.nowMs() - askedAtMs).toBeGreaterThanOrEqual(2_000 - 100);
    expect(fleet.clock.nowMs() - askedAtMs).toBeLessThan(2_000 + 500 + fleet.slackMs);
    expect(eventsOf(a, 'lost').map(({ splitId, reason }) => [splitId, reason])).toEqual(
      expect.arrayContaining(asked.map((id) => [id, 'revoked'])),
    );
    expect(eventsOf(a, 'lost')).toHaveLength(2);
    expect(heldBy(b)).toEqual(asked);
    for (const [id, { watermark }] of b.held) {
      expect(watermark).toBeGreaterThan(fleet.slackMs === 0 ? 10n : 1n);
      expect(watermark).toBe(lastCommits.get(id));
      expect(fleet.split(id)).toMatchObject({ attempts: 0, owner: 'b' });
      const before = storedText(fleet, id);
      expect(await refusalOf(fleet, a.coordinator.commit(id, { watermark: 99 }))).toBe('E_FENCED');
      expect(storedText(fleet, id)).toBe(before);
    }
    expect(eventsOf(a, 'sessionLost')).toEqual([]);
    expect(a.held.size).toBe(2);
  });
});

describe('a revocation that is taken back', () => {
  test('a revocation that is taken back - leaves the split where it is, twice the drain deadline on', async () => {
    const { a, b, asked } = await askedForHalf();
    await workOn(a, 1_000);
    await takeMoveBack(b);
    expect(eventsOf(a, 'revokeCancelled').map(({ splitId }) => splitId)).toEqual(
      expect.arrayContaining(asked),
    );
    expect(a.asked.size).toBe(0);
    const epochs = asked.map((id) => fleet.split(id)?.epoch);
    for (const id of asked) expect(fleet.lease(id)?.state).toBe('cancelledDrain');

    await workOn(a, 2 * DRAIN_MS + 1_000);
    expect(eventsOf(a, 'lost')).toEqual([]);
    expect(heldBy(a)).toEqual(ids(4));
    await fleet.advance(20);
    for (const id of asked) {
      expect(fleet.split(id)?.watermark).toBe(String(a.held.get(id)!.watermark));
      expect(ownersOf(fleet, id)).toEqual(['a']);
    }
    expect(asked.map((id) => fleet.split(id)?.epoch)).toEqual(epochs);
  });

  test('a revocation that is taken back - still frees a split whose source has fallen silent, for the same worker', async () => {
    const { a, b, asked } = await askedForHalf();
    await workOn(a, 1_000);
    await takeMoveBack(b);
    // While its tail still lands, the split stays.
    await workOn(a, 2 * DRAIN_MS);
    expect(eventsOf(a, 'lost')).toEqual([]);
    const silentFromMs = fleet.clock.nowMs();
    const reached = asked.map((id) => a.held.get(id)!.watermark);
    const epochs = asked.map((id) => a.held.get(id)!.epoch);

    const step = (): boolean => {
      commitHeld(a, asked);
      return eventsOf(a, 'lost').length === 2;
    };
    await fleet.until('the silent ones are given up', step, 2 * DRAIN_MS, 100);
    const silentMs = fleet.clock.nowMs() - silentFromMs;
    expect(silentMs).toBeGreaterThanOrEqual(DRAIN_MS - 100);
    expect(silentMs).toBeLessThan(DRAIN_MS + 500 + fleet.slackMs);
    for (const { splitId, reason } of eventsOf(a, 'lost')) {
      expect([asked.includes(splitId), reason]).toEqual([true, 'revoked']);
    }
    await fleet.until('a has them back', () => a.held.size === 4, 1_000);
    asked.forEach((id, index) => {
      expect(a.held.get(id)!.watermark).toBe(reached[index]);
      expect(BigInt(a.held.get(id)!.epoch)).toBeGreaterThan(BigInt(epochs[index]!));
      expect(ownersOf(fleet, id)).toEqual(['a', 'a']);
    });
    // They are read again, in new tenancies that nothing bounds.
    await workOn(a, 2 * DRAIN_MS);
    await fleet.advance(2 * DRAIN_MS);
    expect(eventsOf(a, 'lost')).toHaveLength(2);
  });

  test('a revocation that is taken back - bounds nothing any more once the source reads on (R35)', async () => {
    const { a, b, asked } = await askedForHalf();
    await takeMoveBack(b);
    for (const id of asked) a.coordinator.resumeIntake(id);
    await fleet.advance(100);
    for (const id of asked) expect(fleet.lease(id)?.state).toBe('owned');
    await fleet.advance(3 * DRAIN_MS);
    expect(eventsOf(a, 'lost')).toEqual([]);
    expect(heldBy(a)).toEqual(ids(4));
  });

  test('a revocation that is taken back - is seen by a running handler, which goes on (R35, R37)', async () => {
    await startFleet({ planner: finalPlan(ids(4)) });
    const grants = new Map<string, Grant>();
    const a = fleet.worker('a', async (grant) => {
      grants.set(grant.split.id, grant);
      await lost(grant);
    });
    await fleet.until('a works on all', () => grants.size === 4);
    const b = fleet.seam('b');
    const asked = (): Grant[] => [...grants.values()].filter(({ draining }) => draining.requested);
    await fleet.until('two are asked back', () => asked().length === 2, 2_000);
    const both = asked();
    expect(both.map(({ draining }) => draining.reason)).toEqual(['unassigned', 'unassigned']);
    await fleet.advance(1_000);
    await takeMoveBack(b);
    expect(both.map(({ draining }) => draining.requested)).toEqual([false, false]);
    await fleet.advance(3 * DRAIN_MS);
    for (const grant of both) {
      expect(grant.lost.aborted).toBe(false);
      void grant.commit({ watermark: 3 });
    }
    await fleet.advance(20);
    for (const { split, epoch } of both) {
      expect(fleet.split(split.id)).toMatchObject({ watermark: '3', epoch, owner: 'a' });
      expect(fleet.lease(split.id)?.state).toBe('owned');
    }
    expect(eventsOf(a, 'lost')).toEqual([]);
  });
});

describe('a worker whose last split is taken', () => {
  test('a worker whose last split is taken - stays in the fleet and is given work again (R16)', async () => {
    await startFleet({ planner: finalPlan(['r0', 'r1']), config: { maxInFlight: 1 } });
    const operator = fleet.operator();
    const a = fleet.seam('a');
    await fleet.until('it leads', () => fleet.leader() === 'a');
    const b = fleet.seam('b');
    await fleet.until('1 and 1', () => a.held.size === 1 && b.held.size === 1);
    const [last] = heldBy(a);
    const session = sessionOf(fleet, 'a');
    commitHeld(a);
    void operator.drain('a');
    await fleet.until('a is asked', () => a.asked.size === 1, 1_000);
    const handedBack = handBackAsked(a);
    await fleet.until('handed back', () => fleet.lease(last!) === null, 500);
    expect(a.held.size).toBe(0);

    await fleet.advance(2 * LEASE_MS);
    expect(sessionOf(fleet, 'a')).toBe(session);
    expect(fleet.store.dump(fleet.keys.presence('a' as InstanceId))[0]?.value).toContain(
      '"parting":false',
    );
    expect(fleet.leader()).toBe('a');
    expect(fleet.split(last as SplitId)?.owner).toBeNull();
    void operator.undrain('a');
    await fleet.until('a works again', () => a.held.size === 1, 1_000);
    expect(a.held.get(last!)?.watermark).toBe(handedBack.get(last!));
  });
});
