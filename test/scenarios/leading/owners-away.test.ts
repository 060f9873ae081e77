/** Owners that are away for a moment, the leader among them, and how long their splits wait whoever leads (R26, R28). */
import { describe, expect, test } from '@jest/globals';
import type { InstanceId } from '../../../src/base/ids.ts';
import { finalPlan, ids, LEASE_MS, type SeamWorker } from '../../support/fleet.ts';
import { eventsOf } from '../../support/observed.ts';
import { fleet, startFleet } from '../../support/scenario.ts';

/** Fails a split twice; resolves when its owner has it for the third time. */
async function failTwice(owner: SeamWorker, split: string): Promise<void> {
  const gained = (): number => eventsOf(owner, 'gained').length;
  for (let failure = 1; failure <= 2; failure += 1) {
    await fleet.until('held', () => gained() === failure, 2 * LEASE_MS);
    await owner.coordinator.fail(split, 'no luck');
  }
  await fleet.until('held again', () => gained() === 3, 2 * LEASE_MS);
  expect(fleet.split(split)?.attempts).toBe(2);
}

describe('an owner that loses its session', () => {
  test.each([
    ['a follower', 'leader', 'owner'],
    ['the leader itself', 'owner', 'late'],
  ] as const)(
    'an owner that loses its session one attempt below the cap - keeps its split, be it %s (R28)',
    async (_, first, second) => {
      await startFleet({ planner: finalPlan(['s0']) });
      const lanes = (id: string) => ({ config: { maxInFlight: id === 'owner' ? 1 : 0 } });
      const one = fleet.seam(first, lanes(first));
      await fleet.until('led', () => fleet.leader() === first);
      const other = fleet.seam(second, lanes(second));
      const owner = first === 'owner' ? one : other;
      await failTwice(owner, 's0');
      const { session } = fleet.entry(fleet.keys.presence('owner' as InstanceId))!;
      await fleet.store.expireSession(session!);
      const gainedAgain = (): boolean => eventsOf(owner, 'gained').length === 4;
      await fleet.until('held again', gainedAgain, LEASE_MS);
      expect(eventsOf(owner, 'lost')).toHaveLength(1);
      expect(fleet.split('s0')).toMatchObject({ status: 'runnable', attempts: 2, owner: 'owner' });
      expect(fleet.leader()).toBe(first);
    },
  );
});

describe('the rebalance delay', () => {
  test('the rebalance delay - of an owner that vanished is over in time, though every leader since is a new one (R26)', async () => {
    const delayMs = 6 * LEASE_MS;
    await startFleet({ planner: finalPlan(ids(2)), config: { rebalanceDelayMs: delayMs } });
    const first = fleet.seam('w0');
    await fleet.until('held', () => first.held.size === 2);
    let last = fleet.seam('w1', { config: { maxInFlight: 2 } });
    await fleet.until('shared', () => last.held.size === 1, 2 * LEASE_MS);
    first.crash();
    const diedAtMs = fleet.clock.nowMs();
    // Each next one has seen its predecessor alone.
    for (let round = 2; round < 5; round += 1) {
      await fleet.until('led', () => fleet.leader() === last.id, 3 * LEASE_MS);
      await fleet.until('noticed', () => fleet.under('away/').length > 0, 2 * LEASE_MS);
      const leaving = last.coordinator.stop();
      let hasLeft = false;
      void leaving.then(() => (hasLeft = true));
      const next = fleet.seam(`w${round}`, { config: { maxInFlight: 2 } });
      await fleet.until('it has left', () => hasLeft, LEASE_MS);
      await fleet.until('the next one leads', () => fleet.leader() === next.id, LEASE_MS);
      await fleet.advance(delayMs / 6);
      last = next;
    }
    expect(last.held.size).toBeLessThan(2);
    await fleet.until('it has both', () => last.held.size === 2, delayMs);
    expect(fleet.clock.nowMs() - diedAtMs).toBeGreaterThanOrEqual(delayMs - fleet.slackMs);
    expect(fleet.clock.nowMs() - diedAtMs).toBeLessThan(delayMs + 3 * LEASE_MS);
    await fleet.until(
      'nothing is noted any more',
      () => fleet.under('away/').length === 0,
      LEASE_MS,
    );
  });
});
