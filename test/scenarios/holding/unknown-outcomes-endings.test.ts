/**
 * Writes whose answer is lost or late, or that land late, where a tenancy ends: releases, failures, quarantines and leases
 * that nobody holds (R1, R4, R12, R28).
 */
import { describe, expect, test } from '@jest/globals';
import { leaseCodec } from '../../../src/records/records.ts';
import type { InstanceId, Nonce, SplitId } from '../../../src/base/ids.ts';
import type { Epoch } from '../../../src/base/decimals.ts';
import { finalPlan, holdUntilAsked, LEASE_MS, type SeamWorker } from '../../support/fleet.ts';
import { FAULTS, hitsOf, landings, transaction, violations } from '../../support/faults.ts';
import { fleet, startFleet } from '../../support/scenario.ts';
import { eventsOf, pass } from '../../support/observed.ts';

function leaseKey(id: string): string {
  return fleet.keys.lease(id as SplitId);
}

describe('release', () => {
  test.each(FAULTS)('$name - the split moves once, without an attempt (R4)', async (fault) => {
    await startFleet({ planner: finalPlan(['s1']) });
    const a = fleet.worker('a', async (grant) => {
      await grant.commit({ watermark: 5 });
      await holdUntilAsked(grant);
    });
    await fleet.until('a holds', () => fleet.split('s1')?.watermark === '5');
    const found: unknown[] = [];
    const b = fleet.worker('b', async (grant) => {
      found.push(grant.progress?.watermark);
      await pass(fleet, 8_000);
      await grant.complete({ watermark: 6 });
    });
    await fleet.advance(1_000);
    const rules = fault.strike(a.client, transaction('release'));
    await fleet.operator().drain('a');
    await fleet.until('the end', () => b.run.state !== 'pending');
    await fleet.advance(5_000);
    expect(b.run.value?.kind).toBe('complete');
    expect(hitsOf(rules)).toBe(fault.times);
    expect(landings(fleet.store, 'release')).toHaveLength(1);
    expect(found).toEqual([5n]);
    expect(fleet.split('s1')).toMatchObject({ epoch: '2', attempts: 0, watermark: '6' });
    expect(violations(fleet.store)).toEqual([]);
    for (const worker of [a, b]) {
      expect(eventsOf(worker, 'gained')).toHaveLength(1);
      expect(eventsOf(worker, 'lost')).toEqual([]);
    }
  });
});

describe('fail', () => {
  test.each(FAULTS)('$name - spends one attempt (R4)', async (fault) => {
    await startFleet({ planner: finalPlan(['s1']) });
    const a = fleet.seam('a');
    await fleet.until('a holds', () => a.held.has('s1'));
    const rules = fault.strike(a.client, transaction('fail'));
    const failed = a.coordinator.fail('s1', 'no luck');
    await fleet.until('a holds again', () => eventsOf(a, 'gained').length === 2);
    await failed;
    expect(hitsOf(rules)).toBe(fault.times);
    expect(landings(fleet.store, 'fail')).toHaveLength(1);
    expect(fleet.split('s1')).toMatchObject({ epoch: '2', attempts: 1, owner: 'a' });
    expect(fleet.split('s1')?.lastFailure).toMatchObject({ reason: 'no luck', epoch: '1' });
    expect(eventsOf(a, 'lost')).toEqual([]);
    await a.coordinator.commit('s1', { watermark: 1, completed: true });
    await fleet.until('the verdict', () => a.verdict?.kind === 'complete');
    expect(fleet.split('s1')).toMatchObject({ attempts: 0, status: 'completed' });
    expect(violations(fleet.store)).toEqual([]);
  });

  test.each(FAULTS)('$name at the cap - parks the split once (R28)', async (fault) => {
    await startFleet({ planner: finalPlan(['s1']), config: { maxAttempts: 1 } });
    const a = fleet.seam('a');
    await fleet.until('a holds', () => a.held.has('s1'));
    const rules = fault.strike(a.client, transaction('fail'));
    const failed = a.coordinator.fail('s1', 'poison');
    await fleet.until('the verdict', () => a.verdict !== null);
    await fleet.advance(5_000);
    await failed;
    expect(hitsOf(rules)).toBe(fault.times);
    expect(landings(fleet.store, 'fail')).toHaveLength(1);
    expect(fleet.split('s1')).toMatchObject({ epoch: '2', attempts: 1, status: 'quarantined' });
    expect(a.verdict).toMatchObject({ kind: 'stalled', quarantinedIds: ['s1'] });
    expect(eventsOf(a, 'quarantined')).toHaveLength(1);
    expect(eventsOf(a, 'gained')).toHaveLength(1);
    expect(violations(fleet.store)).toEqual([]);
  });
});

describe('quarantine', () => {
  test.each(FAULTS)(
    '$name - an owner that died at the cap is counted once (R28)',
    async (fault) => {
      await startFleet({ planner: finalPlan(['s1', 's2']), config: { maxAttempts: 1 } });
      let finish!: () => void;
      const isOver = new Promise<void>((resolve) => {
        finish = resolve;
      });
      const a = fleet.worker('a', async (grant) => {
        await Promise.race([isOver, grant.draining.whenRequested()]);
        if (!grant.draining.requested) await grant.complete({ watermark: 1 });
      });
      await fleet.until('a leads', () => fleet.leader() === 'a');
      const b = fleet.worker('b', holdUntilAsked);
      await fleet.until('b has one', () => fleet.leasesOf('b').length === 1);
      const id = fleet.leasesOf('b')[0]!;
      const { epoch } = fleet.split(id)!;
      const rules = fault.strike(a.client, transaction('quarantine'));
      b.crash();
      await fleet.until('quarantined', () => fleet.split(id)?.status === 'quarantined');
      await fleet.advance(LEASE_MS);
      expect(hitsOf(rules)).toBe(fault.times);
      expect(landings(fleet.store, 'quarantine')).toHaveLength(1);
      expect(fleet.split(id)).toMatchObject({ epoch: `${Number(epoch) + 1}`, attempts: 1 });
      expect(eventsOf(a, 'quarantined')).toHaveLength(1);
      finish();
      await fleet.until('the end', () => a.run.state !== 'pending');
      expect(a.run.value).toMatchObject({ kind: 'stalled', quarantinedIds: [id] });
      expect(eventsOf(a, 'lost')).toEqual([]);
      expect(violations(fleet.store)).toEqual([]);
    },
  );
});

describe('a lease that no tenancy holds', () => {
  /** Puts a lease of a split under the session of a worker, as a claim does that landed after all. */
  async function plantLease(worker: SeamWorker, id: string, epoch: string): Promise<void> {
    const session = fleet.store.dump(fleet.keys.presence(worker.id as InstanceId))[0]!.session;
    const nonce = worker.coordinator.status().nonce as Nonce;
    const stamp = { instance: worker.id, nonce, write: 1_000 };
    const owner = worker.id as InstanceId;
    const record = { owner, nonce, epoch: epoch as Epoch, state: 'owned' } as const;
    await fleet.store.put(leaseKey(id), leaseCodec.encode(record, stamp), session);
  }

  test.each(FAULTS)('$name - is dropped once, alone, and the record stays (R12)', async (fault) => {
    await startFleet({ planner: finalPlan(['s1', 's2']) });
    const a = fleet.seam('a');
    await fleet.until('both', () => a.held.size === 2);
    await a.coordinator.commit('s1', { watermark: 1, completed: true });
    await fleet.advance(1_000);
    const before = fleet.store.dump(fleet.keys.split('s1' as SplitId))[0];
    const rules = fault.strike(a.client, transaction('dropLease'));
    await plantLease(a, 's1', '1');
    await fleet.until('it is gone', () => fleet.lease('s1') === null, LEASE_MS);
    await fleet.advance(LEASE_MS);
    expect(hitsOf(rules)).toBe(fault.times);
    expect(landings(fleet.store, 'dropLease')).toHaveLength(1);
    expect(fleet.store.dump(fleet.keys.split('s1' as SplitId))[0]).toEqual(before);
    expect(eventsOf(a, 'lost')).toEqual([]);
    expect(fleet.leasesOf('a')).toEqual(['s2']);
    await a.coordinator.commit('s2', { watermark: 1, completed: true });
    await fleet.until('the verdict', () => a.verdict?.kind === 'complete');
  });

  test('a late drop - never lands on the lease of a later tenancy (R12)', async () => {
    await startFleet({ planner: finalPlan(['s1', 's2']) });
    const a = fleet.worker('a', holdUntilAsked);
    await fleet.until('both', () => fleet.leasesOf('a').length === 2);
    await fleet.operator().drain('a');
    await fleet.until('none', () => fleet.leasesOf('a').length === 0);
    const record = fleet.store.dump(fleet.keys.presence('a' as InstanceId))[0]!;
    const nonce = JSON.parse(record.value).nonce as Nonce;
    const lease = { owner: 'a' as InstanceId, nonce, epoch: '1' as Epoch, state: 'owned' } as const;
    a.client.when(transaction('dropLease')).lateLanding(4_000, { times: 1 });
    a.client.when(transaction('dropLease')).loseBefore({ times: 2 });
    const stamp = { instance: 'a', nonce, write: 1_000 };
    await fleet.store.put(leaseKey('s1'), leaseCodec.encode(lease, stamp), record.session);
    await fleet.until('the drop', () => a.client.log.some(({ fault }) => fault === 'lateLanding'));
    await fleet.store.remove(leaseKey('s1'));
    await fleet.operator().undrain('a');
    await fleet.until('both again', () => fleet.leasesOf('a').length === 2, 3_500);
    await fleet.advance(2 * LEASE_MS);
    expect(fleet.leasesOf('a')).toEqual(['s1', 's2']);
    expect(eventsOf(a, 'lost')).toEqual([]);
    expect(fleet.split('s1')).toMatchObject({ epoch: '2', attempts: 0 });
  });
});

describe('an ending asked for in the very moment of an event', () => {
  test('complete - a handler that completes before it waits for anything is heard with its progress', async () => {
    await startFleet({ planner: finalPlan(['s1']) });
    let completed = 'pending';
    const a = fleet.worker('a', (grant) => {
      const done = grant.complete({ watermark: 42, state: 'all' });
      done.then(
        () => (completed = 'resolved'),
        (error: unknown) => (completed = String(error)),
      );
      return done;
    });
    await fleet.until('the end', () => a.run.state !== 'pending');
    expect(completed).toBe('resolved');
    expect(fleet.split('s1')).toMatchObject({ epoch: '1', watermark: '42', status: 'completed' });
  });

  test('releaseDrained - a source that hands back inside the event is answered', async () => {
    await startFleet({ planner: finalPlan(['s1']) });
    const a = fleet.seam('a');
    let released = 'pending';
    a.coordinator.listen((event) => {
      if (event.type !== 'revokeRequested') return;
      a.coordinator.releaseDrained([event.splitId], event.epoch).then(
        () => (released = 'resolved'),
        (error: unknown) => (released = String(error)),
      );
    });
    await fleet.until('a holds', () => a.held.has('s1'));
    await fleet.operator().drain('a');
    await fleet.until('released', () => fleet.lease('s1') === null);
    expect(released).toBe('resolved');
  });

  test('fail - an end asked for while the worker leaves for good is refused, never left open', async () => {
    await startFleet({ planner: finalPlan(['s1']) });
    const a = fleet.seam('a');
    const answers: string[] = [];
    a.coordinator.listen((event) => {
      if (event.type !== 'lost') return;
      a.coordinator.fail(event.splitId, 'too late', event.epoch).catch((error: unknown) => {
        answers.push((error as { code: string }).code);
      });
    });
    await fleet.until('a holds', () => a.held.has('s1'));
    a.client.partition({ silent: true });
    void a.coordinator.stop();
    await fleet.advance(2 * LEASE_MS);
    expect(answers).toHaveLength(1);
    expect(['E_FENCED', 'E_STOPPED']).toContain(answers[0]);
  });
});

describe('an ending that finds its record moved', () => {
  test('release - the record is adopted and released, so that no renewed lease stays behind (R4)', async () => {
    await startFleet({ planner: finalPlan(['s1']) });
    const a = fleet.worker('a', async (grant) => {
      await grant.commit({ watermark: 7 });
      await holdUntilAsked(grant);
    });
    await fleet.until('a holds', () => fleet.split('s1')?.watermark === '7');
    const { key, value } = fleet.store.dump(fleet.keys.split('s1' as SplitId))[0]!;
    await fleet.store.put(key, value);
    await fleet.operator().drain('a');
    await fleet.until('released', () => fleet.lease('s1') === null);
    expect(fleet.split('s1')).toMatchObject({ epoch: '1', owner: null, watermark: '7' });
    expect(eventsOf(a, 'lost')).toEqual([]);
  });

  test('release - a foreign owner found at the first answer fences it (R2)', async () => {
    await startFleet({ planner: finalPlan(['s1']) });
    const a = fleet.worker('a', holdUntilAsked);
    await fleet.until('a holds', () => fleet.leasesOf('a').length === 1);
    const { key, value } = fleet.store.dump(fleet.keys.split('s1' as SplitId))[0]!;
    await fleet.store.put(key, JSON.stringify({ ...JSON.parse(value), owner: 'z', epoch: '2' }));
    await fleet.operator().drain('a');
    await fleet.until('the end', () => eventsOf(a, 'lost').length > 0, 1_000);
    expect(eventsOf(a, 'lost')).toMatchObject([{ reason: 'fenced', epoch: '1' }]);
    expect(fleet.split('s1')).toMatchObject({ epoch: '2', owner: 'z' });
  });
});
