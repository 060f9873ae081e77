/** One range that a real worker follows: listings, a watch and checks against a store that fails, refuses and forgets. */
import type { AnyEventObject, AnyMachineSnapshot } from 'xstate';
import type { StoreCall } from '../../../../src/store/faults.ts';
import type { Range } from '../../../../src/store/port.ts';
import { chartOf } from '../../drive.ts';
import type { Replace } from '../chart-probe.ts';
import type { Gate } from '../held-store.ts';
import { type Part, say, type Unreachable, type World } from './part.ts';
import { Stage } from '../stage.ts';

/** What all workers follow, here operators' wishes, as they show in the status; and what a leader does. */
type Name = 'control/' | 'assign/';
const CHECK_MS = 5_000;
/** An event that is late by this much is as good as lost. */
const NEVER_MS = 1_000_000;

class FollowWorld implements World {
  readonly id: Name;
  readonly stage: Stage;
  readonly readings: Gate;
  /** What operators want now. */
  isPaused = false;
  #denial: { remove(): void } | null = null;

  constructor(name: Name, replace: Replace | undefined) {
    this.id = name;
    this.stage = new Stage({ config: { reconcileIntervalMs: CHECK_MS }, replace });
    const { hand, held } = this.stage;
    this.readings = held.gate((call) => call.kind === 'read' && this.#isAbout(call));
    this.readings.shut();
    hand.plan();
    if (!this.isLeaders) hand.lead();
  }

  get isLeaders(): boolean {
    return this.id === 'assign/';
  }

  get probe() {
    return this.stage.probe;
  }

  get feed() {
    return this.stage.feed;
  }

  until(condition: () => boolean): Promise<boolean> {
    return this.stage.until(condition);
  }

  shown(): string | undefined {
    const shown = this.stage.worker.status().watches.find(({ range }) => range === this.id);
    // The status shows what all workers follow.
    return this.isLeaders ? this.probe.find('follow', this.id)?.running.state : shown?.state;
  }

  inject(event: AnyEventObject): void {
    this.stage.inject('follow', this.id, event);
  }

  /** The operator changes his mind. */
  wish(): void {
    const { hand, keys } = this.stage;
    this.isPaused = !this.isPaused;
    if (this.isLeaders) hand.assign('nobody', this.isPaused ? [] : ['s1']);
    else if (this.isPaused) hand.wish(keys.paused);
    else hand.remove(keys.paused);
  }

  get isKnown(): boolean {
    return this.isLeaders || this.stage.worker.status().isPaused === this.isPaused;
  }

  /** It is followed no more: the worker leaves, or leads no more. */
  end(): void {
    const { worker, hand, keys } = this.stage;
    if (this.isLeaders) hand.remove(keys.leader);
    else void worker.stop();
  }

  /** Lets something happen that the watch does not tell in time. */
  wishUnheard(): void {
    const lateness = this.stage.client.when((call) => this.#isWatch(call)).delayEvents(NEVER_MS);
    this.wish();
    lateness.remove();
  }

  refuse(): void {
    this.#denial = this.stage.client.when((call) => this.#isWatch(call)).deny();
  }

  accept(): void {
    this.#denial?.remove();
    this.#denial = null;
  }

  /** History goes that the watch has not told, while nothing reaches it. */
  forget(): void {
    const { client, store } = this.stage;
    client.cutWatches(1, (call) => this.#isWatch(call));
    this.wish();
    store.compact();
  }

  /** Another store in the place of the first, where somebody leads on. */
  replaceStore(): void {
    const { store, hand } = this.stage;
    this.isPaused = false;
    store.reset();
    hand.plan();
    hand.lead();
  }

  #isWatch(call: StoreCall): boolean {
    return call.kind === 'watch' && this.#isAbout(call);
  }

  get watches(): number {
    return this.stage.held.watchesOf((range) => this.#isIt(range));
  }

  #isAbout(call: StoreCall): boolean {
    return (call.kind === 'read' || call.kind === 'watch') && this.#isIt(call.range);
  }

  #isIt(range: Range): boolean {
    return 'prefix' in range && range.prefix === this.stage.keys.root + this.id;
  }
}

const isReading = (world: FollowWorld): string[] =>
  say(world.readings.waiting === 1, `${world.readings.waiting} readings are on their way`);

const isWatched = ({ watches }: FollowWorld): string[] =>
  say(watches === 1, `${watches} watches are open`);
const isUnwatched = ({ watches }: FollowWorld): string[] =>
  say(watches === 0, `${watches} watches are open still`);

/** How the last listing came about; a path ends with one that came after failures. */
type Model = 'at once' | 'failed' | 'after failures';

function next(model: Model, { type }: AnyEventObject): Model {
  if (type === 'listing.failed') return 'failed';
  return type === 'listing.arrived' && model === 'failed' ? 'after failures' : model;
}

const UNREACHABLE: Unreachable = {
  transition: 'refused on watch.compacted -> listing',
  why: 'A store takes the watch again before it can tell that history is gone.',
  path: [{ type: 'listing.arrived' }, { type: 'watch.refused' }],
  event: { type: 'watch.compacted' },
};

export function followPart(name: Name): Part<FollowWorld, Model> {
  return {
    chart: chartOf('follow'),
    input: { range: name },
    model: 'at once',
    next,
    isPossible: ({ type }, state, model) => {
      if (model === 'after failures') return false;
      // A term does not outlive its store.
      if (type === 'store.reset') return name !== 'assign/';
      return type !== 'watch.compacted' || !state.matches('refused');
    },

    async begin(_, replace) {
      const world = new FollowWorld(name, replace);
      world.stage.start();
      await world.until(() => world.probe.find('follow', name) !== undefined);
      return world;
    },

    executors: {
      'listing.arrived': ({ readings }) => {
        readings.pass();
      },
      'listing.failed': ({ readings }) => {
        readings.lose('E_STORE_UNREACHABLE');
      },
      'listing.due': () => undefined,
      'watch.compacted': (world) => {
        world.forget();
      },
      'watch.refused': (world) => {
        world.refuse();
      },
      'watch.accepted': (world) => {
        world.wish();
        world.accept();
      },
      'check.due': (world) => {
        world.wishUnheard();
      },
      'check.passed': ({ readings }) => {
        readings.pass();
      },
      'check.failed': ({ readings }) => {
        readings.lose('E_STORE_UNREACHABLE');
      },
      'store.reset': (world) => {
        world.replaceStore();
      },
      'follow.closed': (world) => {
        world.end();
      },
    },

    promises: {
      listing: (world) => [...isReading(world), ...isUnwatched(world)],
      pausing: (world) => [
        ...say(world.readings.waiting === 0, 'it reads without a pause'),
        ...isUnwatched(world),
      ],
      watching: (world) => isWatched(world),
      'watching.quiet': async (world, last) => {
        const cameBy = world.probe.steps.findLast(
          ({ of }) => of.chart === 'follow' && of.id === name,
        );
        const isVerified = cameBy?.event.type !== 'check.failed';
        const before = say(!isVerified || world.isKnown, 'it does not know what it has read');
        if (!isVerified) return before;
        world.wish();
        await world.stage.clock.settle();
        return [
          ...before,
          ...say(world.isKnown, `it did not hear a change in ${String(last.value)}`),
        ];
      },
      'watching.checking': isReading,
      refused: async (world) => {
        const { failing } = world.stage.worker.status();
        return say(
          failing.some(({ call }) => call === `watch ${name}`),
          'nobody is told that the watch is refused',
        );
      },
      closed: (world) => [
        ...isUnwatched(world),
        ...say(
          world.isLeaders || world.stage.worker.status().requestsInFlight === 0,
          'something is on its way',
        ),
      ],
    },

    unreachable: name === 'control/' ? [UNREACHABLE] : [],

    /** Checks come by themselves, and are ignored where nothing is watched. */
    mayFollow: ({ type }, state: AnyMachineSnapshot) =>
      type === 'check.due' && !state.matches({ watching: 'quiet' }),
  };
}
