/**
 * A fleet of four pods over one etcd, each a process of some version, and its deployments: pod by pod the process of one
 * version ends and one of another version starts under the same name.
 */
import type { InstanceId } from '../../../../src/base/ids.ts';
import type { Entry } from '../../../../src/store/port.ts';
import { ChildWorker } from '../child.ts';
import { type EtcdFleet, startFleet } from '../fleet.ts';
import { machineMs } from '../time-line.ts';
import type { ProgramCommand, ProgramSetup } from './program.ts';
import type { Task } from './task.ts';
import type { Version } from './version.ts';

/** How a process ends. */
export type End = 'stop' | 'kill';

/** One process, from its start on. */
export interface Process {
  readonly pod: string;
  readonly version: Version;
  readonly child: ChildWorker<ProgramCommand>;
  readonly startedMs: number;
  /** How it was ended; null for one that ends by itself. */
  end: End | null;
}

const PODS = ['pod-1', 'pod-2', 'pod-3', 'pod-4'];
const CONFIG = {
  // A new process starts within a second or two, and machines are busy.
  leaseDurationMs: 5_000,
  opTimeoutMs: 2_000,
  rebalanceDelayMs: 1_000,
  drainDeadlineMs: 3_000,
  replanIntervalMs: 5_000,
  reconcileIntervalMs: 4_000,
  // Three pods are enough for all.
  maxInFlight: 24,
};
const STEP_MS = 150;
const LAST_STEP_MS = 25;
/** A drain, one operation, and a busy machine. */
const STOP_MS_MAX = 30_000;
const SERVED_MS_MAX = 60_000;
const DONE_MS_MAX = 180_000;

export class MixedFleet {
  readonly fleet: EtcdFleet;
  /** All that were ever started, in this order. */
  readonly processes: Process[] = [];
  readonly #pods = new Map<string, Process>();
  readonly #tasks: readonly Task[];
  readonly #endpoint: string;

  private constructor(fleet: EtcdFleet, tasks: readonly Task[], endpoint: string) {
    this.fleet = fleet;
    this.#tasks = tasks;
    this.#endpoint = endpoint;
  }

  /** An etcd, and nobody there yet. */
  static async create(tasks: readonly Task[]): Promise<MixedFleet> {
    const { fleet, server } = await startFleet();
    return new MixedFleet(fleet, tasks, server.endpoint);
  }

  /** Starts all pods with one version, and waits until they share the work. */
  async start(version: Version): Promise<void> {
    const started = PODS.map((pod) => this.#launch(pod, version));
    for (const process of started) await this.#serves(process);
  }

  /**
   * Replaces every process, one at a time. The pod that leads comes third, so that its version leads a mixed fleet before
   * and another process after. `ends` says how they end, in this order.
   */
  async deploy(version: Version, ends: readonly [End, End, End, End]): Promise<void> {
    const left = new Set(PODS);
    for (const [index, end] of ends.entries()) {
      const leader = this.fleet.leader();
      const isLeadersTurn = index >= 2 && leader !== null && left.has(leader);
      const pod = isLeadersTurn ? leader : [...left].find((name) => name !== leader)!;
      left.delete(pod);
      const process = this.#pods.get(pod)!;
      process.end = end;
      if (end === 'kill') await process.child.kill();
      else await process.child.stop(STOP_MS_MAX);
      await this.#serves(this.#launch(pod, version));
    }
  }

  /** Waits until every split that is not complete has come so many steps further. */
  async goOn(steps: number): Promise<void> {
    const { fleet } = this;
    const begun = new Map(this.#tasks.map(({ id }) => [id, fleet.watermark(id)]));
    await fleet.until(
      'all go on',
      () =>
        this.#tasks.every((task) => {
          // A long one waits before its last step.
          const most = task.isLong ? task.steps - 1 : task.steps;
          return fleet.watermark(task.id) >= Math.min(begun.get(task.id)! + steps, most);
        }),
      SERVED_MS_MAX,
    );
  }

  /** Lets the tasks come to their ends; resolves when every process has ended. */
  async finish(): Promise<void> {
    const present = [...this.#pods.values()];
    for (const { child } of present) child.tell({ kind: 'finish', stepMs: LAST_STEP_MS });
    await this.fleet.until(
      'all have ended',
      () => present.every(({ child }) => child.hasExited),
      DONE_MS_MAX,
    );
    await Promise.all(present.map(({ child }) => child.exited));
  }

  close(): Promise<void> {
    return this.fleet.close();
  }

  #launch(pod: string, version: Version): Process {
    const { keys, timeLine } = this.fleet;
    const [prefix, job] = keys.root.split('/') as [string, string];
    const setup: ProgramSetup = {
      id: pod,
      version,
      job,
      prefix,
      endpoints: [this.#endpoint],
      tasks: this.#tasks,
      config: CONFIG,
      stepMs: STEP_MS,
    };
    const child = new ChildWorker<ProgramCommand>(setup, timeLine, 'versions/program.ts');
    this.fleet.children.push(child);
    const process: Process = { pod, version, child, startedMs: machineMs(), end: null };
    this.processes.push(process);
    this.#pods.set(pod, process);
    return process;
  }

  /** Waits until a process has announced itself and works, and nothing that is left to do is without an owner. */
  async #serves({ pod, version, child, startedMs }: Process): Promise<void> {
    const { fleet } = this;
    const { keys, timeLine } = fleet;
    const isServed = (task: Task): boolean =>
      fleet.split(task.id)?.status === 'completed' || fleet.lease(task.id) !== null;
    await fleet.until(
      `${pod} works as ${version.name}`,
      () => {
        if (child.hasExited) throw new Error(`${pod} ended\n${fleet.describe()}`);
        const presence = fleet.entry(keys.presence(pod as InstanceId));
        const isThere = presence !== undefined && hostIn(presence) === version.name;
        const works = timeLine.has({ worker: pod, what: 'started', sinceMs: startedMs });
        return isThere && works && this.#tasks.every(isServed);
      },
      SERVED_MS_MAX,
    );
  }
}

function hostIn({ value }: Entry): string {
  return (JSON.parse(value) as { host: string }).host;
}
