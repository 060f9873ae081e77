/** The world of one run: one clock, one store, one seed, and the processes that live in it. */
import type { Clock } from '../../base/clock.ts';
import { hash32 } from '../../base/hash.ts';
import { type Random, seededRandom } from '../../base/random.ts';
import { type VirtualClock, virtualClock } from '../../base/virtual-clock.ts';
import { type JobKeys, jobKeys } from '../../records/keys.ts';
import { type MemoryStore, memoryStore } from '../../store/memory.ts';
import type { Batch, Store } from '../../store/port.ts';
import type { Program } from './program.ts';
import { Recorder } from '../checks/time-line.ts';
import type { Scenario } from './scenario.ts';
import { JOB, PREFIX, SimulatedProcess, type Surroundings } from './simulated-process.ts';

/** How long a supervisor waits before it starts a process that failed again. */
const RESTART_MS = 500;

/** Something that is wrong with the connection of a worker. */
interface Disturbance {
  /** Null: of all workers. */
  readonly slot: number | null;
  readonly strike: (process: SimulatedProcess) => void;
}

/** Calls that a fleet may make without any time passing. */
const CALLS_MAX = 5_000;

export class World implements Surroundings {
  readonly scenario: Scenario;
  readonly seed: number;
  readonly program: Program;
  readonly clock: VirtualClock;
  readonly store: MemoryStore;
  readonly keys: JobKeys = jobKeys(PREFIX, JOB);
  readonly recorder: Recorder;
  /** Draws for what the scenario leaves open. */
  readonly random: Random;
  readonly processes: SimulatedProcess[] = [];
  /** How often each kind of fault has struck, those of the connections aside. */
  readonly struck: Record<string, number> = {};
  /** The faults are over: handlers and planners do what they should, and everybody finishes. */
  isCalm = false;
  /** The store as clients reach it. */
  readonly server: Store & { readonly clusterId: string };
  /** Counts the stores that have stood in this place. */
  life = 0;
  #tenancies = 0;
  readonly #sentIn = new WeakMap<Batch, number>();
  /** Effects that outlast the faults: until when they begin, and how long each lasts at most. */
  readonly #tails: { readonly untilMs: number; readonly forMs: number }[] = [];
  readonly #disturbances = new Set<Disturbance>();
  readonly #newest: (SimulatedProcess | undefined)[] = [];

  constructor(scenario: Scenario, program: (world: World) => Program) {
    this.scenario = scenario;
    this.seed = scenario.seed;
    const draw = (name: string): Random => seededRandom(hash32(scenario.seed, name));
    this.random = draw('world');
    this.clock = virtualClock({ order: draw('timers') });
    this.store = memoryStore({
      clock: this.clock,
      random: draw('store'),
      keepAudit: true,
      expiryLagMsMax: scenario.expiryLagMs,
    });
    this.recorder = new Recorder(
      () => this.clock.nowMs(),
      () => Number(this.store.revision),
    );
    const arrives = (batch: Batch): boolean => this.#sentIn.get(batch) === this.life;
    this.server = patient(this.store, { clock: this.clock, arrives }, () => {
      const text = `more than ${CALLS_MAX} calls at one instant: somebody goes round without end`;
      this.recorder.note({ kind: 'uncaught', process: null, text });
    });
    this.program = program(this);
  }

  /** Counts a fault that struck. */
  strike(kind: string): void {
    this.struck[kind] = (this.struck[kind] ?? 0) + 1;
  }

  sent(batch: Batch): void {
    this.#sentIn.set(batch, this.life);
  }

  /** Another store takes the place of this one; what was on its way to the old one arrives nowhere. */
  replaceStore(replace: (store: MemoryStore) => void): void {
    const writes = this.store.history().length;
    replace(this.store);
    this.life += 1;
    this.recorder.note({ kind: 'replaced', writes });
  }

  /** Something begins to happen for `untilMs` milliseconds from now, and each time goes on for `forMs` at most. */
  lasts(untilMs: number, forMs: number): void {
    this.#tails.push({ untilMs: this.clock.nowMs() + untilMs, forMs });
  }

  /** When nothing is wrong any more, if no fault begins from now on. */
  get overAtMs(): number {
    const nowMs = this.clock.nowMs();
    const ends = this.#tails.map(({ untilMs, forMs }) => Math.min(untilMs, nowMs) + forMs);
    return Math.max(nowMs, ...ends);
  }

  /** A number for the next tenancy. */
  nextTenancy(): number {
    this.#tenancies += 1;
    return this.#tenancies - 1;
  }

  /** The newest process of a worker; undefined before its first one. */
  at(slot: number): SimulatedProcess | undefined {
    return this.#newest[slot];
  }

  /** Processes that are neither dead nor gone. */
  alive(): SimulatedProcess[] {
    return this.processes.filter(({ state }) => state === 'running' || state === 'frozen');
  }

  /** Starts a process of a worker. */
  spawn(slot: number, instance = this.scenario.workers[slot]!.id): SimulatedProcess {
    const worker = this.scenario.workers[slot]!;
    const process = new SimulatedProcess(this, {
      number: this.processes.length,
      slot,
      instance,
      config: { ...this.scenario.config, maxInFlight: worker.maxInFlight },
      clockRate: worker.clockRate,
      wallOffsetMs: worker.wallOffsetMs,
    });
    this.processes.push(process);
    this.#newest[slot] = process;
    for (const disturbance of this.#disturbances) {
      const { slot: of } = disturbance;
      if ((of === null || of === slot) && !this.isCalm) disturbance.strike(process);
    }
    process.start();
    return process;
  }

  /** Runs `act` after `ms` milliseconds, unless the faults are over by then. */
  later(ms: number, act: () => void): void {
    this.clock.setTimeout(() => {
      if (!this.isCalm) act();
    }, ms);
  }

  /**
   * Something is wrong with the connection of a worker for a while, whichever process it is.
   *
   * @param strike  Begins it for one process, and returns how to end it.
   */
  disturb(slot: number, forMs: number, strike: (process: SimulatedProcess) => () => void): void {
    const process = this.at(slot);
    const isThere = process?.state === 'running' || process?.state === 'frozen';
    this.later(forMs, this.#begin(slot, isThere ? [process] : [], strike));
  }

  /** Something is wrong with the connections of all processes, until called. */
  disturbAll(strike: (process: SimulatedProcess) => () => void): () => void {
    return this.#begin(null, this.alive(), strike);
  }

  #begin(
    slot: number | null,
    processes: readonly SimulatedProcess[],
    strike: (process: SimulatedProcess) => () => void,
  ): () => void {
    const ends: (() => void)[] = [];
    const disturbance: Disturbance = {
      slot,
      strike: (process) => {
        ends.push(strike(process));
      },
    };
    this.#disturbances.add(disturbance);
    for (const process of processes) disturbance.strike(process);
    return () => {
      this.#disturbances.delete(disturbance);
      for (const end of ends) end();
    };
  }

  /** Blocks a process for a while. */
  block(process: SimulatedProcess, ms: number): void {
    if (!process.freeze('runs')) return;
    this.strike('block');
    this.clock.setTimeout(() => {
      process.thaw();
    }, ms);
  }

  /** A process dies; the supervisor starts the next one. */
  kill(process: SimulatedProcess): void {
    if (process.state === 'dead' || process.state === 'gone') return;
    process.crash();
    this.strike('kill');
    this.respawn(process, RESTART_MS);
  }

  /** Starts the next process of a worker after a while, unless there is one by then. */
  respawn(process: SimulatedProcess, afterMs: number, instance = process.instance): void {
    this.clock.setTimeout(() => {
      if (this.at(process.slot) === process) this.spawn(process.slot, instance);
    }, afterMs);
  }

  /** A process has left by itself: one that failed is started again. */
  left(process: SimulatedProcess, code: string | null): void {
    const hasFailed = code !== null && !process.isStopping;
    if (this.at(process.slot) !== process || !hasFailed) return;
    const twin = this.alive().find(({ slot, isStopping }) => slot === process.slot && !isStopping);
    if (twin === undefined) this.respawn(process, RESTART_MS);
    else this.#newest[process.slot] = twin;
  }
}

/** How a store is reached. */
interface Way {
  readonly clock: Clock;
  /** False when it was sent to a store that is gone. */
  readonly arrives: (batch: Batch) => boolean;
}

/** A store that stops answering a fleet that goes round and round at one instant: the run would never end. */
function patient(
  store: MemoryStore,
  { clock, arrives }: Way,
  onLoop: () => void,
): Store & { readonly clusterId: string } {
  let atMs = -1;
  let calls = 0;
  const never = <T>(): Promise<T> => new Promise(() => undefined);
  const answer = <T>(call: () => Promise<T>): Promise<T> => {
    if (clock.nowMs() !== atMs) {
      atMs = clock.nowMs();
      calls = 0;
    }
    calls += 1;
    if (calls === CALLS_MAX) onLoop();
    return calls < CALLS_MAX ? call() : never();
  };
  return {
    name: store.name,
    get clusterId() {
      return store.clusterId;
    },
    openSession: (...args) => answer(() => store.openSession(...args)),
    keepAlive: (...args) => answer(() => store.keepAlive(...args)),
    closeSession: (...args) => answer(() => store.closeSession(...args)),
    read: (...args) => answer(() => store.read(...args)),
    transact: (batch, options) =>
      answer(() => (arrives(batch) ? store.transact(batch, options) : never())),
    watch: (...args) => store.watch(...args),
    close: () => store.close(),
  };
}
