/**
 * Disturbs a running job three times, each time midway: kills a worker's process, kills the leader's process, and stops
 * one for so long that all it held has moved, with commits in hand that it sends when it goes on.
 */
import { CONFIG, type Fault, type FaultKind, type Progress, STOPPED_FOR_LEASES } from '../job.ts';
import type { JobWatch } from '../job-watch.ts';
import type { Conditions } from './conditions.ts';
import type { Gate } from './gate.ts';
import type { Released } from './held-writes.ts';
import { SPLITS_AT_A_TIME } from './messages.ts';
import type { WorkerHandle } from './worker-handle.ts';

/** How long a fleet may take to be whole again: far more than a lease, for a host that is busy. */
const PATIENCE_MS = 60_000;
/** Much less than the time after which an unanswered commit is sent again. */
const HOLD_MS = 100;
/** How long a worker may take to get splits and read them: some of them may be large. */
const WORK_PATIENCE_MS = 300_000;

/** What the faults are brought about with. */
export interface Scene {
  readonly workers: readonly WorkerHandle[];
  readonly progress: Progress;
  readonly watch: JobWatch;
  readonly gate: Gate;
  readonly conditions: Conditions;
  /** Starts one more worker process. */
  readonly join: () => void;
}

export class Faults {
  readonly #scene: Scene;

  constructor(scene: Scene) {
    this.#scene = scene;
  }

  /** @returns What became of the commits that the stopped process had in hand. */
  async run(): Promise<Released> {
    await this.#whole();
    await this.#kill('killed', await this.#midway(1 / 4, () => this.#ladenFollower()));
    await this.#kill('leader killed', await this.#midway(1 / 2, () => this.#ladenLeader()));
    return this.#stop(await this.#midway(3 / 4, () => this.#ladenFollower()));
  }

  async #kill(kind: 'killed' | 'leader killed', worker: WorkerHandle): Promise<void> {
    worker.kill();
    worker.report.left = kind;
    const fault = this.#disturbed(kind, worker);
    this.#scene.join();
    await this.#takenOver(fault);
    await this.#whole();
  }

  async #stop(worker: WorkerHandle): Promise<Released> {
    const { gate, conditions, progress } = this.#scene;
    worker.say({ type: 'hold' });
    gate.openFor(worker);
    await this.#until(() => worker.heldCommits > 0, `${worker.instanceId} to commit`);
    // A moment for the others: they do not leave all at once.
    await conditions.sleep(HOLD_MS);
    worker.stop();
    const fault = this.#disturbed('stopped', worker);
    await conditions.sleep(STOPPED_FOR_LEASES * CONFIG.leaseDurationMs);
    await this.#takenOver(fault);
    fault.stoppedForMs = progress.sinceStartMs - fault.atMs;
    worker.say({ type: 'release' });
    worker.continue();
    await this.#until(() => worker.released !== null, `${worker.instanceId} to send its commits`);
    await this.#whole();
    return worker.released!;
  }

  /** Waits until a share of the splits is completed, lets no more of them end, and then picks a worker. */
  async #midway(share: number, pick: () => WorkerHandle | undefined): Promise<WorkerHandle> {
    const { progress, watch, gate, conditions } = this.#scene;
    const splits = Math.floor(share * progress.splits);
    gate.openTo(splits);
    await conditions.until(() => watch.ledger.completed >= splits);
    const what = 'a worker to disturb, with work in hand';
    await conditions.until(() => pick() !== undefined, { ms: WORK_PATIENCE_MS, what });
    return pick()!;
  }

  /** The follower with the most to lose; the leader has its own turn, unless there is too little work for all. */
  #ladenFollower(): WorkerHandle | undefined {
    const { workers, gate } = this.#scene;
    const laden = workers.filter((worker) => this.#isLaden(worker));
    const followers = laden.filter((worker) => worker !== this.#leader());
    const most = Math.max(...followers.map((worker) => gate.askedBy(worker)));
    const follower = followers.find((worker) => gate.askedBy(worker) === most);
    return follower ?? (this.#isScarce() ? laden[0] : undefined);
  }

  #ladenLeader(): WorkerHandle | undefined {
    const leader = this.#leader();
    return leader !== undefined && (this.#isLaden(leader) || this.#isScarce()) ? leader : undefined;
  }

  /** Whether a worker has done all it can without committing the last of it: the worst time to be disturbed. */
  #isLaden(worker: WorkerHandle): boolean {
    const { gate, watch } = this.#scene;
    const asked = worker.isAlive ? gate.askedBy(worker) : 0;
    const owned = watch.ledger.ownedBy(worker.instanceId).length;
    return asked > 0 && asked >= Math.min(SPLITS_AT_A_TIME, owned);
  }

  /** Whether there are not enough splits left for every worker to have one. */
  #isScarce(): boolean {
    const { workers, progress, watch } = this.#scene;
    const living = workers.filter(({ isAlive }) => isAlive);
    return progress.splits - watch.ledger.completed < living.length;
  }

  #leader(): WorkerHandle | undefined {
    const { workers, watch } = this.#scene;
    return workers.find(({ instanceId, isAlive }) => isAlive && instanceId === watch.leader);
  }

  #disturbed(kind: FaultKind, { instanceId }: WorkerHandle): Fault {
    const { progress, watch } = this.#scene;
    const wasLeading = watch.leader === instanceId;
    return progress.disturbed({ kind, instanceId, wasLeading }, watch.ledger);
  }

  async #takenOver(fault: Fault): Promise<void> {
    const isOver = (): boolean => fault.splits === 0 || fault.takeoverMs !== null;
    await this.#until(isOver, `the splits of ${fault.instanceId} to be taken over`);
  }

  /** Waits until all living workers are there, one of them leads, and all have work if there is enough. */
  async #whole(): Promise<void> {
    const { workers, watch } = this.#scene;
    const isServed = ({ instanceId, isAlive }: WorkerHandle): boolean =>
      !isAlive ||
      (watch.present.has(instanceId) &&
        (this.#isScarce() || watch.ledger.ownedBy(instanceId).length > 0));
    const isWhole = (): boolean => workers.every(isServed) && this.#leader() !== undefined;
    await this.#until(isWhole, 'all workers to be there, with work, and one to lead');
  }

  #until(holds: () => boolean, what: string): Promise<void> {
    return this.#scene.conditions.until(holds, { ms: PATIENCE_MS, what });
  }
}
