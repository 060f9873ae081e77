/** What the writing chart deliberately does nothing about. */
import type { Ignored } from '../chart.ts';

export const writingIgnores: readonly Ignored[] = [
  {
    event: '*',
    states: ['closed'],
    why: 'An answer that comes after the lane closed decides nothing.',
  },
  { event: 'batch.submitted', states: ['writing', 'settling'], why: 'Writing already.' },
  {
    event: 'batch.answered',
    states: ['idle', 'writing'],
    why: 'An answer in time is no event of note.',
  },
  { event: 'batch.abandoned', states: ['idle', 'writing'], why: 'Nothing is unsettled.' },
  { event: 'batch.unanswered', states: ['idle'], why: 'Nothing is on its way.' },
  {
    event: 'resend.due',
    states: ['idle', 'writing'],
    why: 'The timer is disarmed; it may have fired just now.',
  },
  { event: 'lane.rested', states: ['idle', 'settling'], why: 'Idle already, or not at rest.' },
];
