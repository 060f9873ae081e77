import { describe, expect, test } from '@jest/globals';
import { writesTo } from '../../../src/store/faults.ts';
import { finalPlan, LEASE_MS, type SeamWorker } from '../../support/fleet.ts';
import { eventsOf, handBackAll, type Happening, timeLine } from '../../support/observed.ts';
import { fleet, startFleet } from '../../support/scenario.ts';

const DRAIN_MS = 5_000;

interface Held {
  readonly a: SeamWorker;
  readonly heard: Happening[];
}

/** One worker on the seam that holds `s0`. */
async function holding(): Promise<Held> {
  await startFleet({ planner: finalPlan(['s0']) });
  const a = fleet.seam('a');
  await fleet.until('s0', () => a.held.has('s0'));
  return { a, heard: timeLine(fleet, a) };
}

/** Asks for everything back, by a pause. */
async function ask(): Promise<void> {
  await fleet.operator().pause();
  await fleet.advance(1);
}

/** Withdraws the request. */
async function withdraw(): Promise<void> {
  await fleet.operator().resume();
  await fleet.advance(1);
}

function told({ heard }: Held): string[] {
  return heard.map(({ event }) => (event.type === 'lost' ? `lost(${event.reason})` : event.type));
}

function stateOf({ a }: Held): string | undefined {
  return a.coordinator.status().tenancies.find(({ split }) => split === 's0')?.state;
}

describe('a drain', () => {
  test('a drain - is a request with a deadline; a release in time hands the split back (R33)', async () => {
    const held = await holding();
    await ask();
    expect(eventsOf(held.a, 'revokeRequested')).toEqual([
      {
        type: 'revokeRequested',
        splitId: 's0',
        epoch: '1',
        reason: 'paused',
        deadlineMs: DRAIN_MS,
      },
    ]);
    await fleet.advance(DRAIN_MS - 100);
    expect(fleet.lease('s0')).toMatchObject({ state: 'draining', owner: 'a' });
    const released = held.a.coordinator.releaseDrained(['s0']);
    await fleet.advance(10);
    await released;
    expect(fleet.lease('s0')).toBeNull();
    expect(fleet.split('s0')).toMatchObject({ owner: null, attempts: 0, status: 'runnable' });
    expect(told(held)).toEqual(['revokeRequested']);
  });

  test('a drain - is forced at its deadline, and commits are refused from that instant (R33)', async () => {
    const held = await holding();
    await ask();
    await fleet.advance(DRAIN_MS - 10 - fleet.slackMs);
    const inTime = held.a.coordinator.commit('s0', { watermark: 1 });
    await fleet.advance(5);
    await inTime;
    expect(told(held)).toEqual(['revokeRequested']);
    await fleet.until('it is taken', () => told(held).length === 2, 10);
    expect(told(held)).toEqual(['revokeRequested', 'lost(revoked)']);
    const late = held.a.coordinator.commit('s0', { watermark: 2 });
    await expect(late).rejects.toMatchObject({ code: 'E_FENCED' });
    expect(fleet.split('s0')).toMatchObject({ owner: null, watermark: '1', attempts: 0 });
    expect(fleet.lease('s0')).toBeNull();
  });

  test('a forced release - waits for the write on its way, and keeps what that wrote (R33, R38)', async () => {
    const held = await holding();
    held.a.client.when(writesTo((key) => key.endsWith('splits/s0'))).delay(1_500, { times: 1 });
    await ask();
    await fleet.advance(DRAIN_MS - 500);
    const slow = held.a.coordinator.commit('s0', { watermark: 9 });
    await fleet.advance(600);
    expect(told(held)).toEqual(['revokeRequested', 'lost(revoked)']);
    expect(fleet.lease('s0')).not.toBeNull();
    await fleet.advance(1_500);
    await slow;
    expect(fleet.split('s0')).toMatchObject({ owner: null, watermark: '9' });
    expect(fleet.lease('s0')).toBeNull();
  });

  test('a declined drain - is forced at once (R33)', async () => {
    const held = await holding();
    await ask();
    held.a.coordinator.declineRevoke('s0');
    await fleet.advance(10);
    expect(told(held)).toEqual(['revokeRequested', 'lost(revoked)']);
    expect(fleet.split('s0')).toMatchObject({ owner: null, attempts: 0 });
    expect(fleet.lease('s0')).toBeNull();
  });

  test('a decline without a request - changes nothing', async () => {
    const held = await holding();
    held.a.coordinator.declineRevoke('s0');
    await fleet.advance(LEASE_MS);
    expect(told(held)).toEqual([]);
    expect(stateOf(held)).toBe('held.owned');
  });

  test('a decline or a release of an earlier tenancy - does not touch this one', async () => {
    const held = await holding();
    await ask();
    held.a.coordinator.declineRevoke('s0', '7');
    const stale = held.a.coordinator.releaseDrained(['s0'], '7');
    await expect(stale).rejects.toMatchObject({ code: 'E_FENCED' });
    await fleet.advance(100);
    expect(stateOf(held)).toBe('held.draining');
  });

  test('a release from within the event itself - is taken, and answered', async () => {
    const held = await holding();
    const answers: Promise<void>[] = [];
    held.a.coordinator.listen((event) => {
      if (event.type !== 'revokeRequested') return;
      answers.push(held.a.coordinator.releaseDrained([event.splitId], event.epoch));
    });
    await ask();
    await expect(Promise.all(answers)).resolves.toHaveLength(1);
    expect(fleet.split('s0')?.owner).toBeNull();
  });
});

describe('a cancelled drain', () => {
  /** A drain that was asked for, and withdrawn a second later. */
  async function cancelled(): Promise<Held> {
    const held = await holding();
    await ask();
    await fleet.advance(1_000);
    await withdraw();
    expect(told(held)).toEqual(['revokeRequested', 'revokeCancelled']);
    expect(stateOf(held)).toBe('held.cancelledDrain');
    return held;
  }

  test('a resume after a cancel - keeps the split as if nothing had been asked (R34, R35)', async () => {
    const held = await cancelled();
    expect(fleet.lease('s0')?.state).toBe('cancelledDrain');
    held.a.coordinator.resumeIntake('s0');
    await fleet.advance(3 * DRAIN_MS);
    expect(stateOf(held)).toBe('held.owned');
    expect(fleet.lease('s0')?.state).toBe('owned');
    expect(told(held)).toEqual(['revokeRequested', 'revokeCancelled']);
    expect(fleet.split('s0')?.epoch).toBe('1');
  });

  test('a decline of a cancelled drain - keeps the split (R34)', async () => {
    const held = await cancelled();
    held.a.coordinator.declineRevoke('s0');
    await fleet.advance(3 * DRAIN_MS);
    expect(stateOf(held)).toBe('held.owned');
    expect(told(held)).toEqual(['revokeRequested', 'revokeCancelled']);
  });

  test('silence after a cancel - gives the split up after one drain deadline from the cancel (R34)', async () => {
    const held = await cancelled();
    await fleet.advance(DRAIN_MS - 100 - fleet.slackMs);
    expect(stateOf(held)).toBe('held.cancelledDrain');
    await fleet.until('it is lost', () => told(held).length > 2, 200 + fleet.slackMs);
    expect(told(held).slice(0, 3)).toEqual(['revokeRequested', 'revokeCancelled', 'lost(revoked)']);
    expect(fleet.split('s0')?.attempts).toBe(0);
  });

  test('landed commits after a cancel - feed the silence clock, calls alone do not (R34)', async () => {
    const held = await cancelled();
    for (let watermark = 1; watermark <= 3; watermark += 1) {
      await fleet.advance(DRAIN_MS - 1_000);
      const committed = held.a.coordinator.commit('s0', { watermark });
      await fleet.advance(1);
      await committed;
    }
    expect(stateOf(held)).toBe('held.cancelledDrain');
    const sinceMs = fleet.clock.nowMs();
    held.a.client.when(writesTo((key) => key.endsWith('splits/s0'))).loseBefore({ times: 30 });
    await fleet.advance(1_000);
    const lostCommit = held.a.coordinator.commit('s0', { watermark: 4 });
    lostCommit.catch(() => undefined);
    await fleet.until('given up', () => told(held).includes('lost(revoked)'), 2 * DRAIN_MS);
    const silentMs = fleet.clock.nowMs() - sinceMs;
    expect(silentMs).toBeGreaterThanOrEqual(DRAIN_MS - 50);
    expect(silentMs).toBeLessThanOrEqual(DRAIN_MS + 50 + fleet.slackMs);
  });

  test('a second request after a cancel - keeps the first start, and so may be forced at once (R34)', async () => {
    const held = await cancelled();
    await fleet.advance(2_000);
    await ask();
    const [, second] = eventsOf(held.a, 'revokeRequested');
    expect(second!.deadlineMs).toBeGreaterThan(DRAIN_MS - 3_100);
    expect(second!.deadlineMs).toBeLessThanOrEqual(DRAIN_MS - 3_000);
    await fleet.advance(DRAIN_MS - 3_000);
    expect(told(held).at(-1)).toBe('lost(revoked)');
  });

  test('a second request past the first deadline - is forced at once (R34)', async () => {
    const held = await cancelled();
    await fleet.advance(DRAIN_MS - 1_500);
    const committed = held.a.coordinator.commit('s0', { watermark: 1 });
    await fleet.advance(3_000);
    await committed;
    expect(stateOf(held)).toBe('held.cancelledDrain');
    await ask();
    await fleet.advance(10);
    expect(told(held).slice(-2)).toEqual(['revokeRequested', 'lost(revoked)']);
    expect(eventsOf(held.a, 'revokeRequested').at(-1)!.deadlineMs).toBe(0);
  });

  test('a request after a resume - is a new one with a deadline of its own (R34)', async () => {
    const held = await cancelled();
    held.a.coordinator.resumeIntake('s0');
    await fleet.advance(2 * DRAIN_MS);
    await ask();
    expect(eventsOf(held.a, 'revokeRequested').at(-1)!.deadlineMs).toBe(DRAIN_MS);
    await fleet.advance(DRAIN_MS - 100);
    expect(stateOf(held)).toBe('held.draining');
  });

  test('a release after a cancel - is still taken, and the split comes back as a new tenancy (R37, R40)', async () => {
    const held = await cancelled();
    const released = held.a.coordinator.releaseDrained(['s0']);
    await fleet.advance(500);
    await released;
    expect(fleet.split('s0')).toMatchObject({ epoch: '2', owner: 'a', attempts: 0 });
    expect(told(held).at(-1)).toBe('gained');
  });

  test('a stop - cannot be cancelled (R34)', async () => {
    const held = await holding();
    void held.a.coordinator.stop();
    await fleet.advance(100);
    await ask();
    await withdraw();
    expect(told(held)).toEqual(['revokeRequested']);
    expect(eventsOf(held.a, 'revokeRequested')[0]!.reason).toBe('stopping');
    await fleet.advance(DRAIN_MS + 2_000);
    expect(told(held).slice(0, 2)).toEqual(['revokeRequested', 'lost(revoked)']);
    await expect(held.a.coordinator.stop()).resolves.toMatchObject({ forced: ['s0'] });
  });

  test('a cancel after the release was sent - comes too late (R34)', async () => {
    const held = await holding();
    await ask();
    held.a.client.when(writesTo((key) => key.endsWith('leases/s0'))).delay(1_000, { times: 1 });
    const released = held.a.coordinator.releaseDrained(['s0']);
    await fleet.advance(100);
    await withdraw();
    expect(stateOf(held)).toBe('held.closing.sent');
    await fleet.advance(1_500);
    await released;
    expect(told(held)).toEqual(['revokeRequested', 'gained']);
    expect(fleet.split('s0')?.epoch).toBe('2');
  });
});

describe('the end of a split', () => {
  test('a commit during a drain - never completes; only a completed one does (R36)', async () => {
    const held = await holding();
    await ask();
    const cut = held.a.coordinator.commit('s0', { watermark: 100, completed: false });
    await fleet.advance(10);
    await cut;
    expect(fleet.split('s0')?.status).toBe('runnable');
    const done = held.a.coordinator.commit('s0', { watermark: 100, completed: true });
    await fleet.advance(10);
    await done;
    expect(fleet.split('s0')).toMatchObject({ status: 'completed', owner: null });
    expect(fleet.lease('s0')).toBeNull();
  });

  test('a complete that queues behind a force - is refused, and the split stays open (R36)', async () => {
    const held = await holding();
    held.a.client.when(writesTo((key) => key.endsWith('splits/s0'))).delay(1_500, { times: 1 });
    await ask();
    await fleet.advance(DRAIN_MS - 500);
    const first = held.a.coordinator.commit('s0', { watermark: 1 });
    await fleet.advance(10);
    held.a.coordinator.declineRevoke('s0');
    const complete = held.a.coordinator.commit('s0', { watermark: 2, completed: true });
    await expect(complete).rejects.toMatchObject({ code: 'E_FENCED' });
    await fleet.advance(3_000);
    await first;
    expect(fleet.split('s0')).toMatchObject({ status: 'runnable', watermark: '1', owner: null });
  });

  test('a complete - carries an unsent commit with it, and no later commit replaces it (R36, R38)', async () => {
    const held = await holding();
    held.a.client.when(writesTo((key) => key.endsWith('splits/s0'))).delay(500, { times: 1 });
    const { coordinator } = held.a;
    const sent = coordinator.commit('s0', { watermark: 1 });
    await fleet.advance(10);
    const unsent = coordinator.commit('s0', { watermark: 2, state: 'two' });
    const complete = coordinator.commit('s0', { watermark: 3, completed: true });
    const late = coordinator.commit('s0', { watermark: 4 });
    await expect(late).rejects.toMatchObject({ code: 'E_FENCED' });
    await fleet.advance(1_000);
    await Promise.all([sent, unsent, complete]);
    const state = Buffer.from('two').toString('base64');
    expect(fleet.split('s0')).toMatchObject({ status: 'completed', watermark: '3', state });
  });
});

describe('a departure by release', () => {
  test('a release of everything - is a departure: the worker leaves, and the split moves at once (R16)', async () => {
    const held = await holding();
    const b = fleet.seam('b');
    handBackAll(b);
    await fleet.until('b is there', () => b.coordinator.status().presence === 'present');
    const released = held.a.coordinator.release(['s0']);
    await fleet.until('b has it', () => b.held.has('s0'), 1_000);
    await released;
    expect(held.a.coordinator.status().presence).toBe('departed');
    expect(fleet.split('s0')?.attempts).toBe(0);
  });
});
