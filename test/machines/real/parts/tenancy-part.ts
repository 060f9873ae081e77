/** The tenancies of a real worker: claims, leases, commits and endings against a store, with another leader and owner. */
import type { AnyEventObject, AnyMachineSnapshot } from 'xstate';
import type { TenancyContext } from '../../../../machines/tenancy/tenancy.events.ts';
import { isLeaseholdError } from '../../../../src/base/errors.ts';
import type { CoordinationEvent } from '../../../../src/coordinator/api/api.ts';
import { chartOf } from '../../drive.ts';
import { touches } from '../calls.ts';
import type { Replace } from '../chart-probe.ts';
import type { Gate } from '../held-store.ts';
import { type Part, type Path, say, type World } from './part.ts';
import { ATTEMPTS_MAX, DRAIN_MS, ME, OPERATION_MS, SPLIT, Stage } from '../stage.ts';

/** One split `s1`, another worker that leads and owned it, and the worker that is named for it. */
class TenancyWorld implements World {
  readonly stage: Stage;
  readonly id = SPLIT;
  readonly claims: Gate;
  readonly commits: Gate;
  readonly endings: Gate;
  watermark = 0;
  /** Nobody answers any more. */
  isCut = false;
  /** When the drain under way was first asked for, and when the time to hand back, or to be heard of, is over. */
  drainedSinceMs: number | null = null;
  deadlineMs = 0;

  constructor(attempts: number, replace: Replace | undefined) {
    const stage = new Stage({ replace });
    this.stage = stage;
    const { keys, hand } = stage;
    const lease = keys.lease(SPLIT);
    this.claims = stage.held.gate(touches({ puts: [lease, keys.split(SPLIT)] }));
    this.endings = stage.held.gate(touches({ deletes: [lease] }));
    // Neither of those.
    this.commits = stage.held.gate(touches({ puts: [keys.split(SPLIT)] }));
    hand.lead();
    hand.plan();
    hand.spec(SPLIT);
    hand.split(SPLIT, { attempts, watermark: '0' });
    hand.lease(SPLIT);
    hand.assign(ME, [SPLIT]);
  }

  get probe() {
    return this.stage.probe;
  }

  get feed() {
    return this.stage.feed;
  }

  until(condition: () => boolean): Promise<boolean> {
    return this.stage.until(condition, 2 * DRAIN_MS);
  }

  shown(): string | undefined {
    return this.stage.worker.status().tenancies.find(({ split }) => split === SPLIT)?.state;
  }

  inject(event: AnyEventObject): void {
    this.stage.inject('tenancy', SPLIT, event);
  }

  /** What the service was told of the split, oldest first. */
  told(): string[] {
    return this.stage.events.flatMap((event) => toldBy(event));
  }

  /** Whether the lease hangs on the worker's own session. */
  get isLeased(): boolean {
    const session = this.stage.entry(this.stage.keys.presence(ME))?.session;
    const entry = this.stage.entry(this.stage.keys.lease(SPLIT));
    return entry !== undefined && entry.session === session && this.stage.lease()?.owner === ME;
  }

  get nowMs(): number {
    return this.stage.clock.nowMs();
  }

  /** Whoever asks for something here hears of it in time, or not at all. */
  ask(asked: Promise<unknown>): void {
    asked.catch(() => undefined);
  }

  progress(): void {
    this.watermark += 1;
    this.ask(this.stage.worker.commit(SPLIT, { watermark: this.watermark }));
  }

  /** A commit goes out and is not answered: what ends the tenancy stands in line behind it. It is no progress. */
  async standInLine(): Promise<void> {
    this.commits.shut();
    this.ask(this.stage.worker.commit(SPLIT, { watermark: this.watermark }));
    await this.stage.clock.settle();
  }
}

function toldBy(event: CoordinationEvent): string[] {
  switch (event.type) {
    case 'gained':
    case 'revokeCancelled':
      return [event.type];
    case 'revokeRequested':
    case 'lost':
      return [`${event.type} ${event.reason}`];
    default:
      return [];
  }
}

const PAUSE_MS = 1_000;

/** Some time passes; from then on the handler has all of a deadline to be heard of. */
async function passSome(world: TenancyWorld): Promise<void> {
  await world.stage.clock.advance(PAUSE_MS);
  world.deadlineMs = world.nowMs + DRAIN_MS;
}

function keepSplit(world: TenancyWorld): void {
  if (world.shown() === 'held.cancelledDrain') world.drainedSinceMs = null;
}

/** The ways a split is asked back. */
function withdraw(world: TenancyWorld, { reason }: AnyEventObject): void {
  const { stage } = world;
  // The deadline is counted from the first request, also after a cancel (R34).
  world.drainedSinceMs ??= world.nowMs;
  world.deadlineMs = world.drainedSinceMs + DRAIN_MS;
  if (reason === 'paused') stage.hand.wish(stage.keys.paused);
  else if (reason === 'stopping') void stage.worker.stop();
  else {
    stage.hand.assign(ME, []);
    if (stage.entry(stage.keys.paused) !== undefined) stage.hand.remove(stage.keys.paused);
  }
}

const withdrawnFor = (snapshot: AnyMachineSnapshot): TenancyContext['withdrawnFor'] =>
  (snapshot.context as TenancyContext).withdrawnFor;

interface Model {
  /** How a drain went on that was asked for again, or that its handler was heard of in: only its end is of interest. */
  readonly drain: 'first' | 'asked again' | 'heard of';
  /** A commit stands before the last write. */
  readonly isInLine: boolean;
  /** The last write went out once more, on top of what was found. */
  readonly isSentAgain: boolean;
}

const BEGIN: Model = { drain: 'first', isInLine: false, isSentAgain: false };

function next(model: Model, { type }: AnyEventObject, before: AnyMachineSnapshot): Model {
  if (before.matches({ held: { closing: 'unanswered' } })) {
    return { ...model, isSentAgain: model.isSentAgain || type === 'ending.sent' };
  }
  // What ends a tenancy that commits finds a commit on its way.
  const isInLine = before.hasTag('mayCommit');
  if (!before.matches({ held: 'cancelledDrain' })) return { ...model, isInLine };
  if (type === 'progress.landed') return { ...model, drain: 'heard of' };
  return type === 'assignment.withdrawn'
    ? { ...model, drain: 'asked again' }
    : { ...model, isInLine };
}

function isPossible(event: AnyEventObject, snapshot: AnyMachineSnapshot, model: Model): boolean {
  if (snapshot.matches({ held: 'closing' })) return isPossibleAtTheEnd(event, snapshot, model);
  if (model.drain === 'heard of') return event.type === 'drain.expired';
  if (model.drain === 'asked again') {
    return ['assignment.regained', 'drain.expired'].includes(event.type);
  }
  const reason = withdrawnFor(snapshot);
  switch (event.type) {
    case 'assignment.withdrawn':
      // What is not wanted any more is not told again why; a stop is the last word.
      return reason === null || (reason !== 'stopping' && event.reason === 'stopping');
    case 'assignment.regained':
      return reason === 'unassigned' || reason === 'paused';
    case 'tenancy.starved':
      // That the lease is gone is heard first.
      return false;
    default:
      return true;
  }
}

/** The last write is decided on, and stands in line, is on its way, or was not answered. */
function isPossibleAtTheEnd(
  event: AnyEventObject,
  snapshot: AnyMachineSnapshot,
  { isInLine, isSentAgain }: Model,
): boolean {
  const { ending } = snapshot.context as TenancyContext;
  if (snapshot.matches({ held: { closing: 'queued' } })) {
    if (event.type === 'ending.sent') return true;
    // With nothing before it, it goes out at once; and before that nothing of it can be answered.
    return (
      isInLine && ['tenancy.fenced', 'tenancy.starved', 'session.expired'].includes(event.type)
    );
  }
  switch (event.type) {
    case 'ending.landed':
      return event.quarantined === false || ending === 'fail';
    case 'ending.refused':
      // Handed back by a write that may have landed, the split is another's because it did; a complete never is (R4).
      return !snapshot.hasTag('mayHaveLanded') || ending === 'complete';
    case 'ending.sent':
    case 'ending.unanswered':
      return !isSentAgain;
    default:
      return true;
  }
}

function lastWords(world: TenancyWorld, ...words: string[]): string[] {
  const told = world.told();
  const last = told.at(-1) ?? 'nothing';
  return say(words.includes(last), `the service was told ${last} last, not ${words.join(' or ')}`);
}

const neverHeld = (world: TenancyWorld): string[] => [
  ...say(world.told().length === 0, 'the service was told of a split that was never held'),
  ...say(!world.isLeased, 'the lease is this worker’s'),
];

const isClaiming = (world: TenancyWorld): string[] => [
  ...neverHeld(world),
  ...say(world.claims.waiting === 1, 'no claim is on its way'),
];

const forced = (world: TenancyWorld, { context }: AnyMachineSnapshot): string[] =>
  (context as TenancyContext).ending === 'force' ? lastWords(world, 'lost revoked') : [];

const shows = (world: TenancyWorld, state: string): string[] => {
  const { lease } = world.stage;
  const record = world.stage.split();
  return [
    ...say(lease.call(world.stage)?.state === state, `the lease does not show ${state}`),
    ...say(world.isLeased, 'the lease is not under this worker’s session'),
    ...say(
      record?.owner === ME && record.epoch === world.stage.lease()?.epoch,
      'record and lease differ',
    ),
  ];
};

/** Ended by a write of this worker: the lease went with it. */
const ended = (world: TenancyWorld, status: string): string[] => {
  const record = world.stage.split();
  return [
    ...say(record?.status === status, `the record is ${record?.status}, not ${status}`),
    ...say(record?.owner === null || status === 'completed', 'the record still names an owner'),
    ...say(!world.isLeased, 'the lease is still there'),
  ];
};

/** Ended by somebody else: the service was told, once it had the split. */
const lost = (world: TenancyWorld, reason: string): string[] => {
  const told = world.told();
  return told.includes('gained')
    ? say(
        told.filter((word) => word.startsWith('lost')).length === 1,
        `the service was told ${told.join()}`,
      ).concat(lastWords(world, `lost ${reason}`, 'lost revoked'))
    : say(told.length === 0, `the service was told ${told.join()}`);
};

export const tenancyPart: Part<TenancyWorld, Model> = {
  chart: chartOf('tenancy'),
  input: { split: SPLIT, drainDeadlineMs: DRAIN_MS },
  model: BEGIN,
  next,
  payloads: {
    'assignment.withdrawn': [
      { reason: 'unassigned', atMs: 0 },
      { reason: 'paused', atMs: 0 },
      { reason: 'stopping', atMs: 0 },
    ],
    'assignment.regained': [{ atMs: 0 }],
    'ending.landed': [{ quarantined: false }, { quarantined: true }],
  },
  isPossible,

  async begin(path: Path, replace) {
    const isLast = path.some((event) => event.quarantined === true);
    const world = new TenancyWorld(isLast ? ATTEMPTS_MAX - 1 : 0, replace);
    world.stage.start();
    world.claims.shut();
    world.endings.shut();
    await world.stage.until(() => world.probe.find('tenancy', SPLIT) !== undefined);
    return world;
  },

  executors: {
    'claim.due': ({ stage }) => {
      stage.hand.split(SPLIT, { owner: null });
      stage.hand.remove(stage.keys.lease(SPLIT));
    },
    'claim.won': ({ claims }) => {
      claims.pass();
    },
    'claim.lost': ({ stage, claims }) => {
      stage.hand.takeSplit(SPLIT);
      stage.hand.lease(SPLIT);
      claims.pass();
    },
    'assignment.withdrawn': withdraw,
    'assignment.regained': async (world) => {
      const { stage } = world;
      await passSome(world);
      if (stage.entry(stage.keys.paused) !== undefined) stage.hand.remove(stage.keys.paused);
      else stage.hand.assign(ME, [SPLIT]);
    },
    'split.ended': ({ stage }) => {
      stage.hand.split(SPLIT, { status: 'completed' });
      stage.hand.remove(stage.keys.lease(SPLIT));
    },
    'split.complete': async (world) => {
      await world.standInLine();
      world.ask(world.stage.worker.commit(SPLIT, { watermark: 100, completed: true }));
    },
    'split.fail': async (world) => {
      await world.standInLine();
      world.ask(world.stage.worker.fail(SPLIT, 'poison'));
    },
    'split.release': async (world) => {
      await world.standInLine();
      world.ask(world.stage.worker.giveUp(SPLIT));
    },
    'drain.finished': async (world) => {
      await world.standInLine();
      world.ask(world.stage.worker.releaseDrained([SPLIT]));
    },
    'drain.declined': async (world) => {
      if (world.shown() === 'held.cancelledDrain') keepSplit(world);
      else await world.standInLine();
      world.stage.worker.declineRevoke(SPLIT);
    },
    'drain.expired': async (world) => {
      const before = world.shown();
      await world.stage.clock.advance(world.deadlineMs - 1 - world.nowMs);
      if (world.shown() !== before) throw new Error('the deadline came too early');
      await world.standInLine();
      await world.stage.clock.advance(1);
      if (world.shown() === before) throw new Error('the deadline came too late');
    },
    'intake.resumed': (world) => {
      keepSplit(world);
      world.stage.worker.resumeIntake(SPLIT);
    },
    'progress.landed': async (world) => {
      await passSome(world);
      world.progress();
    },
    'ending.sent': ({ stage, commits, endings }) => {
      // Something was written between: the last write is built anew on it.
      if (endings.waiting > 0) stage.hand.split(SPLIT, { weight: 2 });
      commits.open();
      endings.pass();
    },
    'ending.unanswered': ({ endings }) => {
      endings.lose('E_OUTCOME_UNKNOWN');
    },
    'ending.landed': async ({ stage, endings }) => {
      // One that was lost is sent again.
      await stage.until(() => endings.waiting > 0, 1_000);
      endings.pass();
    },
    'ending.refused': async ({ stage, endings }) => {
      await stage.until(() => endings.waiting > 0, 1_000);
      stage.hand.takeSplit(SPLIT);
      endings.pass();
    },
    'tenancy.starved': async ({ stage, commits, endings }) => {
      // Whatever is on its way finds it out; before that the last write is alone with it.
      if (commits.waiting === 0) await stage.until(() => endings.waiting > 0, 1_000);
      stage.hand.remove(stage.keys.lease(SPLIT));
      if (commits.waiting > 0) commits.pass();
      else endings.pass();
    },
    'tenancy.fenced': ({ stage, commits }) => {
      if (commits.waiting === 0) {
        stage.hand.takeSplit(SPLIT);
        stage.hand.lease(SPLIT);
        return;
      }
      // The commit that stands before the last write finds it out.
      stage.hand.takeSplit(SPLIT);
      commits.pass();
    },
    'lease.deleted': ({ stage }) => {
      stage.hand.remove(stage.keys.lease(SPLIT));
    },
    // Nobody answers any more: the worker's own deadline ends the session.
    'session.expired': (world) => {
      world.isCut = true;
      world.stage.client.partition();
    },
  },

  promises: {
    awaiting: neverHeld,
    'claiming.wanted': isClaiming,
    'claiming.unwanted': isClaiming,
    'held.owned': (world) => [
      ...shows(world, 'owned'),
      ...lastWords(world, 'gained', 'revokeCancelled'),
    ],
    'held.draining': (world, { context }) => [
      ...shows(world, 'draining'),
      ...say(
        world.told().at(-1)?.startsWith('revokeRequested') === true,
        'the service was not asked',
      ),
      ...say((context as TenancyContext).withdrawnFor !== null, 'it is still wanted'),
    ],
    'held.cancelledDrain': (world) => [
      ...shows(world, 'cancelledDrain'),
      ...lastWords(world, 'revokeCancelled'),
    ],
    'held.closing.queued': (world, last) => [
      ...forced(world, last),
      ...say(world.endings.waiting === 0, 'the last write overtakes a commit'),
    ],
    'held.closing.sent': (world, last) => [
      ...forced(world, last),
      ...say(world.endings.waiting === 1, 'no ending is on its way'),
    ],
    'held.closing.unanswered': async (world, last) => {
      const isSentAgain = await world.stage.until(() => world.endings.waiting === 1, 1_000);
      return [...forced(world, last), ...say(isSentAgain, 'no ending is sent again')];
    },
    dismissed: neverHeld,
    released: (world) => ended(world, 'runnable'),
    completed: (world) => ended(world, 'completed'),
    failed: (world) => [
      ...ended(world, 'runnable'),
      ...say(world.stage.split()?.attempts === 1, 'no attempt was spent'),
      ...say(world.stage.split()?.lastFailure?.reason === 'poison', 'the reason is not kept'),
    ],
    quarantined: (world) => [
      ...ended(world, 'quarantined'),
      ...say(world.stage.entry(world.stage.keys.parked(SPLIT)) !== undefined, 'it is not parked'),
    ],
    lostFenced: (world) => [
      ...lost(world, 'fenced'),
      ...say(world.stage.split()?.owner !== ME, 'the record is this worker’s'),
    ],
    lostStarved: (world) => lost(world, 'starved'),
    lostRevoked: (world) => [...ended(world, 'runnable'), ...lost(world, 'revoked')],
  },

  // Nothing stands before the last write of a claim that was won unwanted; cut off, no write is answered either.
  mayFollow: ({ type }, _, { commits, isCut }) =>
    (type === 'ending.sent' && !commits.isShut) || (type === 'ending.unanswered' && isCut),

  /** Progress can be committed exactly where the state says so, and a last write that is decided on is written. */
  async atEnd(world, last) {
    const { stage } = world;
    const before = stage.split()?.watermark ?? null;
    let outcome = '';
    stage.worker.commit(SPLIT, { watermark: 1_000 }).then(
      () => (outcome = 'durable'),
      (error: unknown) => (outcome = isLeaseholdError(error) ? error.code : 'bug'),
    );
    world.commits.open();
    world.endings.open();
    await stage.clock.advance(OPERATION_MS / 10);
    const now = stage.split()?.watermark ?? null;
    if (last.matches({ held: 'closing' })) {
      const isOver = await stage.until(() => world.shown() === undefined, 1_000);
      return say(isOver && !world.isLeased, 'what was decided last is not written');
    }
    if (last.hasTag('mayCommit'))
      return say(outcome === 'durable' && now === '1000', `a commit was ${outcome}`);
    return [
      ...say(outcome === 'E_FENCED' || outcome === 'E_STOPPED', `a commit was ${outcome}`),
      ...say(now !== '1000', `a commit wrote ${now} over ${before}`),
    ];
  },
};
