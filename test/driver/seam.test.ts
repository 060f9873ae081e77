import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { createCoordinator, type Transition } from '../../src/index.ts';
import { CHARTS } from '../../machines/charts.ts';
import { guardProcess } from '../support/departures.ts';
import { CONFIG, finalPlan, Fleet, LEASE_MS, type LoggedLine } from '../support/fleet.ts';

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

describe('events()', () => {
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
      'session: closed -> opening',
      'session: opening -> open.kept',
      'follow: listing -> watching.quiet',
      'presence: joining -> announcing.opening',
      'presence: announcing.opening -> announcing.putting',
      'presence: announcing.putting -> present.announced',
      'presence: present.announced -> parting',
      'presence: parting -> departed',
      'tenancy: awaiting -> claiming.wanted',
      'tenancy: claiming.wanted -> held.owned',
      'tenancy: held.owned -> held.draining',
      'tenancy: held.draining -> held.cancelledDrain',
      'tenancy: held.draining -> held.closing.queued',
      'tenancy: held.closing.sent -> lostRevoked',
      'departure: staying -> draining',
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
    const ends = new Set(
      CHARTS.flatMap(({ name, machine }) =>
        Object.entries(machine.states).flatMap(([state, { type }]) =>
          type === 'final' ? [`${name} ${state}`] : [],
        ),
      ),
    );
    expect(ends.size).toBeGreaterThan(10);
    expect(a.transitions.filter(({ chart, from }) => ends.has(`${chart} ${from}`))).toEqual([]);
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
