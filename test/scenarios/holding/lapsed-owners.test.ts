/** Owners that sleep, that work slowly, or whose lease lapses. */
import { describe, expect, test } from '@jest/globals';
import type { InstanceId, SplitId } from '../../../src/base/ids.ts';
import { type StoreCall, writesTo } from '../../../src/store/faults.ts';
import { fleet, startFleet } from '../../support/scenario.ts';
import { finalPlan, ids, LEASE_MS, type SeamWorker, watched } from '../../support/fleet.ts';
import {
  assignmentWrites,
  commitHeld,
  Journal,
  ownersOf,
  refusalOf,
  sleep,
  stepWorker,
  storedText,
} from '../../support/sources.ts';
import { eventsOf } from '../../support/observed.ts';

describe('an owner that slept', () => {
  test.each([
    ['in a blocked process', 'runs', false],
    ['with its host', 'stops', false],
    ['with a commit on its way', 'stops', true],
  ] as const)(
    'an owner that slept %s - commits nothing over its successor, and loses the split once',
    async (_, time, hasCommitOnItsWay) => {
      await startFleet({ planner: finalPlan(['s1']) });
      const a = fleet.seam('a');
      await fleet.until('a owns it', () => a.held.size === 1, 5_000);
      const b = fleet.seam('b');
      void a.coordinator.commit('s1', { watermark: 40 });
      await fleet.advance(2_000);
      const { epoch } = a.held.get('s1')!;

      a.freeze(time);
      const answers = hasCommitOnItsWay
        ? [watched(a.coordinator.commit('s1', { watermark: 41 }, epoch))]
        : [];
      await fleet.until('b owns it', () => b.held.size === 1, 2 * LEASE_MS);
      expect(b.held.get('s1')?.watermark).toBe(40n);
      void b.coordinator.commit('s1', { watermark: 50, state: 'of b' });
      await fleet.advance(LEASE_MS);
      const stored = storedText(fleet, 's1');
      expect(stored).toContain('"50"');

      const thawedAtMs = fleet.clock.nowMs();
      if (time === 'runs') {
        // A loop that was blocked runs its handler before its timers.
        answers.push(watched(a.coordinator.commit('s1', { watermark: 44 }, epoch)));
        await fleet.clock.settle();
      }
      a.thaw();
      answers.push(
        watched(a.coordinator.commit('s1', { watermark: 45 }, epoch)),
        watched(a.coordinator.commit('s1', { watermark: 60 }, epoch)),
        watched(a.coordinator.releaseDrained(['s1'], epoch)),
      );
      await fleet.advance(1_000);
      for (const { state, error } of answers) {
        expect(state).toBe('rejected');
        expect(error).toMatchObject({ code: 'E_FENCED' });
      }
      const key = fleet.keys.split('s1' as SplitId);
      const toSplit = writesTo((written) => written === key) as (call: StoreCall) => boolean;
      if (time === 'runs') {
        // Its own clock tells it that the lease is over: nothing is even sent (R10).
        const sent = a.client.log.filter(({ call, atMs }) => atMs >= thawedAtMs && toSplit(call));
        expect(sent).toEqual([]);
      }
      expect(storedText(fleet, 's1')).toBe(stored);
      expect(fleet.split('s1')).toMatchObject({ watermark: '50', owner: 'b' });
      await fleet.advance(LEASE_MS);
      expect(eventsOf(a, 'lost', 's1')).toMatchObject([{ epoch }]);

      const sent = a.client.when(toSplit).refuse('E_STORE_UNREACHABLE');
      expect(await refusalOf(fleet, a.coordinator.commit('s1', { watermark: 61 }))).toBe(
        'E_FENCED',
      );
      expect(sent.hits).toBe(0);
      const next = watched(b.coordinator.commit('s1', { watermark: 55 }));
      await fleet.advance(100);
      expect(next.state).toBe('resolved');
      expect(fleet.split('s1')?.watermark).toBe('55');
      expect(eventsOf(b, 'lost')).toEqual([]);
    },
  );
});

describe('a slow handler', () => {
  test('a slow handler - keeps its split however long one item takes', async () => {
    await startFleet({ planner: finalPlan(['s1']) });
    const handled: { item: number; worker: string }[] = [];
    let starts = 0;
    const run = (id: string) => {
      const worker = fleet.worker(id, async (grant) => {
        starts += 1;
        for (let item = 1; item <= 3; item += 1) {
          await sleep(worker, 20 * LEASE_MS);
          handled.push({ item, worker: id });
          await grant.commit({ watermark: item });
        }
        await grant.complete();
      });
      return worker;
    };
    const a = run('a');
    await fleet.until('a works', () => starts === 1, 5_000);
    const b = run('b');
    await fleet.until('the end', () => b.run.state !== 'pending', 70 * LEASE_MS, 1_000);
    expect(handled).toEqual([1, 2, 3].map((item) => ({ item, worker: 'a' })));
    expect(starts).toBe(1);
    expect(ownersOf(fleet, 's1')).toEqual(['a']);
    expect(fleet.split('s1')).toMatchObject({ status: 'completed', attempts: 0, watermark: '3' });
    expect(eventsOf(a, 'lost')).toEqual([]);
    expect([a.run.value?.kind, b.run.value?.kind]).toEqual(['complete', 'complete']);
  });
});

describe('an owner whose lease lapsed', () => {
  /** `b` leads with three splits, `a` has three others; both have committed. */
  async function threeEach(): Promise<{ a: SeamWorker; b: SeamWorker }> {
    await startFleet({ planner: finalPlan(ids(6)), config: { maxInFlight: 3 } });
    const b = fleet.seam('b');
    await fleet.until('b is full', () => b.held.size === 3, 5_000);
    const a = fleet.seam('a');
    await fleet.until('a is full', () => a.held.size === 3, 5_000);
    commitHeld(a);
    commitHeld(b);
    await fleet.advance(3_000);
    return { a, b };
  }

  /** `a` has the very splits of before again, from where they stood, and nobody else was touched. */
  function expectRegained(a: SeamWorker, b: SeamWorker, before: ReadonlyMap<string, string>): void {
    expect([...a.held.keys()].sort()).toEqual([...before.keys()].sort());
    for (const [id, epoch] of before) {
      expect(BigInt(a.held.get(id)!.epoch)).toBeGreaterThan(BigInt(epoch));
      expect(a.held.get(id)!.watermark).toBe(1n);
      expect(ownersOf(fleet, id).every((owner) => owner === 'a')).toBe(true);
      // A live process that lost its session pays no attempt (R31).
      expect(fleet.split(id)?.attempts).toBe(0);
    }
    for (const id of ids(6)) expect(fleet.lease(id)).not.toBeNull();
    expect(eventsOf(b, 'lost')).toEqual([]);
    expect(eventsOf(b, 'revokeRequested')).toEqual([]);
  }

  test('an owner whose lease lapsed - but is still named owns its splits again at once', async () => {
    const { a, b } = await threeEach();
    const before = new Map([...a.held].map(([id, { epoch }]) => [id, epoch]));
    const fromMs = fleet.clock.nowMs();
    a.client.when('keepAlive').loseBefore();
    await fleet.until('the session is lost', () => eventsOf(a, 'lost').length === 3, LEASE_MS);
    a.client.clearRules();
    await fleet.until('a owns them again', () => a.held.size === 3, 2_000);
    expectRegained(a, b, before);
    expect(eventsOf(a, 'lost').map(({ reason }) => reason)).toEqual(Array(3).fill('starved'));
    expect(assignmentWrites(fleet, fromMs)).toEqual([]);
    await fleet.advance(3 * LEASE_MS);
    expect(eventsOf(a, 'lost')).toHaveLength(3);
  });

  test('an owner whose lease lapsed - is back within two ticks of reaching the store again', async () => {
    const { a, b } = await threeEach();
    const before = new Map([...a.held].map(([id, { epoch }]) => [id, epoch]));
    const fromMs = fleet.clock.nowMs();
    a.client.partition();
    // Past the lease, but within the rebalance delay.
    await fleet.advance(LEASE_MS + 3_000);
    expect(a.held.size).toBe(0);
    for (const id of before.keys()) expect(fleet.lease(id)).toBeNull();
    a.client.heal();
    await fleet.until('a owns them again', () => a.held.size === 3, 2_000);
    expectRegained(a, b, before);
    expect(assignmentWrites(fleet, fromMs)).toEqual([]);
  });

  test('an owner whose lease lapsed - runs its handlers again from the stored progress', async () => {
    await startFleet({ planner: finalPlan(ids(3)) });
    const journal = new Journal();
    const a = stepWorker(fleet, 'a', journal);
    await fleet.until('a works', () => journal.runningOn('a').length === 3);
    await fleet.advance(2_000);
    a.client.partition();
    await fleet.advance(LEASE_MS + 3_000);
    expect(eventsOf(a, 'lost')).toHaveLength(3);
    const stored = new Map(ids(3).map((id) => [id, fleet.split(id)!.watermark!]));
    a.client.heal();
    await fleet.until('all run again', () => journal.runningOn('a').length === 3, 2 * LEASE_MS);
    for (const id of ids(3)) {
      const starts = journal.of(id, 'start');
      expect(starts).toHaveLength(2);
      expect(String(starts[1]!.watermark)).toBe(stored.get(id));
      expect(BigInt(starts[1]!.epoch)).toBeGreaterThan(BigInt(starts[0]!.epoch));
    }
    expect(journal.overlaps).toEqual([]);
    expect(fleet.store.dump(fleet.keys.presence('a' as InstanceId))).toHaveLength(1);
  });
});
