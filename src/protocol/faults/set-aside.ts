/**
 * Whether a split that has just failed is set aside: only the leader does it, and only at the sight of a fresh failure, so
 * that a trouble that is over sets nothing aside (R28).
 *
 * Tests: test/protocol/faults.
 */
import type { InstanceId } from '../../base/ids.ts';
import { hasJustFailed, type RetryPolicy } from './failures.ts';
import type { SplitRecord } from '../../records/records.ts';

/** A trouble that has lasted less is nobody's fault yet: so many of the longest rests. */
const LEAST_RESTS = 4;
const SOURCES_MIN = 2;
const MANY_MIN = 3;
const MANY_SHARE = 1 / 4;
/** What is left of a job that was healthy: fewer than this. */
const LAST_ONES = 3;
const LAST_ONES_MS = 20 * 60_000;

/** The job around a split that has failed. */
export interface FailureSurroundings {
  /** Live instances that could be given the split, or are trying it. */
  readonly eligible: Iterable<InstanceId>;
  /** Splits that failed lately, this one included. */
  readonly failingLately: number;
  /** Splits that are being worked on, or were completed lately. */
  readonly workingLately: number;
  /** The plan is final and all of it is stored: no other work can come. */
  readonly isSealed: boolean;
  /** Splits that can still run, this one included. */
  readonly left: number;
  /** Of those, splits that are known to fail; and for how long the one that has failed least has. */
  readonly leftFailing: number;
  readonly leftFailingLeastMs: () => number;
  readonly completed: number;
}

/** The rule that sets a split aside, for the record of it. */
export interface SetAside {
  readonly rule: 'never' | 'attempts' | 'last' | 'job';
  readonly reason: string;
}

/** True while so many fail that it is no split's fault: at least three, and at least a quarter of those tried. */
export function manyFail({
  failingLately,
  workingLately,
}: Pick<FailureSurroundings, 'failingLately' | 'workingLately'>): boolean {
  const tried = failingLately + workingLately;
  return failingLately >= MANY_MIN && failingLately >= tried * MANY_SHARE;
}

/** How long a failure counts as one of late. */
export function latelyMs({ backoff }: RetryPolicy): number {
  return 3 * backoff.maxMs;
}

/**
 * Decides about a split that has just failed; null leaves it in the pool.
 *
 * @param record  As read after the failure.
 * @param isFresh  The failure was not known before. What is old is judged by the next one; `never` is judged at any time.
 */
export function setAsideFor(
  record: SplitRecord,
  policy: RetryPolicy,
  around: FailureSurroundings,
  isFresh: boolean,
): SetAside | null {
  if (record.status !== 'runnable' || !hasJustFailed(record)) return null;
  const { reason, never } = record.lastFailure!;
  if (never) return { rule: 'never', reason };
  const { failing } = record;
  if (!isFresh || failing === null) return null;
  if (isItsOwnFault(record, policy, around)) return { rule: 'attempts', reason };
  if (!around.isSealed || around.leftFailing < around.left) return null;
  const { giveUpAfterMs } = policy;
  if (failing.forMs >= giveUpAfterMs && around.leftFailingLeastMs() >= giveUpAfterMs) {
    const hours = (failing.forMs / 3_600_000).toFixed(1);
    return {
      rule: 'job',
      reason: `all that was left of the job has failed for ${hours} h, no split alone; last: ${reason}`,
    };
  }
  const isLast = around.left < LAST_ONES && around.completed > 0;
  return isLast && failing.forMs >= LAST_ONES_MS ? { rule: 'last', reason } : null;
}

function isItsOwnFault(
  record: SplitRecord,
  { maxAttempts, backoff }: RetryPolicy,
  around: FailureSurroundings,
): boolean {
  const { failing, attempts } = record;
  if (attempts < maxAttempts || failing!.forMs < LEAST_RESTS * backoff.maxMs) return false;
  if (manyFail(around)) return false;
  return failing!.by.length >= SOURCES_MIN || !hasOther(around.eligible, failing!.by);
}

/** Whether a split that fails at one instance alone should be tried at another before it is set aside. */
export function needsOtherSource(
  record: Pick<SplitRecord, 'attempts' | 'failing'>,
  maxAttempts: number,
): boolean {
  const { attempts, failing } = record;
  return failing !== null && failing.by.length < SOURCES_MIN && 2 * attempts >= maxAttempts;
}

function hasOther(eligible: Iterable<InstanceId>, tried: readonly InstanceId[]): boolean {
  for (const instance of eligible) if (!tried.includes(instance)) return true;
  return false;
}
