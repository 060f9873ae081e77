/** What the leader chart deliberately does nothing about. */
import type { Ignored } from '../chart.ts';

const OUTSIDE = ['following', 'campaigning', 'resigning', 'deposed'];
const PLANNING = ['idle', 'enumerating', 'seeding', 'publishing', 'sealed'];
const BALANCING = ['settled', 'dirty', 'publishing'];
const JUDGING = ['open', 'reading', 'recording', 'decided'];

/** Every state in which none of these substates of a region is active. */
function outside(region: string, all: readonly string[], ...handled: string[]): string[] {
  const idle = all.filter((state) => !handled.includes(state));
  return [...OUTSIDE, ...idle.map((state) => `leading.${region}.${state}`)];
}

const LATE = 'An answer to work of a term or a step that is over.';

export const leaderIgnores: readonly Ignored[] = [
  { event: '*', states: ['departed'], why: 'The worker stands for election no more.' },
  {
    event: 'leader.absent',
    states: ['campaigning', 'leading', 'resigning', 'deposed'],
    why: 'Standing already, or ending a term first.',
  },
  {
    event: 'leader.seen',
    states: ['leading', 'resigning', 'deposed'],
    why: 'A foreign leader ends the term by term.lost.',
  },
  {
    event: 'candidacy.due',
    states: ['campaigning', 'leading', 'resigning', 'deposed'],
    why: 'The timer is disarmed; it may have fired just now.',
  },
  { event: 'session.opened', states: ['following', 'leading', 'resigning', 'deposed'], why: LATE },
  {
    event: 'session.expired',
    states: ['following', 'resigning', 'deposed'],
    why: 'No term hangs on it; an ending term is closed by its own answer.',
  },
  {
    event: 'election.won',
    states: ['following', 'leading', 'resigning', 'deposed'],
    why: 'Won under a session that was given up: closing it deletes the key (R3).',
  },
  { event: 'election.lost', states: ['following', 'leading', 'resigning', 'deposed'], why: LATE },
  { event: 'term.lost', states: OUTSIDE, why: 'No term is running.' },
  { event: 'term.unhealthy', states: OUTSIDE, why: 'No term is running.' },
  { event: 'term.closed', states: ['following', 'campaigning', 'leading'], why: LATE },
  {
    event: 'plan.due',
    states: outside('planning', PLANNING, 'idle'),
    why: 'A run is under way, or none is needed.',
  },
  { event: 'plan.kept', states: outside('planning', PLANNING, 'idle'), why: LATE },
  {
    event: 'plan.lost',
    states: outside('planning', PLANNING, 'idle', 'sealed'),
    why: 'The run under way publishes the plan anew.',
  },
  { event: 'planner.returned', states: outside('planning', PLANNING, 'enumerating'), why: LATE },
  { event: 'planner.threw', states: outside('planning', PLANNING, 'enumerating'), why: LATE },
  { event: 'planner.retry', states: outside('planning', PLANNING, 'enumerating'), why: LATE },
  { event: 'splits.seeded', states: outside('planning', PLANNING, 'seeding'), why: LATE },
  { event: 'plan.published', states: outside('planning', PLANNING, 'publishing'), why: LATE },
  {
    event: 'inputs.changed',
    states: outside('balancing', BALANCING, 'settled', 'publishing'),
    why: 'A decision is due already, or another worker decides.',
  },
  { event: 'balance.due', states: outside('balancing', BALANCING, 'dirty'), why: LATE },
  {
    event: 'assignments.written',
    states: outside('balancing', BALANCING, 'publishing'),
    why: LATE,
  },
  {
    event: 'judgement.due',
    states: outside('judging', JUDGING, 'open'),
    why: 'Being judged already, or another worker judges.',
  },
  {
    event: 'judgement.open',
    states: outside('judging', JUDGING, 'reading', 'recording'),
    why: LATE,
  },
  { event: 'judgement.reached', states: outside('judging', JUDGING, 'reading'), why: LATE },
  { event: 'verdict.written', states: outside('judging', JUDGING, 'recording'), why: LATE },
  { event: 'verdict.found', states: outside('judging', JUDGING, 'open'), why: LATE },
  { event: 'verdict.cleared', states: outside('judging', JUDGING, 'decided'), why: LATE },
];
