/**
 * Whether a split may be claimed, and as what (R28, R30, R31).
 *
 * A split is claimable when its record is runnable and no live lease of another stands on it. Whether this worker should
 * claim it is the assignment's call, not decided here. Tests: test/protocol/claim.test.ts.
 */
import { NEVER_OWNED } from '../base/decimals.ts';
import type { InstanceId, SessionId, SplitId } from '../base/ids.ts';
import type { SplitRecord, SplitStatus } from '../records/records.ts';
import { isAtCap } from './attempts.ts';

/**
 * How a split became claimable.
 *
 * - `create`: nobody ever owned it.
 * - `released`: its last owner gave it back.
 * - `reclaim`: its lease is live and belongs to an earlier session of this instance, so there is nobody to wait for.
 * - `expired`: its owner stands on the record and its lease is gone.
 */
export type ClaimKind = 'create' | 'released' | 'reclaim' | 'expired';

/** Kinds in the order in which free lanes go to them: the contended one last. */
const KIND_ORDER: Readonly<Record<ClaimKind, number>> = {
  create: 0,
  released: 1,
  reclaim: 2,
  expired: 3,
};

/** The live lease of a split, as its key shows it. */
export interface LeaseView {
  readonly owner: InstanceId;
  /** The session the key hangs on; null for a key that hangs on none, which nobody's session owns. */
  readonly session: SessionId | null;
}

/** What is known of one split. */
export interface SplitView {
  readonly record: SplitRecord;
  readonly lease: LeaseView | null;
}

/** Who asks. */
export interface Claimant {
  readonly instance: InstanceId;
  /** Its current session. */
  readonly session: SessionId;
}

/** What a claim would be, or why there is none. */
export type ClaimDecision =
  /** `attempts` is what the record holds after the claim. */
  | { readonly kind: 'claim'; readonly claim: ClaimKind; readonly attempts: number }
  /** The claim would consume the last attempt: nobody claims or reclaims it (R28). `attempts` as above. */
  | { readonly kind: 'atCap'; readonly claim: ClaimKind; readonly attempts: number }
  /** A lease of another instance is live. */
  | { readonly kind: 'heldElsewhere'; readonly owner: InstanceId }
  /** A lease hangs on this very session. */
  | { readonly kind: 'heldByMe' }
  /** Completed, quarantined, or in a state that only a newer version knows. */
  | { readonly kind: 'ended'; readonly status: Exclude<SplitStatus, 'runnable'> };

/** Whether a claim of this kind follows an end that was not graceful, and so counts as an attempt (R31). */
function consumesAttempt(claim: ClaimKind): boolean {
  return claim === 'reclaim' || claim === 'expired';
}

/**
 * Decides what claiming a split would be.
 *
 * @param options.maxAttempts  At least 1.
 * @param options.waivesAttempt  The claim consumes no attempt whatever its kind (the exceptions of R31), and so is
 *   never at the cap.
 */
export function decideClaim(
  { record, lease }: SplitView,
  me: Claimant,
  options: { readonly maxAttempts: number; readonly waivesAttempt: boolean },
): ClaimDecision {
  if (record.status !== 'runnable') return { kind: 'ended', status: record.status };
  if (lease !== null && lease.owner !== me.instance) {
    return { kind: 'heldElsewhere', owner: lease.owner };
  }
  if (lease?.session === me.session) return { kind: 'heldByMe' };
  const claim = claimKindOf(record, lease);
  const consumes = consumesAttempt(claim) && !options.waivesAttempt;
  const attempts = record.attempts + (consumes ? 1 : 0);
  if (consumes && isAtCap(attempts, options.maxAttempts)) return { kind: 'atCap', claim, attempts };
  return { kind: 'claim', claim, attempts };
}

function claimKindOf(record: SplitRecord, lease: LeaseView | null): ClaimKind {
  if (lease !== null) return 'reclaim';
  if (record.owner !== null) return 'expired';
  return record.epoch === NEVER_OWNED ? 'create' : 'released';
}

/** A split that a free lane may go to. */
interface ClaimCandidate {
  readonly id: SplitId;
  readonly claim: ClaimKind;
}

/** Order in which free lanes go to claims: by kind, then by id. Weight plays no part; the assignment has weighed already. */
export function compareCandidates(a: ClaimCandidate, b: ClaimCandidate): number {
  return KIND_ORDER[a.claim] - KIND_ORDER[b.claim] || (a.id < b.id ? -1 : 1);
}
