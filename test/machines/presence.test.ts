/** What a worker's presence must do in the stories that matter. */
import { describe, expect, test } from '@jest/globals';
import type { AnyEventObject } from 'xstate';
import { begin, type Driven } from './drive.ts';

type Told = string | AnyEventObject;

const landed = (isCurrent = true): Told => ({ type: 'announcement.landed', isCurrent });
const expired = (isDenied = false): Told => ({ type: 'session.expired', isDenied });
const finished = (hasFailed = false): Told => ({ type: 'departure.finished', hasFailed });

function tell(presence: Driven, ...told: readonly Told[]): void {
  for (const one of told) presence.send(typeof one === 'string' ? { type: one } : one);
}

const PRESENT: readonly Told[] = ['probe.passed', 'job.joined', 'session.opened', landed()];

/** What leads from the start to each state. */
const WAYS = {
  probing: [],
  joining: ['probe.passed'],
  'announcing.opening': ['probe.passed', 'job.joined'],
  'announcing.putting': ['probe.passed', 'job.joined', 'session.opened'],
  'present.announced': PRESENT,
  'present.updating': [...PRESENT, 'announcement.due'],
  'rejoining.joining': [...PRESENT, 'store.reset'],
  'rejoining.opening': [...PRESENT, expired()],
  'rejoining.putting': [...PRESENT, expired(), 'session.opened'],
  'rejoining.barred': [...PRESENT, expired(true)],
} as const satisfies Readonly<Record<string, readonly Told[]>>;

function at(state: keyof typeof WAYS, change: Readonly<Record<string, unknown>> = {}): Driven {
  const presence = begin('presence', change);
  tell(presence, ...WAYS[state]);
  expect(presence.state).toBe(state);
  presence.asked();
  return presence;
}

/** What is asked for, and after how long, each time that the step fails. */
async function expectPauses(presence: Driven, action: string, pauses: number[]): Promise<void> {
  for (const pauseMs of pauses) {
    tell(presence, 'step.failed');
    await presence.advance(pauseMs - 1);
    expect([pauseMs, presence.asked()]).toEqual([pauseMs, []]);
    await presence.advance(1);
    expect([pauseMs, presence.asked()]).toEqual([pauseMs, [action]]);
  }
}

describe('starting', () => {
  test('presence - a worker probes, joins, opens a session and announces itself, in this order', () => {
    const presence = begin('presence');
    tell(presence, ...PRESENT);
    expect(presence.state).toBe('present.announced');
    expect(presence.asked()).toEqual(['probeStore', 'joinJob', 'openSession', 'announce']);
  });

  test.each([
    ['probing', 'probeStore'],
    ['joining', 'joinJob'],
    ['announcing.putting', 'announce'],
  ] as const)(
    'presence - %s backs off between its tries, up to five seconds',
    async (state, action) => {
      const presence = at(state);
      await expectPauses(presence, action, [200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
      tell(presence, 'step.failed');
      expect([presence.asked(), presence.timers]).toEqual([['reportExhaustion'], []]);
    },
  );

  test('presence - a session that cannot be opened spends the budget, and is tried again by itself', () => {
    const presence = at('announcing.opening', { failuresMax: 2 });
    tell(presence, 'step.failed');
    expect([presence.asked(), presence.timers]).toEqual([[], []]);
    tell(presence, 'step.failed');
    expect(presence.asked()).toEqual(['reportExhaustion']);
  });

  test.each([
    [1, 0],
    [3, 2],
  ])('presence - a budget of %d forgives %d failures', (failuresMax, forgiven) => {
    const presence = at('joining', { failuresMax });
    for (let failure = 0; failure < forgiven; failure += 1) tell(presence, 'step.failed');
    expect(presence.asked()).toEqual([]);
    tell(presence, 'step.failed');
    expect(presence.asked()).toEqual(['reportExhaustion']);
  });

  test('presence - every step has the whole budget, and its success stops the clock', async () => {
    const presence = begin('presence', { failuresMax: 2 });
    for (const success of ['probe.passed', 'job.joined']) {
      tell(presence, 'step.failed', success);
      expect([success, presence.timers]).toEqual([success, []]);
    }
    tell(presence, 'session.opened', 'step.failed', landed());
    expect(presence.asked()).not.toContain('reportExhaustion');
    await presence.advance(60_000);
    expect([presence.state, presence.asked()]).toEqual(['present.announced', []]);
  });

  test('presence - session and announcement share one budget', () => {
    const presence = at('announcing.opening', { failuresMax: 2 });
    tell(presence, 'step.failed', 'session.opened', 'step.failed');
    expect(presence.asked()).toEqual(['announce', 'reportExhaustion']);
  });

  test('presence - a job without a plan is looked at again without spending the budget', async () => {
    const presence = at('joining', { failuresMax: 1 });
    for (let look = 0; look < 20; look += 1) {
      tell(presence, 'job.planless', 'job.planless');
      await presence.advance(200);
      expect(presence.asked()).toEqual(['joinJob']);
    }
  });

  test('presence - two failures before a retry are one retry', async () => {
    const presence = at('joining');
    tell(presence, 'step.failed', 'step.failed');
    await presence.advance(60_000);
    expect(presence.asked()).toEqual(['joinJob']);
  });

  test('presence - a session lost before the announcement landed is replaced', () => {
    const presence = at('announcing.opening');
    tell(presence, 'session.opened', expired(), 'session.opened');
    expect(presence.asked()).toEqual(['announce', 'openSession', 'announce']);
    expect(presence.state).toBe('announcing.putting');
  });

  test.each(['probing', 'joining', 'announcing.opening', 'announcing.putting'] as const)(
    'presence - a worker that never was in the fleet gives up when it is refused while %s',
    (state) => {
      const presence = at(state);
      tell(presence, 'step.denied');
      expect(presence.asked()).toEqual(['reportDenial']);
    },
  );
});

describe('present', () => {
  test.each(['announcement.due', 'presence.deleted'])('presence - %s announces again', (type) => {
    const presence = at('present.announced');
    tell(presence, type);
    expect([presence.state, presence.asked()]).toEqual(['present.updating', ['announce']]);
    tell(presence, landed());
    expect([presence.state, presence.asked()]).toEqual(['present.announced', []]);
  });

  test.each(['announcing.putting', 'present.updating', 'rejoining.putting'] as const)(
    'presence - an announcement that is old news when it lands while %s is followed by another',
    (state) => {
      const presence = at(state);
      tell(presence, landed(false));
      expect([presence.state, presence.asked()]).toEqual(['present.updating', ['announce']]);
      tell(presence, landed());
      expect(presence.state).toBe('present.announced');
    },
  );

  test.each(['announcing.putting', 'present.updating', 'rejoining.putting'] as const)(
    'presence - an announcement that was in vain while %s is made again at once',
    (state) => {
      const presence = at(state);
      tell(presence, 'announcement.missed');
      expect([presence.state, presence.asked()]).toEqual([state, ['announce']]);
    },
  );

  test('presence - a failure while present costs nothing of a budget', async () => {
    const presence = at('present.updating', { failuresMax: 1 });
    await expectPauses(presence, 'announce', [200, 200]);
  });

  test('presence - a refusal while the session lives is waited out', () => {
    const presence = at('present.announced');
    tell(presence, 'step.denied');
    expect([presence.state, presence.asked()]).toEqual(['present.announced', []]);
  });
});

describe('coming back', () => {
  test('presence - a lost session is replaced and the worker announced anew', () => {
    const presence = at('present.announced');
    tell(presence, expired());
    expect([presence.state, presence.asked()]).toEqual(['rejoining.opening', ['openSession']]);
    tell(presence, landed(), expired());
    expect([presence.state, presence.asked()]).toEqual(['rejoining.opening', []]);
    tell(presence, 'session.opened', landed());
    expect([presence.state, presence.asked()]).toEqual(['present.announced', ['announce']]);
  });

  test.each(Object.keys(WAYS) as (keyof typeof WAYS)[])(
    'presence - another store is looked at before anything is announced in it, whatever it was when %s',
    (state) => {
      const presence = at(state);
      tell(presence, 'store.reset');
      const before = { probing: 'probing', 'rejoining.barred': 'rejoining.barred' } as const;
      const isStarting = state === 'joining' || state.startsWith('announcing');
      const then =
        before[state as keyof typeof before] ?? (isStarting ? 'joining' : 'rejoining.joining');
      expect(presence.state).toBe(then);
      if (then === 'rejoining.barred') return;
      expect(presence.asked()).toEqual([then === 'probing' ? 'probeStore' : 'joinJob']);
    },
  );

  test.each(['rejoining.joining', 'rejoining.opening', 'rejoining.putting'] as const)(
    'presence - the way back has no budget: %s goes on for as long as it takes',
    (state) => {
      const presence = at(state, { failuresMax: 1 });
      for (let failure = 0; failure < 100; failure += 1) tell(presence, 'step.failed');
      expect([presence.state, presence.asked()]).toEqual([state, []]);
    },
  );

  test.each([
    ['rejoining.joining', 'joinJob'],
    ['rejoining.putting', 'announce'],
  ] as const)('presence - %s tries again every 200 ms', async (state, action) => {
    await expectPauses(at(state), action, [200, 200, 200]);
  });

  test('presence - a worker that is refused on its way back waits ever longer, up to thirty seconds, and begins with a look', async () => {
    const presence = at('rejoining.barred');
    for (const pauseMs of [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]) {
      await presence.advance(pauseMs - 1);
      expect([pauseMs, presence.asked()]).toEqual([pauseMs, []]);
      await presence.advance(1);
      expect([pauseMs, presence.state]).toEqual([pauseMs, 'rejoining.joining']);
      expect(presence.asked()).toEqual(['joinJob']);
      tell(presence, 'step.denied');
    }
  });

  test.each([
    ['another lost session', expired(), 'rejoining.opening'],
    ['another store', 'store.reset', 'rejoining.joining'],
  ])(
    'presence - %s after it was back is no refusal, and the next one waits a second again',
    async (_what, told, then) => {
      const presence = at('rejoining.barred');
      await presence.advance(1_000);
      tell(presence, 'step.denied');
      await presence.advance(2_000);
      tell(presence, 'job.joined', 'session.opened', landed(), told);
      expect(presence.state).toBe(then);
      tell(presence, 'step.denied');
      await presence.advance(1_000);
      expect(presence.state).toBe('rejoining.joining');
    },
  );
});

describe('leaving', () => {
  test.each(Object.keys(WAYS) as (keyof typeof WAYS)[])(
    'presence - a worker that is %s can leave in order',
    async (state) => {
      const presence = at(state);
      tell(presence, 'worker.stopping');
      expect([presence.state, presence.asked()]).toEqual(['parting', ['announceParting']]);
      tell(presence, 'worker.stopping', 'session.opened', expired(), 'store.reset');
      await presence.advance(60_000);
      expect([presence.state, presence.asked()]).toEqual(['parting', []]);
      tell(presence, finished());
      expect(presence.state).toBe('departed');
    },
  );

  test('presence - a worker that leaves because of an error has failed', () => {
    const presence = at('present.announced');
    tell(presence, 'worker.stopping', finished(true));
    expect(presence.state).toBe('failed');
  });

  test('presence - an announcement that does not say that it leaves is made again while it leaves', () => {
    const presence = at('present.updating');
    tell(presence, 'worker.stopping');
    presence.asked();
    tell(presence, landed(false));
    expect(presence.asked()).toEqual(['announce']);
    tell(presence, landed(), 'announcement.missed');
    expect([presence.state, presence.asked()]).toEqual(['parting', []]);
  });

  test('presence - leaving stops the clock of a retry', async () => {
    const presence = at('joining');
    tell(presence, 'step.failed', 'worker.stopping');
    presence.asked();
    await presence.advance(60_000);
    expect([presence.state, presence.asked()]).toEqual(['parting', []]);
  });
});
