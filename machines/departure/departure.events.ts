/** What the departure chart knows, is started with, and hears. Facts are `noun.past`, commands `noun.imperative`. */

export interface DepartureContext {
  readonly instance: string;
  /** How long handlers may take to hand their splits back. */
  readonly drainMs: number;
  /** What all that follows the drain has together. */
  readonly settleMs: number;
  /** Monotonic time at which the drain was over. */
  readonly settlesAtMs: number;
  /** Monotonic time at which the present state was entered, as the events and timers tell. */
  readonly atMs: number;
  /** How long the armed timer runs. */
  readonly timerMs: number;
}

export interface DepartureInput {
  readonly instance: string;
}

export type DepartureEvent =
  | { type: 'leave.asked'; atMs: number; drainMs: number; settleMs: number }
  /** The worker was never started. */
  | { type: 'leave.skipped' }
  | { type: 'drain.finished'; atMs: number }
  | { type: 'drain.expired' }
  | { type: 'tenancies.ended'; atMs: number }
  | { type: 'settling.expired' }
  | { type: 'goodbye.answered'; atMs: number }
  | { type: 'goodbye.expired' }
  | { type: 'sessions.closed' }
  | { type: 'closing.expired' };
