/** What the presence chart deliberately does nothing about. */
import type { Ignored } from '../chart.ts';

const ENDED = ['departed', 'failed'];
const LOOKING = ['probing', 'joining'];
const STARTING = [...LOOKING, 'announcing.opening', 'announcing.putting'];
const PRESENT = ['present.announced', 'present.updating'];
const BACK = ['rejoining.joining', 'rejoining.opening', 'rejoining.putting', 'rejoining.barred'];
const ALL = [...STARTING, ...PRESENT, ...BACK, 'parting'];
const without = (all: readonly string[], ...handled: string[]): string[] =>
  all.filter((state) => !handled.includes(state));

export const presenceIgnores: readonly Ignored[] = [
  { event: '*', states: ENDED, why: 'Nothing follows; an answer may still be under way.' },
  { event: 'probe.passed', states: without(ALL, 'probing'), why: 'Passed already.' },
  ...['job.joined', 'job.planless'].map((event) => ({
    event,
    states: without(ALL, 'joining', 'rejoining.joining'),
    why: 'The answer to a question that is answered already.',
  })),
  {
    event: 'session.opened',
    states: without(ALL, 'announcing.opening', 'rejoining.opening'),
    why: 'Nothing waits for a session here.',
  },
  {
    event: 'session.expired',
    states: without(ALL, 'announcing.putting', ...PRESENT, 'rejoining.putting'),
    why: 'No session is needed here, or a new one is asked for already.',
  },
  ...['announcement.landed', 'announcement.missed'].map((event) => ({
    event,
    states: without(ALL, 'announcing.putting', 'present.updating', 'rejoining.putting', 'parting'),
    why: 'Of a session that is gone.',
  })),
  {
    event: 'announcement.missed',
    states: ['parting'],
    why: 'A presence that is gone need not say that it is leaving.',
  },
  {
    event: 'announcement.due',
    states: without(ALL, 'present.announced'),
    why: 'The next announcement says it, or the answer to the one under way shows that it did not.',
  },
  {
    event: 'presence.deleted',
    states: without(ALL, 'present.announced'),
    why: 'Not announced, or being announced.',
  },
  {
    event: 'step.failed',
    states: ['present.announced', 'rejoining.opening', 'rejoining.barred', 'parting'],
    why: 'Nothing is tried here, or who tries goes on by itself.',
  },
  {
    event: 'step.denied',
    states: [...PRESENT, 'rejoining.barred', 'parting'],
    why: 'Waited out while the session lives; nothing is tried on the way out.',
  },
  {
    event: 'step.retry',
    states: [
      'announcing.opening',
      'present.announced',
      'rejoining.opening',
      'rejoining.barred',
      'parting',
    ],
    why: 'The timer is disarmed; it may have fired just now.',
  },
  {
    event: 'rejoin.due',
    states: without(ALL, 'rejoining.barred'),
    why: 'The timer is disarmed; it may have fired just now.',
  },
  {
    event: 'store.reset',
    states: ['rejoining.barred', 'parting'],
    why: 'The way back begins with a look at the store; nothing is looked for on the way out.',
  },
  { event: 'worker.stopping', states: ['parting'], why: 'Leaving already.' },
  {
    event: 'departure.finished',
    states: [...STARTING, ...PRESENT, ...BACK],
    why: 'Nobody is leaving.',
  },
];
