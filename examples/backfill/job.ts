/** What is known of a job while it runs and when it has ended, whatever its workers run in. */
import type { Ledger } from './ledger.ts';
import type { Tally } from './tally.ts';

/** Short times, so that a takeover can be watched. */
export const CONFIG = {
  leaseDurationMs: 2_000,
  opTimeoutMs: 1_000,
  rebalanceDelayMs: 1_000,
} as const;

/** How long a process is stopped, in leases: long enough that all it held has moved. */
export const STOPPED_FOR_LEASES = 3;

/** What one worker did. */
export interface WorkerReport {
  readonly instanceId: string;
  /** Milliseconds from the start of the job. */
  readonly joinedAtMs: number;
  /** Splits it completed. */
  splits: number;
  /** Files it read to their end, and their bytes; also those that it did not live to commit. */
  files: number;
  bytes: number;
  left: 'working' | 'finished' | Exclude<FaultKind, 'stopped'>;
}

/** How a worker was disturbed: without a goodbye in the one process of all, by SIGKILL, by SIGSTOP and SIGCONT. */
export type FaultKind = 'crashed' | 'killed' | 'leader killed' | 'stopped';

/** What was done to a worker, and what came of it; times from the start of the job. */
export interface Fault {
  readonly kind: FaultKind;
  readonly instanceId: string;
  readonly atMs: number;
  /** Splits it owned. */
  readonly splits: number;
  /** Whether it was the leader: then another one has to be elected first. */
  readonly wasLeading: boolean;
  /** From the fault until all its splits had another owner; null until then. */
  takeoverMs: number | null;
  /** How long it was stopped; null until it goes on, and for the other kinds. */
  stoppedForMs: number | null;
}

/** A file that a worker has read to its end. */
export interface FileRead {
  readonly splitId: string;
  /** Its place in the split. */
  readonly index: number;
  readonly bytes: number;
}

/** The job as it stands. */
export class Progress {
  readonly startedAtMs = performance.now();
  readonly splits: number;
  readonly workers: WorkerReport[] = [];
  readonly faults: Fault[] = [];
  /** Files read to their end at least once. */
  filesDone = 0;
  /** Files read to their end more than once. */
  replayedFiles = 0;
  /** How often each file of each split was read. */
  readonly #reads = new Map<string, number[]>();

  constructor(splits: number) {
    this.splits = splits;
  }

  get sinceStartMs(): number {
    return performance.now() - this.startedAtMs;
  }

  /** Splits of which at least one file was read. */
  get splitsBegun(): number {
    return this.#reads.size;
  }

  /** A worker has joined. */
  joined(instanceId: string): WorkerReport {
    const report: WorkerReport = {
      instanceId,
      joinedAtMs: this.sinceStartMs,
      splits: 0,
      files: 0,
      bytes: 0,
      left: 'working',
    };
    this.workers.push(report);
    return report;
  }

  /** A worker has just been disturbed; records when, and how long its splits then wait for another owner. */
  disturbed(
    what: Pick<Fault, 'kind' | 'instanceId' | 'wasLeading'>,
    ledger: Pick<Ledger, 'awaitTakeover'>,
  ): Fault {
    const atMs = this.sinceStartMs;
    const splits = ledger.awaitTakeover(what.instanceId, () => {
      fault.takeoverMs = this.sinceStartMs - atMs;
    });
    const fault: Fault = { ...what, atMs, splits, takeoverMs: null, stoppedForMs: null };
    this.faults.push(fault);
    return fault;
  }

  fileRead(by: WorkerReport, { splitId, index, bytes }: FileRead): void {
    by.files += 1;
    by.bytes += bytes;
    let reads = this.#reads.get(splitId);
    if (reads === undefined) this.#reads.set(splitId, (reads = []));
    const times = (reads[index] ?? 0) + 1;
    reads[index] = times;
    if (times === 1) this.filesDone += 1;
    if (times === 2) this.replayedFiles += 1;
  }
}

/** What the store's history says about writes of workers that had lost their splits; see processes/audit.ts. */
export interface Evidence {
  /** Commits that a stopped worker had begun before, and that reached the store only after its splits had moved. */
  readonly stale: {
    readonly refused: number;
    readonly written: number;
    /** Sent without an answer: only the history tells. */
    readonly unanswered: number;
  };
  /** Writes of splits that were looked at: all of the job. */
  readonly writes: number;
  /** Writes that should not have happened, in words. */
  readonly violations: readonly string[];
  /** Where the job's keys were left; null when they were removed. */
  readonly keptKeys: string | null;
}

/** How the job ended. */
export interface Outcome {
  readonly progress: Progress;
  readonly verdict: 'complete' | 'stalled';
  /** Changes of owner after a split's first claim. */
  readonly moved: number;
  readonly tookMs: number;
  /** The committed results of all splits, added up. */
  readonly tally: Tally;
  /** Null where no worker can come back from the dead. */
  readonly evidence: Evidence | null;
}
