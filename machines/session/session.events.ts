/** What the session chart knows, is started with, and hears. Facts are `noun.past`, commands `noun.imperative`. */

/** Why a session ended. */
export type ExpiryReason =
  /** Its time was up before a renewal was answered. */
  | 'deadline'
  /** The store said that it is gone. */
  | 'gone'
  /** The store is another one, or went back in time (R8). */
  | 'reset'
  /** Given up on purpose: something that hangs on it could not be taken back otherwise (R12). */
  | 'closed'
  /** Given up on purpose: the store has refused this worker for a whole lease (R18). */
  | 'denied';

export interface SessionContext {
  /** Whose session it is: `worker` or `leader`. */
  readonly of: string;
  /** How long the armed timer runs. */
  readonly timerMs: number;
}

export interface SessionInput {
  readonly of: string;
}

export type SessionEvent =
  | { type: 'session.wanted' }
  | { type: 'session.unwanted' }
  | { type: 'session.abandoned'; reason: ExpiryReason }
  | { type: 'session.gone' }
  | { type: 'session.released' }
  | { type: 'opening.granted'; renewMs: number }
  | { type: 'opening.late' }
  | { type: 'opening.failed'; pauseMs: number }
  | { type: 'opening.due' }
  | { type: 'renewal.due' }
  | { type: 'renewal.answered'; renewMs: number }
  | { type: 'renewal.failed'; pauseMs: number }
  | { type: 'deadline.passed' }
  | { type: 'store.reset' }
  | { type: 'closing.answered' };
