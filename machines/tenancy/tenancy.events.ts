/** What the tenancy chart knows, is started with, and hears. Facts are `noun.past`, commands `noun.imperative`. */
import type { Ending } from '../../src/protocol/tenancy-records.ts';

export type { Ending };

/** Why a split is not wanted here any more. */
export type WithdrawalReason = 'unassigned' | 'paused' | 'stopping';

export interface TenancyContext {
  readonly split: string;
  readonly drainDeadlineMs: number;
  /** Null while the split is wanted. */
  readonly withdrawnFor: WithdrawalReason | null;
  /** When the running drain was first asked for; survives a cancel, not a resume (R34). */
  readonly drainStartedAtMs: number | null;
  /** How long the armed timer runs. */
  readonly timerMs: number;
  readonly ending: Ending | null;
  /** The service has the split, and has not been told that it lost it. */
  readonly isGranted: boolean;
  /** The service had the split at some time. */
  readonly wasGranted: boolean;
}

export interface TenancyInput {
  readonly split: string;
  readonly drainDeadlineMs: number;
}

export type TenancyEvent =
  | { type: 'claim.due' }
  | { type: 'claim.won' }
  | { type: 'claim.lost' }
  | { type: 'assignment.withdrawn'; reason: WithdrawalReason; atMs: number }
  | { type: 'assignment.regained'; atMs: number }
  | { type: 'split.ended' }
  | { type: 'split.complete' }
  | { type: 'split.fail' }
  | { type: 'split.release' }
  | { type: 'drain.finished' }
  | { type: 'drain.declined' }
  | { type: 'drain.expired' }
  | { type: 'intake.resumed' }
  | { type: 'progress.landed' }
  | { type: 'ending.sent' }
  | { type: 'ending.unanswered' }
  | { type: 'ending.landed'; quarantined: boolean }
  /** The split is somebody else's, or what was found is nothing that the ending could be written on. */
  | { type: 'ending.refused' }
  | { type: 'tenancy.fenced' }
  | { type: 'tenancy.starved' }
  | { type: 'lease.deleted' }
  | { type: 'session.expired' };
