/**
 * What a conflict means to the owner who wrote: whether the write landed after all, may be written again on what was found,
 * or belongs to somebody else now (R2, R4). Decided by epoch and owner; the stamp only tells one's own write.
 *
 * Tests: test/protocol/settle.test.ts.
 */
import type { Epoch } from '../base/decimals.ts';
import type { InstanceId, Nonce, SessionId } from '../base/ids.ts';
import { type Decoded, sameStamp, type Stamp } from '../records/codec.ts';
import type { LeaderRecord, SplitRecord } from '../records/records.ts';
import { compareWatermarks } from './tenancy-records.ts';

/**
 * Landed is not held (R3): what a claim, an election or an announcement put counts only while its key shows it under the
 * session that the worker has now.
 *
 * @param shown  The key as the worker sees it, its own write taken in.
 * @param isOwn  Whether what is shown is what was put.
 */
export function isHeld<T>(
  shown: { readonly record: T; readonly session: SessionId | null } | null | undefined,
  session: SessionId | null,
  isOwn: (record: T) => boolean,
): boolean {
  if (shown === null || shown === undefined || session === null) return false;
  return shown.session === session && isOwn(shown.record);
}

/**
 * What a conflict means to a claim (R30): it landed; a legal late commit of the last owner is adopted, and it goes out again at
 * once; or the split is another's, has ended, or is not to be read.
 *
 * @param epochBefore  The epoch that the claim was built on.
 */
export function settleClaim(
  { stamp, epochBefore }: { readonly stamp: Stamp; readonly epochBefore: Epoch | undefined },
  found: Decoded<SplitRecord> | null,
): 'landed' | 'again' | 'lost' {
  if (found?.kind !== 'record') return 'lost';
  if (sameStamp(found.stamp, stamp)) return 'landed';
  const { epoch, status } = found.record;
  return epoch === epochBefore && status === 'runnable' ? 'again' : 'lost';
}

/** What a conflict means to an election: it landed, only the plan has moved, or somebody leads (R20). */
export function settleElection(
  stamp: Stamp,
  leader: Decoded<LeaderRecord> | null,
): 'landed' | 'again' | 'lost' {
  if (leader === null) return 'again';
  return leader.kind === 'record' && sameStamp(leader.stamp, stamp) ? 'landed' : 'lost';
}

/** A write of a tenancy that was answered with a conflict. */
export interface ConflictingWrite {
  readonly stamp: Stamp;
  readonly epoch: Epoch | null;
  readonly owner: InstanceId;
  readonly nonce: Nonce;
  /** The watermark it carries; undefined when it carries no progress. */
  readonly watermark: string | null | undefined;
  /** It completes the split. */
  readonly completes: boolean;
}

export type ConflictMeaning =
  /** The value found is this very write. */
  | { readonly kind: 'landed' }
  /** The split is completed in this epoch: a complete has what it wanted. */
  | { readonly kind: 'completed'; readonly record: SplitRecord }
  /** Still this tenancy's: write anew on top of it. */
  | { readonly kind: 'adopt'; readonly record: SplitRecord }
  /** Somebody else's, ended, or not to be written on; a reason when a person should hear of it. */
  | { readonly kind: 'fenced'; readonly warning: string | null };

/** Reads what a conflict found; null when the record is gone. */
export function settleConflict(
  write: ConflictingWrite,
  found: Decoded<SplitRecord> | null,
): ConflictMeaning {
  if (found === null) return { kind: 'fenced', warning: 'cannot be written: it was deleted' };
  if (found.kind !== 'record') {
    return { kind: 'fenced', warning: `cannot be written: ${found.reason}` };
  }
  if (sameStamp(found.stamp, write.stamp)) return { kind: 'landed' };
  const { record } = found;
  if (record.epoch !== write.epoch) return { kind: 'fenced', warning: null };
  if (write.completes && record.status === 'completed') return { kind: 'completed', record };
  const isMine =
    record.status === 'runnable' && record.owner === write.owner && record.nonce === write.nonce;
  if (!isMine) return { kind: 'fenced', warning: null };
  if (write.watermark !== undefined && compareWatermarks(record.watermark, write.watermark) > 0) {
    return {
      kind: 'fenced',
      warning: `holds watermark ${record.watermark} above ${write.watermark} in the epoch of this worker`,
    };
  }
  return { kind: 'adopt', record };
}

/**
 * Whether an ending that finds its split with somebody else, or ended, has done what it was to do (R4): handed back by a send
 * that was not answered, the split is another's because that send landed. A complete never is.
 *
 * @param mayHaveLanded  A send of this very write was not answered.
 */
export function isHandedBack(completes: boolean, mayHaveLanded: boolean): boolean {
  return mayHaveLanded && !completes;
}
