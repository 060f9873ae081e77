/**
 * What is around the workers of a fleet: a store and a time. In memory, time is stepped and everything happens at its exact
 * instant; on a real etcd (test/etcd/support/world.ts) time passes.
 */
import { type Clock, memoryStore, type MemoryStore, type Store } from '../../src/index.ts';
import { virtualClock } from '../../src/base/virtual-clock.ts';
import type { EtcdStoreOptions } from '../../src/store/etcd/index.ts';
import type { Entry } from '../../src/store/port.ts';

/** The time of a fleet, in milliseconds. */
export interface WorldClock extends Clock {
  /** Moves time on by `deltaMs`, and lets everything that is due happen. */
  advance(deltaMs: number): Promise<void>;
  /** Lets everything that needs no time happen. */
  settle(): Promise<void>;
  /** Timers now pending. */
  readonly pendingTimers: number;
}

type ByHand = 'put' | 'remove' | 'expireSession' | 'compact' | 'reset';

/** The store of a fleet and what a test may do to it by hand; that takes a moment where the store is a real one. */
export type WorldStore = Omit<MemoryStore, ByHand | 'freezeExpiry' | 'snapshot' | 'restore'> & {
  readonly [Name in ByHand]: (
    ...parameters: Parameters<MemoryStore[Name]>
  ) => ReturnType<MemoryStore[Name]> | Promise<ReturnType<MemoryStore[Name]>>;
};

/** How a worker is connected to a real etcd. */
export type Connection = Partial<EtcdStoreOptions>;

/** A store and a time for one fleet. */
export interface World<S extends WorldStore = WorldStore> {
  readonly clock: WorldClock;
  readonly store: S;
  /** Of all keys of the fleet; no other fleet has it. */
  readonly prefix: string;
  /** What the fleet draws from; where fleets share a store each has its own, as their sessions must differ. */
  readonly seed: number;
  /** How much later than due something may happen, on the clock of the fleet; 0 where time is stepped. */
  readonly slackMs: number;
  /** What is stored at a key now. */
  entry(key: string): Entry | undefined;
  /** The store as one worker is connected to it; `how` where that can be chosen. */
  connect(how?: Connection): Store & { readonly clusterId?: string };
  /** Moves time on between two looks at what happens. */
  step(ms: number): Promise<void>;
  /** Ends the world once `stops` is over, or when no more can be waited for it. */
  end(stops: Promise<unknown>): Promise<void>;
}

/** A memory store on a virtual clock. */
export function memoryWorld(): World<MemoryStore> {
  const clock = virtualClock();
  const store = memoryStore({ clock, keepAudit: true });
  return {
    clock,
    store,
    prefix: 'test',
    seed: 1,
    slackMs: 0,
    entry: (key) => store.dump(key).find((one) => one.key === key),
    connect: () => store,
    step: (ms) => clock.advance(ms),
    end: async (stops) => {
      for (let round = 0; round < 40; round += 1) await clock.advance(1_000);
      await Promise.race([stops, Promise.resolve()]);
    },
  };
}
