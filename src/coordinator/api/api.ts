/** What a service and Leasehold say to each other. Plain data and promises; no type of a dependency. */

/** Opaque bytes handed in; a string stands for its UTF-8 bytes. */
export type Bytes = Uint8Array | string;

/** How far a split has been processed. */
export interface Progress {
  /** One past the last position that is done, by the source's own measure. Never falls within a split. */
  readonly watermark: bigint;
  /** What the source needs beside the watermark to go on; at most 256 KiB. */
  readonly state: Uint8Array | null;
}

/** Progress as a source hands it in: a safe integer will do for a watermark. */
export interface ProgressInput {
  readonly watermark: bigint | number;
  /** At most 256 KiB. Absent: the stored state stays. */
  readonly state?: Bytes | null;
}

/** One unit of work, as the planner listed it. */
export interface Split {
  readonly id: string;
  /** Everything a worker needs to process the split, opaque to Leasehold; at most 64 KiB. */
  readonly descriptor: Uint8Array;
  /** Relative cost; what the leader balances. */
  readonly weight: number;
}

/** A split in a planner's answer. */
export interface PlannedSplit {
  /** 1..128 bytes of `[A-Za-z0-9_-]`; the same work must get the same id in every run. */
  readonly id: string;
  /** At most 64 KiB. */
  readonly descriptor: Bytes;
  /** Whole number from 1 to 2^53-1; 1 when absent. */
  readonly weight?: number;
  /** Progress to start from, if the split is not stored yet: first writer wins. */
  readonly seed?: ProgressInput & { readonly completed?: boolean };
}

/** What a planner is asked. */
export interface PlanRequest {
  /** What the last run left as its cursor; null at first. */
  readonly cursor: Uint8Array | null;
  /** The generation of the leader that asks. */
  readonly generation: number;
  /** Fires when the answer is no longer wanted. */
  readonly signal: AbortSignal;
}

/** A planner's answer. */
export interface PlanAnswer {
  /**
   * Read in parts over several turns of the event loop, and no further once the answer is no longer wanted; not to be
   * changed after returning it.
   */
  readonly splits: Iterable<PlannedSplit>;
  /** `final`: nothing will ever be added; the job ends when all splits have. `open`: ask again later. */
  readonly finality: 'open' | 'final';
  /** Where to go on next time, at most 64 KiB; absent keeps the last one. */
  readonly cursor?: Bytes | null;
}

/**
 * Lists the work of a job. Called on the leader only, by one run per term; may take as long as it needs. A run that goes on
 * after its signal fired may overlap the next one; its answer is dropped.
 *
 * An ordinary throw is retried with back-off. A `fatalPlannerError` makes this worker give leadership up.
 */
export interface Planner {
  /** What the plan depends on, from configuration alone: equal on every worker of the job, not empty. */
  fingerprint(): string;
  plan(request: PlanRequest): PlanAnswer | Promise<PlanAnswer>;
}

/** How a job ended. */
export interface Verdict {
  /** `complete`: every split completed. `stalled`: all ended, some quarantined. */
  readonly kind: 'complete' | 'stalled';
  readonly completed: number;
  readonly quarantined: number;
  /** Quarantined splits, at most 1,000 ids. */
  readonly quarantinedIds: readonly string[];
}

/** Why a tenancy was lost. */
export type LossReason =
  /** Another owner has the split. */
  | 'fenced'
  /** The lease is gone. */
  | 'starved'
  /** It was not handed back in time. */
  | 'revoked';

/** Why a split is asked back. */
export type RevokeReason = 'unassigned' | 'paused' | 'stopping';

/** What happens to ownership; never dropped, and per split always in order. `epoch` names the tenancy. */
export type OwnershipEvent =
  | {
      readonly type: 'gained';
      readonly split: Split;
      readonly epoch: string;
      readonly progress: Progress | null;
    }
  | {
      readonly type: 'revokeRequested';
      readonly splitId: string;
      readonly epoch: string;
      readonly reason: RevokeReason;
      /** Monotonic milliseconds left until the split is taken. */
      readonly deadlineMs: number;
    }
  | { readonly type: 'revokeCancelled'; readonly splitId: string; readonly epoch: string }
  | {
      readonly type: 'lost';
      readonly splitId: string;
      readonly epoch: string;
      readonly reason: LossReason;
    }
  | { readonly type: 'verdict'; readonly verdict: Verdict };

/** What is worth knowing; may be dropped under pressure, with a count. */
export type InformationalEvent =
  | {
      readonly type: 'quarantined';
      readonly splitId: string;
      readonly attempts: number;
      readonly reason: string;
      /** The instance that had it last. */
      readonly by: string;
    }
  | { readonly type: 'leadershipGained'; readonly generation: number }
  | { readonly type: 'leadershipLost'; readonly reason: string }
  | { readonly type: 'sessionLost'; readonly reason: string }
  | { readonly type: 'plannerFailed'; readonly reason: string; readonly isFatal: boolean };

export type CoordinationEvent = OwnershipEvent | InformationalEvent;

/** How a worker ended. All calls of `stop()` resolve to the same one. */
export interface StopReport {
  /** `stopped`: asked to. `finished`: the verdict was given. `failed`: a fatal error. */
  readonly reason: 'stopped' | 'finished' | 'failed';
  /** The fatal error, as text. */
  readonly error: string | null;
  /** Splits handed back in order while leaving. */
  readonly released: readonly string[];
  /** Splits whose handler did not hand them back in time. */
  readonly forced: readonly string[];
  /** Splits whose last write was not answered in time; their leases run out by themselves. */
  readonly unsettled: readonly string[];
}
