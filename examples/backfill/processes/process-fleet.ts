/**
 * Runs the job over processes: some worker processes on an etcd, three faults midway (faults.ts), and at the end a look
 * through the store's history for writes that a fence should have refused (../audit.ts).
 *
 * This process works on no split. It starts the others, follows the job through a client of its own, and believes the
 * store alone; the workers tell it which files they read, for the report.
 */
import { randomBytes } from 'node:crypto';
import type { PlannedSplit, Store } from '../../../src/index.ts';
import { etcdStore } from '../../../src/store/etcd/index.ts';
import { type Outcome, Progress } from '../job.ts';
import { JobWatch, rootOf } from '../job-watch.ts';
import { Conditions } from './conditions.ts';
import { Faults } from './faults.ts';
import { Gate } from './gate.ts';
import { Guard } from './guard.ts';
import type { Released } from './held-writes.ts';
import { failOnSignal } from './interruption.ts';
import { JobFailedError } from './job-failed-error.ts';
import { deleteAll, readAll, revisionNow } from './job-keys.ts';
import type { FromWorker } from './messages.ts';
import { startEtcd } from './throwaway-etcd.ts';
import { WorkerHandle } from './worker-handle.ts';

/** A worker that knows the verdict has nothing left to do. */
const EXIT_WITHIN_MS = 10_000;
const CATCH_UP_WITHIN_MS = 30_000;
const SPLITS_HELD_MAX = 4_096;
const NOTHING_STALE: Released = { refused: 0, written: 0, unanswered: 0 };

/** Where the job's keys are kept. */
export interface Place {
  /** Of an etcd that runs already; null to start one for this job. */
  readonly endpoints: readonly string[] | null;
  /** Leave the job's keys there. */
  readonly keepsKeys: boolean;
}

export class ProcessFleet {
  /** The job now; the same object all the time. */
  readonly progress: Progress;
  /** Unlike any other, so that an etcd can be shared. */
  readonly job = `backfill-${randomBytes(6).toString('hex')}`;
  readonly #root: Buffer;
  readonly #place: Place;
  #guard!: Guard;
  readonly #conditions = new Conditions();
  readonly #workers: WorkerHandle[] = [];
  readonly #watch: JobWatch;
  readonly #gate: Gate;
  #endpoints: readonly string[] = [];

  constructor(root: Buffer, splits: readonly PlannedSplit[], place: Place) {
    this.#root = root;
    this.#place = place;
    this.progress = new Progress(splits.length);
    this.#watch = new JobWatch(this.job, {
      splitWritten: (splitId, record) => {
        this.#gate.see(splitId, record);
      },
      changed: () => {
        this.#checkPlan();
        this.#conditions.check();
      },
      gap: (kind) => {
        this.#conditions.fail(new JobFailedError(`the store's history was lost (${kind})`));
      },
    });
    this.#gate = new Gate(this.#watch.ledger);
  }

  /** Works until the verdict. Whatever happens, no process and no directory is left when it settles. */
  async run(processes: number): Promise<Outcome> {
    const signals = failOnSignal(this.#conditions);
    this.#guard = new Guard();
    try {
      this.#endpoints = this.#place.endpoints ?? [await this.#startEtcd()];
      return await this.#runOn(etcdStore({ endpoints: this.#endpoints }), processes);
    } finally {
      await this.#guard.close();
      signals.ignore();
    }
  }

  async #startEtcd(): Promise<string> {
    const { endpoint, process } = await startEtcd(this.#guard);
    process.once('exit', () => {
      this.#conditions.fail(new JobFailedError('etcd has ended'));
    });
    return endpoint;
  }

  async #runOn(store: Store, processes: number): Promise<Outcome> {
    try {
      this.#watch.start(store, await revisionNow(store));
      for (let number = 1; number <= processes; number += 1) this.#join();
      return await this.#work(store);
    } finally {
      for (const worker of this.#workers) worker.kill();
      await Promise.all(this.#workers.map(({ gone }) => gone));
      this.#watch.close();
      await this.#removeKeys(store);
      await store.close();
    }
  }

  async #removeKeys(store: Store): Promise<void> {
    // An etcd that was started for this job goes with all it holds.
    const isNothingThere = this.#place.endpoints === null || this.#workers.length === 0;
    if (isNothingThere || this.#place.keepsKeys) return;
    const root = rootOf(this.job);
    if (await deleteAll(store, root)) return;
    process.stderr.write(`the keys of this job could not be removed; they are under ${root}\n`);
  }

  async #work(store: Store): Promise<Outcome> {
    const stale = this.progress.splits === 0 ? NOTHING_STALE : await this.#disturb();
    this.#gate.openTo(Infinity);
    const living = this.#workers.filter(({ isAlive }) => isAlive);
    await this.#conditions.until(() => living.every(({ verdict }) => verdict !== null));
    const tookMs = this.progress.sinceStartMs;
    await this.#allGone(living);
    const written = await readAll(store, `${rootOf(this.job)}splits/`);
    const all = { ms: CATCH_UP_WITHIN_MS, what: 'the watch to have seen all that is written' };
    await this.#conditions.until(() => this.#watch.hasSeen(written), all);
    const { ledger, audit } = this.#watch;
    for (const report of this.progress.workers) {
      report.splits = ledger.completedBy(report.instanceId);
    }
    return {
      progress: this.progress,
      verdict: living.at(-1)!.verdict!,
      moved: ledger.moved,
      tookMs,
      tally: ledger.total(),
      evidence: {
        stale,
        writes: audit.writes,
        violations: audit.violations,
        keptKeys: this.#place.keepsKeys ? rootOf(this.job) : null,
      },
    };
  }

  #disturb(): Promise<Released> {
    const faults = new Faults({
      workers: this.#workers,
      progress: this.progress,
      watch: this.#watch,
      gate: this.#gate,
      conditions: this.#conditions,
      join: () => {
        this.#join();
      },
    });
    return faults.run();
  }

  /** The leader lists the directory once more, for itself. */
  #checkPlan(): void {
    const { planned } = this.#watch;
    if (planned === null || planned === this.progress.splits) return;
    this.#conditions.fail(new JobFailedError('the directory has changed since it was listed'));
  }

  /** A worker leaves nothing running: its process ends by itself. */
  async #allGone(workers: readonly WorkerHandle[]): Promise<void> {
    let left = workers.length;
    for (const { gone } of workers) {
      void gone.then(() => {
        left -= 1;
        this.#conditions.check();
      });
    }
    const what = 'all worker processes to end after the verdict';
    await this.#conditions.until(() => left === 0, { ms: EXIT_WITHIN_MS, what });
  }

  #join(): void {
    const instanceId = `worker-${this.#workers.length + 1}`;
    const setup = {
      job: this.job,
      instanceId,
      endpoints: this.#endpoints,
      root: this.#root.toString('hex'),
      // Any of them may have to take over everything.
      maxInFlight: Math.min(SPLITS_HELD_MAX, Math.max(1, this.progress.splits)),
    };
    const worker = new WorkerHandle(this.#guard, setup, this.progress.joined(instanceId), {
      said: (from, message) => {
        this.#hear(from, message);
      },
      died: ({ instanceId: who }, how) => {
        this.#conditions.fail(new JobFailedError(`the process of ${who} ended by itself (${how})`));
      },
    });
    this.#workers.push(worker);
  }

  #hear(worker: WorkerHandle, message: FromWorker): void {
    switch (message.type) {
      case 'fileRead':
        this.progress.fileRead(worker.report, message);
        break;
      case 'mayEnd':
        this.#gate.ask(worker, message.splitId, message.epoch);
        break;
      case 'ended':
        worker.report.left = 'finished';
        break;
      case 'failed':
        this.#conditions.fail(new JobFailedError(message.message));
        break;
      case 'held':
      case 'released':
        break;
    }
    this.#conditions.check();
  }
}
