/** What the session chart deliberately does nothing about. */
import type { Ignored } from '../chart.ts';

const OPEN = ['open.kept', 'open.renewing', 'open.late', 'open.lapsing'];
const IDLE = ['closed', 'closing'];
const LATE = 'An answer to a call for a session that was given up.';
const FIRED = 'The timer is disarmed; it may have fired just now.';

export const sessionIgnores: readonly Ignored[] = [
  { event: 'session.wanted', states: ['opening'], why: 'It is being asked for.' },
  { event: 'session.unwanted', states: IDLE, why: 'There is none to give back.' },
  { event: 'session.abandoned', states: IDLE, why: 'There is none to give up.' },
  {
    event: 'session.abandoned',
    states: ['opening'],
    why: 'Nothing hangs on it yet, and somebody waits for it: given up without a word, it would hang them.',
  },
  { event: 'session.released', states: [...IDLE, 'open.lapsing'], why: 'Nothing is renewed here.' },
  { event: 'session.gone', states: ['opening', ...IDLE], why: 'Of a session that is over.' },
  { event: 'deadline.passed', states: ['opening', ...IDLE], why: 'Of a session that is over.' },
  { event: 'store.reset', states: IDLE, why: 'Nothing of this session was in the store.' },
  ...['opening.granted', 'opening.late', 'opening.failed'].map((event) => ({
    event,
    states: [...OPEN, ...IDLE],
    why: LATE,
  })),
  { event: 'opening.due', states: [...OPEN, ...IDLE], why: FIRED },
  {
    event: 'renewal.due',
    states: ['opening', 'open.renewing', 'open.lapsing', ...IDLE],
    why: FIRED,
  },
  ...['renewal.answered', 'renewal.failed'].map((event) => ({
    event,
    states: ['opening', 'open.kept', 'open.lapsing', ...IDLE],
    why: LATE,
  })),
  { event: 'closing.answered', states: ['closed', 'opening', ...OPEN], why: LATE },
];
