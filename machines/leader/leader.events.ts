/** What the leader chart knows, is started with, and hears. Facts are `noun.past`, commands `noun.imperative`. */

export interface LeaderContext {
  readonly instance: string;
  readonly replanIntervalMs: number;
  /** How long the next armed timer of each kind runs. */
  readonly candidacyDelayMs: number;
  readonly restMs: number;
  readonly balanceDelayMs: number;
  readonly plannerPauseMs: number;
  /** True once the worker is leaving: it campaigns no more. */
  readonly isLeaving: boolean;
  /** Inputs of the balance moved while assignments were being written. */
  readonly isStale: boolean;
}

export interface LeaderInput {
  readonly instance: string;
  readonly replanIntervalMs: number;
}

export type LeaderEvent =
  /** This worker may not stand: it is not in the fleet, or has not read what it must know. */
  | { type: 'standing.barred' }
  | { type: 'leader.absent'; delayMs: number }
  | { type: 'leader.seen' }
  /** Nobody leads, and there is no plan to lead by. */
  | { type: 'plan.missing' }
  | { type: 'plan.sought' }
  | { type: 'candidacy.due' }
  | { type: 'rest.over' }
  | { type: 'session.opened' }
  | { type: 'session.expired'; reason: string }
  | { type: 'election.won' }
  | { type: 'election.lost' }
  | { type: 'term.ready' }
  | { type: 'term.lost'; reason: string }
  | { type: 'term.unhealthy'; reason: string; restMs: number }
  | { type: 'term.closed' }
  | { type: 'worker.parting' }
  | { type: 'plan.due' }
  | { type: 'plan.kept' }
  | { type: 'plan.lost' }
  | { type: 'plan.recreated'; hasAnswer: boolean }
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
