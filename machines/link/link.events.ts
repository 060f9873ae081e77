/** What the link chart knows, is started with, and hears. Facts are `noun.past`, commands `noun.imperative`. */

export interface LinkContext {
  readonly instance: string;
  /** How long a refusal is borne, in milliseconds: one lease. */
  readonly patienceMs: number;
  /** How long calls may fail before it is said: half a lease. */
  readonly silenceMs: number;
}

export interface LinkInput {
  readonly instance: string;
  readonly leaseDurationMs: number;
}

export type LinkEvent =
  /** A call failed where calls of its kind did not. */
  | { type: 'call.failed' }
  /** A call was refused for want of permission. */
  | { type: 'call.denied' }
  /** Nothing is refused any more; calls may still fail. */
  | { type: 'denial.lifted' }
  /** Every kind of call that failed has worked again. */
  | { type: 'calls.healed' }
  | { type: 'silence.over' }
  | { type: 'patience.over' }
  /** This worker is in the fleet again. */
  | { type: 'worker.returned' };
