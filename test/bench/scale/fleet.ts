/**
 * A fleet of real workers over one memory store on the virtual clock, in which everything is counted. The handlers are
 * the fleet's own: they commit when told to, and hand back at once unless told to hold on.
 */
import type { Clock } from '../../../src/base/clock.ts';
import { type Random, seededRandom } from '../../../src/base/random.ts';
import { type VirtualClock, virtualClock } from '../../../src/base/virtual-clock.ts';
import type { CoordinationEvent, PlanAnswer } from '../../../src/coordinator/api/api.ts';
import { createCoordinator, type SplitCoordinator } from '../../../src/coordinator/coordinator.ts';
import { jobKeys, KEY_PREFIXES } from '../../../src/records/keys.ts';
import { type MemoryStore, memoryStore } from '../../../src/store/memory.ts';
import { CountedStore, Meter } from './counted-store.ts';

const JOB = 'job';
const PREFIX = 'scale';

export const LEASE_MS = 15_000;
const REPLAN_MS = 20_000;
/** Long, so that the reads of a reconcile fall into no other measurement. */
export const RECONCILE_MS = 360_000;
export const REBALANCE_DELAY_MS = 10_000;
const ALMOST_ONE = 1 - 2 ** -32;

/** One worker. */
export interface ScaleWorker {
  readonly id: string;
  readonly coordinator: SplitCoordinator;
  readonly client: CountedStore;
  readonly startedAtMs: number;
  /** Epochs of the splits it holds. */
  readonly held: Map<string, string>;
  isGone: boolean;
}

export class ScaleFleet {
  readonly meter = new Meter();
  readonly clock: VirtualClock = virtualClock();
  readonly workers: ScaleWorker[] = [];
  readonly #store: MemoryStore;
  readonly #keys = jobKeys(PREFIX, JOB);
  readonly #watermarks = new Map<string, number>();
  /** How many splits the planner lists when it is asked the next time. */
  plannedSplits = 0;
  /** Handlers keep what is asked back, and go on with what is left to them after all when told by `resumeAll`. */
  holdsOn = false;
  /** Renewals come up to 15 % early, at random; when false, each a third of a lease after the one before. */
  isJittered = true;
  #started = 0;
  #resumptions: (() => void)[] = [];

  constructor() {
    this.#store = memoryStore({ clock: this.clock, historyRevisionsMax: 1_000 });
  }

  /** Workers that are there. */
  get size(): number {
    return this.workers.filter((worker) => !worker.isGone).length;
  }

  /** Starts workers at the same moment, and waits until the fleet is quiet. */
  async join(count: number, maxInFlight: number): Promise<void> {
    for (let started = 0; started < count; started += 1) this.#start(maxInFlight);
    await this.quiet();
  }

  /** Moves time on until nothing was written for three seconds. */
  async quiet(): Promise<void> {
    for (let still = 0; still < 3;) {
      const before = this.meter.of('calls.transact');
      await this.clock.advance(1_000);
      still = this.meter.of('calls.transact') === before ? still + 1 : 0;
    }
  }

  /** Moves time on to the next run of the planner, and waits until the fleet is quiet. */
  async replan(): Promise<void> {
    await this.clock.advance(REPLAN_MS);
    await this.quiet();
  }

  /** Every worker commits everything it holds, at the same moment. Returns how many splits each holds. */
  async commitAll(): Promise<number[]> {
    const commits: Promise<void>[] = [];
    const held = this.#there().map((worker) => {
      for (const [split, epoch] of worker.held) {
        const watermark = (this.#watermarks.get(split) ?? 0) + 1;
        this.#watermarks.set(split, watermark);
        commits.push(worker.coordinator.commit(split, { watermark }, epoch));
      }
      return worker.held.size;
    });
    await Promise.all(commits);
    return held;
  }

  /** Handlers go on with what was asked back and is left to them. */
  async resumeAll(): Promise<void> {
    for (const resume of this.#resumptions.splice(0)) resume();
    await this.quiet();
  }

  /** The process of a worker dies; returns how many splits it held. */
  crash(worker: ScaleWorker): number {
    worker.isGone = true;
    worker.client.kill();
    return worker.held.size;
  }

  /** A worker that does not lead and holds most. */
  fullest(): ScaleWorker {
    const leader = this.leader();
    const others = this.#there().filter(({ id }) => id !== leader);
    return others.reduce((best, one) => (one.held.size > best.held.size ? one : best));
  }

  /** The instance that leads. */
  leader(): string | undefined {
    const entry = this.#store.dump(this.#keys.leader)[0];
    return entry && (JSON.parse(entry.value) as { owner: string }).owner;
  }

  last(): ScaleWorker {
    return this.workers.at(-1)!;
  }

  /** Who holds the lease of each split. */
  owners(): Map<string, string> {
    return this.#records(KEY_PREFIXES.leases, (record: { owner: string }) => record.owner);
  }

  /** What is assigned to each instance. */
  assignments(): Map<string, string> {
    return this.#records(KEY_PREFIXES.assign, (record: { splits: string[] }) =>
      record.splits.join(),
    );
  }

  /** Splits stored. */
  get splits(): number {
    return this.#store.dump(this.#keys.root + KEY_PREFIXES.splits).length;
  }

  get revision(): string {
    return this.#store.revision;
  }

  /** Ends the fleet without a goodbye. */
  async close(): Promise<void> {
    for (const worker of this.#there()) this.crash(worker);
    await this.#store.close();
  }

  #there(): ScaleWorker[] {
    return this.workers.filter((worker) => !worker.isGone);
  }

  #records<T>(prefix: string, read: (record: T) => string): Map<string, string> {
    const root = this.#keys.root + prefix;
    return new Map(
      this.#store
        .dump(root)
        .map(({ key, value }) => [key.slice(root.length), read(JSON.parse(value) as T)]),
    );
  }

  #start(maxInFlight: number): void {
    this.#started += 1;
    const client = new CountedStore(this.#store, this.meter);
    const isGone = (): boolean => worker.isGone;
    const coordinator = createCoordinator({
      job: JOB,
      prefix: PREFIX,
      store: client,
      instanceId: `worker-${this.#started}`,
      planner: { fingerprint: () => 'scale', plan: () => this.#plan() },
      clock: mortal(this.clock, isGone),
      random: this.#random(this.#started),
      config: {
        maxInFlight,
        leaseDurationMs: LEASE_MS,
        replanIntervalMs: REPLAN_MS,
        reconcileIntervalMs: RECONCILE_MS,
        rebalanceDelayMs: REBALANCE_DELAY_MS,
        // A handler that holds on may do so until its new owner has been missed.
        drainDeadlineMs: 2 * (LEASE_MS + REBALANCE_DELAY_MS),
      },
    });
    const worker: ScaleWorker = {
      id: coordinator.instanceId,
      coordinator,
      client,
      startedAtMs: this.clock.nowMs(),
      held: new Map(),
      isGone: false,
    };
    this.workers.push(worker);
    coordinator.listen((event) => {
      this.#on(worker, event);
    });
    coordinator.start();
  }

  #random(seed: number): Random {
    const seeded = seededRandom(seed);
    return { next: () => (this.isJittered ? seeded.next() : ALMOST_ONE) };
  }

  #plan(): PlanAnswer {
    const splits = Array.from({ length: this.plannedSplits }, (_, index) => ({
      id: `split-${index}`,
      descriptor: `rows of split ${index}`,
    }));
    return { splits, finality: 'open' };
  }

  #on(worker: ScaleWorker, event: CoordinationEvent): void {
    if (worker.isGone) return;
    const { coordinator, held } = worker;
    switch (event.type) {
      case 'gained':
        held.set(event.split.id, event.epoch);
        return;
      case 'revokeRequested':
        if (this.holdsOn) return;
        held.delete(event.splitId);
        void coordinator.releaseDrained([event.splitId], event.epoch);
        return;
      case 'revokeCancelled':
        this.#resumptions.push(() => {
          coordinator.resumeIntake(event.splitId, event.epoch);
        });
        return;
      case 'lost':
        held.delete(event.splitId);
        return;
      case 'verdict':
      case 'quarantined':
      case 'leadershipGained':
      case 'leadershipLost':
      case 'sessionLost':
      case 'plannerFailed':
        return;
    }
  }
}

/** A clock whose timers die with their worker. */
function mortal(clock: Clock, isGone: () => boolean): Clock {
  return {
    nowMs: () => clock.nowMs(),
    wallMs: () => clock.wallMs(),
    setTimeout: (callback, delayMs) =>
      clock.setTimeout(() => {
        if (!isGone()) callback();
      }, delayMs),
    clearTimeout: (timer) => {
      clock.clearTimeout(timer);
    },
  };
}
