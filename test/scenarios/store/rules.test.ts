/** Rules that show only where several parts meet: what landed but is not held, what is asked no more, who is waited for. */
import { describe, expect, test } from '@jest/globals';
import type { InstanceId, SessionId, SplitId } from '../../../src/base/ids.ts';
import { leaseCodec, splitCodec } from '../../../src/records/records.ts';
import type { StoreCall } from '../../../src/store/faults/rules.ts';
import { finalPlan, holdUntilAsked, ids, LEASE_MS, type SeamWorker } from '../../support/fleet.ts';
import { landings, transaction, violations } from '../../support/faults.ts';
import { handBackAsked } from '../../support/sources.ts';
import { fleet, startFleet } from '../../support/scenario.ts';
import { eventsOf, sessionOf, startAlone } from '../../support/observed.ts';

const DELAY_MS = 6_000;

function ephemeralKeys(): string[] {
  return fleet.store
    .dump()
    .filter(({ session }) => session !== null)
    .map(({ key }) => key);
}

describe('landed is not held', () => {
  test('a claim - whose lease went before its answer came is not held, and spends nothing (R3, R31)', async () => {
    await startFleet({ planner: finalPlan(['s0']) });
    const a = fleet.seam('a');
    const rule = a.client.when(transaction('claim')).delayAnswer(1_500, { times: 1 });
    await fleet.until('the claim has landed', () => fleet.lease('s0') !== null);
    await fleet.store.remove(fleet.keys.lease('s0' as SplitId));
    await fleet.until('held', () => a.held.size === 1);
    expect(rule.hits).toBe(1);
    expect(eventsOf(a, 'gained').map(({ epoch }) => epoch)).toEqual(['2']);
    expect(eventsOf(a, 'lost')).toEqual([]);
    expect(fleet.split('s0')).toMatchObject({ epoch: '2', attempts: 0 });
  });

  test('an election - whose key went before its answer came is not held (R3, R20)', async () => {
    await startFleet({ planner: finalPlan(['s0']) });
    const a = fleet.seam('a');
    const rule = a.client.when(transaction('elect')).delayAnswer(1_500, { times: 1 });
    await fleet.until('the election has landed', () => fleet.leader() === 'a');
    await fleet.store.remove(fleet.keys.leader);
    await fleet.until('held', () => a.held.size === 1);
    expect(rule.hits).toBe(1);
    expect(eventsOf(a, 'leadershipGained')).toHaveLength(1);
    expect(fleet.plan()).toMatchObject({ generation: 2, sealed: true });
  });
});

describe('a claim', () => {
  test('a claim - that lands when it is wanted no more is given back, and no handler starts (R30)', async () => {
    await startFleet({ planner: finalPlan(['s0']) });
    const a = fleet.seam('a');
    const rule = a.client.when(transaction('claim')).delay(1_000, { times: 1 });
    await fleet.until('claiming', () => rule.hits === 1);
    await fleet.operator().drain('a');
    const hasLanded = (): boolean => landings(fleet.store, 'claim').length === 1;
    await fleet.until('the claim has landed', hasLanded, 2_000);
    await fleet.until('it is free again', () => fleet.lease('s0') === null, 500);
    await fleet.advance(2 * LEASE_MS);
    expect(landings(fleet.store, 'claim')).toHaveLength(1);
    expect(fleet.split('s0')).toMatchObject({ epoch: '1', owner: null, attempts: 0 });
    expect(eventsOf(a, 'gained')).toEqual([]);
  });

  test('a claim - that meets a late commit of the last owner adopts it and goes out again at once (R30)', async () => {
    await startFleet({ planner: finalPlan(['s0']) });
    // Whoever leads reads splits too, so it is another one.
    fleet.seam('leader', { config: { maxInFlight: 0 } });
    await fleet.until('led', () => fleet.leader() === 'leader');
    const old = await startAlone(fleet, 'a', 1);
    old.crash();
    const b = fleet.seam('b');
    const key = fleet.keys.split('s0' as SplitId);
    const rule = b.client.when(transaction('claim')).delay(500, { times: 1 });
    await fleet.until('claiming', () => rule.hits === 1);
    const first = b.client.log.at(-1)!.sequence;
    const stamp = { instance: 'a', nonce: 'late', write: 99 };
    const late = { ...fleet.split('s0')!, watermark: '7' as never };
    await fleet.store.put(key, splitCodec.encode(late, stamp));
    await fleet.until('held', () => b.held.size === 1, 1_000);
    expect(b.held.get('s0')).toMatchObject({ epoch: '2', watermark: 7n });
    const reads = b.client.log.filter(
      ({ sequence, call }) =>
        sequence > first &&
        call.kind === 'read' &&
        'keys' in call.range &&
        call.range.keys.includes(key),
    );
    const claimedAtMs = b.client.log.findLast(({ call }) => transactionOf(call))!.atMs;
    expect(reads.filter(({ atMs }) => atMs < claimedAtMs)).toEqual([]);
  });

  /** `b` is named for the split that `a` holds, while a third one leads: whoever leads reads splits too. */
  async function namedForHeld(): Promise<{ a: SeamWorker; b: SeamWorker }> {
    await startFleet({ planner: finalPlan(['s0']) });
    fleet.seam('leader', { config: { maxInFlight: 0 } });
    await fleet.until('led', () => fleet.leader() === 'leader');
    const a = await startAlone(fleet, 'a', 1);
    const b = fleet.seam('b');
    await fleet.advance(1_000);
    return { a, b };
  }

  const readsSplit = (call: StoreCall): boolean =>
    call.kind === 'read' &&
    'keys' in call.range &&
    call.range.keys.includes(fleet.keys.split('s0' as SplitId));

  test('a claim - is read for when its split is named and when it goes free, not for what its owner marks meanwhile', async () => {
    const { a, b } = await namedForHeld();
    await fleet.operator().drain('a');
    await fleet.until('marked', () => fleet.lease('s0')?.state === 'draining');
    await fleet.advance(1_000);
    expect(b.client.log.filter(({ call }) => readsSplit(call))).toHaveLength(1);
    await a.coordinator.releaseDrained(['s0']);
    await fleet.until('held', () => b.held.size === 1, 1_000);
    const claimedAt = b.client.log.find(({ call }) => transactionOf(call))!.sequence;
    const reads = b.client.log.filter(({ call }) => readsSplit(call));
    expect(reads.filter(({ sequence }) => sequence < claimedAt)).toHaveLength(2);
  });

  test('a claim - of a split that goes free while its record is read waits for the next reading alone', async () => {
    const { a, b } = await namedForHeld();
    b.client.when(readsSplit).delay(1_000);
    await fleet.operator().drain('a');
    await fleet.until('asked back', () => a.asked.size === 1, 500);
    handBackAsked(a);
    await fleet.until('held', () => b.held.size === 1, 1_500);
  });

  test('a claim - that meets a higher epoch is given up: no tenancy, no write (R30)', async () => {
    await startFleet({ planner: finalPlan(['s0']) });
    const a = fleet.seam('a');
    const rule = a.client.when(transaction('claim')).delay(500, { times: 1 });
    await fleet.until('claiming', () => rule.hits === 1);
    const stamp = { instance: 'thief', nonce: 'thief', write: 1 };
    const session = '7777' as SessionId;
    await fleet.store.openSession(session, 600_000, { timeoutMs: 1_000 });
    const owner = 'thief' as InstanceId;
    const taken = { ...fleet.split('s0')!, epoch: '1' as never, owner, nonce: 'thief' as never };
    await fleet.store.put(fleet.keys.split('s0' as SplitId), splitCodec.encode(taken, stamp));
    const lease = { owner, nonce: 'thief' as never, epoch: '1' as never, state: 'owned' as const };
    await fleet.store.put(
      fleet.keys.lease('s0' as SplitId),
      leaseCodec.encode(lease, stamp),
      session,
    );
    await fleet.advance(2 * LEASE_MS);
    expect(eventsOf(a, 'gained')).toEqual([]);
    expect(landings(fleet.store, 'claim')).toEqual([]);
    expect(fleet.split('s0')).toMatchObject({ epoch: '1', owner: 'thief' });
  });
});

/** A whole fleet dies, its keys run out, and a worker that saw nothing of it starts. */
async function startsAfterTheEnd(): Promise<{ worker: SeamWorker; electedAtMs: number }> {
  await startFleet({ planner: finalPlan(ids(2)) });
  const a = await startAlone(fleet, 'a', 2);
  a.crash();
  await fleet.until('nothing of it is left', () => ephemeralKeys().length === 0);
  const worker = fleet.seam('c');
  await fleet.until('it leads', () => fleet.leader() === 'c');
  return { worker, electedAtMs: fleet.clock.nowMs() };
}

describe('an owner that this leader never saw', () => {
  test('the rebalance delay - of an owner that is still assigned runs from the election (R26)', async () => {
    const { worker, electedAtMs } = await startsAfterTheEnd();
    await fleet.until('placed', () => worker.held.size === 2);
    const tookMs = fleet.clock.nowMs() - electedAtMs;
    expect(tookMs).toBeGreaterThanOrEqual(DELAY_MS - 100);
    expect(tookMs).toBeLessThan(DELAY_MS + 500 + fleet.slackMs);
  });

  test('the rebalance delay - is over for an owner that had been given up already (R26)', async () => {
    await startFleet({ planner: finalPlan(ids(2)) });
    const a = await startAlone(fleet, 'a', 2);
    a.crash();
    await fleet.until('nothing of it is left', () => ephemeralKeys().length === 0);
    await fleet.store.remove(fleet.keys.assignment('a' as InstanceId));
    const worker = fleet.seam('c');
    await fleet.until('it leads', () => fleet.leader() === 'c');
    await fleet.until('placed', () => worker.held.size === 2, 500);
  });
});

describe('what a process leaves behind', () => {
  test('a restarted leader - closes both sessions of the process before it: its key and its other leases go (R13)', async () => {
    await startFleet({ planner: finalPlan(ids(3)) });
    const old = await startAlone(fleet, 'pod-1', 3);
    // Young sessions: by themselves they would last for almost a whole lease more.
    await fleet.until('renewed', () => old.client.log.at(-1)?.call.kind === 'keepAlive');
    await fleet.advance(100);
    const leaderSession = fleet.store.dump(fleet.keys.leader)[0]!.session!;
    const sessions = [sessionOf(fleet, 'pod-1')!, leaderSession];
    old.crash();
    const restarted = fleet.seam('pod-1', { config: { maxInFlight: 1 } });
    await fleet.until('reclaimed', () => restarted.held.size === 1, 1_000);
    const areGone = (): boolean =>
      sessions.every((session) => !fleet.store.liveSessions.includes(session));
    await fleet.until('both are closed', areGone, LEASE_MS / 3 + 100);
    expect(fleet.leasesOf('pod-1')).toEqual([...restarted.held.keys()]);
    await fleet.until('it leads', () => restarted.coordinator.status().isLeading, 2_000);
  });
});

describe('an ending that the store refuses for good', () => {
  test('an ending refused for good - closes the session: no renewed lease stays behind (R12)', async () => {
    await startFleet({ planner: finalPlan(ids(2)) });
    const a = fleet.worker('a', holdUntilAsked);
    await fleet.until('both', () => fleet.leasesOf('a').length === 2);
    a.client.when(transaction('release', 's0')).refuse('E_STORE_UNSUPPORTED');
    await fleet.operator().drain('a');
    await fleet.until('both leases are gone', () => fleet.leasesOf('a').length === 0, 500);
    expect(fleet.split('s0')).toMatchObject({ owner: 'a', epoch: '1' });
    await fleet.until('it has left', () => a.run.state === 'rejected');
    expect(a.run.error).toMatchObject({ code: 'E_STORE_UNSUPPORTED' });
  });
});

describe('a worker that cannot claim', () => {
  test('a name left unclaimed - is given to another worker after one lease (R27)', async () => {
    await startFleet({ planner: finalPlan(['s0']) });
    const b = fleet.seam('b');
    const rule = b.client.when(transaction('claim')).refuse('E_STORE_UNREACHABLE');
    await fleet.until('b is named', () => fleet.assignment('b')?.splits.length === 1, 2_000);
    const a = fleet.seam('a');
    const tookMs = await fleet.until('a has it', () => a.held.size === 1, 2 * LEASE_MS);
    expect(rule.hits).toBeGreaterThan(0);
    expect(tookMs).toBeGreaterThan(LEASE_MS - 500);
    expect(tookMs).toBeLessThan(LEASE_MS + 1_000 + fleet.slackMs);
    rule.remove();
    await fleet.advance(2 * LEASE_MS);
    expect(fleet.leasesOf('a')).toEqual(['s0']);
    expect(eventsOf(b, 'gained')).toEqual([]);
    expect(violations(fleet.store)).toEqual([]);
  });
});

describe('reading again', () => {
  test('reading again - never reads all splits but for an election and a verdict (R24)', async () => {
    await startFleet({ planner: finalPlan(ids(2)) });
    const a = await startAlone(fleet, 'a', 2);
    const ofAll = (): number =>
      a.client.log.filter(
        ({ call }) =>
          call.kind === 'read' && 'prefix' in call.range && call.range.prefix.endsWith('/splits/'),
      ).length;
    const before = ofAll();
    expect(before).toBeGreaterThan(0);
    await fleet.advance(10 * LEASE_MS);
    expect(ofAll()).toBe(before);
  });

  test('reading again - rests while the job is paused (R24)', async () => {
    await startFleet({ planner: finalPlan(ids(2)) });
    const a = await startAlone(fleet, 'a', 2);
    const named = (): number =>
      a.client.log.filter(
        ({ call }) =>
          call.kind === 'read' &&
          'keys' in call.range &&
          call.range.keys.some((key) => key.includes('/splits/')),
      ).length;
    await fleet.operator().pause();
    await fleet.until('handed back', () => {
      handBackAsked(a);
      return a.held.size === 0;
    });
    await fleet.advance(1_000);
    const before = named();
    await fleet.advance(10 * LEASE_MS);
    expect(named()).toBe(before);
  });
});

function transactionOf(call: SeamWorker['client']['log'][number]['call']): boolean {
  const matcher = transaction('claim');
  return typeof matcher === 'function' && matcher(call);
}
