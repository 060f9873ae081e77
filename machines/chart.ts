/** What every chart of Leasehold carries beside its states. */

/** Tags of states, for status pages and for deciding what a tenancy may do. */
export type Tag =
  /** The split's lease is under this worker's session. */
  | 'held'
  /** The worker is named for the split, as far as it was told. */
  | 'wanted'
  /** Progress may be committed. */
  | 'mayCommit'
  /** The handler was asked to hand the split back. */
  | 'handingBack'
  /** Waits for something outside. */
  | 'waiting'
  /** A write was sent and not answered. */
  | 'mayHaveLanded'
  /** A write is on its way and its answer decides what comes next. */
  | 'writing'
  /** This worker may act as leader. */
  | 'leads'
  /** Nothing follows. */
  | 'ended'
  /** A person should look. */
  | 'alert';

/** Events a chart deliberately does nothing about, where, and why. Anything else that is unhandled fails the tests. */
export interface Ignored {
  readonly event: string;
  /** State names, as in `machine.states`; `held.closing` for a nested one. */
  readonly states: readonly string[];
  readonly why: string;
}
