/** What the departure chart deliberately does nothing about. */
import type { Ignored } from '../chart.ts';

const CLOSING = ['closing.sessions', 'closing.answers'];
const ALL = ['staying', 'draining', 'settling', 'leaving', ...CLOSING];
const without = (...handled: string[]): string[] => ALL.filter((state) => !handled.includes(state));

const FIRED = 'The timer is disarmed; it may have fired just now.';

export const departureIgnores: readonly Ignored[] = [
  { event: '*', states: ['gone'], why: 'Nothing follows; an answer may still be under way.' },
  { event: 'leave.asked', states: without('staying'), why: 'Leaving already.' },
  { event: 'leave.skipped', states: without('staying'), why: 'Leaving already.' },
  { event: 'drain.finished', states: without('draining'), why: 'Nobody waits for handlers here.' },
  { event: 'drain.expired', states: without('draining'), why: FIRED },
  {
    event: 'tenancies.ended',
    states: without('settling', 'closing.answers'),
    why: 'What was held has ended, and nobody waits for it here.',
  },
  { event: 'settling.expired', states: without('settling'), why: FIRED },
  { event: 'goodbye.answered', states: without('leaving'), why: 'An answer that came too late.' },
  { event: 'goodbye.expired', states: without('leaving'), why: FIRED },
  {
    event: 'sessions.closed',
    states: without('closing.sessions'),
    why: 'Closed already, or nobody asked for it.',
  },
  { event: 'closing.expired', states: without(...CLOSING), why: FIRED },
];
