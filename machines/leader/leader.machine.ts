/**
 * Leadership as one worker lives it: following, standing for election, leading, giving it up.
 *
 * Leading is three things at once: planning, balancing and judging; a slow planner delays neither of the others. Every
 * write of a term carries the term's own guard (R19). Rules: R18-R26. Tests: test/machines.
 */
import { leaderSetup } from './leader.setup.ts';

const base = leaderSetup;

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
/** A term is over: on to the next one, unless the worker leaves. */
const afterTerm = [{ guard: 'isLeaving', target: 'departed' }, { target: 'following' }] as const;
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
      description:
        'Every split of a final plan is stored; the planner is asked again only if the plan is lost.',
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
        'term.closed': afterTerm,
      },
    },
    deposed: {
      description:
        'No longer leads: the key is gone or another’s, or its session was not renewed in time.',
      tags: ['alert'],
      on: {
        'worker.parting': { actions: noteLeaving },
        'term.closed': afterTerm,
      },
    },
    departed: {
      description: 'The worker is leaving; it stands for election no more.',
      tags: ['ended'],
      type: 'final',
    },
  },
});
