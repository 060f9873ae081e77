/** The writes of a tenancy as data: what is waited for, and what was sent (T8-T10). */
import type { LeaseholdError } from '../../base/errors.ts';
import type { Ending, Progress } from '../../protocol/tenancy-records.ts';
import type { Stamp } from '../../records/codec.ts';
import type { SplitRecord } from '../../records/records.ts';

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
