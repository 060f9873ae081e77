/**
 * The leadership of a real worker: election, term, planning, balancing and judging against a store. A path looks into one of
 * the three jobs of a leader; the other two go on by themselves meanwhile.
 */
import type { AnyEventObject, AnyMachineSnapshot } from 'xstate';
import type { LeaderContext } from '../../../machines/leader/leader.events.ts';
import { chartOf } from '../drive.ts';
import { activeIn } from '../coverage.ts';
import { LeaderWorld } from './leader-world.ts';
import { type Part, type Path, say } from './part.ts';
import { ME, SPLIT } from './stage.ts';

type Region = 'planning' | 'balancing' | 'judging';

const REGION_OF: Readonly<Record<string, Region>> = {
  'plan.due': 'planning',
  'plan.kept': 'planning',
  'plan.lost': 'planning',
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

interface Model {
  /** The candidacy timer runs. */
  readonly isArmed: boolean;
  readonly session: 'opening' | 'open' | null;
  readonly planner: 'asked' | 'pausing' | null;
  /** The job that the path looks into; the term is open once it does. */
  readonly focus: Region | null;
  /** An open plan was published: the planner will be asked again. */
  readonly isReplanning: boolean;
  readonly decisions: number;
  /** Where the balance was when its inputs changed last. */
  readonly changedIn: 'settled' | 'publishing' | null;
  /** A path ends with its first term, its first candidacy given up, or its second decision. */
  readonly isOver: boolean;
}

const BEGIN: Model = {
  isArmed: false,
  session: null,
  planner: null,
  focus: null,
  isReplanning: false,
  decisions: 0,
  changedIn: null,
  isOver: false,
};

const PLANNER_STATES: Readonly<Record<string, Model['planner']>> = {
  'plan.due': 'asked',
  'plan.lost': 'asked',
  'planner.retry': 'asked',
  'planner.threw': 'pausing',
  'planner.returned': null,
};

function balanceIn(state: AnyMachineSnapshot): Model['changedIn'] {
  return state.matches({ leading: { balancing: 'settled' } }) ? 'settled' : 'publishing';
}

function next(model: Model, event: AnyEventObject, before: AnyMachineSnapshot): Model {
  const { type } = event;
  const focus = REGION_OF[type];
  if (focus !== undefined) {
    const planner = type in PLANNER_STATES ? PLANNER_STATES[type]! : model.planner;
    const isReplanning = model.isReplanning || event.isSealed === false;
    const decisions = model.decisions + (type === 'balance.due' ? 1 : 0);
    const changedIn = type === 'inputs.changed' ? balanceIn(before) : model.changedIn;
    return { ...model, focus, planner, isReplanning, decisions, changedIn, isOver: decisions > 1 };
  }
  if (before.matches('leading')) return { ...BEGIN, isOver: true };
  switch (type) {
    case 'leader.absent':
      return { ...model, isArmed: true };
    case 'candidacy.due':
      return { ...model, isArmed: false, session: 'opening' };
    case 'session.opened':
      return { ...model, session: 'open' };
    case 'leader.seen':
      return { ...BEGIN, isOver: model.session === 'open' };
    case 'election.lost':
    case 'session.expired':
      return BEGIN;
    default:
      return model;
  }
}

function isPossible(event: AnyEventObject, state: AnyMachineSnapshot, model: Model): boolean {
  const { type } = event;
  const region = REGION_OF[type];
  const isEnding = state.matches('resigning') || state.matches('deposed');
  if (model.isOver && !isEnding) return false;
  if (region !== undefined) return isPossibleIn(region, event, state, model);
  switch (type) {
    case 'leader.absent':
      return !model.isArmed;
    case 'leader.seen':
      return model.isArmed || state.matches('campaigning');
    case 'candidacy.due':
      return model.isArmed;
    case 'session.opened':
      return model.session === 'opening';
    case 'election.won':
    case 'election.lost':
      return model.session === 'open';
    case 'session.expired':
      return state.matches('leading') || model.session === 'open';
    case 'term.unhealthy':
      return isWriting(state, model);
    case 'worker.parting':
      return !(state.context as LeaderContext).isLeaving;
    default:
      return true;
  }
}

function isPossibleIn(
  region: Region,
  { type }: AnyEventObject,
  state: AnyMachineSnapshot,
  { focus, planner }: Model,
): boolean {
  if (focus !== null && focus !== region) return false;
  switch (type) {
    case 'plan.kept':
      return focus === null;
    case 'plan.lost':
      return focus !== null;
    case 'planner.returned':
    case 'planner.threw':
      return planner === 'asked';
    case 'planner.retry':
      return planner === 'pausing';
    default:
      return state.matches('leading');
  }
}

/** A candidate stands so long after the one before it. */
const STEP_MS = 100;
const PLANNER_PAUSE_MS = 500;
const DECISION_MS = 200;

/** Something is asked or written in the term that can go wrong for good. */
function isWriting(state: AnyMachineSnapshot, { focus, planner }: Model): boolean {
  const active = activeIn(state);
  const writing = [
    'leading.planning.seeding',
    'leading.planning.publishing',
    'leading.balancing.publishing',
    'leading.judging.recording',
  ].filter((name) => name.startsWith(`leading.${focus}`));
  return (
    writing.some((name) => active.includes(name)) ||
    (active.includes('leading.planning.enumerating') && planner === 'asked')
  );
}

const notLeading = (world: LeaderWorld): string[] => [
  ...say(!world.stage.worker.status().isLeading, 'it says that it leads'),
  ...say(world.planner.signal?.aborted !== false, 'the planner was not told'),
];

const gaveUp = (world: LeaderWorld): string[] => [
  ...notLeading(world),
  ...say(world.told.at(-1) === 'leadershipLost', 'nobody was told'),
];

/** The regional promise, where the path looks into that region. */
const inFocus =
  (region: Region, promise: (world: LeaderWorld) => string[]) =>
  (world: LeaderWorld): string[] =>
    world.focus === region ? promise(world) : [];

export const leaderPart: Part<LeaderWorld, Model> = {
  chart: chartOf('leader'),
  input: { instance: ME },
  model: BEGIN,
  payloads: {
    'leader.absent': [{ delayMs: 100 }],
    'planner.threw': [{ pauseMs: 500 }],
    'plan.published': [{ isSealed: false }, { isSealed: true }],
    'inputs.changed': [{ delayMs: 200 }],
  },
  next,
  isPossible,

  async begin(path: Path, replace) {
    const first = path.find(({ type }) => REGION_OF[type] !== undefined)?.type ?? '';
    const world = new LeaderWorld({
      focus: REGION_OF[first] ?? null,
      isPlanned: first !== 'plan.due',
      isDone: first === 'judgement.due',
      replace,
    });
    await world.begin();
    return world;
  },

  executors: {
    'leader.absent': ({ stage }) => {
      stage.hand.remove(stage.keys.leader);
    },
    'leader.seen': async (world) => {
      const isStanding = world.shown() === 'campaigning';
      world.stage.hand.lead();
      if (!isStanding) await world.rest(2 * STEP_MS);
    },
    'candidacy.due': (world) => world.rest(STEP_MS - 1),
    'session.opened': ({ sessions }) => {
      sessions.pass();
    },
    'election.won': ({ elections }) => {
      elections.pass();
    },
    'election.lost': ({ elections }) => {
      elections.lose('E_STORE_DENIED');
    },
    'session.expired': (world) => world.expireSession(),
    'term.lost': ({ stage }) => {
      stage.hand.remove(stage.keys.leader);
      stage.hand.lead();
    },
    'term.unhealthy': (world) => world.spoilWrites(),
    'term.closed': ({ resigns, closings }) => {
      resigns.pass();
      closings.pass();
    },
    'worker.parting': ({ stage }) => {
      void stage.worker.stop();
    },
    'plan.due': (world) => {
      world.openTerm();
    },
    'plan.kept': (world) => {
      world.openTerm();
    },
    'plan.lost': async ({ stage, plans }) => {
      stage.hand.remove(stage.keys.plan);
      await stage.until(() => plans.waiting > 0);
      plans.pass();
    },
    'planner.returned': (world, _, path) => {
      world.answer(path.find(({ type }) => type === 'plan.published')?.isSealed === true);
    },
    'planner.threw': (world) => {
      world.failPlanner(new Error('no such table'));
    },
    'planner.retry': async (world) => {
      const { calls } = world.planner;
      await world.stage.clock.advance(PLANNER_PAUSE_MS - 1);
      if (world.planner.calls > calls) throw new Error('the planner was given no time');
      world.isPausing = false;
    },
    'splits.seeded': ({ seeds }) => {
      seeds.pass();
    },
    'plan.published': ({ plans }) => {
      plans.pass();
    },
    'inputs.changed': (world) => {
      if (!world.openTerm()) world.addPeer();
    },
    // At once after quiet, then at most so often.
    'balance.due': async (world) => {
      const { nowMs } = world.stage.clock;
      const leftMs = (world.decidedAtMs ?? -Infinity) + DECISION_MS - nowMs();
      if (leftMs > 1) await world.rest(leftMs - 1);
      world.decidedAtMs = nowMs();
    },
    'assignments.written': ({ assigns }) => {
      assigns.pass();
    },
    'judgement.due': (world) => {
      if (!world.openTerm()) world.completeSplit();
    },
    'judgement.open': ({ stage, judges, plans }) => {
      if (judges.waiting > 0) stage.hand.split(SPLIT, { status: 'runnable' });
      else stage.hand.plan({ requeues: 1 });
      judges.pass();
      plans.pass();
    },
    'judgement.reached': ({ judges }) => {
      judges.pass();
    },
    'verdict.written': ({ plans }) => {
      plans.pass();
    },
    'verdict.found': async (world) => {
      world.openTerm();
      await world.stage.clock.settle();
      const verdict = { kind: 'complete' as const, completed: 1, quarantined: 0, ids: [] };
      world.stage.hand.plan({ verdict });
    },
    'verdict.cleared': ({ stage }) => {
      stage.hand.plan({ verdict: null, requeues: 1 });
    },
  },

  promises: {
    following: (world) => [
      ...notLeading(world),
      ...say(
        world.leaderSessions === 0 || world.closings.waiting > 0,
        'the session of its candidacy lives on',
      ),
    ],
    campaigning: notLeading,
    leading: (world) => [
      ...say(world.told.at(-1) === 'leadershipGained', 'nobody was told that it leads'),
      ...say(world.leader?.owner === ME, 'the leader key is not its own'),
    ],
    'leading.planning.idle': () => [],
    'leading.planning.enumerating': inFocus('planning', (world) =>
      say(world.planner.asked !== null || world.isPausing, 'the planner was not asked'),
    ),
    'leading.planning.seeding': inFocus('planning', (world) =>
      say(world.seeds.waiting > 0, 'no split is being stored'),
    ),
    'leading.planning.publishing': inFocus('planning', (world) =>
      say(world.plans.waiting > 0, 'the plan is not being written'),
    ),
    'leading.planning.sealed': (world) => say(world.plan?.sealed === true, 'the plan is open'),
    'leading.balancing.settled': inFocus('balancing', (world) =>
      say(
        !world.isOpen || world.unassigned().length === 0,
        `nothing is decided about ${world.unassigned().join()}`,
      ),
    ),
    'leading.balancing.dirty': () => [],
    'leading.balancing.publishing': inFocus('balancing', (world) =>
      say(world.assigns.waiting > 0, 'no assignment is being written'),
    ),
    'leading.judging.open': () => [],
    'leading.judging.reading': inFocus('judging', (world) =>
      say(world.judges.waiting > 0, 'nothing is being read'),
    ),
    'leading.judging.recording': inFocus('judging', (world) =>
      say(world.plans.waiting > 0, 'no verdict is being written'),
    ),
    'leading.judging.decided': (world) =>
      say(world.plan?.verdict !== null, 'there is no verdict in the plan'),
    resigning: (world) => [
      ...gaveUp(world),
      ...say(world.resigns.waiting > 0, 'the leader key is not being deleted'),
    ],
    deposed: gaveUp,
    departed: notLeading,
  },

  /** Whatever else a leader does, what it finds to judge, a timer that runs, and a vacancy that it sees. */
  mayFollow: ({ type }, state, { focus }) => {
    const region = REGION_OF[type];
    if (region !== undefined) {
      return region !== focus || ['judgement.due', 'balance.due'].includes(type);
    }
    return type === 'leader.absent' || (type === 'term.closed' && state.matches('deposed'));
  },

  /** Once its key is gone nothing of a term lands, however late; and a term that is over gets closed. */
  async atEnd(world, last) {
    if (last.matches('leading')) return [];
    const { hand, keys } = world.stage;
    if (world.leader?.owner === ME) hand.remove(keys.leader);
    const before = world.ownWrites();
    world.letAllPass();
    await world.stage.clock.advance(1_000);
    const late = world.ownWrites().slice(before.length);
    const isOver = last.matches('resigning') || last.matches('deposed');
    if (isOver) {
      world.closings.open();
      world.resigns.open();
      await world.stage.clock.advance(STEP_MS);
    }
    const state = world.shown() ?? '';
    return [
      ...say(late.length === 0, `it wrote ${late.join()} after its term`),
      ...say(!isOver || ['following', 'departed'].includes(state), `it is ${state} for ever`),
    ];
  },
};
