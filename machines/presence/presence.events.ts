/** What the presence chart knows, is started with, and hears. Facts are `noun.past`, commands `noun.imperative`. */

export interface PresenceContext {
  readonly instance: string;
  /** Failed tries of the present startup step. */
  readonly failures: number;
  readonly failuresMax: number;
  /** Times in a row that the store has refused this worker on its way back. */
  readonly refusals: number;
}

export interface PresenceInput {
  readonly instance: string;
  readonly failuresMax: number;
}

export type PresenceEvent =
  | { type: 'probe.passed' }
  | { type: 'job.joined' }
  /** There is no plan, and somebody leads who will put it back. */
  | { type: 'job.planless' }
  | { type: 'session.opened' }
  | { type: 'session.expired'; isDenied: boolean }
  /** An announcement landed and is held; `isCurrent` when it says what it should by now. */
  | { type: 'announcement.landed'; isCurrent: boolean }
  /** It landed and its key is gone already, or it never will. */
  | { type: 'announcement.missed' }
  | { type: 'announcement.due' }
  | { type: 'presence.deleted' }
  | { type: 'step.failed' }
  | { type: 'step.denied' }
  | { type: 'step.retry' }
  | { type: 'rejoin.due' }
  | { type: 'store.reset' }
  | { type: 'worker.stopping' }
  | { type: 'departure.finished'; hasFailed: boolean };
