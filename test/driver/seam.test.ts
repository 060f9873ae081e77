import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { CHARTS } from '../../machines/charts.ts';
import type { CoordinationEvent } from '../../src/coordinator/api/api.ts';
import type { Transition } from '../../src/coordinator/api/transition.ts';
import { createCoordinator } from '../../src/coordinator/coordinator.ts';
import { guardProcess } from '../support/departures.ts';
import { CONFIG, finalPlan, Fleet, ids, LEASE_MS, type LoggedLine } from '../support/fleet.ts';

let fleet: Fleet;
let guard: ReturnType<typeof guardProcess>;
beforeEach(() => {
  guard = guardProcess();
  fleet = new Fleet({ planner: finalPlan(['s1', 's2']) });
});
afterEach(async () => {
  await fleet.close();
  guard.end();
  expect(guard.caught).toEqual([]);
});

const OWNERSHIP = ['gained', 'revokeRequested', 'revokeCancelled', 'lost', 'verdict'];

describe('events()', () => {
  test('a stream nobody reads - keeps every ownership event in order, and drops others beyond its bound with a count', async () => {
    await fleet.close();
    fleet = new Fleet({
      planner: {
        fingerprint: () => 'p',
        plan: () => ({ splits: ids(3).map((id) => ({ id, descriptor: '' })), finality: 'open' }),
      },
    });
    const a = fleet.seam('a');
    const stream = a.coordinator.events();
    await fleet.until('a holds', () => a.held.size === 3);
    for (let round = 0; round < 30; round += 1) {
      await fleet.operator().pause();
      await fleet.advance(20);
      await fleet.operator().resume();
      await fleet.advance(20);
      for (const id of a.held.keys()) a.coordinator.resumeIntake(id);
    }
    for (let round = 0; round < 1_100; round += 1) {
      fleet.store.remove(fleet.keys.leader);
      await fleet.until('a leads again', () => fleet.leader() !== null, 10_000, 100);
    }
    const told = a.events.slice();
    const heard: CoordinationEvent[] = [];
    void a.coordinator.stop();
    await fleet.advance(10_000);
    for await (const event of stream) heard.push(event);
    const ownership = (events: readonly CoordinationEvent[]): CoordinationEvent[] =>
      events.filter(({ type }) => OWNERSHIP.includes(type));
    expect(ownership(heard)).toEqual(ownership(a.events));
    expect(ownership(told).length).toBeGreaterThanOrEqual(3 + 30 * 3 * 2);
    const informational = a.events.length - ownership(a.events).length;
    expect(informational).toBeGreaterThan(2_000);
    expect(heard.length - ownership(heard).length).toBe(1_000);
    expect(stream.dropped).toBe(informational - 1_000);
  }, 60_000);

  test('a stream - ends with the worker, and one opened afterwards ends at once', async () => {
    const a = fleet.seam('a');
    const stream = a.coordinator.events();
    await fleet.until('a holds', () => a.held.size === 2);
    void a.coordinator.stop();
    await fleet.advance(10_000);
    const types: string[] = [];
    for await (const { type } of stream) types.push(type);
    expect(types.filter((type) => type === 'lost')).toHaveLength(2);
    expect(await a.coordinator.events().next()).toEqual({ done: true, value: undefined });
  });

  test('a listener - that was taken off hears nothing more', async () => {
    const a = fleet.seam('a');
    const heard: string[] = [];
    const stop = a.coordinator.listen(({ type }) => heard.push(type));
    await fleet.until('a holds', () => a.held.size === 2);
    stop();
    const count = heard.length;
    await fleet.operator().pause();
    await fleet.advance(100);
    expect(a.asked.size).toBe(2);
    expect(heard).toHaveLength(count);
  });

  test('events - per split come in the order of ownership, and name the tenancy by its epoch', async () => {
    const a = fleet.seam('a');
    await fleet.until('a holds', () => a.held.size === 2);
    for (let round = 0; round < 3; round += 1) {
      fleet.store.remove(fleet.keys.lease('s1' as never));
      await fleet.until('a holds again', () => a.held.has('s1') && fleet.lease('s1') !== null);
      await fleet.advance(100);
    }
    const ofS1 = a.events.flatMap((event) =>
      event.type === 'gained' && event.split.id === 's1'
        ? [`gained ${event.epoch}`]
        : event.type === 'lost' && event.splitId === 's1'
          ? [`lost ${event.epoch} ${event.reason}`]
          : [],
    );
    expect(ofS1).toEqual([
      'gained 1',
      'lost 1 starved',
      'gained 2',
      'lost 2 starved',
      'gained 3',
      'lost 3 starved',
      'gained 4',
    ]);
  });
});

describe('a blocked loop', () => {
  test('a stall - counts an attempt, also when the lost lease is heard of before the deadline fires (R31)', async () => {
    const a = fleet.seam('a');
    await fleet.until('a holds', () => a.held.size === 2);
    // Timers are held up, what comes from the network is not.
    a.clock.freeze('runs');
    await fleet.advance(LEASE_MS + 1_000);
    a.clock.thaw();
    await fleet.until('a holds again', () => fleet.lease('s1') !== null, 30_000);
    expect(fleet.split('s1')).toMatchObject({ attempts: 1, owner: 'a' });
    expect(a.events).toContainEqual({ type: 'sessionLost', reason: 'stalled' });
  });
});

describe('requests', () => {
  test('an epoch of an ended tenancy - is refused by every request, and the present one is untouched', async () => {
    const a = fleet.seam('a');
    await fleet.until('a holds', () => a.held.size === 2);
    const old = a.held.get('s1')!.epoch;
    fleet.store.remove(fleet.keys.lease('s1' as never));
    await fleet.until('a holds again', () => a.held.get('s1')?.epoch === '2');
    const revision = fleet.store.revision;
    const { coordinator } = a;
    for (const request of [
      () => coordinator.commit('s1', { watermark: 1 }, old),
      () => coordinator.commit('s1', { watermark: 1, completed: true }, old),
      () => coordinator.complete('s1', null, old),
      () => coordinator.fail('s1', 'no', old),
      () => coordinator.releaseDrained(['s1'], old),
      () => coordinator.giveUp('s1', old),
    ]) {
      await expect(request()).rejects.toMatchObject({ code: 'E_FENCED' });
    }
    coordinator.declineRevoke('s1', old);
    coordinator.resumeIntake('s1', old);
    await fleet.advance(100);
    expect(fleet.store.revision).toBe(revision);
    expect(coordinator.status().tenancies.find(({ split }) => split === 's1')?.state).toBe(
      'held.owned',
    );
    await coordinator.commit('s1', { watermark: 1 }, '2');
    expect(fleet.split('s1')).toMatchObject({ watermark: '1', epoch: '2' });
  });

  test('requests - for a split that is not held, and after the end, are refused', async () => {
    const a = fleet.seam('a');
    await fleet.until('a holds', () => a.held.size === 2);
    await expect(a.coordinator.commit('s9', { watermark: 1 })).rejects.toMatchObject({
      code: 'E_FENCED',
      details: { split: 's9' },
    });
    void a.coordinator.stop();
    await fleet.advance(10_000);
    for (const request of [
      () => a.coordinator.commit('s1', { watermark: 1 }),
      () => a.coordinator.fail('s1', 'no'),
      () => a.coordinator.giveUp('s1'),
      () => a.coordinator.verdict(),
    ]) {
      await expect(request()).rejects.toMatchObject({ code: 'E_STOPPED' });
    }
    await a.coordinator.release(['s1']);
    a.coordinator.declineRevoke('s1');
    a.coordinator.handlerOutlives('s1');
    a.coordinator.handlerEnded('s1');
  });
});

describe('the inspection feed', () => {
  const chartNames = new Set(CHARTS.map(({ name }) => name));

  test('inspect - tells every transition as JSON, each from where the last one led', async () => {
    const a = fleet.seam('a');
    const b = fleet.seam('b');
    await fleet.until('both hold', () => a.held.size === 1 && b.held.size === 1);
    await fleet.operator().pause();
    await fleet.advance(100);
    await fleet.operator().resume();
    await fleet.advance(100);
    b.crash();
    await fleet.advance(4 * LEASE_MS);
    void a.coordinator.stop();
    await fleet.advance(10_000);

    const at = new Map<string, string>();
    const pairs = new Set<string>();
    let lastAt = 0;
    for (const transition of a.transitions) {
      expect(JSON.parse(JSON.stringify(transition))).toEqual(transition);
      expect(Object.keys(transition).sort()).toEqual(['at', 'chart', 'event', 'from', 'id', 'to']);
      expect(chartNames.has(transition.chart)).toBe(true);
      expect(transition.at).toBeGreaterThanOrEqual(lastAt);
      lastAt = transition.at;
      const key = `${transition.chart} ${transition.id}`;
      // A tenancy that is over is followed by a new one of the same split.
      const isNew = transition.chart === 'tenancy' && transition.from === 'awaiting';
      if (!isNew && at.has(key)) expect(transition.from).toBe(at.get(key));
      expect(transition.to).not.toBe(transition.from);
      at.set(key, transition.to);
      pairs.add(`${transition.chart}: ${transition.from} -> ${transition.to}`);
    }
    for (const pair of [
      'presence: probing -> joining',
      'presence: joining -> announcing',
      'presence: announcing -> present',
      'presence: present -> parting',
      'presence: parting -> departed',
      'tenancy: awaiting -> claiming',
      'tenancy: claiming -> held.owned',
      'tenancy: held.owned -> held.draining',
      'tenancy: held.draining -> held.cancelledDrain',
      'tenancy: held.closing -> lostRevoked',
      'peer: present -> withheld',
      'peer: withheld -> gone',
      'writing: idle -> writing',
    ]) {
      expect(pairs).toContain(pair);
    }
  });

  test('inspect - only tells transitions that the charts have', async () => {
    const a = fleet.seam('a');
    const b = fleet.seam('b');
    await fleet.until('both hold', () => a.held.size === 1 && b.held.size === 1);
    b.crash();
    await fleet.advance(4 * LEASE_MS);
    const known = new Map(
      CHARTS.map(({ name, machine }) => [name, new Set<string>(machine.events)]),
    );
    const illegal = a.transitions.filter(
      ({ chart, event }) => !known.get(chart)!.has(event) && !event.startsWith('xstate.'),
    );
    expect(illegal).toEqual([]);
    const final = new Set(['departed', 'failed', 'closed', 'completed', 'released', 'dismissed']);
    expect(a.transitions.filter(({ from }) => final.has(from))).toEqual([]);
  });

  test('inspect - that throws is reported once and harms nothing', async () => {
    const lines: LoggedLine[] = [];
    const calls: Transition[] = [];
    const log = (level: LoggedLine['level']) => (fields: object, message: string) => {
      lines.push({
        level,
        event: (fields as { event: string }).event,
        message,
        fields: { ...fields },
      });
    };
    const coordinator = createCoordinator({
      job: 'job',
      prefix: 'test',
      store: fleet.store,
      instanceId: 'a',
      planner: finalPlan(['s1', 's2']),
      config: CONFIG,
      clock: fleet.clock,
      logger: { debug: log('debug'), info: log('info'), warn: log('warn'), error: log('error') },
      inspect: (transition) => {
        calls.push(transition);
        throw new Error('no space left on the dashboard');
      },
    });
    const gained: string[] = [];
    coordinator.listen((event) => {
      if (event.type === 'gained') gained.push(event.split.id);
    });
    coordinator.start();
    await fleet.until('it works', () => gained.length === 2);
    await coordinator.commit('s1', { watermark: 1, completed: true });
    await coordinator.commit('s2', { watermark: 1, completed: true });
    expect((await coordinator.verdict()).kind).toBe('complete');
    expect(calls.length).toBeGreaterThan(10);
    expect(lines.filter(({ level }) => level === 'error')).toEqual([
      expect.objectContaining({
        event: 'inspector.threw',
        fields: expect.objectContaining({ reason: 'no space left on the dashboard' }),
      }),
    ]);
    const stop = coordinator.stop();
    await fleet.advance(10_000);
    expect(await stop).toMatchObject({ reason: 'finished', forced: [] });
  });
});
