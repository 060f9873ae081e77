/** What a path of the leader chart may go through: which of its events the world can make happen, and when. */
import type { AnyEventObject, AnyMachineSnapshot } from 'xstate';
import type { LeaderContext } from '../../../../machines/leader/leader.events.ts';
import { activeIn } from '../../coverage.ts';

export type Region = 'planning' | 'balancing' | 'judging';

export const REGION_OF: Readonly<Record<string, Region>> = {
  'plan.due': 'planning',
  'plan.kept': 'planning',
  'plan.lost': 'planning',
  'plan.recreated': 'planning',
  'planner.returned': 'planning',
  'planner.threw': 'planning',
  'planner.retry': 'planning',
  'splits.seeded': 'planning',
  'plan.published': 'planning',
  'inputs.changed': 'balancing',
  'balance.due': 'balancing',
  'assignments.written': 'balancing',
  'judgement.due': 'judging',
  'judgement.open': 'judging',
  'judgement.reached': 'judging',
  'verdict.written': 'judging',
  'verdict.found': 'judging',
  'verdict.cleared': 'judging',
};

/** What a worker that may stand again, or not, finds at once. */
export const OUTLOOKS = ['leader.seen', 'leader.absent', 'plan.missing', 'standing.barred'];

export interface Model {
  /** What comes by itself next; nothing else can happen before it. */
  readonly follows: string | null;
  readonly planner: 'asked' | 'pausing' | null;
  /** The planner has answered, and that is not published. */
  readonly hasAnswer: boolean;
  /** The job that the path looks into. */
  readonly focus: Region | null;
  readonly decisions: number;
  /** Where the balance was when its inputs changed last. */
  readonly changedIn: 'settled' | 'publishing' | null;
  /** Where the last step came from, where that matters and the chart does not tell. */
  readonly from: string;
  /** A path ends with what follows its first candidacy or term, or with its second decision. */
  readonly isOver: boolean;
}

export const BEGIN: Model = {
  follows: null,
  planner: null,
  hasAnswer: false,
  focus: null,
  decisions: 0,
  changedIn: null,
  from: '',
  isOver: false,
};

const PLANNER_STATES: Readonly<Record<string, Model['planner']>> = {
  'plan.due': 'asked',
  'planner.retry': 'asked',
  'planner.threw': 'pausing',
  'planner.returned': null,
};

function balanceIn(state: AnyMachineSnapshot): Model['changedIn'] {
  const { balancing } = (state.value as { leading: { governing: Record<Region, string> } }).leading
    .governing;
  return balancing === 'settled' ? 'settled' : 'publishing';
}

export function next(model: Model, event: AnyEventObject, before: AnyMachineSnapshot): Model {
  if (model.follows !== null) return { ...BEGIN, from: model.from, isOver: true };
  const region = REGION_OF[event.type];
  if (region !== undefined) return nextIn(region, model, event, before);
  const follows = (what: string): Model => ({ ...BEGIN, follows: what });
  const over = { ...BEGIN, isOver: true };
  const ended = { ...BEGIN, from: model.planner === 'pausing' ? 'a pause' : '' };
  switch (event.type) {
    case 'plan.sought':
      return follows('plan.missing');
    case 'rest.over':
    case 'election.lost':
      return follows('leader.absent');
    case 'session.expired':
      return before.matches('leading') ? ended : follows('leader.absent');
    case 'leader.absent':
      // From whatever it saw before, its turn comes after the delay.
      return before.matches({ following: 'barred' })
        ? model
        : { ...follows('candidacy.due'), from: JSON.stringify(before.value) };
    case 'leader.seen':
      return before.matches('campaigning') ? follows('leader.seen') : model;
    case 'standing.barred':
      return before.matches('campaigning') ? over : model;
    case 'term.closed':
      return before.matches('deposed') && !isLeaving(before) ? follows('leader.seen') : BEGIN;
    case 'term.lost':
    case 'term.unhealthy':
    case 'worker.parting':
      return ended;
    default:
      return model;
  }
}

function nextIn(
  focus: Region,
  model: Model,
  event: AnyEventObject,
  before: AnyMachineSnapshot,
): Model {
  const { type } = event;
  const isAskedAgain = type === 'plan.recreated' && event['hasAnswer'] === false;
  const planner = isAskedAgain
    ? 'asked'
    : type in PLANNER_STATES
      ? PLANNER_STATES[type]!
      : model.planner;
  const hasAnswer = type === 'planner.returned' || (model.hasAnswer && type !== 'plan.published');
  const decisions = model.decisions + (type === 'balance.due' ? 1 : 0);
  const changedIn = type === 'inputs.changed' ? balanceIn(before) : model.changedIn;
  return { ...model, focus, planner, hasAnswer, decisions, changedIn, isOver: decisions > 1 };
}

function isLeaving(state: AnyMachineSnapshot): boolean {
  return (state.context as LeaderContext).isLeaving;
}

export function isPossible(
  event: AnyEventObject,
  state: AnyMachineSnapshot,
  model: Model,
): boolean {
  if (model.follows !== null) return event.type === model.follows;
  if (model.isOver) return false;
  const region = REGION_OF[event.type];
  if (region !== undefined) return isPossibleIn(region, event, state, model);
  switch (event.type) {
    case 'term.unhealthy':
      return isWorking(state, model);
    case 'worker.parting':
      return !isLeaving(state);
    default:
      return true;
  }
}

function isPossibleIn(
  region: Region,
  event: AnyEventObject,
  state: AnyMachineSnapshot,
  { focus, planner, hasAnswer }: Model,
): boolean {
  if (focus !== null && focus !== region) return false;
  switch (event.type) {
    case 'plan.kept':
      return focus === null;
    case 'plan.recreated':
      return event['hasAnswer'] === hasAnswer;
    case 'planner.returned':
    case 'planner.threw':
      return planner === 'asked';
    case 'planner.retry':
      return planner === 'pausing';
    default:
      return state.matches('leading');
  }
}

/** Something is asked, read or written in the term that can go wrong for good. */
function isWorking(state: AnyMachineSnapshot, { focus, planner }: Model): boolean {
  const active = activeIn(state);
  if (active.includes('leading.opening')) return true;
  const working = [
    'leading.governing.planning.seeding',
    'leading.governing.planning.publishing',
    'leading.governing.planning.recreating',
    'leading.governing.balancing.publishing',
    'leading.governing.judging.reading',
    'leading.governing.judging.recording',
  ].filter((name) => name.startsWith(`leading.governing.${String(focus)}`));
  const isAsking = active.includes('leading.governing.planning.enumerating') && planner === 'asked';
  return working.some((name) => active.includes(name)) || isAsking;
}
