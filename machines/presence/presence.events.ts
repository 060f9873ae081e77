/** What the presence chart knows, is started with, and hears. Facts are `noun.past`, commands `noun.imperative`. */

export interface PresenceContext {
  readonly instance: string;
  /** Failed tries of the present startup step. */
  readonly failures: number;
  readonly failuresMax: number;
}

export interface PresenceInput {
  readonly instance: string;
  readonly failuresMax: number;
}

export type PresenceEvent =
  | { type: 'probe.passed' }
  | { type: 'job.joined' }
  | { type: 'session.opened' }
  | { type: 'announcement.landed' }
  | { type: 'announcement.due' }
  | { type: 'presence.deleted' }
  | { type: 'session.expired' }
  | { type: 'step.failed' }
  | { type: 'step.retry' }
  | { type: 'worker.stopping' }
  | { type: 'departure.finished' }
  | { type: 'fatal.raised' };
