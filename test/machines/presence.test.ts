/** What a worker's presence must do in the stories that matter. */
import { describe, expect, test } from '@jest/globals';
import { begin, type Driven } from './drive.ts';

/** The events that lead from the start to each state. */
const WAYS: Readonly<Record<string, readonly string[]>> = {
  probing: [],
  joining: ['probe.passed'],
  announcing: ['probe.passed', 'job.joined'],
  present: ['probe.passed', 'job.joined', 'session.opened', 'announcement.landed'],
  rejoining: [
    ...['probe.passed', 'job.joined', 'session.opened', 'announcement.landed'],
    'session.expired',
  ],
};

function at(state: keyof typeof WAYS, change: Readonly<Record<string, unknown>> = {}): Driven {
  const presence = begin('presence', change);
  presence.sendAll(...WAYS[state]!);
  expect(presence.state).toBe(state);
  presence.asked();
  return presence;
}

describe('starting', () => {
  test('presence - a worker probes, joins, opens a session and announces itself, in this order', () => {
    const presence = begin('presence');
    presence.sendAll('probe.passed', 'job.joined', 'session.opened', 'announcement.landed');
    expect(presence.state).toBe('present');
    expect(presence.asked()).toEqual(['probeStore', 'joinJob', 'openSession', 'announce']);
  });

  test.each([
    ['probing', 'probeStore'],
    ['joining', 'joinJob'],
    ['announcing', 'openSession'],
  ])('presence - %s backs off between its tries, up to five seconds', async (state, action) => {
    const presence = at(state);
    for (const pauseMs of [200, 400, 800, 1_600, 3_200, 5_000, 5_000]) {
      presence.sendAll('step.failed');
      await presence.advance(pauseMs - 1);
      expect([pauseMs, presence.asked()]).toEqual([pauseMs, []]);
      await presence.advance(1);
      expect([pauseMs, presence.asked()]).toEqual([pauseMs, [action]]);
    }
    presence.sendAll('step.failed');
    expect([presence.state, presence.asked()]).toEqual(['failed', ['reportExhaustion']]);
    expect(presence.timers).toEqual([]);
  });

  test.each([
    [1, 0],
    [3, 2],
  ])('presence - a budget of %d forgives %d failures', (failuresMax, forgiven) => {
    const presence = begin('presence', { failuresMax });
    for (let failure = 0; failure < forgiven; failure += 1) presence.sendAll('step.failed');
    expect(presence.state).toBe('probing');
    presence.sendAll('step.failed');
    expect(presence.state).toBe('failed');
  });

  test('presence - every step has the whole budget, and its success stops the clock', async () => {
    const presence = begin('presence', { failuresMax: 2 });
    for (const success of ['probe.passed', 'job.joined', 'announcement.landed']) {
      presence.sendAll('step.failed', success);
      expect([success, presence.timers]).toEqual([success, []]);
    }
    presence.asked();
    await presence.advance(60_000);
    expect([presence.state, presence.asked()]).toEqual(['present', []]);
    presence.sendAll('session.expired', 'session.opened', 'step.failed');
    expect(presence.state).toBe('announcing');
  });

  test('presence - two failures before a retry are one retry', async () => {
    const presence = at('joining');
    presence.sendAll('step.failed', 'step.failed');
    await presence.advance(60_000);
    expect(presence.asked()).toEqual(['joinJob']);
  });

  test('presence - a session lost before the announcement landed is replaced', () => {
    const presence = at('announcing');
    presence.sendAll('session.opened', 'session.expired', 'session.opened');
    expect(presence.asked()).toEqual(['announce', 'openSession', 'announce']);
    expect(presence.state).toBe('announcing');
  });
});

describe('present', () => {
  test.each(['announcement.due', 'presence.deleted'])('presence - %s announces again', (type) => {
    const presence = at('present');
    presence.sendAll(type);
    expect([presence.state, presence.asked()]).toEqual(['present', ['announce']]);
    presence.sendAll('announcement.landed');
    expect([presence.state, presence.asked()]).toEqual(['present', []]);
  });

  test('presence - a lost session is replaced and the worker announced anew', () => {
    const presence = at('present');
    presence.sendAll('session.expired');
    expect([presence.state, presence.asked()]).toEqual(['rejoining', ['openSession']]);
    presence.sendAll('announcement.landed', 'session.expired');
    expect([presence.state, presence.asked()]).toEqual(['rejoining', []]);
    presence.sendAll('session.opened');
    expect([presence.state, presence.asked()]).toEqual(['announcing', ['announce']]);
    presence.sendAll('announcement.landed');
    expect(presence.state).toBe('present');
  });

  test('presence - a failure while present costs nothing of a budget', () => {
    const presence = at('present', { failuresMax: 1 });
    presence.sendAll('step.failed');
    expect(presence.state).toBe('present');
  });
});

describe('leaving', () => {
  test.each(Object.keys(WAYS))('presence - a worker that is %s can leave in order', (state) => {
    const presence = at(state);
    presence.sendAll('worker.stopping');
    expect([presence.state, presence.asked()]).toEqual(['parting', ['announceParting']]);
    presence.sendAll('worker.stopping', 'session.opened', 'session.expired');
    expect([presence.state, presence.asked()]).toEqual(['parting', []]);
    presence.sendAll('departure.finished');
    expect(presence.state).toBe('departed');
  });

  test.each(Object.keys(WAYS))('presence - a fatal error ends a worker that is %s', (state) => {
    const presence = at(state);
    presence.sendAll('fatal.raised');
    expect([presence.state, presence.asked()]).toEqual(['failed', []]);
  });

  test('presence - a fatal error ends a worker that is leaving', () => {
    const presence = at('present');
    presence.sendAll('worker.stopping', 'fatal.raised');
    expect(presence.state).toBe('failed');
  });

  test('presence - leaving stops the clock of a retry', async () => {
    const presence = at('joining');
    presence.sendAll('step.failed', 'worker.stopping');
    presence.asked();
    await presence.advance(60_000);
    expect([presence.state, presence.asked()]).toEqual(['parting', []]);
  });
});
