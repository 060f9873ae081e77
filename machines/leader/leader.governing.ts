/**
 * What a leader does at once: planning, balancing and judging. A slow planner delays neither of the others.
 *
 * Rules: R18, R21-R26, R42.
 */
import { leaderSetup } from './leader.setup.ts';

const base = leaderSetup;

const noteBalanceDelay = base.assign(({ event }) =>
  event.type === 'inputs.changed' ? { balanceDelayMs: event.delayMs } : {},
);
const armBalance = base.raise({ type: 'balance.due' }, { delay: 'balanceDelay', id: 'balance' });
const disarmBalance = base.cancel('balance');
const noteFresh = base.assign({ isStale: false });
const noteStale = base.assign({ isStale: true });
const notePlannerPause = base.assign(({ event }) =>
  event.type === 'planner.threw' ? { plannerPauseMs: event.pauseMs } : {},
);
const armPlanner = base.raise({ type: 'planner.retry' }, { delay: 'plannerPause', id: 'planner' });
const disarmPlanner = base.cancel('planner');
const armReplan = base.raise({ type: 'plan.due' }, { delay: 'replanInterval', id: 'replan' });
const disarmReplan = base.cancel('replan');

export const planning = base.createStateConfig({
  initial: 'idle',
  description: 'Finding the work: asks the planner and stores what it lists.',
  states: {
    idle: {
      description: 'No planning run is due; the next one comes after the replan interval.',
      tags: ['waiting'],
      entry: armReplan,
      exit: disarmReplan,
      on: {
        'plan.due': 'enumerating',
        'plan.lost': 'recreating',
        'plan.kept': 'sealed',
      },
    },
    enumerating: {
      description: 'The planner lists the work; it may take as long as it needs.',
      tags: ['waiting'],
      entry: 'startPlanner',
      exit: disarmPlanner,
      on: {
        'planner.returned': 'seeding',
        'planner.threw': { actions: [notePlannerPause, disarmPlanner, armPlanner] },
        'planner.retry': { actions: 'startPlanner' },
        // The run goes on: there is one at a time.
        'plan.lost': { actions: 'recreatePlan' },
      },
    },
    seeding: {
      description: 'Stores the splits that are not stored yet, in batches.',
      tags: ['writing'],
      entry: 'seedSplits',
      on: {
        'splits.seeded': 'publishing',
        'plan.lost': { actions: 'recreatePlan' },
      },
    },
    publishing: {
      description: 'Writes what the plan now holds, and seals it when it is final.',
      tags: ['writing'],
      entry: 'publishPlan',
      on: {
        'plan.published': [
          {
            guard: { type: 'isSealed', params: ({ event }) => ({ isSealed: event.isSealed }) },
            target: 'sealed',
          },
          { target: 'idle' },
        ],
        'plan.lost': 'recreating',
      },
    },
    recreating: {
      description: 'The plan was deleted: it is put back, one generation on, and filled again.',
      tags: ['writing', 'alert'],
      entry: 'recreatePlan',
      on: {
        'plan.recreated': [
          {
            guard: { type: 'hasAnswer', params: ({ event }) => ({ hasAnswer: event.hasAnswer }) },
            target: 'publishing',
          },
          { target: 'enumerating' },
        ],
      },
    },
    sealed: {
      description:
        'Every split of a final plan is stored; the planner is asked again only if the plan is lost.',
      on: { 'plan.lost': 'recreating' },
    },
  },
});

export const balancing = base.createStateConfig({
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
      exit: disarmBalance,
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

export const judging = base.createStateConfig({
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
