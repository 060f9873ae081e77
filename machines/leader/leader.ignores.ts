/** What the leader chart deliberately does nothing about. */
import type { Ignored } from '../chart.ts';

const FOLLOWING = ['barred', 'led', 'vacant', 'planless', 'resting'].map((s) => `following.${s}`);
const CAMPAIGNING = ['campaigning.opening', 'campaigning.standing'];
const ENDING = ['resigning', 'deposed'];
const OUTSIDE = [...FOLLOWING, ...CAMPAIGNING, ...ENDING];
const PLANNING = ['idle', 'enumerating', 'seeding', 'publishing', 'recreating', 'sealed'];
const BALANCING = ['settled', 'dirty', 'publishing'];
const JUDGING = ['open', 'reading', 'recording', 'decided'];

/** Every state in which none of these substates of a region is active. */
function outside(region: string, all: readonly string[], ...handled: string[]): string[] {
  const idle = all.filter((state) => !handled.includes(state));
  const governing = idle.map((state) => `leading.governing.${region}.${state}`);
  return [...OUTSIDE, 'leading.opening', ...governing];
}
const without = (all: readonly string[], ...handled: string[]): string[] =>
  all.filter((state) => !handled.includes(state));

const LATE = 'An answer to work of a term or a step that is over.';
const FIRED = 'The timer is disarmed; it may have fired just now.';

export const leaderIgnores: readonly Ignored[] = [
  { event: '*', states: ['departed'], why: 'The worker stands for election no more.' },
  {
    event: 'leader.absent',
    states: ['following.vacant', 'following.resting', ...CAMPAIGNING, 'leading', ...ENDING],
    why: 'Waiting for its turn or standing already, or ending a term first.',
  },
  {
    event: 'leader.seen',
    states: ['following.led', 'following.resting', 'leading', ...ENDING],
    why: 'Known; a foreign leader ends a term by term.lost.',
  },
  {
    event: 'plan.missing',
    states: ['following.planless', 'following.resting', ...CAMPAIGNING, 'leading', ...ENDING],
    why: 'Looked for already, or its leader puts it back; an election without a plan is lost.',
  },
  {
    event: 'standing.barred',
    states: ['following.barred', 'following.resting', 'leading', ...ENDING],
    why: 'Losing the worker’s session does not end a term (R18).',
  },
  {
    event: 'plan.sought',
    states: [...without(FOLLOWING, 'following.planless'), ...CAMPAIGNING, 'leading', ...ENDING],
    why: 'The search is over in any case.',
  },
  {
    event: 'candidacy.due',
    states: [...without(FOLLOWING, 'following.vacant'), ...CAMPAIGNING, 'leading', ...ENDING],
    why: FIRED,
  },
  {
    event: 'rest.over',
    states: [...without(FOLLOWING, 'following.resting'), ...CAMPAIGNING, 'leading', ...ENDING],
    why: FIRED,
  },
  {
    event: 'session.opened',
    states: [...FOLLOWING, 'campaigning.standing', 'leading', ...ENDING],
    why: LATE,
  },
  {
    event: 'session.expired',
    states: [...FOLLOWING, 'campaigning.opening', ...ENDING],
    why: 'No term hangs on it; an ending term is closed by its own answer.',
  },
  {
    event: 'election.won',
    states: [...FOLLOWING, 'campaigning.opening', 'leading', ...ENDING],
    why: 'Won under a session that was given up: closing it deletes the key (R3).',
  },
  {
    event: 'election.lost',
    states: [...FOLLOWING, 'campaigning.opening', 'leading', ...ENDING],
    why: LATE,
  },
  {
    event: 'term.ready',
    states: [...OUTSIDE, 'leading.governing'],
    why: LATE,
  },
  { event: 'term.lost', states: OUTSIDE, why: 'No term is running.' },
  { event: 'term.unhealthy', states: OUTSIDE, why: 'No term is running.' },
  { event: 'term.closed', states: [...FOLLOWING, ...CAMPAIGNING, 'leading'], why: LATE },
  {
    event: 'plan.due',
    states: outside('planning', PLANNING, 'idle'),
    why: 'A run is under way, or none is needed.',
  },
  { event: 'plan.kept', states: outside('planning', PLANNING, 'idle'), why: LATE },
  {
    event: 'plan.lost',
    states: [...OUTSIDE, 'leading.opening', 'leading.governing.planning.recreating'],
    why: 'It is being put back, or is when this worker takes the job up.',
  },
  {
    event: 'plan.recreated',
    states: outside('planning', PLANNING, 'recreating'),
    why: 'The run under way fills it, or the term is over.',
  },
  { event: 'planner.returned', states: outside('planning', PLANNING, 'enumerating'), why: LATE },
  { event: 'planner.threw', states: outside('planning', PLANNING, 'enumerating'), why: LATE },
  { event: 'planner.retry', states: outside('planning', PLANNING, 'enumerating'), why: FIRED },
  { event: 'splits.seeded', states: outside('planning', PLANNING, 'seeding'), why: LATE },
  { event: 'plan.published', states: outside('planning', PLANNING, 'publishing'), why: LATE },
  {
    event: 'inputs.changed',
    states: outside('balancing', BALANCING, 'settled', 'publishing'),
    why: 'A decision is due already, or nothing can be decided here.',
  },
  { event: 'balance.due', states: outside('balancing', BALANCING, 'dirty'), why: FIRED },
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
