/**
 * The leadership of a real worker: election, term, planning, balancing and judging against a store. A path looks into one of
 * the three jobs of a leader; the other two go on by themselves meanwhile.
 */
import { chartOf } from '../../drive.ts';
import {
  BEGIN,
  isPossible,
  type Model,
  next,
  OUTLOOKS,
  type Region,
  REGION_OF,
} from './leader-model.ts';
import { LeaderWorld, REPLAN_MS } from './leader-world.ts';
import { type Part, type Path, say } from './part.ts';
import { ME, SPLIT } from '../stage.ts';

const PLANNER_PAUSE_MS = 500;
const DECISION_MS = 200;
/** Timers, what a term takes up, and a plan that was put back and says everything already. */
const BY_ITSELF = [
  'judgement.due',
  'balance.due',
  'plan.due',
  'planner.retry',
  'plan.kept',
  'plan.lost',
  'plan.published',
  'inputs.changed',
];
/** Longer than whatever the worker repeats by itself. */
const LATE_MS = 1_000;

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

const firstIn = (path: Path): string =>
  path.find(({ type }) => REGION_OF[type] !== undefined)?.type ?? '';

export const leaderPart: Part<LeaderWorld, Model> = {
  chart: chartOf('leader'),
  input: { instance: ME, replanIntervalMs: REPLAN_MS },
  model: BEGIN,
  payloads: {
    'leader.absent': [{ delayMs: 100 }],
    'term.unhealthy': [{ restMs: 9_000 }],
    'planner.threw': [{ pauseMs: 500 }],
    'plan.published': [{ isSealed: false }, { isSealed: true }],
    'plan.recreated': [{ hasAnswer: false }, { hasAnswer: true }],
    'inputs.changed': [{ delayMs: 200 }],
  },
  next,
  isPossible,

  async begin(path: Path, replace) {
    const first = firstIn(path);
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
    'standing.barred': (world) => {
      world.bar();
    },
    'leader.absent': (world) => world.show('nobody', 'there'),
    'leader.seen': (world) => world.show('other', 'there'),
    'plan.missing': (world) => world.show('nobody', 'gone'),
    // In vain: there is none, and none can be made.
    'plan.sought': ({ joins }) => {
      joins.lose('E_STORE_UNREACHABLE');
    },
    'candidacy.due': (world) => world.rest(world.lastOf('leader.absent')['delayMs'] as number),
    'rest.over': (world) => world.rest(world.lastOf('term.unhealthy')['restMs'] as number),
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
    'term.ready': ({ stage, openings }, _, path) => {
      if (firstIn(path) === 'plan.lost' && REGION_OF[path[1]!.type] !== undefined) {
        stage.hand.remove(stage.keys.plan);
      }
      openings.open();
    },
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
    'plan.due': (world) => world.rest(REPLAN_MS),
    'plan.kept': () => undefined,
    'plan.lost': async (world) => {
      const { stage, plans } = world;
      const isRunning = /enumerating|seeding/.test(world.shown());
      stage.hand.remove(stage.keys.plan);
      if (!isRunning) return;
      // The run goes on beside it.
      if (!(await stage.until(() => plans.waiting > 0, LATE_MS))) {
        throw new Error('the plan is not put back');
      }
      plans.pass();
    },
    // What was to be published before is answered before it.
    'plan.recreated': async ({ stage, plans }) => {
      for (let left = plans.waiting; left > 0; left -= 1) {
        plans.passFirst();
        await stage.clock.settle();
      }
    },
    'planner.returned': (world, _, path) => {
      world.answer(path.find(({ type }) => type === 'plan.published')?.['isSealed'] === true);
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
      world.addPeer();
    },
    // At once after quiet, then at most so often.
    'balance.due': async (world) => {
      const { clock } = world.stage;
      const leftMs = (world.decidedAtMs ?? -Infinity) + DECISION_MS - clock.nowMs();
      if (leftMs > 1) {
        const before = world.shown();
        await clock.advance(leftMs - 1);
        if (world.shown() !== before) throw new Error('it decided again too early');
      }
      world.decidedAtMs = clock.nowMs();
    },
    'assignments.written': ({ assigns }) => {
      assigns.pass();
    },
    'judgement.due': (world) => {
      world.completeSplit();
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
    'verdict.found': ({ stage }) => {
      const verdict = { kind: 'complete' as const, completed: 1, quarantined: 0, ids: [] };
      stage.hand.plan({ verdict });
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
    'following.barred': () => [],
    'following.led': () => [],
    'following.vacant': () => [],
    'following.planless': (world) => say(world.joins.waiting > 0, 'the plan is not looked for'),
    'following.resting': (world) => say(world.leader === null, 'there is a leader'),
    campaigning: notLeading,
    'campaigning.opening': (world) => say(world.sessions.waiting > 0, 'no session is asked for'),
    'campaigning.standing': (world) => say(world.elections.waiting > 0, 'it does not stand'),
    leading: (world) => [
      ...say(world.told.at(-1) === 'leadershipGained', 'nobody was told that it leads'),
      ...say(world.leader?.owner === ME, 'the leader key is not its own'),
    ],
    'leading.opening': (world) => say(world.openings.waiting > 0, 'nothing is being read'),
    'leading.governing.planning.idle': () => [],
    'leading.governing.planning.enumerating': inFocus('planning', (world) =>
      say(world.planner.asked !== null || world.isPausing, 'the planner was not asked'),
    ),
    'leading.governing.planning.seeding': inFocus('planning', (world) =>
      say(world.seeds.waiting > 0, 'no split is being stored'),
    ),
    'leading.governing.planning.publishing': inFocus('planning', (world) =>
      say(world.plans.waiting > 0, 'the plan is not being written'),
    ),
    'leading.governing.planning.recreating': inFocus('planning', (world) =>
      say(world.plans.waiting > 0, 'the plan is not being put back'),
    ),
    'leading.governing.planning.sealed': (world) =>
      say(world.plan?.sealed === true, 'the plan is open'),
    'leading.governing.balancing.settled': inFocus('balancing', (world) =>
      say(
        world.decidedAtMs === null || world.unassigned().length === 0,
        `nothing is decided about ${world.unassigned().join()}`,
      ),
    ),
    'leading.governing.balancing.dirty': () => [],
    'leading.governing.balancing.publishing': inFocus('balancing', (world) =>
      say(world.assigns.waiting > 0, 'no assignment is being written'),
    ),
    'leading.governing.judging.open': () => [],
    'leading.governing.judging.reading': inFocus('judging', (world) =>
      say(world.judges.waiting > 0, 'nothing is being read'),
    ),
    'leading.governing.judging.recording': inFocus('judging', (world) =>
      say(world.plans.waiting > 0, 'no verdict is being written'),
    ),
    'leading.governing.judging.decided': (world) =>
      say(world.plan?.verdict !== null, 'there is no verdict in the plan'),
    resigning: (world) => [
      ...gaveUp(world),
      ...say(world.resigns.waiting > 0, 'the leader key is not being deleted'),
    ],
    deposed: gaveUp,
    departed: notLeading,
  },

  /** Whatever else a leader does, what comes by itself, and what it finds once it may stand. */
  mayFollow: ({ type }, state, { focus }) => {
    const region = REGION_OF[type];
    if (region !== undefined) {
      return region !== focus || BY_ITSELF.includes(type);
    }
    if (OUTLOOKS.includes(type)) return state.matches({ following: 'barred' });
    return type === 'term.closed' && state.matches('deposed');
  },

  /** Once its key is gone nothing of a term lands, however late; and a term that is over gets closed. */
  async atEnd(world, last) {
    if (last.matches('leading')) return [];
    const { hand, keys } = world.stage;
    if (world.leader?.owner === ME) hand.remove(keys.leader);
    const before = world.ownWrites();
    world.letAllPass();
    await world.stage.clock.advance(LATE_MS);
    const late = world.ownWrites().slice(before.length);
    const isOver = last.matches('resigning') || last.matches('deposed');
    if (isOver) {
      world.closings.open();
      world.resigns.open();
      await world.stage.clock.advance(DECISION_MS);
    }
    const state = world.shown();
    return [
      ...say(late.length === 0, `it wrote ${late.join()} after its term`),
      ...say(!isOver || /^(following|departed)/.test(state), `it is ${state} for ever`),
    ];
  },
};
