/** What the link chart deliberately does nothing about. */
import type { Ignored } from '../chart.ts';

const FIRED = 'The timer is disarmed; it may have fired just now.';
const WELL = ['serving', 'faltering', 'failing'];

export const linkIgnores: readonly Ignored[] = [
  {
    event: 'call.failed',
    states: ['faltering', 'failing', 'denied', 'barred'],
    why: 'Something fails already.',
  },
  { event: 'call.denied', states: ['denied', 'barred'], why: 'Something is refused already.' },
  { event: 'denial.lifted', states: [...WELL, 'barred'], why: 'Nothing is waited out here.' },
  {
    event: 'calls.healed',
    states: ['serving', 'barred'],
    why: 'Only being back in the fleet counts.',
  },
  { event: 'silence.over', states: ['serving', 'failing', 'denied', 'barred'], why: FIRED },
  { event: 'patience.over', states: [...WELL, 'barred'], why: FIRED },
  {
    event: 'worker.returned',
    states: [...WELL, 'denied'],
    why: 'It was never given up, or is refused something else since.',
  },
];
