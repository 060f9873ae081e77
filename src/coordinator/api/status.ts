/** What a worker says about itself: JSON. */
import type { ErrorCode } from '../../base/errors.ts';
import type { Unplaced } from '../../protocol/unplaced.ts';
import type { Verdict } from './api.ts';

/** One kind of call that fails now. */
export interface FailingCalls {
  /** The call and what it is about: `read leases/`. */
  readonly call: string;
  /** How long it has failed, in milliseconds. */
  readonly forMs: number;
  readonly code: ErrorCode;
  readonly message: string;
}

/** An answer that the planner of a leader owes. */
export interface PlannerRun {
  /** `prompt`; `late` once people were told; `overdue` once another worker may try. */
  readonly state: string;
  /** For how long it has owed it, in milliseconds. */
  readonly forMs: number;
  /** How often it has thrown since. */
  readonly failures: number;
}

/** One tenancy in a status. */
export interface TenancyStatus {
  readonly split: string;
  /** State of the tenancy chart. */
  readonly state: string;
  readonly epoch: string | null;
  /** Decimal; null before the first commit. */
  readonly watermark: string | null;
  readonly attempts: number;
  /** How long the state has lasted, in milliseconds. */
  readonly forMs: number;
  /** Why the split cannot be worked on here; null when it can. */
  readonly problem: string | null;
}

/** A worker at this moment. */
export interface Status {
  readonly job: string;
  readonly instanceId: string;
  readonly nonce: string;
  /** This worker's place in the fleet: the outer state of its presence chart. */
  readonly presence: string;
  /** What it does about leading: the outer state of its leader chart. */
  readonly leader: string;
  readonly isLeading: boolean;
  /** Every chart of this worker that there is one of, with its state in full. */
  readonly charts: {
    readonly presence: string;
    readonly leader: string;
    readonly session: string;
    readonly leaderSession: string;
    readonly link: string;
    readonly departure: string;
  };
  /** Kinds of calls to the store that fail now, since when and why. */
  readonly failing: readonly FailingCalls[];
  /** What this worker follows, each with the state of its chart. */
  readonly watches: readonly { readonly range: string; readonly state: string }[];
  /** Milliseconds for which the session may still be believed in. */
  readonly sessionLeftMs: number;
  readonly plan: {
    readonly generation: number;
    readonly finality: string;
    readonly sealed: boolean;
    readonly planned: number;
  } | null;
  /** The answer that the planner of this worker owes; null when it owes none. */
  readonly planner: PlannerRun | null;
  readonly isPaused: boolean;
  /** On the leader: splits that can run and nobody is named for, and why; null elsewhere, and before it has decided. */
  readonly unplaced: Unplaced | null;
  readonly tenancies: readonly TenancyStatus[];
  readonly peers: readonly { readonly instance: string; readonly state: string }[];
  readonly lanes: readonly {
    readonly lane: number;
    readonly state: string;
    readonly items: number;
  }[];
  readonly refuses: readonly string[];
  readonly verdict: Verdict | null;
  /**
   * Processes that ended one after the other with the same split in hand, as this one found it; null when it found nothing of
   * that kind. `lifeMs`: how old the longest-lived of them was when it claimed, and a lease.
   */
  readonly crashLoop: { readonly lives: number; readonly lifeMs: number } | null;
  /** The fatal error, or the planner's last one; null when there is none. */
  readonly lastError: string | null;
  /** Events that the charts of this worker have handled. */
  readonly chartEvents: number;
  /** How often a listener has thrown, or rejected. */
  readonly listenerErrors: number;
  /** Store calls that are not answered yet. */
  readonly requestsInFlight: number;
}
