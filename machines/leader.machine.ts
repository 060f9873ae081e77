/**
 * Leadership as one worker lives it: following, standing for election, leading, giving it up.
 *
 * Leading is three things at once: planning, balancing and judging; a slow planner delays neither of the others. Every
 * write of a term carries the term's own guard (R19). Rules: R18-R26. Tests: test/machines.
 */
import { setup } from 'xstate';
import type { Ignored, Tag } from './chart.ts';

export interface LeaderContext {
  readonly instance: string;
  /** How long the next armed timer of each kind runs. */
  readonly candidacyDelayMs: number;
  readonly balanceDelayMs: number;
  readonly plannerPauseMs: number;
  /** True once the worker is leaving: it campaigns no more. */
  readonly isLeaving: boolean;
  /** Inputs of the balance moved while assignments were being written. */
  readonly isStale: boolean;
}

export interface LeaderInput {
  readonly instance: string;
}

export type LeaderEvent =
  | { type: 'leader.absent'; delayMs: number }
  | { type: 'leader.seen' }
  | { type: 'candidacy.due' }
  | { type: 'session.opened' }
  | { type: 'session.expired' }
  | { type: 'election.won' }
  | { type: 'election.lost' }
  | { type: 'term.lost' }
  | { type: 'term.unhealthy' }
  | { type: 'term.closed' }
  | { type: 'worker.parting' }
  | { type: 'plan.due' }
  | { type: 'plan.kept' }
  | { type: 'plan.lost' }
  | { type: 'planner.returned' }
  | { type: 'planner.threw'; pauseMs: number }
  | { type: 'planner.retry' }
  | { type: 'splits.seeded' }
  | { type: 'seeding.failed' }
  | { type: 'plan.published'; isSealed: boolean }
  | { type: 'inputs.changed'; delayMs: number }
  | { type: 'balance.due' }
  | { type: 'assignments.written' }
  | { type: 'judgement.due' }
  | { type: 'judgement.open' }
  | { type: 'judgement.reached' }
  | { type: 'verdict.written' }
  | { type: 'verdict.found' }
  | { type: 'verdict.cleared' };

const base = setup({
  types: {
    context: {} as LeaderContext,
    input: {} as LeaderInput,
    events: {} as LeaderEvent,
    tags: {} as Tag,
  },
  actions: {
    /** Opens a session for the leader key alone (R18). */
    openLeaderSession: (_) => undefined,
    /** Gives the leader session back; an answer to it decides nothing. */
    closeLeaderSession: (_) => undefined,
    /** Creates the leader key and raises the generation, at once (T3). */
    requestElection: (_) => undefined,
    /** Reads what a leader must know, and begins the term. */
    beginTerm: (_) => undefined,
    /** From here on nothing is written in this term. */
    endTerm: (_) => undefined,
    /** Deletes the leader key, if it is still this term's (T14). */
    requestResignation: (_) => undefined,
    /** Calls the planner. */
    startPlanner: (_) => undefined,
    /** Stores the planned splits that are not there yet (T4). */
    seedSplits: (_) => undefined,
    /** Writes counts, cursor, finality and the seal (T5). */
    publishPlan: (_) => undefined,
    /** Arms the next planning run of an open plan. */
    scheduleReplan: (_) => undefined,
    /** Decides who should hold what and writes what changed (T6). */
    balance: (_) => undefined,
    /** Reads every split at one revision (R23). */
    readSplits: (_) => undefined,
    /** Writes the verdict, if the plan has not moved (T13). */
    writeVerdict: (_) => undefined,
  },
  guards: {
    isLeaving: ({ context }) => context.isLeaving,
    isStale: ({ context }) => context.isStale,
    isSealed: (_, params: { isSealed: boolean }) => params.isSealed,
  },
  delays: {
    candidacyDelay: ({ context }) => context.candidacyDelayMs,
    balanceDelay: ({ context }) => context.balanceDelayMs,
    plannerPause: ({ context }) => context.plannerPauseMs,
  },
});

const noteCandidacyDelay = base.assign(({ event }) =>
  event.type === 'leader.absent' ? { candidacyDelayMs: event.delayMs } : {},
);
const armCandidacy = base.raise(
  { type: 'candidacy.due' },
  { delay: 'candidacyDelay', id: 'candidacy' },
);
const disarmCandidacy = base.cancel('candidacy');
const noteLeaving = base.assign({ isLeaving: true });
const noteBalanceDelay = base.assign(({ event }) =>
  event.type === 'inputs.changed' ? { balanceDelayMs: event.delayMs } : {},
);
const armBalance = base.raise({ type: 'balance.due' }, { delay: 'balanceDelay', id: 'balance' });
const noteFresh = base.assign({ isStale: false });
const noteStale = base.assign({ isStale: true });
const notePlannerPause = base.assign(({ event }) =>
  event.type === 'planner.threw' ? { plannerPauseMs: event.pauseMs } : {},
);
const armPlanner = base.raise({ type: 'planner.retry' }, { delay: 'plannerPause', id: 'planner' });
const disarmPlanner = base.cancel('planner');
const disarmTerm = [base.cancel('balance'), disarmPlanner] as const;

const planning = base.createStateConfig({
  initial: 'idle',
  description: 'Finding the work: asks the planner and stores what it lists.',
  states: {
    idle: {
      description: 'No planning run is due.',
      tags: ['waiting'],
      on: {
        'plan.due': { target: 'enumerating', actions: 'startPlanner' },
        'plan.lost': { target: 'enumerating', actions: 'startPlanner' },
        'plan.kept': 'sealed',
      },
    },
    enumerating: {
      description: 'The planner lists the work; it may take as long as it needs.',
      tags: ['waiting'],
      exit: disarmPlanner,
      on: {
        'planner.returned': { target: 'seeding', actions: 'seedSplits' },
        'planner.threw': { actions: [notePlannerPause, disarmPlanner, armPlanner] },
        'planner.retry': { actions: 'startPlanner' },
      },
    },
    seeding: {
      description: 'Stores the splits that are not stored yet, in batches.',
      tags: ['writing'],
      on: {
        'splits.seeded': { target: 'publishing', actions: 'publishPlan' },
        'seeding.failed': { target: 'idle', actions: 'scheduleReplan' },
      },
    },
    publishing: {
      description: 'Writes what the plan now holds, and seals it when it is final.',
      tags: ['writing'],
      on: {
        'plan.published': [
          {
            guard: { type: 'isSealed', params: ({ event }) => ({ isSealed: event.isSealed }) },
            target: 'sealed',
          },
          { target: 'idle', actions: 'scheduleReplan' },
        ],
      },
    },
    sealed: {
      description: 'Every split of a final plan is stored; the planner is not asked again.',
      on: { 'plan.lost': { target: 'enumerating', actions: 'startPlanner' } },
    },
  },
});

const balancing = base.createStateConfig({
  initial: 'settled',
  description: 'Dividing the work: decides who should hold what.',
  states: {
    settled: {
      description: 'The published assignments fit what is known.',
      on: { 'inputs.changed': { target: 'dirty', actions: [noteBalanceDelay, armBalance] } },
    },
    dirty: {
      description: 'Something changed; the decision waits a moment for more changes.',
      tags: ['waiting'],
      on: { 'balance.due': { target: 'publishing', actions: [noteFresh, 'balance'] } },
    },
    publishing: {
      description: 'Writes the assignments that changed.',
      tags: ['writing'],
      on: {
        'inputs.changed': { actions: [noteStale, noteBalanceDelay] },
        'assignments.written': [
          { guard: 'isStale', target: 'dirty', actions: armBalance },
          { target: 'settled' },
        ],
      },
    },
  },
});

const judging = base.createStateConfig({
  initial: 'open',
  description: 'Ending the job: gives the verdict when every split has ended.',
  states: {
    open: {
      description: 'Some split can still run, or the plan is not sealed.',
      tags: ['waiting'],
      on: {
        'judgement.due': { target: 'reading', actions: 'readSplits' },
        'verdict.found': 'decided',
      },
    },
    reading: {
      description: 'Reads every split at one revision.',
      tags: ['waiting'],
      on: {
        'judgement.open': 'open',
        'judgement.reached': { target: 'recording', actions: 'writeVerdict' },
      },
    },
    recording: {
      description: 'Writes the verdict, if the plan has not moved since it was read.',
      tags: ['writing'],
      on: { 'verdict.written': 'decided', 'judgement.open': 'open' },
    },
    decided: {
      description: 'The verdict is stored; a requeue takes it back.',
      on: { 'verdict.cleared': 'open' },
    },
  },
});

export const leaderMachine = base.createMachine({
  id: 'leader',
  description: 'Leadership of the job, as one worker lives it.',
  options: { maxIterations: 100 },
  context: ({ input }) => ({
    instance: input.instance,
    candidacyDelayMs: 0,
    balanceDelayMs: 0,
    plannerPauseMs: 0,
    isLeaving: false,
    isStale: false,
  }),
  initial: 'following',
  states: {
    following: {
      description: 'Another worker leads, or nobody does and this one waits for its turn to stand.',
      tags: ['waiting'],
      exit: disarmCandidacy,
      on: {
        'leader.absent': { actions: [noteCandidacyDelay, disarmCandidacy, armCandidacy] },
        'leader.seen': { actions: disarmCandidacy },
        'candidacy.due': { target: 'campaigning', actions: 'openLeaderSession' },
        'worker.parting': 'departed',
      },
    },
    campaigning: {
      description: 'Stands for election under a session of its own.',
      tags: ['writing'],
      on: {
        'session.opened': { actions: 'requestElection' },
        'election.won': { target: 'leading', actions: 'beginTerm' },
        'election.lost': { target: 'following', actions: 'closeLeaderSession' },
        'leader.seen': { target: 'following', actions: 'closeLeaderSession' },
        'session.expired': { target: 'following', actions: 'closeLeaderSession' },
        'worker.parting': { target: 'departed', actions: 'closeLeaderSession' },
      },
    },
    leading: {
      type: 'parallel',
      description: 'Plans the work, divides it and gives the verdict.',
      tags: ['leads'],
      exit: disarmTerm,
      on: {
        'term.lost': { target: 'deposed', actions: ['endTerm', 'closeLeaderSession'] },
        'session.expired': { target: 'deposed', actions: ['endTerm', 'closeLeaderSession'] },
        'term.unhealthy': { target: 'resigning', actions: ['endTerm', 'requestResignation'] },
        'worker.parting': {
          target: 'resigning',
          actions: [noteLeaving, 'endTerm', 'requestResignation'],
        },
      },
      states: { planning, balancing, judging },
    },
    resigning: {
      description: 'Gives leadership up: writes nothing more as leader and deletes the leader key.',
      tags: ['writing'],
      on: {
        'worker.parting': { actions: noteLeaving },
        'term.closed': [{ guard: 'isLeaving', target: 'departed' }, { target: 'following' }],
      },
    },
    deposed: {
      description:
        'No longer leads: the key is gone or another’s, or its session was not renewed in time.',
      tags: ['alert'],
      on: {
        'worker.parting': { actions: noteLeaving },
        'term.closed': [{ guard: 'isLeaving', target: 'departed' }, { target: 'following' }],
      },
    },
    departed: {
      description: 'The worker is leaving; it stands for election no more.',
      tags: ['ended'],
      type: 'final',
    },
  },
});

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
  { event: 'seeding.failed', states: outside('planning', PLANNING, 'seeding'), why: LATE },
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
