/**
 * Runs the job: some workers on one store, of which one crashes midway and another one joins.
 *
 * All of them live in this process, so that the program needs nothing but Node. Each has a connection and a clock of its
 * own, and they know of each other only through the store.
 */
import { setMaxListeners } from 'node:events';
import {
  createWorker,
  type Grant,
  isLeaseholdError,
  memoryStore,
  type PlannedSplit,
  type Planner,
  type Worker,
} from '../../src/index.ts';
import { processSplit } from './handler.ts';
import { CONFIG, type FileRead, type Outcome, Progress, type WorkerReport } from './job.ts';
import { JobWatch } from './job-watch.ts';
import { SimulatedProcess } from './simulated-process.ts';

const JOB = 'backfill';

export class Fleet {
  readonly #root: Buffer;
  readonly #splits: readonly PlannedSplit[];
  readonly #store = memoryStore();
  readonly #watch = new JobWatch(JOB);
  readonly #planner: Planner;
  readonly #members: Member[] = [];
  readonly #failed = new AbortController();
  /** The job now; the same object all the time. */
  readonly progress: Progress;

  constructor(root: Buffer, splits: readonly PlannedSplit[]) {
    this.#root = root;
    this.#splits = splits;
    this.#planner = {
      fingerprint: () => `files of ${root.toString('hex')}`,
      plan: () => ({ splits, finality: 'final' }),
    };
    // Every worker and every grant listens to it.
    setMaxListeners(0, this.#failed.signal);
    this.progress = new Progress(splits.length);
    this.#watch.start(this.#store, this.#store.revision);
  }

  /** Works until the verdict. Rejects with the first error of a handler or a worker. */
  async run(workers: number): Promise<Outcome> {
    for (let number = 1; number <= workers; number += 1) this.#join();
    let verdict: Outcome['verdict'] | undefined;
    // The list grows while it is walked: a newcomer is waited for as well.
    for (const member of this.#members) verdict = (await member.ended) ?? verdict;
    const tookMs = this.progress.sinceStartMs;
    for (const { process } of this.#members) await process.dispose();
    this.#watch.close();
    await this.#store.close();
    this.#failed.signal.throwIfAborted();
    const { ledger } = this.#watch;
    for (const report of this.progress.workers) {
      report.splits = ledger.completedBy(report.instanceId);
    }
    return {
      progress: this.progress,
      verdict: verdict ?? 'stalled',
      moved: ledger.moved,
      tookMs,
      tally: ledger.total(),
      evidence: null,
    };
  }

  /** A new process with a worker in it. */
  #join(): void {
    const instanceId = `worker-${this.#members.length + 1}`;
    const process = new SimulatedProcess(this.#store);
    const worker = createWorker({
      job: JOB,
      store: process.client,
      instanceId,
      planner: this.#planner,
      clock: process.clock,
      config: CONFIG,
    });
    const report = this.progress.joined(instanceId);
    this.#members.push(new Member(process, worker, report));
    const member = this.#members.at(-1)!;
    member.start((grant) => this.#handle(member, grant), this.#failed);
  }

  #handle(member: Member, grant: Grant): Promise<void> {
    const { killed } = member.process;
    return processSplit(grant, {
      root: this.#root,
      signal: AbortSignal.any([grant.lost, killed, this.#failed.signal]),
      onFile: (splitId, index, bytes) => {
        this.#fileRead(member, { splitId, index, bytes });
      },
    });
  }

  #fileRead(member: Member, read: FileRead): void {
    this.progress.fileRead(member.report, read);
    if (this.progress.faults.length === 0) this.#crashMidway(member);
  }

  /** The worker has read a file and not committed it: the worst time to die. */
  #crashMidway(member: Member): void {
    const { instanceId } = member.report;
    const wasLeading = member.worker.status().isLeading;
    // The crash of a follower shows more, because the others have work meanwhile; so the leader's turn comes later.
    const share = this.progress.splitsBegun / this.#splits.length;
    if (share < (wasLeading ? 1 / 2 : 1 / 3)) return;
    member.process.kill();
    member.report.left = 'crashed';
    this.progress.disturbed({ kind: 'crashed', instanceId, wasLeading }, this.#watch.ledger);
    member.died();
    this.#join();
  }
}

/** A worker and the process it runs in. */
class Member {
  readonly process: SimulatedProcess;
  readonly worker: Worker;
  readonly report: WorkerReport;
  /** Resolves with the verdict it heard; with null when it died or the job failed. */
  readonly ended: Promise<Outcome['verdict'] | null>;
  #end!: (verdict: Outcome['verdict'] | null) => void;

  constructor(process: SimulatedProcess, worker: Worker, report: WorkerReport) {
    this.process = process;
    this.worker = worker;
    this.report = report;
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
  }

  start(handler: (grant: Grant) => Promise<void>, failed: AbortController): void {
    const handle = async (grant: Grant): Promise<void> => {
      try {
        await this.process.run(() => handler(grant));
      } catch (error) {
        // A split that was lost goes to somebody else; anything else ends the whole job.
        const isLost = grant.lost.aborted || (isLeaseholdError(error) && error.kind === 'fenced');
        if (!isLost) failed.abort(error);
        throw error;
      }
    };
    const run = this.process.run(() => this.worker.run(handle, { signal: failed.signal }));
    run.then(
      ({ kind }) => {
        this.report.left = 'finished';
        this.#end(kind);
      },
      (error: unknown) => {
        failed.abort(error);
        this.#end(null);
      },
    );
  }

  died(): void {
    this.#end(null);
  }
}
