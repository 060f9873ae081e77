/** What the writing chart knows, is started with, and hears. Facts are `noun.past`, commands `noun.imperative`. */

export interface WritingContext {
  readonly lane: number;
  /** Sends of the present batch that were not answered. */
  readonly unanswered: number;
  readonly resendMs: number;
  readonly resendMsMax: number;
}

export interface WritingInput {
  readonly lane: number;
  readonly resendMs: number;
  readonly resendMsMax: number;
}

export type WritingEvent =
  | { type: 'batch.submitted' }
  | { type: 'batch.unanswered' }
  | { type: 'batch.answered' }
  | { type: 'batch.abandoned' }
  | { type: 'resend.due' }
  | { type: 'lane.rested' }
  | { type: 'lane.closed' };
