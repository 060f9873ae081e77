/** Who owns a split, and how it changes hands when a worker dies, leaves, comes back, or has been passed over. */
import { describe, expect, test } from '@jest/globals';
import type { SessionId, SplitId } from '../../../src/base/ids.ts';
import { leaseCodec, splitCodec } from '../../../src/records/records.ts';
import { looksAt, writesTo } from '../../../src/store/faults.ts';
import { completeAtOnce, finalPlan, ids, LEASE_MS, watched } from '../../support/fleet.ts';
import {
  assignmentWrites,
  commitHeld,
  completeHeld,
  handBackAsked,
  Journal,
  lastRenewalAtMs,
  ownersOf,
  refusalOf,
  stepWorker,
  storedText,
} from '../../support/sources.ts';
import { between, fleet, startFleet } from '../../support/scenario.ts';
import { eventsOf, sessionOf, startAlone } from '../../support/observed.ts';

describe('racing workers', () => {
  test('racing workers - split the plan between them, hold still, and complete it together', async () => {
    await startFleet({ planner: finalPlan(ids(8)) });
    const a = fleet.seam('a');
    const b = fleet.seam('b');
    const work = (): void => {
      for (const seam of [a, b]) {
        commitHeld(seam);
        handBackAsked(seam);
      }
    };
    await fleet.until(
      '4 and 4',
      () => {
        work();
        return a.held.size === 4 && b.held.size === 4;
      },
      60_000,
      100,
    );
    const halves = [[...a.held.keys()].sort(), [...b.held.keys()].sort()];
    expect(halves.flat().sort()).toEqual(ids(8));

    const settledAtMs = fleet.clock.nowMs();
    for (let round = 0; round < 36; round += 1) {
      await fleet.advance(LEASE_MS / 12);
      work();
    }
    expect([[...a.held.keys()].sort(), [...b.held.keys()].sort()]).toEqual(halves);
    expect([...eventsOf(a, 'lost'), ...eventsOf(b, 'lost')]).toEqual([]);
    expect(assignmentWrites(fleet, settledAtMs)).toEqual([]);

    completeHeld(a);
    completeHeld(b);
    await fleet.until('the verdict', () => a.verdict !== null && b.verdict !== null, 2_000);
    const verdict = { kind: 'complete', completed: 8, quarantined: 0, quarantinedIds: [] };
    expect([a.verdict, b.verdict]).toEqual([verdict, verdict]);
  });

  test('racing workers - complete a plan larger than their lanes, each split in one hand at a time', async () => {
    await startFleet({ planner: finalPlan(ids(30)), config: { maxInFlight: 4 } });
    const journal = new Journal();
    const workers = ['a', 'b', 'c'].map((id) => stepWorker(fleet, id, journal, { end: 3n }));
    await fleet.until('all end', () => workers.every(({ run }) => run.state !== 'pending'));
    expect(workers.map(({ run }) => run.value?.kind)).toEqual(['complete', 'complete', 'complete']);
    expect(journal.overlaps).toEqual([]);
    for (const id of ids(30)) {
      // Nothing is done twice: each step was committed once, in order.
      expect(journal.of(id, 'commit').map(({ watermark }) => watermark)).toEqual([1n, 2n, 3n]);
      expect(fleet.split(id)).toMatchObject({ status: 'completed', watermark: '3', attempts: 0 });
    }
  });
});

describe('a single worker', () => {
  test('a single worker - runs its handler once per split and resolves to the verdict', async () => {
    await startFleet();
    const handled: string[] = [];
    const a = fleet.worker('a', async (grant) => {
      handled.push(grant.split.id);
      await completeAtOnce(grant);
    });
    await fleet.until('the end', () => a.run.state !== 'pending');
    expect(a.run.value).toMatchObject({ kind: 'complete', completed: 4 });
    expect(handled.sort()).toEqual(['s1', 's2', 's3', 's4']);
  });
});

describe('a dead worker', () => {
  test('a dead worker - is followed no earlier than a lease after its last renewal, with its progress', async () => {
    await startFleet({ planner: finalPlan(['t0', 't1']), config: { rebalanceDelayMs: 0 } });
    const a = await startAlone(fleet, 'a', 2);
    await fleet.advance(7_000);
    void a.coordinator.commit('t0', { watermark: 42, state: 'resume here' });
    await fleet.advance(100);
    const session = sessionOf(fleet, 'a')!;
    a.crash();
    const diedAtMs = fleet.clock.nowMs();

    const b = fleet.seam('b');
    await fleet.until('b takes over', () => b.held.size === 2, 2 * LEASE_MS);
    const takenAtMs = fleet.clock.nowMs();
    const renewedAtMs = lastRenewalAtMs(a, session);
    expect(renewedAtMs).toBeLessThanOrEqual(diedAtMs);
    expect(takenAtMs - renewedAtMs).toBeGreaterThanOrEqual(LEASE_MS);
    expect(takenAtMs - renewedAtMs).toBeLessThan(LEASE_MS + 500 + fleet.slackMs);

    const { epoch, watermark, state } = b.held.get('t0')!;
    expect(watermark).toBe(42n);
    expect(new TextDecoder().decode(state)).toBe('resume here');
    expect(BigInt(epoch)).toBeGreaterThan(BigInt(a.held.get('t0')!.epoch));
    expect(b.held.get('t1')).toMatchObject({ watermark: null, state: null });
    // A death costs each split an attempt (R31).
    expect([fleet.split('t0')?.attempts, fleet.split('t1')?.attempts]).toEqual([1, 1]);
  });
});

describe('a leaving worker', () => {
  test('a leaving worker - hands its splits over without a wait for lease or rebalance delay', async () => {
    await startFleet({ planner: finalPlan(['r0', 'r1']) });
    const a = await startAlone(fleet, 'a', 2);
    commitHeld(a);
    const b = fleet.seam('b', { config: { maxInFlight: 0 } });
    await fleet.until('b is there', () => sessionOf(fleet, 'b') !== null, 2_000);
    const c = fleet.seam('c');
    // Released before c is given a share: what moves, moves by the departure.
    const releasedAtMs = fleet.clock.nowMs();
    void a.coordinator.release(['r0', 'r1']);
    await fleet.until('c holds both', () => c.held.size === 2, 1_500);
    expect(fleet.clock.nowMs() - releasedAtMs).toBeLessThan(LEASE_MS / 4 + fleet.slackMs);
    expect([...c.held.values()].map(({ watermark }) => watermark)).toEqual([1n, 1n]);
    // In order, so nobody pays an attempt, and the leaver is gone from every key (R16).
    expect([fleet.split('r0')?.attempts, fleet.split('r1')?.attempts]).toEqual([0, 0]);
    expect(sessionOf(fleet, 'a')).toBeNull();
    expect(fleet.leader()).not.toBe('a');
    expect(b.held.size).toBe(0);
  });
});

describe('a restarted worker', () => {
  test('a restarted worker - reclaims its splits at once, inside the lease of the process before it (R12, R13)', async () => {
    await startFleet({ planner: finalPlan(['m0']) });
    const old = await startAlone(fleet, 'pod-1', 1);
    void old.coordinator.commit('m0', { watermark: 7 });
    await fleet.advance(1_000);
    const oldSession = sessionOf(fleet, 'pod-1')!;
    old.crash();

    const restarted = fleet.seam('pod-1');
    await fleet.until('reclaimed', () => restarted.held.size === 1, 1_000);
    expect(restarted.held.get('m0')?.watermark).toBe(7n);
    expect(BigInt(restarted.held.get('m0')!.epoch)).toBeGreaterThan(
      BigInt(old.held.get('m0')!.epoch),
    );
    expect(fleet.split('m0')?.attempts).toBe(1);
    // What is left of the old process goes now, not after a lease (R13).
    const isGone = (): boolean => !fleet.store.liveSessions.includes(oldSession);
    await fleet.until('the old session is closed', isGone, LEASE_MS / 3);
    await fleet.until('it leads again', () => restarted.coordinator.status().isLeading, LEASE_MS);
    await fleet.advance(2 * LEASE_MS);
    expect(eventsOf(restarted, 'lost')).toEqual([]);
  });

  test('a restarted worker - ends the session of the process before it also when it saw that one first (R13)', async () => {
    await startFleet({ planner: finalPlan(['m0']) });
    const old = await startAlone(fleet, 'pod-1', 1);
    const oldSession = sessionOf(fleet, 'pod-1')!;
    old.crash();
    const restarted = fleet.seam('pod-1');
    // Its own session is late, so what it follows is listed before it announces itself.
    restarted.client.when('openSession').delay(400);
    await fleet.until('reclaimed', () => restarted.held.size === 1, 2_000);
    const isGone = (): boolean => !fleet.store.liveSessions.includes(oldSession);
    await fleet.until('the old session is closed', isGone, LEASE_MS / 3);
  });
});

/** Takes a split as another worker's claim would, by hand. */
async function takeAsThief(id: string): Promise<void> {
  const session = '7777' as SessionId;
  await fleet.store.openSession(session, 600_000, { timeoutMs: 1_000 });
  const stamp = { instance: 'thief', nonce: 'thief-nonce', write: 1 };
  const record = fleet.split(id)!;
  const lease = fleet.lease(id)!;
  const epoch = String(BigInt(record.epoch) + 1n) as typeof record.epoch;
  const owner = 'thief' as NonNullable<typeof record.owner>;
  const nonce = 'thief-nonce' as typeof lease.nonce;
  const next = { ...record, epoch, owner, nonce };
  await fleet.store.put(fleet.keys.split(id as SplitId), splitCodec.encode(next, stamp));
  const taken = { ...lease, epoch, owner, nonce };
  await fleet.store.put(fleet.keys.lease(id as SplitId), leaseCodec.encode(taken, stamp), session);
}

describe('a fenced worker', () => {
  test('a fenced worker - commits nothing over the one that took its split, and hears of it once (R2)', async () => {
    await startFleet({ planner: finalPlan(['z0']) });
    const a = await startAlone(fleet, 'a', 1);
    void a.coordinator.commit('z0', { watermark: 10, state: 'a at 10' });
    await fleet.advance(100);
    // The news of the lease is late: only the compare of the commit itself can fence.
    a.client.when(looksAt((key) => key.endsWith('leases/'))).delayEvents(4_000);
    await takeAsThief('z0');
    const taken = storedText(fleet, 'z0');
    expect(taken).toContain('thief');

    const late = a.coordinator.commit('z0', { watermark: 11, state: 'a at 11' });
    expect(await refusalOf(fleet, late)).toBe('E_FENCED');
    expect(storedText(fleet, 'z0')).toBe(taken);
    expect(eventsOf(a, 'lost')).toMatchObject([{ splitId: 'z0', reason: 'fenced' }]);

    const writes = (): number =>
      a.client.log.filter(({ call }) => {
        const matcher = writesTo((key) => key === fleet.keys.split('z0' as SplitId));
        return typeof matcher === 'function' && matcher(call);
      }).length;
    const sent = writes();
    expect(await refusalOf(fleet, a.coordinator.commit('z0', { watermark: 12 }))).toBe('E_FENCED');
    await fleet.advance(2 * LEASE_MS);
    expect(writes()).toBe(sent);
    expect(storedText(fleet, 'z0')).toBe(taken);
    expect(eventsOf(a, 'lost')).toHaveLength(1);
  });

  test('a fenced worker - stops at the sight of a foreign session on its lease, without a write (R39)', async () => {
    await startFleet({ planner: finalPlan(['z0']) });
    const a = await startAlone(fleet, 'a', 1);
    await takeAsThief('z0');
    const taken = storedText(fleet, 'z0');
    await fleet.advance(20);
    expect(eventsOf(a, 'lost')).toMatchObject([{ splitId: 'z0', reason: 'fenced' }]);
    expect(await refusalOf(fleet, a.coordinator.commit('z0', { watermark: 1 }))).toBe('E_FENCED');
    expect(storedText(fleet, 'z0')).toBe(taken);
  });

  test('a fenced worker - finds a risen epoch in its own reading when no event told (R39)', async () => {
    await startFleet({ planner: finalPlan(['z0']) });
    const a = await startAlone(fleet, 'a', 1);
    const record = fleet.split('z0')!;
    const stamp = { instance: 'thief', nonce: 'thief-nonce', write: 1 };
    const epoch = String(BigInt(record.epoch) + 1n) as typeof record.epoch;
    const next = splitCodec.encode({ ...record, epoch }, stamp);
    await fleet.store.put(fleet.keys.split('z0' as SplitId), next);
    await fleet.until('lost', () => eventsOf(a, 'lost').length === 1, 2 * 12_000);
    expect(eventsOf(a, 'lost')).toMatchObject([{ splitId: 'z0', reason: 'fenced' }]);
    // Its own orphan lease is dropped (R12), and the split claimed anew, above the epoch it found.
    await fleet.until('claimed anew', () => a.held.has('z0'), LEASE_MS);
    expect(BigInt(a.held.get('z0')!.epoch)).toBeGreaterThan(BigInt(epoch));
  });
});

describe('a poison split', () => {
  test('a poison split - fails each tenancy until it is quarantined, and the plan stalls', async () => {
    await startFleet({ planner: finalPlan(['good', 'bad']), config: { maxAttempts: 4 } });
    const a = await startAlone(fleet, 'a', 2);
    void a.coordinator.commit('good', { watermark: 5, completed: true });
    const failedAtMs: number[] = [];
    await fleet.until('quarantined', () => {
      if (a.held.delete('bad')) {
        failedAtMs.push(fleet.clock.nowMs());
        void a.coordinator.fail('bad', 'undecodable descriptor');
      }
      return eventsOf(a, 'quarantined').length > 0;
    });
    expect(failedAtMs).toHaveLength(4);
    // Each failure waits longer for the next try (R40).
    const waitsMs = failedAtMs.slice(1).map((atMs, index) => atMs - failedAtMs[index]!);
    expect(waitsMs).toEqual([500, 1_000, 2_000].map((ms) => between(ms, ms + 500)));
    expect(eventsOf(a, 'quarantined')).toEqual([
      {
        type: 'quarantined',
        splitId: 'bad',
        attempts: 4,
        reason: 'undecodable descriptor',
        by: 'a',
      },
    ]);
    await fleet.until('the verdict', () => a.verdict !== null, LEASE_MS);
    expect(a.verdict).toEqual({
      kind: 'stalled',
      completed: 1,
      quarantined: 1,
      quarantinedIds: ['bad'],
    });
    await fleet.advance(3 * LEASE_MS);
    expect(eventsOf(a, 'verdict').map(({ verdict }) => verdict.kind)).toEqual(['stalled']);
    expect(ownersOf(fleet, 'bad')).toHaveLength(4);
  });

  test('a poison split - stalls the run of every worker when its handler throws each time', async () => {
    await startFleet({ planner: finalPlan(['good', 'bad']) });
    let throws = 0;
    const workers = ['a', 'b'].map((id) =>
      fleet.worker(id, async (grant) => {
        if (grant.split.id === 'good') return grant.complete({ watermark: 1 });
        throws += 1;
        throw new Error('cannot be read');
      }),
    );
    await fleet.until('both end', () => workers.every(({ run }) => run.state !== 'pending'));
    for (const { run } of workers) {
      expect(run.value).toMatchObject({ kind: 'stalled', quarantinedIds: ['bad'] });
    }
    expect(throws).toBe(3);
    expect(fleet.split('bad')).toMatchObject({ status: 'quarantined', attempts: 3, owner: null });
  });
});

describe('a standby', () => {
  test('a standby - that never owned anything hears the verdict', async () => {
    await startFleet({ planner: finalPlan(['only']) });
    const a = await startAlone(fleet, 'a', 1);
    const standby = fleet.seam('s');
    await fleet.until('it is there', () => sessionOf(fleet, 's') !== null, 2_000);
    await fleet.advance(LEASE_MS);
    void a.coordinator.commit('only', { watermark: 9, completed: true });
    await fleet.until('both hear', () => a.verdict !== null && standby.verdict !== null, 2_000);
    expect([a.verdict?.kind, standby.verdict?.kind]).toEqual(['complete', 'complete']);
    expect(eventsOf(standby, 'gained')).toEqual([]);
  });

  test('a standby - that comes after the end hears the verdict too', async () => {
    await startFleet({ planner: finalPlan(['only']) });
    const a = await startAlone(fleet, 'a', 1);
    completeHeld(a);
    await fleet.until('the end', () => a.verdict !== null, 2_000);
    const stopped = watched(a.coordinator.stop());
    await fleet.until('a has left', () => stopped.state === 'resolved', 5_000);
    const late = fleet.worker('late', () => undefined);
    await fleet.until('late hears', () => late.run.state !== 'pending', 5_000);
    expect(late.run.value?.kind).toBe('complete');
  });
});
