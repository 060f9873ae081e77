/**
 * Whether a split may be claimed, and as what (R28, R30, R48).
 *
 * A split is claimable when its record is runnable and no live lease of another stands on it. Whether this worker should
 * claim it is the assignment's call, not decided here. Tests: test/protocol/claim.test.ts.
 */
import { NEVER_OWNED } from '../base/decimals.ts';
import type { InstanceId, SessionId, SplitId } from '../base/ids.ts';
import type { SplitRecord, SplitStatus, SuspicionRecord } from '../records/records.ts';
import { isRefusedForGood } from './faults/failures.ts';
import { isCondemned, suspicionAfterDeath } from './faults/suspicion.ts';

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
  /** `suspicion` is what the record holds after the claim. */
  | {
      readonly kind: 'claim';
      readonly claim: ClaimKind;
      readonly suspicion: SuspicionRecord | null;
    }
  /** It has died on trial too often, or shall not be tried again: nobody claims or reclaims it (R28). */
  | { readonly kind: 'condemned' }
  /** A lease of another instance is live. */
  | { readonly kind: 'heldElsewhere'; readonly owner: InstanceId }
  /** A lease hangs on this very session. */
  | { readonly kind: 'heldByMe' }
  /** Completed, quarantined, or in a state that only a newer version knows. */
  | { readonly kind: 'ended'; readonly status: Exclude<SplitStatus, 'runnable'> };

/** Whether a claim of this kind follows the death of an owner (R48). */
function followsDeath(claim: ClaimKind): boolean {
  return claim === 'reclaim' || claim === 'expired';
}

/**
 * Decides what claiming a split would be.
 *
 * @param options.isNoDeath  Whatever ended the tenancy before was no death of a process (the exceptions of R48).
 */
export function decideClaim(
  { record, lease }: SplitView,
  me: Claimant,
  options: { readonly isNoDeath: boolean; readonly leaseDurationMs: number },
): ClaimDecision {
  if (record.status !== 'runnable') return { kind: 'ended', status: record.status };
  if (lease !== null && lease.owner !== me.instance) {
    return { kind: 'heldElsewhere', owner: lease.owner };
  }
  if (lease?.session === me.session) return { kind: 'heldByMe' };
  if (isRefusedForGood(record)) return { kind: 'condemned' };
  const claim = claimKindOf(record, lease);
  if (!followsDeath(claim) || options.isNoDeath) {
    return { kind: 'claim', claim, suspicion: record.suspicion };
  }
  const suspicion = suspicionAfterDeath(record, options.leaseDurationMs);
  return isCondemned(suspicion) ? { kind: 'condemned' } : { kind: 'claim', claim, suspicion };
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
