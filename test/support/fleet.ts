/**
 * A fleet of real workers over one store, on one clock, in one process: in memory on a virtual clock that moves only in
 * `advance` and `until`, unless another world is given. Every worker has a client and a clock of its own, which can go wrong
 * by themselves.
 */
import {
  type CoordinationEvent,
  createCoordinator,
  createOperator,
  createWorker,
  type Grant,
  type Handler,
  type MemoryStore,
  type Operator,
  type PlanAnswer,
  type PlannedSplit,
  type Planner,
  type Random,
  type SplitCoordinator,
  type Transition,
  type Verdict,
  type Worker,
  type WorkerConfig,
} from '../../src/index.ts';
import { seededRandom } from '../../src/base/random.ts';
import { jobKeys } from '../../src/records/keys.ts';
import {
  assignmentCodec,
  type AssignmentRecord,
  leaseCodec,
  type LeaseRecord,
  planCodec,
  type PlanRecord,
  splitCodec,
  type SplitRecord,
} from '../../src/records/records.ts';
import { type FaultyStore, faultyStore } from '../../src/store/faults.ts';
import type { Entry } from '../../src/store/port.ts';
import type { InstanceId, SplitId } from '../../src/base/ids.ts';
import { type WorkerClock, workerClock } from '../../src/testing/worker-clock.ts';
import {
  type Connection,
  memoryWorld,
  type World,
  type WorldClock,
  type WorldStore,
} from './world.ts';

export const JOB = 'job';

/** The memory store of a fleet whose world is no other, with what only that one can do. */
export const memoryOf = (fleet: AnyFleet): MemoryStore => fleet.store as unknown as MemoryStore;

/** Short times that keep tests quick to read: a lease of 9 s, one operation 2 s. */
export const CONFIG: Partial<WorkerConfig> = {
  leaseDurationMs: 9_000,
  opTimeoutMs: 2_000,
  rebalanceDelayMs: 6_000,
  drainDeadlineMs: 5_000,
  maxAttempts: 3,
  maxInFlight: 8,
  reconcileIntervalMs: 12_000,
};
export const LEASE_MS = 9_000;

/** One line that a worker logged. */
export interface LoggedLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly event: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** What surrounds one worker of a test. */
export interface Surroundings {
  readonly id: string;
  readonly client: FaultyStore;
  readonly clock: WorkerClock;
  readonly events: CoordinationEvent[];
  readonly transitions: Transition[];
  readonly lines: LoggedLine[];
  /** The process dies on the spot: no goodbye, nothing of it runs or is sent any more. */
  crash(): void;
  /** Nothing of it runs or is sent until `thaw`; `time` as in `WorkerClock.freeze`. */
  freeze(time?: 'runs' | 'stops'): void;
  thaw(): void;
}

/** A worker that runs a handler. */
export interface HandledWorker extends Surroundings {
  readonly worker: Worker;
  /** What became of `run`. */
  readonly run: Outcome<Verdict>;
}

/** A worker driven on the seam by the test itself. */
export interface SeamWorker extends Surroundings {
  readonly coordinator: SplitCoordinator;
  /** Splits held now, by id, as the events told. */
  readonly held: Map<string, { epoch: string; watermark: bigint | null; state: Uint8Array | null }>;
  /** Splits asked back and neither handed back nor lost. */
  readonly asked: Set<string>;
  verdict: Verdict | null;
}

/** A promise that can be looked at. */
export interface Outcome<T> {
  state: 'pending' | 'resolved' | 'rejected';
  value?: T;
  error?: unknown;
}

/** Looks at a promise without waiting for it. */
export function watched<T>(promise: Promise<T>): Outcome<T> {
  const outcome: Outcome<T> = { state: 'pending' };
  promise.then(
    (value) => {
      outcome.state = 'resolved';
      outcome.value = value;
    },
    (error: unknown) => {
      outcome.state = 'rejected';
      outcome.error = error;
    },
  );
  return outcome;
}

export interface WorkerSetup {
  readonly planner?: Planner;
  readonly config?: Partial<WorkerConfig>;
  readonly job?: string;
  readonly prefix?: string;
  /** Ends the run of a handled worker. */
  readonly signal?: AbortSignal;
  /** How it is connected, where the store is a real one. */
  readonly store?: Connection;
}

export interface FleetOptions {
  /** A final plan of four splits when absent. */
  readonly planner?: Planner;
  readonly config?: Partial<WorkerConfig>;
  /** The test does something to the store that no other fleet may feel. */
  readonly ownStore?: boolean;
}

/** A fleet over a store of whatever kind. */
export type AnyFleet = Fleet<WorldStore>;

export class Fleet<S extends WorldStore = MemoryStore> {
  readonly clock: WorldClock;
  readonly store: S;
  readonly prefix: string;
  readonly keys;
  /** How much later than due something may happen; 0 on a virtual clock. */
  readonly slackMs: number;
  readonly #world: World<S>;
  readonly #config: Partial<WorkerConfig>;
  readonly #planner: Planner;
  readonly #stops: (() => Promise<unknown>)[] = [];
  #seed: number;

  constructor(options?: FleetOptions);
  constructor(options: FleetOptions, world: World<S>);
  constructor(options: FleetOptions = {}, world?: World<S>) {
    // Without a world of another kind, S is the memory store.
    this.#world = world ?? (memoryWorld() as unknown as World<S>);
    this.#config = { ...CONFIG, ...options.config };
    this.#planner = options.planner ?? finalPlan(['s1', 's2', 's3', 's4']);
    const { clock, store, prefix, seed, slackMs } = this.#world;
    this.#seed = seed;
    this.clock = clock;
    this.store = store;
    this.prefix = prefix;
    this.keys = jobKeys(prefix, JOB);
    this.slackMs = slackMs;
  }

  /** Starts a worker that runs `handler`. */
  worker(id: string, handler: Handler, setup: WorkerSetup = {}): HandledWorker {
    const around = this.#surroundings(id, setup.store);
    const worker = createWorker(this.#options(around, setup));
    listen(worker.events(), (event) => around.events.push(event));
    const run = watched(worker.run(handler, setup));
    this.#stops.push(() => worker.stop());
    return { ...around, worker, run };
  }

  /** Starts a worker on the seam. */
  seam(id: string, setup: WorkerSetup = {}): SeamWorker {
    const around = this.#surroundings(id, setup.store);
    const coordinator = createCoordinator(this.#options(around, setup));
    const seam: SeamWorker = {
      ...around,
      coordinator,
      held: new Map(),
      asked: new Set(),
      verdict: null,
    };
    coordinator.listen((event) => {
      around.events.push(event);
      fold(seam, event);
    });
    coordinator.start();
    this.#stops.push(() => coordinator.stop());
    return seam;
  }

  operator(): Operator {
    const { prefix, store } = this;
    return createOperator({ job: JOB, prefix, store, random: this.random() });
  }

  /** Another stream of random numbers. */
  random(): Random {
    this.#seed += 1;
    return seededRandom(this.#seed);
  }

  /** Moves time on. */
  advance(ms: number): Promise<void> {
    return this.clock.advance(ms);
  }

  /** Moves time on until `condition` holds; fails when it does not within `withinMs` and the slack of the world. */
  async until(
    what: string,
    condition: () => boolean,
    withinMs = 60_000,
    stepMs = 20,
  ): Promise<number> {
    const startMs = this.clock.nowMs();
    await this.clock.settle();
    while (!condition()) {
      if (this.clock.nowMs() - startMs >= withinMs + this.slackMs) {
        throw new Error(`${what}: not within ${withinMs} ms\n${this.describe()}`);
      }
      await this.#world.step(stepMs);
    }
    const tookMs = this.clock.nowMs() - startMs;
    // What made it hold may be known to a worker before it is known here.
    if (this.slackMs > 0) await this.clock.settle();
    return tookMs;
  }

  /** What is stored under a part of the job: `leases/`. */
  under(part: string): readonly Entry[] {
    return this.store.dump(this.keys.root + part);
  }

  /** The store's keys, for failure messages. */
  describe(): string {
    return this.store
      .dump(`${this.prefix}/`)
      .map((entry) => `${entry.key} @${entry.modRevision} ${entry.value.slice(0, 300)}`)
      .join('\n');
  }

  /** What is stored at a key now. */
  entry(key: string): Entry | undefined {
    return this.#world.entry(key);
  }

  plan(): PlanRecord | null {
    return this.#read(this.keys.plan, planCodec.decode);
  }

  split(id: string): SplitRecord | null {
    return this.#read(this.keys.split(id as SplitId), splitCodec.decode);
  }

  lease(id: string): LeaseRecord | null {
    return this.#read(this.keys.lease(id as SplitId), leaseCodec.decode);
  }

  assignment(instance: string): AssignmentRecord | null {
    return this.#read(this.keys.assignment(instance as InstanceId), assignmentCodec.decode);
  }

  /** Ids whose lease is owned by `instance` now. */
  leasesOf(instance: string): string[] {
    return this.under('leases/')
      .filter((entry) => {
        const decoded = leaseCodec.decode(entry.value);
        return decoded.kind === 'record' && decoded.record.owner === instance;
      })
      .map((entry) => entry.key.slice(`${this.keys.root}leases/`.length));
  }

  /** The instance on the leader key; null when there is none. */
  leader(): string | null {
    const entry = this.entry(this.keys.leader);
    return entry === undefined ? null : (JSON.parse(entry.value) as { owner: string }).owner;
  }

  /** Stops every worker that still runs; frozen and crashed ones are left as they are. */
  async close(): Promise<void> {
    await this.#world.end(Promise.allSettled(this.#stops.map((stop) => stop())));
  }

  #read<T>(
    key: string,
    decode: (text: string) => { kind: string } & ({ kind: 'record'; record: T } | { kind: string }),
  ): T | null {
    const entry = this.entry(key);
    if (entry === undefined) return null;
    const decoded = decode(entry.value);
    return decoded.kind === 'record' ? (decoded as { record: T }).record : null;
  }

  #surroundings(id: string, how?: Connection): Surroundings {
    const clock = workerClock(this.clock);
    const client = faultyStore(this.#world.connect(how), {
      clock: this.clock,
      random: this.random(),
    });
    return {
      id,
      client,
      clock,
      events: [],
      transitions: [],
      lines: [],
      crash: () => {
        client.freeze();
        clock.freeze('runs');
      },
      freeze: (time = 'runs') => {
        client.freeze();
        clock.freeze(time);
      },
      thaw: () => {
        client.thaw();
        clock.thaw();
      },
    };
  }

  #options(around: Surroundings, setup: WorkerSetup) {
    const line =
      (level: LoggedLine['level']) =>
      (fields: Readonly<Record<string, unknown>>, message: string): void => {
        around.lines.push({ level, event: String(fields.event), message, fields });
      };
    return {
      job: setup.job ?? JOB,
      prefix: setup.prefix ?? this.prefix,
      store: around.client,
      instanceId: around.id,
      planner: setup.planner ?? this.#planner,
      config: { ...this.#config, ...setup.config },
      clock: around.clock,
      random: this.random(),
      logger: {
        debug: line('debug'),
        info: line('info'),
        warn: line('warn'),
        error: line('error'),
      },
      inspect: (transition: Transition) => {
        around.transitions.push(transition);
      },
    };
  }
}

/** A planner of one final plan. */
export function finalPlan(
  splits: readonly (string | PlannedSplit)[],
  fingerprint = 'plan:v1',
): Planner {
  return {
    fingerprint: () => fingerprint,
    plan: (): PlanAnswer => ({
      splits: splits.map((split) =>
        typeof split === 'string' ? { id: split, descriptor: `data of ${split}` } : split,
      ),
      finality: 'final',
    }),
  };
}

/** Ids `s0` to `s<count-1>`. */
export function ids(count: number, prefix = 's'): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}${index}`);
}

/** A handler that holds its split until it is asked back, then returns. */
export const holdUntilAsked: Handler = async (grant: Grant) => {
  await Promise.race([grant.draining.whenRequested(), lost(grant)]);
};

/** A handler that commits once and completes. */
export const completeAtOnce: Handler = async (grant: Grant) => {
  await grant.complete({ watermark: 1 });
};

/** Resolves when the grant is lost. */
export function lost(grant: Grant): Promise<void> {
  if (grant.lost.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    grant.lost.addEventListener('abort', () => {
      resolve();
    });
  });
}

/** Hands every event of a stream over as it comes. */
export function listen(
  stream: AsyncIterable<CoordinationEvent>,
  take: (event: CoordinationEvent) => void,
): void {
  void (async () => {
    for await (const event of stream) take(event);
  })();
}

function fold(seam: SeamWorker, event: CoordinationEvent): void {
  switch (event.type) {
    case 'gained':
      seam.held.set(event.split.id, {
        epoch: event.epoch,
        watermark: event.progress?.watermark ?? null,
        state: event.progress?.state ?? null,
      });
      return;
    case 'revokeRequested':
      seam.asked.add(event.splitId);
      return;
    case 'revokeCancelled':
      seam.asked.delete(event.splitId);
      return;
    case 'lost':
      seam.held.delete(event.splitId);
      seam.asked.delete(event.splitId);
      return;
    case 'verdict':
      seam.verdict = event.verdict;
      return;
    case 'quarantined':
    case 'leadershipGained':
    case 'leadershipLost':
    case 'sessionLost':
    case 'plannerFailed':
      return;
  }
}
