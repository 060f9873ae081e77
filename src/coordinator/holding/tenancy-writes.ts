/** The writes of a tenancy as data: what is waited for, what was sent, and the transactions built from it (T8-T10). */
import type { Ending } from '../../../machines/tenancy/tenancy.events.ts';
import type { Revision } from '../../base/decimals.ts';
import type { LeaseholdError } from '../../base/errors.ts';
import type { SplitId } from '../../base/ids.ts';
import {
  completedRecord,
  failedRecord,
  parkedRecordFor,
  type Progress,
  releasedRecord,
} from '../../protocol/tenancy-records.ts';
import type { Stamp } from '../../records/codec.ts';
import { parkedCodec, type SplitRecord, splitCodec } from '../../records/records.ts';
import type { Key, Txn, Write } from '../../store/port.ts';
import type { Core } from '../link/core.ts';

/** Whoever waits for a write to be durable. */
export interface Waiter {
  resolve(): void;
  reject(error: LeaseholdError): void;
}

/** A commit in line; a newer one takes its place and answers for both (R38). */
export interface PendingCommit {
  progress: Progress;
  readonly waiters: Waiter[];
}

/** What the last write does, and who waits for it. */
export interface EndingRequest {
  readonly kind: Ending;
  readonly progress: Progress | null;
  readonly reason: string;
  readonly waiters: Waiter[];
}

/** A write as sent, to know it again: of a commit or of the ending, never of both. */
export interface SentWrite {
  readonly record: SplitRecord;
  readonly stamp: Stamp;
  readonly ending: EndingRequest | null;
  readonly commit: PendingCommit | null;
}

/** Everybody who waits for a write. */
export function waitersOf(sent: SentWrite): readonly Waiter[] {
  return (sent.commit ?? sent.ending)?.waiters ?? [];
}

/** Newer progress in the place of older; without a state of its own it keeps the older one's. */
export function merged(older: Progress, newer: Progress): Progress {
  return { watermark: newer.watermark, state: newer.state ?? older.state };
}

/** Progress without a state keeps the stored one. */
export function withState(progress: Progress, record: SplitRecord): Progress {
  const { watermark, state } = progress;
  return state === null ? { watermark, state: record.state } : progress;
}

/** The record that an ending leaves behind. */
export function endedRecord(
  core: Core,
  record: SplitRecord,
  ending: EndingRequest,
  startWatermark: string | null,
): SplitRecord {
  switch (ending.kind) {
    case 'complete':
      return completedRecord(record, withState(ending.progress ?? record, record), startWatermark);
    case 'fail':
      return failedRecord(record, {
        reason: ending.reason,
        by: core.me,
        maxAttempts: core.config.maxAttempts,
      });
    case 'release':
    case 'force':
      return releasedRecord(record);
  }
}

/** The transaction of a write on the record at `revision`; an ending takes the lease along. */
export function tenancyTxn(
  { keys }: Core,
  { split, key, revision }: { split: SplitId; key: Key; revision: Revision },
  sent: SentWrite,
): Txn {
  const { record, stamp } = sent;
  const writes: Write[] = [{ put: key, value: splitCodec.encode(record, stamp), session: null }];
  if (sent.ending !== null) {
    writes.push({ delete: keys.lease(split) });
    if (record.status === 'quarantined') {
      const value = parkedCodec.encode(parkedRecordFor(record), stamp);
      writes.push({ put: keys.parked(split), value, session: null });
    }
  }
  return {
    compares: [{ key, target: 'modRevision', equals: revision }],
    writes,
    onConflict: [key],
  };
}
