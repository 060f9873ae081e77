/** The presence of a real worker: probe, join, session and announcement against a store, up to having left. */
import type { AnyEventObject, AnyMachineSnapshot } from 'xstate';
import { activeIn } from '../../coverage.ts';
import { chartOf } from '../../drive.ts';
import { type Part, say, type Unreachable } from './part.ts';
import { FAILURES_MAX, PresenceWorld } from './presence-world.ts';
import { ME } from '../stage.ts';

/** What the worker waits for. */
interface Model {
  /** Something was asked of the store, and is not answered. */
  readonly isAsked: boolean;
  /** A failed try is about to be repeated. */
  readonly isPausing: boolean;
  /** There is no plan to join by. */
  readonly isPlanless: boolean;
  /** The job was joined: from then on it is followed. */
  readonly isFollowing: boolean;
  /** It was in the fleet, and so has a name to take out of it before its session is closed. */
  readonly hasLanded: boolean;
  /** Leaving: the announcement on its way was made before. */
  readonly isStale: boolean;
  /** It has failed for good, and is on its way out by itself. */
  readonly hasFailed: boolean;
  /** Something that the chart has forgotten, and that a path is to show for one event more; over after it. */
  readonly trace: string;
}

const BEGIN: Model = {
  isAsked: true,
  isPausing: false,
  isPlanless: false,
  isFollowing: false,
  hasLanded: false,
  isStale: false,
  hasFailed: false,
  trace: '',
};

const ANNOUNCING = ['announcing.putting', 'present.updating', 'rejoining.putting'];
const isIn = (state: AnyMachineSnapshot, names: readonly string[]): boolean =>
  activeIn(state).some((name) => names.includes(name));
/** What is announced is sent again by its lane, and a session asked for again by its keeper. */
const isKeptOn = (state: AnyMachineSnapshot): boolean =>
  isIn(state, [...ANNOUNCING, 'announcing.opening']);

function next(model: Model, event: AnyEventObject, before: AnyMachineSnapshot): Model {
  const trace = traceOf(model, event, before);
  return { ...after(model, event, before), trace };
}

function traceOf(
  { trace, isPausing, isPlanless }: Model,
  { type }: AnyEventObject,
  before: AnyMachineSnapshot,
): string {
  if (trace !== '') return `${trace}, over`;
  if (isPlanless && type === 'step.retry') return 'was planless';
  if (isPausing && type === 'step.failed' && !isLastTry(before)) return 'failed again';
  if (isPausing && !type.startsWith('step.') && type !== 'announcement.missed')
    return 'left a pause';
  if (type === 'step.denied' && isIn(before, ['rejoining.putting'])) return 'has a session';
  return type === 'session.expired' && refusalsIn(before) > 0 ? 'was refused' : '';
}

function after(model: Model, event: AnyEventObject, before: AnyMachineSnapshot): Model {
  const asked = { ...model, isAsked: true, isPausing: false, isPlanless: false };
  switch (event.type) {
    case 'job.joined':
      return { ...asked, isFollowing: true };
    case 'job.planless':
      return { ...model, isAsked: false, isPausing: true, isPlanless: true };
    case 'announcement.landed':
      return { ...asked, isAsked: event['isCurrent'] === false, isStale: false, hasLanded: true };
    case 'announcement.missed':
      return { ...model, isAsked: true };
    case 'session.expired':
      return { ...asked, isAsked: event['isDenied'] === false };
    case 'step.failed':
      return {
        ...model,
        isAsked: isKeptOn(before),
        isPausing: !isIn(before, ['announcing.opening']),
        hasFailed: isLastTry(before),
      };
    case 'step.denied':
      return { ...model, isAsked: false, isPausing: false };
    case 'worker.stopping':
      return {
        ...asked,
        isAsked: model.hasLanded && (isIn(before, ANNOUNCING) || before.matches('present')),
        isStale: isIn(before, ANNOUNCING),
      };
    default:
      return asked;
  }
}

function isLastTry(state: AnyMachineSnapshot): boolean {
  const { failures } = state.context as { failures: number };
  return !state.matches('present') && !state.matches('rejoining') && failures + 1 >= FAILURES_MAX;
}

/** Refusals in a row that are of interest. */
const REFUSALS_MAX = 1;
const refusalsIn = (state: AnyMachineSnapshot): number =>
  (state.context as { refusals: number }).refusals;

function isPossible(event: AnyEventObject, state: AnyMachineSnapshot, model: Model): boolean {
  if (model.trace.endsWith('over')) return false;
  if (model.trace === 'failed again') return event.type === 'step.retry';
  if (state.matches('parting')) return isPossibleOnTheWayOut(event, model);
  if (model.hasFailed) return event.type === 'worker.stopping';
  switch (event.type) {
    case 'step.retry':
      return model.isPausing;
    case 'session.expired':
      // The write that finds out is a failed try, and the last one would end the startup.
      if (event['isDenied'] === false) return !isLastTry(state);
      return state.matches('present') && refusalsIn(state) < REFUSALS_MAX;
    // A session that is open ends first.
    case 'store.reset':
      return (
        model.isFollowing &&
        isIn(state, ['joining', 'announcing.opening', 'rejoining.joining', 'rejoining.opening'])
      );
    // Whoever is refused on its way in is ended by the link, which hears of it first.
    case 'step.denied':
      return state.matches('rejoining') && model.isAsked && refusalsIn(state) < REFUSALS_MAX;
    case 'announcement.due':
    case 'presence.deleted':
    case 'rejoin.due':
    case 'worker.stopping':
      return true;
    default:
      return model.isAsked;
  }
}

function isPossibleOnTheWayOut(event: AnyEventObject, model: Model): boolean {
  if (event.type === 'departure.finished') return event['hasFailed'] === model.hasFailed;
  return (
    event.type === 'announcement.landed' && model.isAsked && event['isCurrent'] !== model.isStale
  );
}

const isOut = ({ presence }: PresenceWorld): string[] => say(presence === null, 'it is announced');

/** After the last try of a step on the way in nothing is tried any more. */
const isTrying = ({ probe }: PresenceWorld): string[] => {
  const last = probe.steps.findLast(({ of }) => of.chart === 'presence');
  return say(last?.event.type !== 'step.failed' || !isLastTry(last.before), 'it goes on for ever');
};

const holdsNothing = ({ stage }: PresenceWorld): string[] => [
  ...say(stage.worker.status().tenancies.length === 0, 'it holds something'),
  ...say(stage.worker.status().sessionLeftMs === 0, 'it believes in a session'),
];

const isPut = async (world: PresenceWorld): Promise<string[]> => [
  ...say(world.stage.worker.status().tenancies.length === 0, 'it holds something'),
  ...say(world.isGivenUp || (await world.isAnnouncing()), 'nothing is announced'),
];

const PROBED = [{ type: 'probe.passed' }];
const JOINED = [...PROBED, { type: 'job.joined' }];
const OPENED = [...JOINED, { type: 'session.opened' }];
const PRESENT = [...OPENED, { type: 'announcement.landed', isCurrent: true }];
const ENDS_FIRST = 'The session ends first, and that is heard first.';
const UNREACHABLE: readonly Unreachable[] = [
  ...Object.entries({
    probing: [],
    joining: PROBED,
    'announcing.opening': JOINED,
    'announcing.putting': OPENED,
  }).map(([state, path]) => ({
    transition: `${state} on step.denied stays`,
    why: 'The link ends a starting worker that is refused, and hears of it first.',
    path,
    event: { type: 'step.denied' },
  })),
  {
    transition: 'probing on store.reset -> probing',
    why: 'Nothing is followed before the job was joined.',
    path: [],
    event: { type: 'store.reset' },
  },
  {
    transition: 'present on store.reset -> rejoining.joining',
    why: ENDS_FIRST,
    path: PRESENT,
    event: { type: 'store.reset' },
  },
  {
    transition: 'rejoining.putting on store.reset -> rejoining.joining',
    why: ENDS_FIRST,
    path: [...PRESENT, { type: 'session.expired', isDenied: false }, { type: 'session.opened' }],
    event: { type: 'store.reset' },
  },
];

export const presencePart: Part<PresenceWorld, Model> = {
  chart: chartOf('presence'),
  input: { instance: ME, failuresMax: FAILURES_MAX },
  model: BEGIN,
  payloads: {
    'announcement.landed': [{ isCurrent: true }, { isCurrent: false }],
    'session.expired': [{ isDenied: false }, { isDenied: true }],
    'departure.finished': [{ hasFailed: false }, { hasFailed: true }],
  },
  next,
  isPossible,

  async begin(_, replace) {
    const world = new PresenceWorld(replace);
    world.probes.shut();
    world.joins.shut();
    world.announcements.shut();
    world.stage.start();
    await world.stage.clock.settle();
    return world;
  },

  executors: {
    'probe.passed': ({ probes }) => {
      probes.open();
    },
    'job.joined': ({ stage, joins, opens, leaves, closings }) => {
      if (stage.entry(stage.keys.plan) === undefined) stage.hand.plan();
      for (const gate of [opens, leaves, closings]) gate.shut();
      joins.pass();
    },
    'job.planless': (world) => {
      const { stage, joins } = world;
      stage.hand.remove(stage.keys.plan);
      joins.pass();
      world.noteFailure();
    },
    'session.opened': async ({ stage, opens }) => {
      await stage.until(() => opens.waiting > 0);
      opens.pass();
    },
    'announcement.landed': async (world, { isCurrent }) => {
      if (isCurrent === false && world.shown() !== 'parting') world.haveMoreToSay();
      await world.letLand();
    },
    'announcement.missed': (world) => world.landAndVanish(),
    'announcement.due': (world) => {
      world.haveMoreToSay();
    },
    'presence.deleted': ({ stage }) => {
      stage.hand.remove(stage.keys.presence(ME));
    },
    'session.expired': (world, { isDenied }) =>
      isDenied === true ? world.refuse() : world.expireSession(),
    // What was lost is sent again by its lane; what was given up is not.
    'step.failed': (world, _, [, then]) =>
      then?.type === 'step.retry' && /putting|updating/.test(world.shown())
        ? world.outrun()
        : world.fail('E_OUTCOME_UNKNOWN'),
    'step.denied': (world) => world.fail('E_STORE_DENIED'),
    'step.retry': (world) => {
      const { context } = world.probe.steps.findLast(({ of }) => of.chart === 'presence')!.after;
      return world.expectRetry((context as { failures: number }).failures);
    },
    'rejoin.due': () => undefined,
    'store.reset': (world) => {
      world.replaceStore();
    },
    // What has failed for good leaves by itself.
    'worker.stopping': ({ stage, failure }) => {
      if (failure === null) void stage.worker.stop();
    },
    'departure.finished': async (world) => {
      await world.expectParting();
      world.leaves.open();
      world.closings.open();
    },
  },

  promises: {
    probing: (world) => [...isOut(world), ...isTrying(world)],
    joining: (world) => [...isOut(world), ...isTrying(world)],
    announcing: isTrying,
    'announcing.opening': (world) => [...isOut(world), ...holdsNothing(world)],
    'announcing.putting': isPut,
    present: ({ stage, presence, isGivenUp }) =>
      say(
        isGivenUp || presence === null || stage.store.liveSessions.includes(presence.session!),
        'it hangs on no live session',
      ),
    'present.announced': ({ stage, presence, outlived }) => [
      ...say(presence?.nonce === stage.worker.status().nonce, 'it is not announced'),
      ...say(presence?.parting === false, 'it is announced as parting'),
      ...say(
        outlived.every((split) => presence?.refuses.includes(split as never)),
        'what it refuses is not said',
      ),
    ],
    'present.updating': isPut,
    // A session that was open when it was refused is kept.
    rejoining: ({ stage }) =>
      say(stage.worker.status().tenancies.length === 0, 'it holds something'),
    'rejoining.joining': () => [],
    'rejoining.opening': holdsNothing,
    'rejoining.putting': isPut,
    'rejoining.barred': ({ joins }) => say(joins.waiting === 0, 'it does not wait'),
    // Without a session nothing can be announced; what hangs on the old one goes with it.
    parting: async (world) =>
      say(
        world.presence?.parting !== false ||
          world.stage.worker.status().sessionLeftMs === 0 ||
          (await world.isAnnouncing()),
        'it is not announced as parting',
      ),
    departed: ({ stage, presence }) => [
      ...say(stage.worker.status().lastError === null, 'it shows an error'),
      ...say(presence === null, 'it is still announced'),
    ],
    failed: ({ stage, failure }) => [
      ...say(stage.worker.status().lastError !== null, 'it shows no error'),
      ...say(failure !== null, 'who waits for the verdict was not told'),
    ],
  },

  /** Who has failed leaves, what is said on the way out lands, and without a session leaving takes no time. */
  mayFollow: ({ type }, state) =>
    ['departure.finished', 'worker.stopping'].includes(type) ||
    (type === 'announcement.landed' && state.matches('parting')) ||
    // One that was open before a refusal is told again.
    (type === 'session.opened' && state.matches({ rejoining: 'opening' })) ||
    // A write that is refused has failed; and while a session runs out what is announced waits.
    (['step.failed', 'step.retry'].includes(type) && isIn(state, ANNOUNCING)),

  unreachable: UNREACHABLE,
};
