/**
 * The one error type of Leasehold, and the table of its stable codes.
 *
 * Losing a race is never an error: it is a value (see `store/port.ts`). An error says which rule was broken, the value
 * that broke it and what to do. Anything that is not a `LeaseholdError` and not `signal.reason` is a bug and crashes.
 * Table for readers: ERRORS.md beside this file, generated from `ERROR_CODES`.
 */

/**
 * What a caller can do about an error.
 *
 * - `usage`: the program calls Leasehold wrongly; fix the program.
 * - `unavailable`: the store was not reached; certainly nothing was written. Repeating is safe.
 * - `indeterminate`: sent, no answer; the write may have landed, or may land later.
 * - `fenced`: the caller no longer owns what it writes to. Stop and discard.
 * - `fatal`: configuration or data that no retry heals; stop the process and call a person.
 */
export type ErrorKind = 'usage' | 'unavailable' | 'indeterminate' | 'fenced' | 'fatal';

/** Every code, its kind, and what it means. Codes are public API and never change their meaning. */
export const ERROR_CODES = {
  E_CONFIG_INVALID: ['usage', 'One or more options break their rules; all of them are listed.'],
  E_ID_INVALID: ['usage', 'An instance, job or split id is not 1..128 bytes of [A-Za-z0-9_-].'],
  E_PROGRESS_INVALID: ['usage', 'A watermark or state handed to a commit breaks its limits.'],
  E_ALREADY_STARTED: ['usage', 'start(), run() or grants() was called twice on one worker.'],
  E_STOPPED: ['usage', 'The worker has stopped, or is stopping; it takes no new work.'],
  E_SPLIT_UNKNOWN: ['usage', 'No split of that id is in the plan.'],
  E_SPLIT_NOT_QUARANTINED: ['usage', 'Only a quarantined split can be requeued.'],
  E_STORE_UNREACHABLE: [
    'unavailable',
    'The store did not answer a read, or certainly wrote nothing.',
  ],
  // Until the alarm is known, a write that is refused for space is an E_OUTCOME_UNKNOWN.
  E_STORE_FULL: [
    'unavailable',
    'The store has raised its alarm for want of space; nothing was written (R7).',
  ],
  E_OUTCOME_UNKNOWN: ['indeterminate', 'A write was sent and not answered; it may have landed.'],
  E_FENCED: [
    'fenced',
    'The split has another owner or epoch; the write is not known to be written.',
  ],
  E_LEASE_EXPIRED: ['fenced', 'The session is gone, and with it every key that hung on it.'],
  E_PLAN_INVALID: ['fatal', 'The planner returned splits that break the limits; none was written.'],
  E_PLANNER_FAILED: ['fatal', 'The planner said that no retry can heal its error.'],
  E_FINGERPRINT_MISMATCH: ['fatal', 'The stored plan was made from another configuration.'],
  E_INSTANCE_ID_TAKEN: ['fatal', 'Another live process answers to the same instanceId.'],
  E_WATERMARK_REGRESSION: ['fatal', 'A source committed a watermark below one it had committed.'],
  E_RECORD_CORRUPT: ['fatal', 'A record that the job cannot do without is unreadable.'],
  E_RECORD_NEWER: ['fatal', 'A record needs a newer reader than this version.'],
  E_RECORD_MISSING: ['fatal', 'Records are there that prove a plan, but the plan is gone.'],
  E_STORE_UNSUPPORTED: ['fatal', 'The store broke a rule that fencing depends on.'],
  E_STORE_DENIED: [
    'fatal',
    'The store refuses this client, its password or certificate, or what it wants to do.',
  ],
  E_CLUSTERS_MIXED: ['fatal', 'The endpoints of one store belong to different clusters.'],
  E_STARTUP_EXHAUSTED: ['fatal', 'A startup step failed startupMaxAttempts times.'],
} as const satisfies Record<string, readonly [ErrorKind, string]>;

/** A stable error code. */
export type ErrorCode = keyof typeof ERROR_CODES;

const BRAND = Symbol.for('leasehold.error');

/** The error that Leasehold throws and rejects with. Test for it with {@link isLeaseholdError}. */
export class LeaseholdError extends Error {
  /** Stable code, see `ERROR_CODES`. */
  readonly code: ErrorCode;
  /** What a caller can do about it. */
  readonly kind: ErrorKind;
  /** JSON-safe values that belong to the message. */
  readonly details: Readonly<Record<string, unknown>>;

  constructor(
    code: ErrorCode,
    message: string,
    options: { details?: Readonly<Record<string, unknown>>; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'LeaseholdError';
    this.code = code;
    this.kind = ERROR_CODES[code][0];
    this.details = options.details ?? {};
    Object.defineProperty(this, BRAND, { value: true });
  }
}

/** True for an error of this library, also across two copies of it in one process. */
export function isLeaseholdError(error: unknown): error is LeaseholdError {
  return typeof error === 'object' && error !== null && BRAND in error;
}

/** A rule that this library itself broke. Never caught: the process should stop and report it. */
export class InvariantViolation extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'InvariantViolation';
  }
}

/** Throws {@link InvariantViolation} unless `condition` holds. */
export function invariant(condition: unknown, message: string): asserts condition {
  if (!condition) throw new InvariantViolation(message);
}

/** The message of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
