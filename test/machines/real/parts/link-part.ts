/** The way of a real worker to the store: kinds of calls that fail or are refused, and heal, up to being given up for it. */
import type { AnyEventObject, AnyMachineSnapshot } from 'xstate';
import type { Rule, StoreCall } from '../../../../src/store/faults.ts';
import { chartOf } from '../../drive.ts';
import type { Replace } from '../chart-probe.ts';
import type { Gate } from '../held-store.ts';
import { type Part, say, type World } from './part.ts';
import { LEASE_MS, ME, SPLIT, Stage } from '../stage.ts';

/** A worker that waits for a split, and so reads two kinds of keys again each third of a lease. */
class LinkWorld implements World {
  readonly id = ME;
  readonly stage: Stage;
  readonly opens: Gate;
  #failure: Rule | null = null;
  #denial: Rule | null = null;

  constructor(replace: Replace | undefined) {
    this.stage = new Stage({ replace });
    const { hand, held } = this.stage;
    this.opens = held.gate(({ kind }) => kind === 'openSession');
    hand.plan();
    hand.lead();
    hand.spec(SPLIT);
    hand.split(SPLIT, { owner: null });
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
    return this.stage.until(condition);
  }

  shown(): string | undefined {
    return this.stage.worker.status().charts.link;
  }

  inject(event: AnyEventObject): void {
    this.stage.inject('link', ME, event);
  }

  /** Kinds of calls that do not work now. */
  get failing(): string[] {
    return this.stage.worker.status().failing.map(({ code }) => code);
  }

  /** The last thing said of the way to the store. */
  get said(): string {
    return this.stage.lines.findLast((line) => line.startsWith('store.')) ?? '';
  }

  fail(): void {
    const { client, keys } = this.stage;
    this.#failure = client.when(readsOf(keys.lease(SPLIT))).refuse('E_STORE_UNREACHABLE');
  }

  deny(): void {
    const { client, keys } = this.stage;
    this.#denial = client.when(readsOf(keys.presence(ME))).deny();
  }

  allow(): void {
    this.#denial?.remove();
    this.#denial = null;
  }

  heal(): void {
    this.allow();
    this.#failure?.remove();
    this.#failure = null;
  }
}

const readsOf = (key: string) => (call: StoreCall) =>
  call.kind === 'read' && 'keys' in call.range && call.range.keys.includes(key);

interface Model {
  /** Something fails beside what is refused. */
  readonly isFailing: boolean;
}

function next(model: Model, { type }: AnyEventObject): Model {
  if (type === 'call.failed') return { isFailing: true };
  return type === 'calls.healed' || type === 'worker.returned' ? { isFailing: false } : model;
}

/** What is refused does not heal before what fails: there is one look at both. */
function isPossible({ type }: AnyEventObject, state: AnyMachineSnapshot, model: Model): boolean {
  if (!state.matches('denied')) return true;
  if (type === 'denial.lifted') return model.isFailing;
  return type !== 'calls.healed' || !model.isFailing;
}

const isHeld = ({ stage }: LinkWorld): string[] => [
  ...say(stage.worker.status().sessionLeftMs > 0, 'its session was given up'),
  ...say(stage.worker.status().presence === 'present', 'it is not in the fleet any more'),
];

export const linkPart: Part<LinkWorld, Model> = {
  chart: chartOf('link'),
  input: { instance: ME, leaseDurationMs: LEASE_MS },
  model: { isFailing: false },
  next,
  isPossible,

  async begin(_, replace) {
    const world = new LinkWorld(replace);
    world.stage.start();
    await world.until(() => world.stage.worker.status().tenancies.length > 0);
    world.opens.shut();
    return world;
  },

  executors: {
    'call.failed': (world) => {
      world.fail();
    },
    'call.denied': (world) => {
      world.deny();
    },
    'denial.lifted': (world) => {
      world.allow();
    },
    'calls.healed': (world) => {
      world.heal();
    },
    'silence.over': async ({ stage }) => {
      const sinceMs = stage.feed.findLast(({ chart }) => chart === 'link')!.at;
      await stage.clock.advance(sinceMs + LEASE_MS / 2 - 1 - stage.clock.nowMs());
      if (stage.lines.includes('store.failing')) throw new Error('it was said too early');
    },
    'patience.over': async (world) => {
      const { clock, feed } = world.stage;
      const sinceMs = feed.findLast(({ chart }) => chart === 'link')!.at;
      await clock.advance(sinceMs + LEASE_MS - 1 - clock.nowMs());
      if (isHeld(world).length > 0) throw new Error('it was given up too early');
    },
    // It asks for a session by itself once it may.
    'worker.returned': async (world) => {
      world.heal();
      await world.stage.until(() => world.opens.waiting > 0);
      world.opens.open();
    },
  },

  promises: {
    serving: (world) => [
      ...isHeld(world),
      ...say(world.failing.length === 0, 'something is shown to fail'),
      ...say(['', 'store.healed'].includes(world.said), 'nobody was told that it works again'),
    ],
    faltering: (world) => [
      ...isHeld(world),
      ...say(world.failing.length > 0, 'nothing is shown to fail'),
    ],
    failing: (world) => [
      ...isHeld(world),
      ...say(world.failing.length > 0, 'nothing is shown to fail'),
      ...say(world.said === 'store.failing' || world.said === 'store.denied', 'nobody was told'),
    ],
    denied: (world) => [
      ...isHeld(world),
      ...say(world.failing.includes('E_STORE_DENIED'), 'nothing is shown to be refused'),
      ...say(world.said === 'store.denied', 'nobody was told that it is refused'),
    ],
    barred: ({ stage, said }) => [
      ...say(stage.worker.status().sessionLeftMs === 0, 'its session is believed in'),
      ...say(
        stage.events.some(({ type }) => type === 'sessionLost'),
        'the service was not told',
      ),
      ...say(said === 'store.barred', 'nobody was told'),
    ],
  },
};
