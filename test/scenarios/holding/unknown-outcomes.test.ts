/**
 * Writes whose answer is lost or late, or that land late, through the life of one worker (R1 to R4): it recognises what it
 * has written itself, and nothing happens twice.
 */
import { describe, expect, test } from '@jest/globals';
import type { Handler } from '../../../src/index.ts';
import { matches, type StoreCall } from '../../../src/store/faults/rules.ts';
import { finalPlan, holdUntilAsked, LEASE_MS, type Surroundings } from '../../support/fleet.ts';
import {
  FAULTS,
  hitsOf,
  landings,
  transaction,
  type TransactionName,
  violations,
} from '../../support/faults.ts';
import { fleet, startFleet } from '../../support/scenario.ts';
import { eventsOf, pass } from '../../support/observed.ts';

const OP_TIMEOUT_MS = 2_000;

/** Commits at a calm pace, notes what is stored when each commit resolves, and completes. */
function careful(stored: string[]): Handler {
  return async (grant) => {
    const { id } = grant.split;
    const note = (): void => {
      const record = fleet.split(id);
      const state = Buffer.from(record?.state ?? '', 'base64').toString();
      stored.push(`${id} ${record?.status} ${record?.watermark} ${state}`);
    };
    for (const watermark of [10, 20]) {
      await pass(fleet, 2_000);
      await grant.commit({ watermark, state: `at ${watermark}` });
      note();
    }
    await pass(fleet, 2_000);
    await grant.complete({ watermark: 30, state: 'done' });
    note();
    // The job is not over before late answers have come.
    if (id === 's1') await pass(fleet, 8_000);
  };
}

const slow: Handler = async (grant) => {
  await pass(fleet, 20_000);
  await grant.complete({ watermark: 1 });
};

/** Keys of workers that are there, or that nobody cleared away. */
function ephemeralKeys(): string[] {
  return fleet.store
    .dump()
    .filter(({ session }) => session !== null)
    .map(({ key }) => key);
}

/** The writes of a worker that is alone with two splits, and how often each lands. */
const SOLO: readonly (readonly [TransactionName, number])[] = [
  ['join', 1],
  ['announce', 1],
  ['elect', 1],
  ['seed', 2],
  ['publish', 1],
  // Once with both splits, once with what is left.
  ['assign', 2],
  ['claim', 2],
  ['commit', 2],
  ['complete', 2],
];

describe.each(SOLO)('%s', (name, landsTimes) => {
  test.each(FAULTS)(
    '$name - is settled; nothing is lost, repeated or spent (R1, R2)',
    async (fault) => {
      await startFleet({ planner: finalPlan(['s1', 's2']) });
      const stored: string[] = [];
      const work = careful(stored);
      const a = fleet.worker('a', (grant) => (grant.split.id === 's1' ? work : slow)(grant));
      const rules = fault.strike(a.client, transaction(name));
      await fleet.until('the end', () => a.run.state !== 'pending');
      expect(a.run.value).toMatchObject({ kind: 'complete', completed: 2 });
      expect(hitsOf(rules)).toBe(fault.times);
      expect(stored).toEqual([
        's1 runnable 10 at 10',
        's1 runnable 20 at 20',
        's1 completed 30 done',
      ]);
      const landed = landings(fleet.store, name);
      if (name === 'assign' && fleet.slackMs > 0) {
        // How often there is something new depends on what is heard when; the same is never written twice (R25).
        const splits = landed.map(
          ({ value }) => (JSON.parse(value!) as { splits: string[] }).splits,
        );
        for (const [index, ids] of splits.entries()) expect(ids).not.toEqual(splits[index - 1]);
      } else {
        expect(landed).toHaveLength(landsTimes);
      }
      expect(violations(fleet.store)).toEqual([]);
      for (const id of ['s1', 's2']) {
        expect(fleet.split(id)).toMatchObject({ epoch: '1', attempts: 0, status: 'completed' });
      }
      expect(fleet.plan()?.generation).toBe(1);
      expect(eventsOf(a, 'gained')).toHaveLength(2);
      expect(eventsOf(a, 'lost')).toEqual([]);
      expect(eventsOf(a, 'sessionLost')).toEqual([]);
      expect(ephemeralKeys()).toEqual([]);
    },
  );
});

describe('verdict', () => {
  test.each(FAULTS)('$name - is given once and heard once (R1, R23)', async (fault) => {
    await startFleet({ planner: finalPlan(['s1']) });
    const a = fleet.seam('a');
    await fleet.until('a split', () => a.held.has('s1'));
    const rules = fault.strike(a.client, transaction('verdict'));
    await a.coordinator.commit('s1', { watermark: 1, completed: true });
    await fleet.advance(2 * LEASE_MS);
    expect(hitsOf(rules)).toBe(fault.times);
    expect(eventsOf(a, 'verdict')).toHaveLength(1);
    expect(landings(fleet.store, 'verdict')).toHaveLength(1);
    expect(fleet.plan()?.verdict).toMatchObject({ kind: 'complete', completed: 1 });
    expect(fleet.leader()).toBe('a');
    expect(violations(fleet.store)).toEqual([]);
  });
});

describe('resign', () => {
  // The whole departure has one operation timeout: an answer after it comes too late for everything.
  const inTime = FAULTS.filter(({ name }) => !name.startsWith('answered only'));
  test.each(inTime)('$name - the key goes once, and the next leader is elected', async (fault) => {
    await startFleet({ planner: finalPlan(['s1']) });
    const a = fleet.worker('a', holdUntilAsked);
    await fleet.until('a leader', () => fleet.leader() === 'a');
    const b = fleet.worker('b', holdUntilAsked);
    await fleet.advance(2_000);
    const rules = fault.strike(a.client, transaction('resign'));
    void a.worker.stop();
    await fleet.until('another leader', () => fleet.leader() === 'b', 3_000);
    await fleet.advance(OP_TIMEOUT_MS);
    expect(a.run.state).toBe('rejected');
    expect(hitsOf(rules)).toBe(fault.times);
    expect(landings(fleet.store, 'resign')).toHaveLength(1);
    expect(fleet.plan()?.generation).toBe(2);
    expect(violations(fleet.store)).toEqual([]);
    expect(ephemeralKeys().filter((key) => key.endsWith('/a'))).toEqual([]);
    expect(eventsOf(b, 'lost')).toEqual([]);
  });

  test('never answered - the leader session is closed in time, and the key goes with it (R17)', async () => {
    await startFleet({ planner: finalPlan(['s1']) });
    const a = fleet.worker('a', holdUntilAsked);
    await fleet.until('a leader', () => fleet.leader() === 'a');
    const b = fleet.worker('b', holdUntilAsked);
    await fleet.advance(2_000);
    a.client.when(transaction('resign')).loseBefore({ silent: true });
    void a.worker.stop();
    const tookMs = await fleet.until('the end of a', () => a.run.state !== 'pending', 10_000);
    expect(tookMs).toBeLessThanOrEqual(OP_TIMEOUT_MS + fleet.slackMs);
    await fleet.until('another leader', () => fleet.leader() === 'b', 1_000);
    expect(landings(fleet.store, 'resign')).toHaveLength(0);
    expect(eventsOf(b, 'lost')).toEqual([]);
  });
});

describe('a session that is gone while a write under it is on its way', () => {
  test.each(['announce', 'claim', 'elect'] as const)(
    '%s - its refusal ends no session opened since (R3, R11)',
    async (name) => {
      await startFleet({ planner: finalPlan(['s1']), config: { opTimeoutMs: 4_000 } });
      const a = fleet.worker('a', holdUntilAsked);
      let gone = 0;
      // The store ends its sessions just before the write comes, and refuses it; the worker hears that late.
      const strike = (call: StoreCall): boolean => {
        if (!matches(transaction(name), call)) return false;
        for (const id of fleet.store.liveSessions) {
          void fleet.store.expireSession(id);
          gone += 1;
        }
        return true;
      };
      a.client.when(strike).delayAnswer(3_500, { times: 1 });
      // The next renewal hears of it, and the worker has a new session before the write is refused.
      await fleet.until('the split', () => eventsOf(a, 'gained').length > 0);
      await fleet.advance(3 * LEASE_MS);
      expect(eventsOf(a, 'gained')).toHaveLength(1);
      expect(eventsOf(a, 'lost')).toEqual([]);
      expect(eventsOf(a, 'sessionLost')).toHaveLength(1);
      expect(openedSessions(a)).toBe(gone + 2);
      expect(fleet.split('s1')).toMatchObject({ epoch: '1', owner: 'a', attempts: 0 });
      expect(fleet.leader()).toBe('a');
      expect(violations(fleet.store)).toEqual([]);
    },
  );
});

/** Sessions that a worker opened, the one of its probe left out. */
function openedSessions(worker: Surroundings): number {
  return worker.client.log.filter(({ call }) => call.kind === 'openSession').length - 1;
}
