/** What the leader chart knows, is started with, and hears. Facts are `noun.past`, commands `noun.imperative`. */

export interface LeaderContext {
  readonly instance: string;
  /** How long the next armed timer of each kind runs. */
  readonly candidacyDelayMs: number;
  readonly balanceDelayMs: number;
  readonly plannerPauseMs: number;
  /** True once the worker is leaving: it campaigns no more. */
  readonly isLeaving: boolean;
  /** Inputs of the balance moved while assignments were being written. */
  readonly isStale: boolean;
}

export interface LeaderInput {
  readonly instance: string;
}

export type LeaderEvent =
  | { type: 'leader.absent'; delayMs: number }
  | { type: 'leader.seen' }
  | { type: 'candidacy.due' }
  | { type: 'session.opened' }
  | { type: 'session.expired' }
  | { type: 'election.won' }
  | { type: 'election.lost' }
  | { type: 'term.lost' }
  | { type: 'term.unhealthy' }
  | { type: 'term.closed' }
  | { type: 'worker.parting' }
  | { type: 'plan.due' }
  | { type: 'plan.kept' }
  | { type: 'plan.lost' }
  | { type: 'planner.returned' }
  | { type: 'planner.threw'; pauseMs: number }
  | { type: 'planner.retry' }
  | { type: 'splits.seeded' }
  | { type: 'plan.published'; isSealed: boolean }
  | { type: 'inputs.changed'; delayMs: number }
  | { type: 'balance.due' }
  | { type: 'assignments.written' }
  | { type: 'judgement.due' }
  | { type: 'judgement.open' }
  | { type: 'judgement.reached' }
  | { type: 'verdict.written' }
  | { type: 'verdict.found' }
  | { type: 'verdict.cleared' };
