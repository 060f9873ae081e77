/** A session of the real keeper over a store: asked for, renewed, late, lost, run out and given back. */
import type { AnyEventObject, AnyMachineSnapshot } from 'xstate';
import type { Clock } from '../../../../src/base/clock.ts';
import type { SessionId } from '../../../../src/base/ids.ts';
import { seededRandom } from '../../../../src/base/random.ts';
import { virtualClock } from '../../../../src/base/virtual-clock.ts';
import type { Transition } from '../../../../src/coordinator/api/transition.ts';
import { SessionKeeper } from '../../../../src/coordinator/link/session-keeper.ts';
import { StoreGate } from '../../../../src/coordinator/link/store-gate.ts';
import { ChartHost } from '../../../../src/coordinator/loop/chart-host.ts';
import { Mailbox } from '../../../../src/coordinator/loop/mailbox.ts';
import { TimerSet } from '../../../../src/coordinator/loop/timers.ts';
import { selfFenceMarginMs } from '../../../../src/protocol/timing.ts';
import { memoryStore } from '../../../../src/store/memory.ts';
import { chartOf } from '../../drive.ts';
import { ChartProbe, listening, type Replace } from '../chart-probe.ts';
import { HeldStore } from '../held-store.ts';
import { type Part, say, type World } from './part.ts';

const TTL_MS = 9_000;
/** Longer than a session lives: what is not answered waits until the test says so. */
const TIMEOUT_MS = 60_000;
const LIFE_MS = TTL_MS - selfFenceMarginMs(TTL_MS);

class SessionWorld implements World {
  readonly id: string;
  readonly clock = virtualClock();
  readonly store = memoryStore({ clock: this.clock });
  readonly held = new HeldStore(this.store);
  readonly opens = this.held.gate(({ kind }) => kind === 'openSession');
  readonly renewals = this.held.gate(({ kind }) => kind === 'keepAlive');
  readonly closings = this.held.gate(({ kind }) => kind === 'closeSession');
  readonly probe: ChartProbe;
  readonly feed: Transition[] = [];
  readonly crashes: unknown[] = [];
  /** What whoever wanted the session was told, oldest first. */
  readonly told: string[] = [];
  readonly keeper: SessionKeeper;
  /** By how much the worker's clock is ahead of its timers: its loop was blocked for so long. */
  #blockedMs = 0;

  constructor(of: 'worker' | 'leader', replace: Replace | undefined) {
    this.id = of;
    this.probe = new ChartProbe(replace);
    this.keeper = listening(this.probe, () => this.#build(of));
    for (const gate of [this.opens, this.renewals, this.closings]) gate.shut();
  }

  async until(condition: () => boolean): Promise<boolean> {
    for (let waitedMs = 0; waitedMs < TTL_MS; waitedMs += 50) {
      await this.clock.settle();
      if (condition()) return true;
      await this.clock.advance(50);
    }
    return false;
  }

  shown(): string {
    return this.keeper.state;
  }

  inject(event: AnyEventObject): void {
    this.probe.find('session', this.id)!.running.send(event);
  }

  /** The loop stands still until the session is over, and nobody has noticed. */
  block(): void {
    this.#blockedMs += TTL_MS;
  }

  /** The timer that was armed last fires when it should, and neither earlier nor later. */
  async expectTimer(): Promise<void> {
    const { event } = this.probe.steps.at(-1)!;
    const delayMs = (event['renewMs'] ?? event['pauseMs']) as number;
    const { length } = this.probe.steps;
    await this.clock.advance(Math.ceil(delayMs) - 1);
    if (this.probe.steps.length > length) throw new Error(`the timer came before ${delayMs} ms`);
    await this.clock.advance(1);
    if (this.probe.steps.length === length) throw new Error(`no timer came in ${delayMs} ms`);
  }

  /** Times that the session was open for somebody who wanted it. */
  get answers(): number {
    return this.probe.steps.filter(
      ({ event, before }) =>
        event.type === 'opening.granted' ||
        (event.type === 'session.wanted' && before.matches('open')),
    ).length;
  }

  get isLive(): boolean {
    const { id } = this.keeper;
    return id !== null && this.store.liveSessions.includes(id);
  }

  get last(): string {
    return this.told.at(-1) ?? 'nothing';
  }

  #build(of: 'worker' | 'leader'): SessionKeeper {
    const crash = (error: unknown): void => {
      this.crashes.push(error);
    };
    const clock: Clock = { ...this.clock, nowMs: () => this.clock.nowMs() + this.#blockedMs };
    const timers = new TimerSet(clock);
    const mailbox = new Mailbox(() => undefined, crash);
    const charts = new ChartHost(timers, (transition) => this.feed.push(transition), crash);
    const options = { opTimeoutMs: TIMEOUT_MS, root: '', leaderKey: 'leader' };
    const gate = new StoreGate(this.held, timers, options);
    const ports = { gate, clock: timers, random: seededRandom(1), mailbox, charts };
    return new SessionKeeper(
      ports,
      { of, ttlMs: TTL_MS },
      {
        opened: (id: SessionId) => {
          this.told.push(id === this.keeper.id ? 'opened' : 'opened another one');
        },
        unopened: () => {
          this.told.push('unopened');
        },
        expired: (_, reason) => {
          this.told.push(`expired ${reason}`);
        },
      },
    );
  }
}

/** What is asked of the store. A path ends with a pause that was left before its time, or with the timer after an answer. */
type Model = 'asked' | 'pausing' | 'at rest' | Renewed | Over;
type Renewed = 'renewed' | 'renewed late';
type Over = 'over' | `over, ${Renewed}`;

function next(model: Model, { type }: AnyEventObject, before: AnyMachineSnapshot): Model {
  switch (type) {
    case 'session.wanted':
      return before.matches('open') ? model : 'asked';
    case 'renewal.due':
      return model === 'renewed' || model === 'renewed late' ? `over, ${model}` : 'asked';
    case 'opening.late':
    case 'opening.due':
      return 'asked';
    case 'store.reset':
      return before.matches('opening') ? 'asked' : 'at rest';
    case 'opening.failed':
    case 'renewal.failed':
      return 'pausing';
    case 'renewal.answered':
      return before.matches({ open: 'late' }) ? 'renewed late' : 'renewed';
    default:
      return model === 'pausing' ? 'over' : 'at rest';
  }
}

function isPossible({ type }: AnyEventObject, state: AnyMachineSnapshot, model: Model): boolean {
  if (model.startsWith('over')) return false;
  if (model.startsWith('renewed')) return type === 'renewal.due';
  switch (type) {
    case 'opening.granted':
    case 'opening.late':
    case 'opening.failed':
    case 'renewal.answered':
    case 'renewal.failed':
      return model === 'asked';
    case 'opening.due':
      return model === 'pausing';
    case 'renewal.due':
      return state.matches({ open: 'kept' }) || model === 'pausing';
    default:
      return true;
  }
}

const isWell = (world: SessionWorld): string[] =>
  say(world.crashes.length === 0, `it crashed: ${String(world.crashes[0])}`);

const isOpen = (world: SessionWorld): string[] => [
  ...isWell(world),
  ...say(world.isLive, 'there is no such session in the store'),
  ...say(world.keeper.isValid(), 'it is not believed in'),
  ...say(world.last === 'opened', `who wanted it was told ${world.last} last`),
  ...say(
    world.told.filter((word) => word === 'opened').length === world.answers,
    'who wants it is not told that it is open',
  ),
];

/** What a session that is over is told as, by the event that ended it; nothing when it had not been opened. */
const ENDS: Readonly<Record<string, string>> = {
  'session.gone': 'expired gone',
  'store.reset': 'expired reset',
  'deadline.passed': 'expired deadline',
  'session.abandoned': 'expired closed',
};

/** How the chart came to where it is. */
function cameBy(world: SessionWorld) {
  const { event, before } = world.probe.steps.at(-1)!;
  return { type: event.type, wasOpen: before.matches('open') };
}

export function sessionPart(of: 'worker' | 'leader'): Part<SessionWorld, Model> {
  return {
    chart: chartOf('session'),
    input: { of },
    model: 'at rest',
    payloads: {
      'session.abandoned': [{ reason: 'closed' }],
      'opening.granted': [{ renewMs: 3_000 }],
      'opening.failed': [{ pauseMs: 200 }],
      'renewal.answered': [{ renewMs: 3_000 }],
      'renewal.failed': [{ pauseMs: 200 }],
    },
    next,
    isPossible,

    async begin(_, replace) {
      const world = new SessionWorld(of, replace);
      await world.clock.settle();
      return world;
    },

    executors: {
      'session.wanted': ({ keeper }) => {
        keeper.open();
      },
      'session.unwanted': ({ keeper }) => {
        void keeper.close();
      },
      'session.abandoned': ({ keeper }) => {
        keeper.abandon('closed');
      },
      // Whatever is told first: by a write, or by a renewal.
      'session.gone': ({ keeper, store, renewals }) => {
        const id = keeper.id!;
        store.expireSession(id);
        if (renewals.waiting > 0) renewals.pass();
        else keeper.gone(id);
      },
      'session.released': ({ keeper }) => {
        keeper.stopRenewing();
      },
      'opening.granted': ({ opens }) => {
        opens.pass();
      },
      'opening.late': async (world) => {
        await world.until(() => world.opens.waiting > 0);
        await world.clock.advance(LIFE_MS);
        world.opens.pass();
      },
      'opening.failed': ({ opens }) => {
        opens.lose('E_OUTCOME_UNKNOWN');
      },
      'opening.due': (world) => world.expectTimer(),
      'renewal.due': (world) => world.expectTimer(),
      'renewal.answered': ({ renewals }) => {
        renewals.pass();
      },
      'renewal.failed': ({ renewals }) => {
        renewals.lose('E_OUTCOME_UNKNOWN');
      },
      'deadline.passed': (world) => {
        world.block();
        world.keeper.isValid();
      },
      'store.reset': ({ keeper, store }) => {
        store.reset();
        keeper.reset();
      },
      // Requests arrive in the order in which they were made.
      'closing.answered': async ({ opens, closings, clock }) => {
        opens.pass();
        await clock.settle();
        closings.pass();
      },
    },

    promises: {
      closed: (world) => {
        const { type, wasOpen } = cameBy(world);
        const word = wasOpen ? ENDS[type] : undefined;
        const isToldToStore = type === 'closing.answered' || type === 'session.gone';
        return [
          ...isWell(world),
          ...say(world.keeper.id === null, 'there is a session'),
          ...say(!world.keeper.isValid(), 'it is believed in'),
          ...say(word === undefined || world.last === word, `it ended as ${world.last}`),
          ...say(
            isToldToStore || type === 'store.reset' || world.closings.waiting > 0,
            'the store is not told that it is over',
          ),
        ];
      },
      opening: async (world) => {
        const { type } = cameBy(world);
        const hasFailed = type === 'opening.failed';
        return [
          ...say(type !== 'opening.late' || world.closings.waiting > 0, 'what came late is kept'),
          ...isWell(world),
          ...say(world.keeper.id === null, 'there is a session'),
          // One after another is asked for after a pause.
          ...say(
            hasFailed || (await world.until(() => world.opens.waiting > 0)),
            'nothing is asked for',
          ),
          ...say(!hasFailed || world.last === 'unopened', 'who wants it is not told why'),
        ];
      },
      open: isOpen,
      'open.kept': (world) => say(world.renewals.waiting === 0, 'it is renewed without need'),
      'open.renewing': (world) => say(world.renewals.waiting === 1, 'it is not renewed'),
      'open.late': (world) => {
        const timers = world.probe.find('session', world.id)!.timers();
        return say(
          world.renewals.waiting === 1 || timers.includes('renewal.due'),
          'it is not renewed again',
        );
      },
      'open.lapsing': () => [],
      closing: (world) => [
        ...isWell(world),
        ...say(world.keeper.id === null, 'it is believed in'),
        ...say(world.closings.waiting > 0, 'it is not given back'),
      ],
    },

    // The answer to what was given back while something else was wanted already.
    mayFollow: ({ type }) => type === 'closing.answered',

    /** Whatever was asked for is given back in the end, and what is not renewed runs out. */
    async atEnd(world, last) {
      if (last.matches({ open: 'lapsing' })) {
        const sent = world.renewals.waiting;
        await world.clock.advance(LIFE_MS);
        return [
          ...say(world.last === 'expired deadline', `it ended as ${world.last}`),
          ...say(world.renewals.waiting === sent, 'it is renewed'),
        ];
      }
      if (!last.matches('closed') && !last.matches('closing')) return [];
      world.opens.open();
      await world.clock.settle();
      world.closings.open();
      await world.clock.advance(1_000);
      return say(world.store.liveSessions.length === 0, 'a session is left in the store');
    },
  };
}
