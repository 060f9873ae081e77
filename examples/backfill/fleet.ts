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
import { Ledger } from './ledger.ts';
import { SimulatedProcess } from './simulated-process.ts';
import type { Tally } from './tally.ts';

const JOB = 'backfill';

/** Short times, so that a takeover can be watched. */
export const CONFIG = {
  leaseDurationMs: 2_000,
  opTimeoutMs: 1_000,
  rebalanceDelayMs: 1_000,
} as const;

/** What one worker did. */
export interface WorkerReport {
  readonly instanceId: string;
  /** Milliseconds from the start of the job. */
  joinedAtMs: number;
  /** Splits it completed. */
  splits: number;
  /** Files it read to their end, and their bytes; also those that it did not live to commit. */
  files: number;
  bytes: number;
  left: 'working' | 'finished' | 'crashed';
}

/** The crash, and what came of it; times from the start of the job. */
export interface Crash {
  readonly instanceId: string;
  readonly atMs: number;
  /** Splits it owned. */
  readonly splits: number;
  /** Whether it was the leader: then another one has to be elected first. */
  readonly wasLeading: boolean;
  /** From the crash until all its splits had an owner again; null until then. */
  takeoverMs: number | null;
}

/** The job as it stands, or as it ended. */
export interface Progress {
  readonly startedAtMs: number;
  readonly splits: number;
  readonly workers: readonly WorkerReport[];
  /** Files read to their end at least once. */
  filesDone: number;
  /** Files read to their end more than once. */
  replayedFiles: number;
  /** Null as long as nothing has crashed, or when there was nothing to crash over. */
  crash: Crash | null;
}

/** How the job ended. */
export interface Outcome extends Progress {
  readonly verdict: 'complete' | 'stalled';
  readonly moved: number;
  readonly tookMs: number;
  /** The committed results of all splits, added up. */
  readonly tally: Tally;
}

export class Fleet {
  readonly #root: Buffer;
  readonly #splits: readonly PlannedSplit[];
  readonly #store = memoryStore();
  readonly #ledger = new Ledger(this.#store, JOB);
  readonly #planner: Planner;
  readonly #members: Member[] = [];
  readonly #failed = new AbortController();
  /** How often each file of each split was read. */
  readonly #reads = new Map<string, number[]>();
  readonly #progress: Progress & { readonly workers: WorkerReport[] };

  constructor(root: Buffer, splits: readonly PlannedSplit[]) {
    this.#root = root;
    this.#splits = splits;
    this.#planner = {
      fingerprint: () => `files of ${root.toString('hex')}`,
      plan: () => ({ splits, finality: 'final' }),
    };
    // Every worker and every grant listens to it.
    setMaxListeners(0, this.#failed.signal);
    this.#progress = {
      startedAtMs: performance.now(),
      splits: splits.length,
      workers: [],
      filesDone: 0,
      replayedFiles: 0,
      crash: null,
    };
  }

  /** The job now; the same object all the time. */
  get progress(): Progress {
    return this.#progress;
  }

  /** Works until the verdict. Rejects with the first error of a handler or a worker. */
  async run(workers: number): Promise<Outcome> {
    for (let number = 1; number <= workers; number += 1) this.#join();
    let verdict: Outcome['verdict'] | undefined;
    // The list grows while it is walked: a newcomer is waited for as well.
    for (const member of this.#members) verdict = (await member.ended) ?? verdict;
    const tookMs = this.#sinceStartMs();
    for (const { process } of this.#members) await process.dispose();
    this.#ledger.close();
    await this.#store.close();
    this.#failed.signal.throwIfAborted();
    for (const report of this.#progress.workers) {
      report.splits = this.#ledger.completedBy(report.instanceId);
    }
    return {
      ...this.#progress,
      verdict: verdict ?? 'stalled',
      moved: this.#ledger.moved,
      tookMs,
      tally: this.#ledger.total(),
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
    const report: WorkerReport = {
      instanceId,
      joinedAtMs: this.#sinceStartMs(),
      splits: 0,
      files: 0,
      bytes: 0,
      left: 'working',
    };
    this.#progress.workers.push(report);
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

  #fileRead(member: Member, read: { splitId: string; index: number; bytes: number }): void {
    const { splitId, index, bytes } = read;
    const progress = this.#progress;
    member.report.files += 1;
    member.report.bytes += bytes;
    let reads = this.#reads.get(splitId);
    if (reads === undefined) this.#reads.set(splitId, (reads = []));
    const times = (reads[index] ?? 0) + 1;
    reads[index] = times;
    if (times === 1) progress.filesDone += 1;
    if (times === 2) progress.replayedFiles += 1;
    if (progress.crash === null) this.#crashMidway(member);
  }

  /** The worker has read a file and not committed it: the worst time to die. */
  #crashMidway(member: Member): void {
    const { instanceId } = member.report;
    const wasLeading = member.worker.status().isLeading;
    // The crash of a follower shows more, because the others have work meanwhile; so the leader's turn comes later.
    const share = this.#reads.size / this.#splits.length;
    if (share < (wasLeading ? 1 / 2 : 1 / 3)) return;
    const atMs = this.#sinceStartMs();
    member.process.kill();
    member.report.left = 'crashed';
    const splits = this.#ledger.awaitTakeover(instanceId, () => {
      crash.takeoverMs = this.#sinceStartMs() - atMs;
    });
    const crash: Crash = { instanceId, atMs, splits, wasLeading, takeoverMs: null };
    this.#progress.crash = crash;
    member.died();
    this.#join();
  }

  #sinceStartMs(): number {
    return performance.now() - this.#progress.startedAtMs;
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
