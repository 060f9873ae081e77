/** What a simulated run is made of, as plain JSON: the same scenario gives the same run, to the byte. */
import type { WorkerConfig } from '../../coordinator/api/config.ts';

/** A place where a worker runs: one process after the other. */
export interface ScenarioWorker {
  /** Instance id of its first process. */
  readonly id: string;
  readonly maxInFlight: number;
  /** When its first process starts. */
  readonly startAtMs: number;
  /** Its monotonic milliseconds per millisecond of the store. */
  readonly clockRate: number;
  readonly wallOffsetMs: number;
}

/** What a handler does once instead of working on, `afterSteps` steps into its tenancy. */
export interface Misdeed {
  readonly do: 'throw' | 'return' | 'giveUp' | 'stall' | 'block' | 'deaf' | 'fallBack' | 'kill';
  readonly afterSteps: number;
  /** How long it stalls, blocks its process, or is deaf to the loss of its grant. */
  readonly forMs: number;
}

/** A split, and what handlers do with it. */
export interface ScenarioSplit {
  readonly id: string;
  readonly weight: number;
  /** Commits from its beginning to its end. */
  readonly steps: number;
  readonly stepMs: number;
  /** How long a handler takes to hand it back. */
  readonly drainMs: number;
  /** Every tenancy of it fails at once, or kills its process. */
  readonly poison: 'none' | 'throws' | 'kills';
  /** What goes wrong in its first tenancies, one each, in their order. */
  readonly misdeeds: readonly Misdeed[];
}

/** One run of the planner; runs after the last one listed are quick and go well. */
export interface PlannerRun {
  readonly delayMs: number;
  readonly outcome: 'answers' | 'throws' | 'fails';
  /** It goes on after its signal fired. */
  readonly ignoresSignal: boolean;
}

/** What can go wrong with a call. */
export type CallFaultKind =
  'delay' | 'delayAnswer' | 'loseBefore' | 'loseAfter' | 'lateLanding' | 'duplicate' | 'full';

/** Which calls a fault is for. */
export type CallClass = 'any' | 'writes' | 'sessions' | 'reads';

/** Which reads fail, and what is denied: everything of a kind, or what is about some keys of the job. */
export type ReadClass = 'reads' | 'splits/' | 'assign/' | 'leases/' | 'workers/';
export type DeniedClass = CallClass | 'leases/' | 'splits/';

/** What a store is once it is back: as it was, an empty one, or one restored from an earlier snapshot. */
export type Aftermath = 'same' | 'another' | 'earlier' | 'earlierUnderTheSameId';

/** What happens to a fleet. `worker` counts the workers of the scenario. An act that finds nothing to act on does nothing. */
export type Act = { readonly atMs: number } & (
  | {
      readonly do: 'crash';
      readonly worker: number;
      /** Null: it stays away until the faults end. */
      readonly restartAfterMs: number | null;
      readonly as: 'same' | 'other';
    }
  | { readonly do: 'stop'; readonly worker: number; readonly restartAfterMs: number | null }
  | {
      readonly do: 'freeze';
      readonly worker: number;
      readonly forMs: number;
      /** Whether its monotonic clock runs on. */
      readonly time: 'runs' | 'stops';
    }
  | { readonly do: 'stepWall'; readonly worker: number; readonly byMs: number }
  /** A second process of the same instance id, beside the first. */
  | { readonly do: 'twin'; readonly worker: number }
  | {
      readonly do: 'calls';
      readonly worker: number;
      readonly fault: CallFaultKind;
      readonly of: CallClass;
      readonly chance: number;
      readonly forMs: number;
      /** How late, for the faults that delay. */
      readonly spanMs: number;
      /** The caller hears nothing of a loss, instead of an error at once. */
      readonly silent: boolean;
    }
  | {
      readonly do: 'events';
      readonly worker: number;
      readonly fault: 'delayEvents' | 'duplicateEvents';
      readonly chance: number;
      readonly forMs: number;
      readonly spanMs: number;
    }
  | { readonly do: 'cutWatches'; readonly worker: number; readonly forMs: number }
  | {
      readonly do: 'partition';
      readonly worker: number;
      readonly forMs: number;
      readonly side: 'both' | 'requests' | 'answers';
      readonly silent: boolean;
    }
  /** Its renewals are answered after `lateMs` for a while, and then nothing arrives any more for `forMs`. */
  | {
      readonly do: 'lateRenewals';
      readonly worker: number;
      readonly lateMs: number;
      readonly forMs: number;
    }
  /**
   * The store is away for everybody, from `afterMs` on and for `forMs`; then it is back. What it is restored from was saved
   * when the act began.
   */
  | {
      readonly do: 'outage';
      readonly afterMs: number;
      readonly forMs: number;
      readonly then: Aftermath;
      readonly silent: boolean;
    }
  /** The store does not let a worker do something. */
  | {
      readonly do: 'denied';
      readonly worker: number;
      readonly of: DeniedClass;
      readonly forMs: number;
    }
  /** Reads of a worker fail, and its writes and renewals work. */
  | {
      readonly do: 'failReads';
      readonly worker: number;
      readonly of: ReadClass;
      readonly forMs: number;
      readonly silent: boolean;
    }
  /** Values are huge: a read of more than `entriesMax` entries is too large to be answered, and each entry takes `entryMs`. */
  | {
      readonly do: 'hugeAnswers';
      readonly worker: number;
      readonly entriesMax: number;
      readonly entryMs: number;
      readonly forMs: number;
    }
  /** One of the two sessions of whoever leads ends, and `thenMs` later the other one; null: it lives on. */
  | {
      readonly do: 'sessionsApart';
      readonly first: 'worker' | 'leader';
      readonly how: 'revoked' | 'notRenewed';
      readonly forMs: number;
      readonly thenMs: number | null;
    }
  | { readonly do: 'compact' }
  /** The store lets no session expire. */
  | { readonly do: 'freezeExpiry'; readonly forMs: number }
  | { readonly do: 'revokeSession'; readonly worker: number; readonly of: 'worker' | 'leader' }
  | {
      readonly do: 'deleteKey';
      readonly worker: number;
      readonly key: 'presence' | 'assignment' | 'lease' | 'leader';
    }
  /** Somebody writes the record of one of its splits again as it is. */
  | { readonly do: 'rewrite'; readonly worker: number }
  /** Something happens to whoever leads. */
  | {
      readonly do: 'bounceLeader';
      readonly how:
        | 'crash'
        | 'stop'
        | 'freeze'
        | 'revokeSession'
        | 'deleteKey'
        | 'partition'
        | 'denied'
        | 'failReads';
      readonly forMs: number;
    }
  | { readonly do: 'pause'; readonly forMs: number }
  | { readonly do: 'cordon' | 'drain'; readonly worker: number; readonly forMs: number }
  /** Every split that is quarantined is put back, and for a while each that will be, `afterMs` later. */
  | { readonly do: 'requeue'; readonly forMs: number; readonly afterMs: number }
);

/** The kinds of act. */
export type ActKind = Act['do'];

/** Acts of some kinds. */
export type ActOf<Kind extends ActKind> = Extract<Act, { do: Kind }>;

/** Everything that can happen to a fleet, by name, and how often it is drawn beside the others. */
export const ACT_WEIGHTS: Readonly<Record<ActKind, number>> = {
  calls: 55,
  events: 10,
  cutWatches: 6,
  partition: 3,
  lateRenewals: 2,
  crash: 2,
  freeze: 2,
  stop: 1.5,
  bounceLeader: 2,
  revokeSession: 2,
  deleteKey: 3,
  rewrite: 3,
  compact: 3,
  stepWall: 2,
  pause: 1,
  cordon: 1,
  drain: 1,
  requeue: 2,
  twin: 0.5,
  freezeExpiry: 1,
  outage: 0.5,
  denied: 1.5,
  failReads: 2,
  hugeAnswers: 1.5,
  sessionsApart: 1.5,
};

/** A whole run. Times are milliseconds of the store's clock from the beginning. */
export interface Scenario {
  /** Draws everything that the scenario leaves open. */
  readonly seed: number;
  readonly config: Partial<WorkerConfig>;
  /** What each call takes, there and back, at most; 0 for none. */
  readonly latencyMs: number;
  /** How late sessions expire, at most. */
  readonly expiryLagMs: number;
  readonly workers: readonly ScenarioWorker[];
  readonly finality: 'open' | 'final';
  /** How many runs of the planner it takes until all splits are listed. */
  readonly planRuns: number;
  readonly planner: readonly PlannerRun[];
  readonly splits: readonly ScenarioSplit[];
  /** The longest that a handler takes for one split once the faults are over. */
  readonly splitMs: number;
  /** When the faults stop, unless fewer than `faultsMin` have struck. */
  readonly durationMs: number;
  /** The acts come round again until so many faults have struck, nine times at most. */
  readonly faultsMin: number;
  readonly acts: readonly Act[];
}
