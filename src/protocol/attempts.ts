/** Attempts: how often a split may end badly before it is set aside, and how long it rests in between (R28, R31, R40). */

import type { Epoch } from '../base/decimals.ts';
import type { InstanceId, Nonce } from '../base/ids.ts';
import type { SplitStatus } from '../records/records.ts';

const FAIL_BACKOFF_MS = 500;

/**
 * Whether a claim or a failure may not happen any more: it would leave the split with `attempts` attempts.
 *
 * Ask only for what consumes one; a claim that consumes none is never at the cap (R28).
 * @param attempts  Attempts after the claim or failure.
 * @param maxAttempts  At least 1.
 */
export function isAtCap(attempts: number, maxAttempts: number): boolean {
  return attempts >= maxAttempts;
}

/**
 * How long nobody claims a split after a failure, counted from seeing its lease go (R40): 500 ms, doubling with each
 * attempt, at most half a lease.
 *
 * @param attempts  Attempts the failure left; after 0 there is no wait.
 */
export function failBackoffMs(attempts: number, leaseDurationMs: number): number {
  if (attempts < 1) return 0;
  return Math.min(FAIL_BACKOFF_MS * 2 ** (attempts - 1), leaseDurationMs / 2);
}

/** True when the split's last tenancy ended with a failure of its handler, and nobody has claimed it since (R40). */
export function hasJustFailed(split: {
  readonly owner: string | null;
  readonly attempts: number;
  readonly epoch: Epoch;
  /** The epoch of the last failure; null when there was none. */
  readonly failedEpoch: Epoch | null;
}): boolean {
  return split.owner === null && split.attempts >= 1 && split.failedEpoch === split.epoch;
}

/** What a leader sees of the process that claimed a split last. */
export interface LastOwnerSight {
  /** The nonce that is announced under the owner's instance id; null when nothing is. */
  readonly announcedNonce: Nonce | null;
  /** How long ago that was heard, or the lease was seen to go, whichever came later. */
  readonly waitedForMs: number;
}

/**
 * Whether a split that has an owner and no lease is lost: one more claim would be one too many, and nobody may take it back
 * for free. Nobody claims it, it is out of the pool, and the leader sets it aside (R28).
 *
 * The process of the last claim may take its split back without an attempt while it is announced, at most one lease from its
 * announcement or from when the lease was seen to go.
 */
export function isLost(
  split: {
    readonly status: SplitStatus;
    readonly owner: InstanceId | null;
    readonly nonce: Nonce | null;
    readonly attempts: number;
  },
  sight: LastOwnerSight,
  {
    maxAttempts,
    leaseDurationMs,
  }: { readonly maxAttempts: number; readonly leaseDurationMs: number },
): boolean {
  if (split.status !== 'runnable' || split.owner === null) return false;
  if (!isAtCap(split.attempts + 1, maxAttempts)) return false;
  const isItself = split.nonce !== null && sight.announcedNonce === split.nonce;
  return !isItself || sight.waitedForMs >= leaseDurationMs;
}
