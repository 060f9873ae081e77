/**
 * A fleet that runs a job over a real etcd, in real time. Workers of the test's own process have a client each; others run in
 * child processes. What they did is on one time line; what the store holds is read from the recorded history.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Planner, WorkerConfig } from '../../../src/index.ts';
import {
  finalPlan,
  Fleet,
  type HandledWorker,
  JOB,
  listen,
  type WorkerSetup,
} from '../../support/fleet.ts';
import { patiently } from '../../support/patience.js';
import { ChildWorker } from './child.ts';
import type { ChildSetup } from './child-worker.ts';
import type { Gateway } from './server/gateway.ts';
import { type HistoryRecorder, startRecorder } from './history/history.ts';
import { type EtcdOptions, type EtcdServer, startEtcd } from './server.ts';
import { machineMs, TimeLine } from './time-line.ts';
import type { EtcdView } from './view.ts';
import { noteEvent, steadyWork, type Work } from './work.ts';
import { JobWorld } from './world.ts';

/** So many seconds on a machine that has time for the test, and more on a busy one; whole ones, as etcd counts leases. */
export function seconds(count: number): number {
  return Math.ceil(patiently(count)) * 1_000;
}

export const LEASE_MS = seconds(3);

/** Leases near the least that etcd grants; everything else in proportion. */
export const CONFIG: Partial<WorkerConfig> = {
  leaseDurationMs: LEASE_MS,
  opTimeoutMs: LEASE_MS / 3,
  rebalanceDelayMs: LEASE_MS / 6,
  drainDeadlineMs: LEASE_MS / 3,
  maxAttempts: 3,
  maxInFlight: 8,
  replanIntervalMs: LEASE_MS,
  reconcileIntervalMs: seconds(4),
};

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

const POLL_MS = 25;

export class EtcdFleet extends Fleet<EtcdView> {
  readonly timeLine = new TimeLine();
  readonly recorder: HistoryRecorder;
  readonly workers: HandledWorker[] = [];
  /** Of whatever program. */
  readonly children: Pick<ChildWorker, 'stop'>[] = [];
  readonly #setup: FleetSetup;

  constructor(setup: FleetSetup) {
    const { endpoints, gateways, splits = ['s1'], planner = finalPlan(splits) } = setup;
    const recorder = startRecorder(gateways);
    const restartEmpty = () => Promise.reject(new Error('a test restarts its own server'));
    const world = new JobWorld({ endpoints, gateways, recorder, restartEmpty });
    super({ planner, config: { ...CONFIG, ...setup.config } }, world);
    this.recorder = recorder;
    this.#setup = setup;
  }

  /** Starts a worker in this process that works in small steps. */
  start(id: string, setup: WorkerSetup & { readonly work?: Work } = {}): HandledWorker {
    const note = this.timeLine.noteFor(id);
    const work = setup.work ?? this.#setup.work ?? { stepMs: 50 };
    const started = this.worker(id, steadyWork(note, work), setup);
    listen(started.worker.events(), (event) => {
      noteEvent(note, event);
    });
    this.workers.push(started);
    return started;
  }

  /** Starts a worker in a process of its own. */
  child(
    id: string,
    setup: Pick<WorkerSetup, 'config'> & Partial<Pick<ChildSetup, 'manySplits' | 'work'>> = {},
  ): ChildWorker {
    const started: ChildSetup = {
      id,
      job: JOB,
      prefix: this.prefix,
      endpoints: this.#setup.endpoints,
      splits: this.#setup.splits ?? ['s1'],
      config: { ...CONFIG, ...this.#setup.config, ...setup.config },
      work: setup.work ?? this.#setup.work ?? { stepMs: 50 },
      ...(setup.manySplits === undefined ? {} : { manySplits: setup.manySplits }),
    };
    const child = new ChildWorker(started, this.timeLine, 'child-worker.ts');
    this.children.push(child);
    return child;
  }

  /** Waits until `condition` holds; returns how long it took. */
  override until(
    what: string,
    condition: () => boolean,
    withinMs = patiently(20_000),
  ): Promise<number> {
    return super.until(what, condition, withinMs, POLL_MS);
  }

  /** Fails when `condition` ceases to hold within this time. */
  async stays(what: string, condition: () => boolean, forMs: number): Promise<void> {
    const endMs = machineMs() + forMs;
    while (machineMs() < endMs) {
      if (!condition()) throw new Error(`${what}: ceased\n${this.describe()}`);
      await sleep(POLL_MS);
    }
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
  override async close(): Promise<void> {
    await Promise.all([super.close(), ...this.children.map((child) => child.stop())]);
    await this.#setup.end?.();
  }

  /** For failure messages. */
  override describe(): string {
    const keys = this.under('')
      .slice(0, 60)
      .map(({ key, modRevision, session, value }) =>
        [key, `@${modRevision}`, session ?? '', value.slice(0, 240)].join(' '),
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
