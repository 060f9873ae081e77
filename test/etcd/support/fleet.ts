/**
 * A fleet of workers over a real etcd, in real time. Workers of the test's own process have a store client each; others run
 * in child processes. What they did is on one time line; what the store holds is read from the recorded history.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { InstanceId, SplitId } from '../../../src/base/ids.ts';
import type { CoordinationEvent, Planner, Verdict } from '../../../src/coordinator/api/api.ts';
import type { WorkerConfig } from '../../../src/coordinator/api/config.ts';
import { createWorker, type Handler, type Worker } from '../../../src/driver/worker.ts';
import { jobKeys } from '../../../src/records/keys.ts';
import {
  type AssignmentRecord,
  assignmentCodec,
  type LeaderRecord,
  leaderCodec,
  type LeaseRecord,
  leaseCodec,
  type PlanRecord,
  planCodec,
  type SplitRecord,
  splitCodec,
} from '../../../src/records/records.ts';
import { etcdStore, type EtcdStore, type EtcdStoreOptions } from '../../../src/store/etcd/index.ts';
import { finalPlan, type LoggedLine, type Outcome, watched } from '../../support/fleet.ts';
import { ChildWorker } from './child.ts';
import type { ChildSetup } from './child-worker.ts';
import type { Gateway } from './server/gateway.ts';
import { type HistoryRecorder, type RecordedEntry, startRecorder } from './history/history.ts';
import { type EtcdOptions, type EtcdServer, startEtcd } from './server.ts';
import { machineMs, TimeLine } from './time-line.ts';
import { noteEvent, steadyWork, type Work } from './work.ts';

const JOB = 'job';
const PREFIX = 'test';
export const LEASE_MS = 3_000;

/** Leases near the least that etcd grants; everything else in proportion. */
export const CONFIG: Partial<WorkerConfig> = {
  leaseDurationMs: LEASE_MS,
  opTimeoutMs: 1_000,
  rebalanceDelayMs: 500,
  drainDeadlineMs: 1_000,
  maxAttempts: 3,
  maxInFlight: 8,
  replanIntervalMs: LEASE_MS,
  reconcileIntervalMs: 4_000,
};

/** A worker of this process. */
export interface FleetWorker {
  readonly id: string;
  readonly worker: Worker;
  readonly store: EtcdStore;
  readonly events: CoordinationEvent[];
  readonly lines: LoggedLine[];
  /** What became of `run`. */
  readonly run: Outcome<Verdict>;
}

export interface FleetSetup {
  readonly endpoints: readonly string[];
  readonly gateways: readonly Gateway[];
  readonly config?: Partial<WorkerConfig>;
  /** A final plan of these when no planner is given. */
  readonly splits?: readonly string[];
  readonly planner?: Planner;
  readonly work?: Work;
  /** Ends the servers. */
  readonly end?: () => Promise<void>;
}

export interface WorkerSetup {
  readonly config?: Partial<WorkerConfig>;
  readonly planner?: Planner;
  readonly work?: Work;
  readonly handler?: Handler;
  readonly store?: Partial<EtcdStoreOptions>;
}

const POLL_MS = 25;

export class EtcdFleet {
  readonly timeLine = new TimeLine();
  readonly keys = jobKeys(PREFIX, JOB);
  readonly recorder: HistoryRecorder;
  readonly workers: FleetWorker[] = [];
  readonly children: ChildWorker[] = [];
  readonly #setup: FleetSetup;
  readonly #now = new Map<string, RecordedEntry>();
  readonly #stores: EtcdStore[] = [];
  #read = 0;

  constructor(setup: FleetSetup) {
    this.#setup = setup;
    this.recorder = startRecorder(setup.gateways);
  }

  /** Starts a worker in this process. */
  worker(id: string, setup: WorkerSetup = {}): FleetWorker {
    const store = etcdStore({ endpoints: this.#setup.endpoints, ...setup.store });
    const note = this.timeLine.noteFor(id);
    const lines: LoggedLine[] = [];
    const line =
      (level: LoggedLine['level']) =>
      (fields: Readonly<Record<string, unknown>>, message: string): void => {
        lines.push({ level, event: String(fields.event), message, fields });
      };
    const worker = createWorker({
      job: JOB,
      prefix: PREFIX,
      store,
      instanceId: id,
      planner: setup.planner ?? this.#setup.planner ?? finalPlan(this.#setup.splits ?? ['s1']),
      config: { ...CONFIG, ...this.#setup.config, ...setup.config },
      logger: {
        debug: line('debug'),
        info: line('info'),
        warn: line('warn'),
        error: line('error'),
      },
    });
    const events: CoordinationEvent[] = [];
    void (async () => {
      for await (const event of worker.events()) {
        events.push(event);
        noteEvent(note, event);
      }
    })();
    const work = setup.work ?? this.#setup.work ?? { stepMs: 50 };
    const run = watched(worker.run(setup.handler ?? steadyWork(note, work)));
    const started = { id, worker, store, events, lines, run };
    this.workers.push(started);
    this.#stores.push(store);
    return started;
  }

  /** Starts a worker in a process of its own. */
  child(
    id: string,
    setup: Pick<WorkerSetup, 'config'> & Partial<Pick<ChildSetup, 'manySplits' | 'work'>> = {},
  ): ChildWorker {
    const child = new ChildWorker(
      {
        id,
        job: JOB,
        prefix: PREFIX,
        endpoints: this.#setup.endpoints,
        splits: this.#setup.splits ?? ['s1'],
        config: { ...CONFIG, ...this.#setup.config, ...setup.config },
        work: setup.work ?? this.#setup.work ?? { stepMs: 50 },
        ...(setup.manySplits === undefined ? {} : { manySplits: setup.manySplits }),
      },
      this.timeLine,
    );
    this.children.push(child);
    return child;
  }

  /** Waits until `condition` holds; returns how long it took. */
  async until(what: string, condition: () => boolean, withinMs = 20_000): Promise<number> {
    const startMs = machineMs();
    while (!condition()) {
      if (machineMs() - startMs > withinMs) {
        throw new Error(`${what}: not within ${withinMs} ms\n${this.describe()}`);
      }
      await sleep(POLL_MS);
    }
    return machineMs() - startMs;
  }

  /** Fails when `condition` ceases to hold within this time. */
  async stays(what: string, condition: () => boolean, forMs: number): Promise<void> {
    const endMs = machineMs() + forMs;
    while (machineMs() < endMs) {
      if (!condition()) throw new Error(`${what}: ceased\n${this.describe()}`);
      await sleep(POLL_MS);
    }
  }

  /** The newest version of a key; undefined when it is absent. */
  entry(key: string): RecordedEntry | undefined {
    return this.#current().get(key);
  }

  /** What is stored now under a prefix of the job: `leases/`. */
  under(kind: string): RecordedEntry[] {
    const prefix = this.keys.root + kind;
    return [...this.#current().values()].filter(({ key }) => key.startsWith(prefix));
  }

  plan(): PlanRecord | null {
    return this.#record(this.keys.plan, planCodec.decode);
  }

  split(id: string): SplitRecord | null {
    return this.#record(this.keys.split(id as SplitId), splitCodec.decode);
  }

  lease(id: string): LeaseRecord | null {
    return this.#record(this.keys.lease(id as SplitId), leaseCodec.decode);
  }

  assignment(instance: string): AssignmentRecord | null {
    return this.#record(this.keys.assignment(instance as InstanceId), assignmentCodec.decode);
  }

  leader(): LeaderRecord | null {
    return this.#record(this.keys.leader, leaderCodec.decode);
  }

  /** Ids of the splits whose lease an instance holds now. */
  leasesOf(instance: string): string[] {
    const prefix = `${this.keys.root}leases/`;
    return this.under('leases/')
      .map(({ key }) => key.slice(prefix.length))
      .filter((id) => this.lease(id)?.owner === instance)
      .sort();
  }

  /** Watermark of a split in the store. */
  watermark(id: string): number {
    return Number(this.split(id)?.watermark ?? 0);
  }

  /** True when each of the splits has a lease and is being worked on: it was committed above this watermark. */
  areServed(ids: readonly string[], above: ReadonlyMap<string, number>): boolean {
    return ids.every((id) => this.lease(id) !== null && this.watermark(id) > (above.get(id) ?? 0));
  }

  /** The watermarks of the splits now. */
  watermarks(ids: readonly string[]): Map<string, number> {
    return new Map(ids.map((id) => [id, this.watermark(id)]));
  }

  /** Everything that is wrong with the history; nothing else is asked. */
  verify(): Promise<string[]> {
    return this.recorder.verify();
  }

  /** Stops everything that was started. */
  async close(): Promise<void> {
    await Promise.all([
      ...this.workers.map(({ worker }) => worker.stop()),
      ...this.children.map((child) => child.stop()),
    ]);
    await Promise.all(this.#stores.map((store) => store.close()));
    await this.recorder.stop();
    await this.#setup.end?.();
  }

  /** For failure messages. */
  describe(): string {
    const keys = [...this.#current().values()]
      .filter(({ key }) => key.startsWith(this.keys.root))
      .slice(0, 60)
      .map(({ key, revision, session, value }) =>
        [key, `@${revision}`, session ?? '', value?.slice(0, 240)].join(' '),
      );
    const warnings = this.workers.slice(0, 4).flatMap(({ id, lines }) =>
      lines
        .filter(({ level }) => level !== 'debug')
        .slice(-15)
        .map(({ level, event, message, fields }) =>
          [id, level, event, message, JSON.stringify(fields)].join(' ').slice(0, 400),
        ),
    );
    const states = this.workers.slice(0, 4).map(({ worker }) => JSON.stringify(worker.status()));
    return [...keys, this.timeLine.tail(), ...warnings, ...states].join('\n');
  }

  #current(): ReadonlyMap<string, RecordedEntry> {
    const { entries } = this.recorder;
    for (; this.#read < entries.length; this.#read += 1) {
      const entry = entries[this.#read]!;
      if (entry.value === null) this.#now.delete(entry.key);
      else this.#now.set(entry.key, entry);
    }
    return this.#now;
  }

  #record<T>(
    key: string,
    decode: (text: string) => { kind: string } & ({ kind: 'record'; record: T } | { kind: string }),
  ): T | null {
    const value = this.entry(key)?.value;
    if (value === undefined || value === null) return null;
    const decoded = decode(value);
    return decoded.kind === 'record' ? (decoded as { record: T }).record : null;
  }
}

/** A fleet over a server of its own. */
export async function startFleet(
  setup: Partial<FleetSetup> = {},
  options: EtcdOptions = {},
): Promise<{ fleet: EtcdFleet; server: EtcdServer }> {
  const server = await startEtcd(options);
  const fleet = new EtcdFleet({
    endpoints: [server.endpoint],
    gateways: [server.gateway],
    ...setup,
    end: () => server.stop(),
  });
  return { fleet, server };
}
