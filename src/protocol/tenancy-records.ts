/**
 * The next record of a split, for each write that changes one.
 *
 * Every builder starts from the record that was found and keeps the fields it does not own, those of a newer version
 * included, so it also serves to write again what a conflict found (R2). None checks who may write: the compare of the
 * transaction does. Tests: test/protocol/tenancy-records.test.ts.
 */
import { compareDecimals, type Epoch, NEVER_OWNED, nextEpoch } from '../base/decimals.ts';
import { invariant } from '../base/errors.ts';
import type { InstanceId, Nonce } from '../base/ids.ts';
import { type ParkedRecord, shortReason, type SplitRecord } from '../records/records.ts';
import { isAtCap } from './attempts.ts';

/** How far a split has come. */
export interface Progress {
  /** Signed decimal; null before the first. */
  readonly watermark: string | null;
  /** Opaque, base64. */
  readonly state: string | null;
}

/**
 * Below zero when watermark `a` is below `b`, zero when equal, above when above.
 *
 * Watermarks are signed decimals of any size without leading zeros; null is below every value.
 */
export function compareWatermarks(a: string | null, b: string | null): number {
  if (a === null || b === null) return (a === null ? 0 : 1) - (b === null ? 0 : 1);
  const aIsNegative = a.startsWith('-');
  if (aIsNegative !== b.startsWith('-')) return aIsNegative ? -1 : 1;
  return aIsNegative ? compareDecimals(b.slice(1), a.slice(1)) : compareDecimals(a, b);
}

/** A split as it is first stored (T4), with the progress that its planner knows of. */
export function seededRecord(split: {
  readonly weight: number;
  readonly seed: (Progress & { readonly completed: boolean }) | null;
}): SplitRecord {
  return {
    epoch: NEVER_OWNED,
    status: split.seed?.completed === true ? 'completed' : 'runnable',
    owner: null,
    nonce: null,
    attempts: 0,
    weight: split.weight,
    watermark: split.seed?.watermark ?? null,
    state: split.seed?.state ?? null,
    lastFailure: null,
  };
}

/** A claim (T7). `attempts` comes from the decision to claim. */
export function claimedRecord(
  record: SplitRecord,
  claim: { readonly owner: InstanceId; readonly nonce: Nonce; readonly attempts: number },
): SplitRecord {
  checkRunnable(record, 'claim');
  const { owner, nonce, attempts } = claim;
  return { ...record, epoch: nextEpoch(record.epoch), owner, nonce, attempts };
}

/**
 * A commit (T8). Its watermark is not below the record's.
 *
 * @param startWatermark  The watermark at which this tenancy, or the seed before it, began: rising strictly above it
 *   proves that the split can be worked on, and clears the attempts (R31).
 */
export function committedRecord(
  record: SplitRecord,
  progress: Progress,
  startWatermark: string | null,
): SplitRecord {
  checkRunnable(record, 'commit');
  invariant(
    compareWatermarks(progress.watermark, record.watermark) >= 0,
    `a commit lowers the watermark from ${record.watermark} to ${progress.watermark} (R38)`,
  );
  const rose = compareWatermarks(progress.watermark, startWatermark) > 0;
  // Not as a literal that overwrites what it spreads: V8 takes ten times as long for that, and this is the busiest write.
  const next: { -readonly [Field in keyof SplitRecord]: SplitRecord[Field] } = { ...record };
  next.watermark = progress.watermark;
  next.state = progress.state;
  if (rose) next.attempts = 0;
  return next;
}

/** A last commit that ends the split (T8). */
export function completedRecord(
  record: SplitRecord,
  progress: Progress,
  startWatermark: string | null,
): SplitRecord {
  const committed = committedRecord(record, progress, startWatermark);
  return { ...committed, status: 'completed', owner: null };
}

/** A release (T9): the next claim costs no attempt. */
export function releasedRecord(record: SplitRecord): SplitRecord {
  checkRunnable(record, 'release');
  return { ...record, owner: null };
}

/** A tenancy that its own handler declared failed (T10); at the cap the split is quarantined. */
export function failedRecord(
  record: SplitRecord,
  failure: { readonly reason: string; readonly by: InstanceId; readonly maxAttempts: number },
): SplitRecord {
  checkRunnable(record, 'fail');
  const failed = withFailure(record, failure.reason, failure.by);
  return isAtCap(failed.attempts, failure.maxAttempts) ? quarantined(failed) : failed;
}

/** What the last write of a tenancy does. */
export type Ending = 'release' | 'force' | 'complete' | 'fail';

/** The record that an ending leaves behind. */
export function endedRecord(
  record: SplitRecord,
  ending: { readonly kind: Ending; readonly progress: Progress | null; readonly reason: string },
  tenancy: {
    readonly startWatermark: string | null;
    readonly by: InstanceId;
    readonly maxAttempts: number;
  },
): SplitRecord {
  const { by, maxAttempts, startWatermark } = tenancy;
  switch (ending.kind) {
    case 'complete':
      return completedRecord(record, withState(ending.progress ?? record, record), startWatermark);
    case 'fail':
      return failedRecord(record, { reason: ending.reason, by, maxAttempts });
    case 'release':
    case 'force':
      return releasedRecord(record);
  }
}

/** Progress without a state keeps the stored one. */
export function withState(progress: Progress, record: SplitRecord): Progress {
  const { watermark, state } = progress;
  return state === null ? { watermark, state: record.state } : progress;
}

/** A split whose owner is gone and whose next claim would be one attempt too many (T12). */
export function expiredToQuarantine(record: SplitRecord): SplitRecord {
  checkRunnable(record, 'quarantine');
  const { owner } = record;
  invariant(owner !== null, 'only a split with an owner can be quarantined for losing it (R28)');
  return quarantined(withFailure(record, `${owner} ended without releasing it`, owner));
}

/** A split that an operator gives another chance (T15). Its progress stays. */
export function requeuedRecord(record: SplitRecord): SplitRecord {
  checkKnown(record, 'requeue');
  return { ...record, status: 'runnable', owner: null, attempts: 0 };
}

/**
 * The record of a split of which only the spec is left, made anew by a requeue (R21).
 *
 * @param epoch  The store's revision: above every epoch that the lost record can have had.
 */
export function recreatedRecord(split: {
  readonly weight: number;
  readonly epoch: Epoch;
}): SplitRecord {
  return { ...seededRecord({ weight: split.weight, seed: null }), epoch: split.epoch };
}

/** Why a split is quarantined, for `parked/`; `record` is the quarantined one. */
export function parkedRecordFor(record: SplitRecord): ParkedRecord {
  const { status, attempts, lastFailure } = record;
  invariant(status === 'quarantined', `a ${status} split is not parked`);
  return {
    attempts,
    reason: lastFailure?.reason ?? 'unknown',
    owner: lastFailure?.by ?? 'unknown',
  };
}

/** One attempt more, without an owner, and why. The nonce of the last claim stays (R28). */
function withFailure(record: SplitRecord, reason: string, by: InstanceId): SplitRecord {
  return {
    ...record,
    owner: null,
    attempts: record.attempts + 1,
    lastFailure: { reason: shortReason(reason), by, epoch: record.epoch },
  };
}

/** Out of the pool; the epoch rises so that a zombie's late commit is fenced. */
function quarantined(record: SplitRecord): SplitRecord {
  return { ...record, status: 'quarantined', epoch: nextEpoch(record.epoch) };
}

function checkRunnable(record: SplitRecord, what: string): void {
  invariant(record.status === 'runnable', `${what} of a split that is ${record.status}`);
}

function checkKnown(record: SplitRecord, what: string): void {
  invariant(record.status !== 'unknown', `${what} of a split in a state of a newer version (R42)`);
}
