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
import {
  type ParkedRecord,
  shortReason,
  type SplitRecord,
  type SuspicionRecord,
} from '../records/records.ts';
import {
  type Backoff,
  failingAfter,
  failingAfterRest,
  restAfterFailureMs,
} from './faults/failures.ts';
import {
  suspicionAfterOrder,
  suspicionAfterProgress,
  suspicionAfterSurvival,
} from './faults/suspicion.ts';

/** How far a split has come. */
export interface Progress {
  /** Signed decimal; null before the first. */
  readonly watermark: string | null;
  /** Opaque, base64. */
  readonly state: string | null;
}

/** What a commit changes. */
export interface ProgressChange {
  readonly watermark: string | null;
  /** As `Progress`; undefined: the stored state stays. */
  readonly state: string | null | undefined;
}

/** Newer progress in the place of older; without a word on the state it keeps the older one's. */
export function merged(older: ProgressChange, newer: ProgressChange): ProgressChange {
  const { watermark, state } = newer;
  return { watermark, state: state === undefined ? older.state : state };
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
    rest: null,
    failing: null,
    tenure: null,
    suspicion: null,
  };
}

/** A claim (T7). `suspicion` comes from the decision to claim; `agedMs` is how long the process has lived. */
export function claimedRecord(
  record: SplitRecord,
  claim: {
    readonly owner: InstanceId;
    readonly nonce: Nonce;
    readonly suspicion: SuspicionRecord | null;
    readonly agedMs: number;
  },
): SplitRecord {
  checkRunnable(record, 'claim');
  const { owner, nonce, suspicion, agedMs } = claim;
  const epoch = nextEpoch(record.epoch);
  return {
    ...record,
    epoch,
    owner,
    nonce,
    rest: null,
    failing: failingAfterRest(record),
    tenure: { epoch, agedMs: Math.round(agedMs), rose: false },
    suspicion,
  };
}

/** Where a tenancy began, and for how long it has lasted. */
export interface TenancySpan {
  /**
   * The watermark at which this tenancy, or the seed before it, began: rising strictly above it proves that the split can
   * be worked on, and clears what was held against it (R31).
   */
  readonly startWatermark: string | null;
  readonly tenancyMs: number;
  /** A suspect that its process has outlived (R48). */
  readonly hasSurvived?: boolean;
}

/** A commit (T8). Its watermark is not below the record's. */
export function committedRecord(
  record: SplitRecord,
  progress: Progress,
  { startWatermark, tenancyMs, hasSurvived }: TenancySpan,
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
  if (hasSurvived === true) next.suspicion = suspicionAfterSurvival(record.suspicion);
  if (!rose) return next;
  next.attempts = 0;
  next.failing = null;
  next.suspicion = suspicionAfterProgress(next.suspicion, tenancyMs);
  const { tenure } = record;
  if (tenure !== null && !tenure.rose) next.tenure = { ...tenure, rose: true };
  return next;
}

/** A last commit that ends the split (T8). */
export function completedRecord(
  record: SplitRecord,
  progress: Progress,
  span: TenancySpan,
): SplitRecord {
  const committed = committedRecord(record, progress, span);
  return { ...committed, status: 'completed', owner: null };
}

/** A release (T9); nobody claims the split for `restMs`, when that is above 0. */
export function releasedRecord(record: SplitRecord, rest: Rest = NO_REST): SplitRecord {
  checkRunnable(record, 'release');
  const suspicion = suspicionAfterOrder(record);
  return { ...record, owner: null, suspicion, rest: restFor(record, rest) };
}

/** How long a split rests from now on. */
export interface Rest {
  readonly restMs: number;
  /** Wall clock of whoever puts it, in milliseconds. */
  readonly wallMs: number;
}

const NO_REST: Rest = { restMs: 0, wallMs: 0 };

function restFor({ epoch }: SplitRecord, { restMs, wallMs }: Rest): SplitRecord['rest'] {
  if (restMs <= 0) return null;
  const ms = Math.round(restMs);
  return { epoch, ms, until: Math.max(0, Math.round(wallMs + ms)) };
}

/** What a handler says about a failure of its tenancy. */
export interface FailureWish {
  /** Only later: a rest of so long, and nothing is held against the split. */
  readonly afterMs?: number | undefined;
  /** Not again: it is set aside at once. */
  readonly never?: boolean | undefined;
  /** It broke a rule of commits: that counts, and the progress made before clears nothing (R38). */
  readonly isFault?: boolean | undefined;
}

/** What the process of a failed tenancy knows of it. */
export interface FailureFacts {
  readonly by: InstanceId;
  /** Another split has progressed in the same process since this one failed there last (R31). */
  readonly hasWitness: boolean;
  readonly tenancyMs: number;
  readonly wallMs: number;
  readonly backoff: Backoff;
  /** In [0, 1). */
  readonly random: number;
  /** What was held against the split when the tenancy began. */
  readonly startAttempts: number;
  readonly startFailing: SplitRecord['failing'];
}

/** What was held against the split before this tenancy, whatever its progress has cleared since. */
function asItBegan(
  record: SplitRecord,
  { startAttempts, startFailing }: FailureFacts,
): SplitRecord {
  const attempts = Math.max(record.attempts, startAttempts);
  return { ...record, attempts, failing: record.failing ?? startFailing };
}

/** A tenancy that its own handler declared failed (T10). Whether the split is set aside is for the leader (T12). */
export function failedRecord(
  record: SplitRecord,
  failure: FailureWish & { readonly reason: string },
  facts: FailureFacts,
): SplitRecord {
  checkRunnable(record, 'fail');
  const { reason, afterMs, never = false, isFault = false } = failure;
  const before = isFault ? asItBegan(record, facts) : record;
  const { by, wallMs, backoff, random } = facts;
  const isLater = afterMs !== undefined && !never;
  const counted = never || isFault || (facts.hasWitness && !isLater);
  const failing = isLater ? record.failing : failingAfter(before, facts);
  const restMs = isLater ? afterMs : restAfterFailureMs(failing?.failures ?? 1, backoff, random);
  return {
    ...record,
    owner: null,
    attempts: before.attempts + (counted ? 1 : 0),
    lastFailure: {
      reason: shortReason(reason),
      by,
      epoch: record.epoch,
      counted,
      never,
      later: isLater,
    },
    failing,
    rest: restFor(record, { restMs, wallMs }),
  };
}

/** What the last write of a tenancy does. */
export type Ending = 'release' | 'force' | 'complete' | 'fail';

/** The record that an ending leaves behind. */
export function endedRecord(
  record: SplitRecord,
  ending: {
    readonly kind: Ending;
    readonly progress: ProgressChange | null;
    readonly reason: string;
    readonly wish: FailureWish;
  },
  tenancy: TenancySpan & FailureFacts,
): SplitRecord {
  switch (ending.kind) {
    case 'complete':
      return completedRecord(
        record,
        ending.progress === null ? record : withState(ending.progress, record),
        tenancy,
      );
    case 'fail':
      return failedRecord(record, { reason: ending.reason, ...ending.wish }, tenancy);
    case 'release': {
      const { wallMs } = tenancy;
      return releasedRecord(record, { restMs: ending.wish.afterMs ?? 0, wallMs });
    }
    case 'force':
      return releasedRecord(record);
  }
}

/** Progress without a word on the state keeps the stored one. */
export function withState(progress: ProgressChange, record: SplitRecord): Progress {
  const { watermark, state } = progress;
  return { watermark, state: state === undefined ? record.state : state };
}

/** A split that died on trial once more, and is claimed by nobody (T12). */
export function condemnedRecord(record: SplitRecord, suspicion: SuspicionRecord): SplitRecord {
  checkRunnable(record, 'quarantine');
  const { owner, epoch } = record;
  invariant(owner !== null, 'only a split with an owner can be quarantined for losing it (R28)');
  const { charged, deaths } = suspicion;
  const reason =
    `${owner} ended without releasing it: of ${deaths} processes that ended with it in hand, ` +
    `${charged} had taken it apart from other suspects`;
  return quarantined({
    ...record,
    owner: null,
    suspicion,
    lastFailure: {
      reason: shortReason(reason),
      by: owner,
      epoch,
      counted: false,
      never: false,
      later: false,
    },
  });
}

/** A split that failed and is not tried again (T12). */
export function setAsideRecord(record: SplitRecord, reason: string): SplitRecord {
  checkRunnable(record, 'quarantine');
  const { lastFailure } = record;
  invariant(lastFailure !== null, 'a split is set aside for a failure (R28)');
  return quarantined({ ...record, lastFailure: { ...lastFailure, reason: shortReason(reason) } });
}

/** A split that an operator gives another chance (T15). Its progress stays. */
export function requeuedRecord(record: SplitRecord): SplitRecord {
  checkKnown(record, 'requeue');
  const nothing = { rest: null, failing: null, suspicion: null };
  return { ...record, status: 'runnable', owner: null, attempts: 0, ...nothing };
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

/** The rule that set a split aside. */
export type SetAsideRule = 'never' | 'attempts' | 'deaths' | 'last' | 'job';

/** Why a split is quarantined, for `parked/`; `record` is the quarantined one. */
export function parkedRecordFor(record: SplitRecord, rule: SetAsideRule): ParkedRecord {
  const { status, attempts, lastFailure, suspicion } = record;
  invariant(status === 'quarantined', `a ${status} split is not parked`);
  return {
    attempts: rule === 'deaths' ? suspicion!.charged : attempts,
    reason: lastFailure?.reason ?? 'unknown',
    owner: lastFailure?.by ?? 'unknown',
    rule,
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
