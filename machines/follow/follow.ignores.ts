/** What the follow chart deliberately does nothing about. */
import type { Ignored } from '../chart.ts';

const WATCHING = ['watching.quiet', 'watching.checking'];
const BEFORE = ['listing', 'pausing'];
const LATE = 'An answer to a reading that was overtaken.';
const OLD = 'Of a watch that was ended.';

export const followIgnores: readonly Ignored[] = [
  { event: '*', states: ['closed'], why: 'Nothing follows; an answer may still be under way.' },
  { event: 'listing.arrived', states: ['pausing', ...WATCHING, 'refused'], why: LATE },
  { event: 'listing.failed', states: ['pausing', ...WATCHING, 'refused'], why: LATE },
  {
    event: 'listing.due',
    states: ['listing', ...WATCHING, 'refused'],
    why: 'The timer is disarmed; it may have fired just now.',
  },
  { event: 'watch.compacted', states: BEFORE, why: OLD },
  { event: 'watch.refused', states: [...BEFORE, 'refused'], why: OLD },
  { event: 'watch.accepted', states: [...BEFORE, ...WATCHING], why: OLD },
  {
    event: 'check.due',
    states: [...BEFORE, 'watching.checking', 'refused'],
    why: 'Being read already, or about to be.',
  },
  { event: 'check.passed', states: [...BEFORE, 'watching.quiet', 'refused'], why: LATE },
  { event: 'check.failed', states: [...BEFORE, 'watching.quiet', 'refused'], why: LATE },
];
