/**
 * Failures of a split: what of them counts, how long it rests, and until when (R31, R40).
 *
 * A failure counts only if another split progressed in the same process while this one did not: what all share is no
 * split's fault. Tests: test/protocol/faults.
 */
import type { Epoch } from '../../base/decimals.ts';
import type { InstanceId } from '../../base/ids.ts';
import {
  FAILED_BY_MAX,
  type FailingRecord,
  type RestRecord,
  type SplitRecord,
} from '../../records/records.ts';

/** Rests after failures. */
export interface Backoff {
  readonly initialMs: number;
  readonly factor: number;
  readonly maxMs: number;
  /** Share by which a rest is longer or shorter, by chance. */
  readonly jitter: number;
}

/** What failures cost. */
export interface RetryPolicy {
  /** Failures in a row that count, before a split is set aside. */
  readonly maxAttempts: number;
  readonly backoff: Backoff;
  /** How long everything that is left of a final plan may fail, before it is set aside as the job's fault. */
  readonly giveUpAfterMs: number;
}

/** The longest rest, jitter included. */
export function longestRestMs({ maxMs, jitter }: Backoff): number {
  return maxMs * (1 + jitter);
}

/**
 * How long a split rests after a failure: from `initialMs`, times `factor` with each one in a row, at most `maxMs`.
 *
 * @param failures  In a row, this one included.
 * @param random  In [0, 1).
 */
export function restAfterFailureMs(failures: number, backoff: Backoff, random: number): number {
  const { initialMs, factor, maxMs, jitter } = backoff;
  const ms = Math.min(maxMs, initialMs * factor ** Math.max(0, failures - 1));
  return Math.round(ms * (1 + jitter * (2 * random - 1)));
}

/** The rest that a record asks for now; null when there is none, or a claim has ended it. */
export function restOf(record: Pick<SplitRecord, 'rest' | 'epoch' | 'owner'>): RestRecord | null {
  const { rest, epoch, owner } = record;
  return rest !== null && owner === null && rest.epoch === epoch ? rest : null;
}

/** How an observer came to know of a rest. */
export interface RestSight {
  /** Monotonic time at which the lease was seen to go, which is when the rest began; null when it was not seen. */
  readonly leaseGoneAtMs: number | null;
  /** Now, by both clocks of the observer. */
  readonly nowMs: number;
  readonly wallMs: number;
}

/**
 * Monotonic time at which a rest ends. Who saw it begin counts by itself; others believe the wall clock of whoever put it,
 * but never in more than its length.
 */
export function restEndsAtMs({ ms, until }: RestRecord, sight: RestSight): number {
  const { leaseGoneAtMs, nowMs, wallMs } = sight;
  if (leaseGoneAtMs !== null) return leaseGoneAtMs + ms;
  return nowMs + Math.min(ms, Math.max(0, until - wallMs));
}

/** What a failure adds to those before it. */
export function failingAfter(
  record: Pick<SplitRecord, 'failing'>,
  failure: { readonly by: InstanceId; readonly tenancyMs: number },
): FailingRecord {
  const { by, tenancyMs } = failure;
  const before = record.failing ?? { failures: 0, forMs: 0, by: [] };
  const known = before.by.includes(by) || before.by.length >= FAILED_BY_MAX;
  return {
    ...before,
    failures: before.failures + 1,
    forMs: before.forMs + Math.round(tenancyMs),
    by: known ? before.by : [...before.by, by],
  };
}

/** A rest after a failure that a claim ends belongs to the time of failing (R31). */
export function failingAfterRest(record: SplitRecord): FailingRecord | null {
  const { failing } = record;
  const rest = restOf(record);
  if (failing === null || rest === null || !hasJustFailed(record)) return failing;
  if (record.lastFailure!.later) return failing;
  return { ...failing, forMs: failing.forMs + rest.ms };
}

/** True when the split's last tenancy ended with a failure, and nobody has claimed it since. */
export function hasJustFailed({
  owner,
  epoch,
  lastFailure,
}: {
  readonly owner: string | null;
  readonly epoch: Epoch;
  readonly lastFailure: { readonly epoch: Epoch } | null;
}): boolean {
  return owner === null && lastFailure !== null && lastFailure.epoch === epoch;
}

/** True when a handler has said that the split shall not be tried again: nobody claims it, the leader sets it aside. */
export function isRefusedForGood(record: SplitRecord): boolean {
  return hasJustFailed(record) && record.lastFailure!.never;
}
