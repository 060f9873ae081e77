/** One process of a simulated fleet: a real worker with a client and a clock of its own, which can go wrong by themselves. */
import { isLeaseholdError, messageOf } from '../../base/errors.ts';
import type { VirtualClock } from '../../base/virtual-clock.ts';
import { hash32 } from '../../base/hash.ts';
import { type Random, seededRandom } from '../../base/random.ts';
import type {
  PlanAnswer,
  PlannedSplit,
  Planner,
  Progress,
  Verdict,
} from '../../coordinator/api/api.ts';
import type { WorkerConfig } from '../../coordinator/api/config.ts';
import type { Transition } from '../../coordinator/api/transition.ts';
import type { Grant } from '../../driver/grant.ts';
import { createWorker, type Worker } from '../../driver/worker.ts';
import { type FaultyStore, faultyStore } from '../../store/faults.ts';
import type { PartitionOptions } from '../../store/faults.ts';
import type { Batch, Store } from '../../store/port.ts';
import { type WorkerClock, workerClock } from '../worker-clock.ts';
import type { Recorder } from '../checks/time-line.ts';
import type { HandlerContext, Program } from './program.ts';
import { type HugeAnswers, hugeAnswers } from './huge-answers.ts';
import type { Scenario } from './scenario.ts';
import { SeenGrant } from './seen-grant.ts';

/** Names the job of every simulation. */
export const JOB = 'job';
export const PREFIX = 'sim';

/** What a process sees of the world it lives in. */
export interface Surroundings {
  readonly scenario: Scenario;
  readonly seed: number;
  readonly program: Program;
  readonly clock: VirtualClock;
  readonly recorder: Recorder;
  readonly isCalm: boolean;
  /** The store as clients reach it. */
  readonly server: Store & { readonly clusterId: string };
  /** Counts the stores that have stood in this place. */
  readonly life: number;
  /** Notes that a batch was sent to the store that is there now: one that comes after it arrives nowhere. */
  sent(batch: Batch): void;
  /** A number for the next tenancy. */
  nextTenancy(): number;
  /** Blocks a process for a while. */
  block(process: SimulatedProcess, ms: number): void;
  /** A process dies; the supervisor starts the next one. */
  kill(process: SimulatedProcess): void;
  /** A process has left by itself. */
  left(process: SimulatedProcess, code: string | null): void;
}

/** How a process is made. */
export interface ProcessOptions {
  readonly number: number;
  /** The worker of the scenario that it is a process of. */
  readonly slot: number;
  readonly instance: string;
  readonly config: Partial<WorkerConfig>;
  readonly clockRate: number;
  readonly wallOffsetMs: number;
}

/**
 * - `running`: as it should.
 * - `frozen`: nothing of it runs until it thaws.
 * - `dead`: nothing of it ever runs again.
 * - `gone`: it has left by itself.
 */
export type ProcessState = 'running' | 'frozen' | 'dead' | 'gone';

export class SimulatedProcess {
  readonly number: number;
  readonly slot: number;
  readonly instance: string;
  readonly nonce: string;
  readonly client: FaultyStore;
  /** How its answers are when values are huge. */
  readonly answers: HugeAnswers;
  readonly clock: WorkerClock;
  readonly worker: Worker;
  state: ProcessState = 'running';
  isLeading = false;
  isStopping = false;
  /** Handlers that have begun and not returned. */
  handlers = 0;
  /** Timers that handlers and planners wait for. */
  sleepers = 0;
  /** What its run resolved to; null before, and when it failed. */
  verdict: Verdict | null = null;
  callsWhenLeft = 0;
  readonly #world: Surroundings;
  readonly #random: Random;
  readonly #cuts = new Set<PartitionOptions>();

  constructor(world: Surroundings, options: ProcessOptions) {
    this.#world = world;
    this.number = options.number;
    this.slot = options.slot;
    this.instance = options.instance;
    const draw = (name: string): Random =>
      seededRandom(hash32(world.seed, `${name} ${options.number}`));
    this.#random = draw('handlers');
    this.clock = workerClock(world.clock, {
      rate: options.clockRate,
      wallOffsetMs: options.wallOffsetMs,
    });
    this.answers = hugeAnswers(world.server, world.clock);
    this.client = faultyStore(this.answers.store, {
      clock: world.clock,
      random: draw('client'),
      latency: world.scenario.latencyMs === 0 ? 0 : [0, world.scenario.latencyMs / 2],
      logMax: 0,
    });
    this.worker = createWorker({
      job: JOB,
      prefix: PREFIX,
      store: this.#sending(),
      instanceId: this.instance,
      planner: this.#heardPlanner(world.program.planner(this.clock)),
      config: options.config,
      clock: this.clock,
      random: draw('worker'),
      inspect: (transition) => {
        this.#inspect(transition);
      },
      logger: {
        debug: ignore,
        info: ignore,
        warn: ignore,
        error: (fields, message) => {
          if (fields.event !== 'worker.bug') return;
          world.recorder.note({
            kind: 'uncaught',
            process: this.number,
            text: `${message} ${String(fields.stack)}`,
          });
        },
      },
    });
    this.nonce = this.worker.status().nonce;
  }

  /** Calls made to the store. */
  get callCount(): number {
    return Object.values(this.client.counts).reduce((sum, count) => sum + count, 0);
  }

  /** Begins to work. */
  start(): void {
    const { recorder } = this.#world;
    const { number: process, instance, nonce } = this;
    recorder.note({ kind: 'started', process, instance, nonce });
    this.worker
      .run((grant) => this.#handle(grant))
      .then(
        (verdict) => ({ verdict, code: null }),
        (error: unknown) => ({
          verdict: null,
          code: isLeaseholdError(error) ? error.code : messageOf(error),
        }),
      )
      .then(async ({ verdict, code }) => {
        await this.worker.stop();
        if (this.state === 'dead') return;
        this.state = 'gone';
        this.verdict = verdict;
        this.callsWhenLeft = this.callCount;
        recorder.note({ kind: 'left', process, verdict, code });
        this.#world.left(this, code);
      })
      .catch((error: unknown) => {
        recorder.note({ kind: 'uncaught', process, text: String(error) });
      });
  }

  /** Asks it to leave. */
  stop(): void {
    if (this.isStopping || this.state === 'dead' || this.state === 'gone') return;
    this.isStopping = true;
    this.#world.recorder.note({ kind: 'stopAsked', process: this.number });
    void this.worker.stop();
  }

  /** Dies on the spot. What it has sent may still land. */
  crash(): void {
    if (this.state === 'dead' || this.state === 'gone') return;
    this.state = 'dead';
    this.client.freeze();
    this.clock.freeze('runs');
    this.#world.recorder.note({ kind: 'crashed', process: this.number });
  }

  /** Stops on the spot until it thaws; false when it cannot. */
  freeze(time: 'runs' | 'stops'): boolean {
    if (this.state !== 'running') return false;
    this.state = 'frozen';
    this.client.freeze();
    this.clock.freeze(time);
    const by = time === 'runs' ? 'frozen' : 'suspended';
    this.#world.recorder.note({ kind: 'disturbed', process: this.number, by });
    return true;
  }

  /** Goes on: input before timers, or after them. */
  thaw(): void {
    if (this.state !== 'frozen') return;
    this.state = 'running';
    this.#world.recorder.note({ kind: 'thawed', process: this.number });
    this.client.thaw();
    this.clock.thaw();
  }

  /** Cuts it off from the store until called; of several cuts the newest says how. */
  cutOff(how: PartitionOptions): () => void {
    const cut = { ...how };
    this.#cuts.add(cut);
    this.client.partition(cut);
    return () => {
      if (!this.#cuts.delete(cut)) return;
      const newest = [...this.#cuts].at(-1);
      if (newest === undefined) this.client.heal();
      else this.client.partition(newest);
    };
  }

  /** Ends whatever is wrong with its connection, cuts of watches aside. */
  heal(): void {
    this.#cuts.clear();
    this.client.clearRules();
    this.client.heal();
    this.answers.heal();
  }

  /** Waits on the clock of the process. */
  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted === true) return Promise.resolve();
    return new Promise((resolve) => {
      this.sleepers += 1;
      const end = (): void => {
        this.sleepers -= 1;
        signal?.removeEventListener('abort', wake);
        resolve();
      };
      const timer = this.clock.setTimeout(end, ms);
      const wake = (): void => {
        this.clock.clearTimeout(timer);
        end();
      };
      signal?.addEventListener('abort', wake, { once: true });
    });
  }

  async #handle(grant: Grant): Promise<void> {
    const { recorder, program } = this.#world;
    const tenancy = this.#world.nextTenancy();
    this.handlers += 1;
    recorder.note({
      kind: 'granted',
      tenancy,
      process: this.number,
      split: grant.split.id,
      epoch: grant.epoch,
      watermark: watermarkOf(grant.progress),
    });
    grant.lost.addEventListener('abort', () => {
      recorder.note({ kind: 'lost', tenancy });
    });
    void this.#noteAskedBack(grant, tenancy);
    const seen = new SeenGrant(grant, tenancy, recorder);
    try {
      await program.handler(seen, this.#context(tenancy));
      this.handlers -= 1;
      recorder.note({ kind: 'returned', tenancy, error: null });
    } catch (error) {
      this.handlers -= 1;
      recorder.note({ kind: 'returned', tenancy, error: messageOf(error) });
      throw error;
    }
  }

  /** The first request; those after one that was withdrawn are not noted. */
  async #noteAskedBack({ draining, lost }: Grant, tenancy: number): Promise<void> {
    await draining.whenRequested();
    const { requested, reason } = draining;
    if (requested && !lost.aborted) {
      this.#world.recorder.note({ kind: 'askedBack', tenancy, reason });
    }
  }

  /** The client as the worker has it. */
  #sending(): Store {
    const { client } = this;
    return {
      name: client.name,
      openSession: (...args) => client.openSession(...args),
      keepAlive: (...args) => client.keepAlive(...args),
      closeSession: (...args) => client.closeSession(...args),
      read: (...args) => client.read(...args),
      transact: (batch, options) => {
        this.#world.sent(batch);
        return client.transact(batch, options);
      },
      watch: (...args) => client.watch(...args),
      close: () => client.close(),
    };
  }

  /** The same planner, with its answers on the time line. */
  #heardPlanner(planner: Planner): Planner {
    return {
      fingerprint: () => planner.fingerprint(),
      plan: async (request) => {
        const answer = await planner.plan(request);
        const splits = this.#heard(answer, request.generation);
        // What is no answer goes on as it is, for the worker to refuse.
        return Symbol.iterator in Object(answer?.splits) ? { ...answer, splits } : answer;
      },
    };
  }

  /** The splits of an answer; that it was given is noted once all of them have been read. */
  *#heard({ splits, finality }: PlanAnswer, generation: number): Generator<PlannedSplit> {
    const ids: string[] = [];
    for (const split of splits) {
      ids.push(split?.id);
      yield split;
    }
    const { number: process } = this;
    this.#world.recorder.note({ kind: 'planned', process, generation, splits: ids, finality });
  }

  #context(tenancy: number): HandlerContext {
    return {
      instance: this.instance,
      clock: this.clock,
      random: this.#random,
      sleep: (ms, signal) => this.sleep(ms, signal),
      wrote: (what) => {
        this.#world.recorder.note({ kind: 'wrote', tenancy, what });
      },
      block: async (ms) => {
        this.#world.block(this, ms);
        await this.sleep(0);
      },
      kill: () => {
        this.#world.kill(this);
        return new Promise(ignore);
      },
    };
  }

  #inspect({ chart, id, to }: Transition): void {
    if (chart === 'tenancy' && to === 'lostFenced') {
      this.#world.recorder.note({ kind: 'fenced', process: this.number, split: id });
    }
    if (chart !== 'leader') return;
    const isLeading = to.startsWith('leading');
    if (isLeading === this.isLeading) return;
    this.isLeading = isLeading;
    const kind = isLeading ? 'leads' : 'leadsNoMore';
    this.#world.recorder.note({ kind, process: this.number });
  }
}

function watermarkOf(progress: Progress | null): string | null {
  return progress === null ? null : String(progress.watermark);
}

function ignore(): void {
  // Nobody reads it.
}
