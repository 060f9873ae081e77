/** What the presence chart deliberately does nothing about. */
import type { Ignored } from '../chart.ts';

const ENDED = ['departed', 'failed'];
const STARTING = ['probing', 'joining'];

export const presenceIgnores: readonly Ignored[] = [
  { event: '*', states: ENDED, why: 'Nothing follows; an answer may still be under way.' },
  {
    event: 'probe.passed',
    states: ['joining', 'announcing', 'present', 'rejoining', 'parting'],
    why: 'Passed already.',
  },
  {
    event: 'job.joined',
    states: ['probing', 'announcing', 'present', 'rejoining', 'parting'],
    why: 'Joined once, when it was asked for.',
  },
  {
    event: 'session.opened',
    states: [...STARTING, 'present', 'parting'],
    why: 'Nothing waits for a session here.',
  },
  {
    event: 'announcement.landed',
    states: [...STARTING, 'rejoining', 'parting'],
    why: 'Of a session that is gone, or overtaken by leaving.',
  },
  {
    event: 'announcement.landed',
    states: ['present'],
    why: 'Announced again what changed.',
  },
  {
    event: 'announcement.due',
    states: [...STARTING, 'announcing', 'rejoining', 'parting'],
    why: 'The next announcement says it.',
  },
  {
    event: 'presence.deleted',
    states: [...STARTING, 'announcing', 'rejoining', 'parting'],
    why: 'Not announced, or leaving.',
  },
  {
    event: 'session.expired',
    states: [...STARTING, 'rejoining', 'parting'],
    why: 'No session is needed here, or a new one is being opened.',
  },
  {
    event: 'step.failed',
    states: ['present', 'rejoining', 'parting'],
    why: 'Only startup steps are budgeted.',
  },
  {
    event: 'step.retry',
    states: ['present', 'rejoining', 'parting'],
    why: 'The timer is disarmed; it may have fired just now.',
  },
  { event: 'worker.stopping', states: ['parting'], why: 'Leaving already.' },
  {
    event: 'departure.finished',
    states: [...STARTING, 'announcing', 'present', 'rejoining'],
    why: 'Nobody is leaving.',
  },
];
