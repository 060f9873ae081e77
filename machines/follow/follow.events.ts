/** What the follow chart knows, is started with, and hears. Facts are `noun.past`, commands `noun.imperative`. */

export interface FollowContext {
  /** What is followed, for operators: `leases/`. */
  readonly range: string;
  /** Readings in a row that failed. */
  readonly failures: number;
}

export interface FollowInput {
  readonly range: string;
}

export type FollowEvent =
  | { type: 'listing.arrived' }
  | { type: 'listing.failed' }
  | { type: 'listing.due' }
  | { type: 'watch.compacted' }
  | { type: 'watch.refused' }
  | { type: 'watch.accepted' }
  | { type: 'check.due' }
  | { type: 'check.passed' }
  | { type: 'check.failed' }
  | { type: 'store.reset' }
  | { type: 'follow.closed' };
