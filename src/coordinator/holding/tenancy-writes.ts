/** The writes of a tenancy as data: what is waited for, and what was sent (T8-T10). */
import type { LeaseholdError } from '../../base/errors.ts';
import type {
  Ending,
  FailureFacts,
  FailureWish,
  ProgressChange,
} from '../../protocol/tenancy-records.ts';
import type { Stamp } from '../../records/codec.ts';
import type { SplitRecord } from '../../records/records.ts';

/** Whoever waits for a write to be durable. */
export interface Waiter {
  resolve(): void;
  reject(error: LeaseholdError): void;
}

/** A commit in line; a newer one takes its place and answers for both (R38). */
export interface PendingCommit {
  progress: ProgressChange;
  readonly waiters: Waiter[];
}

/** How the source wants a tenancy to end. */
export interface EndingWish extends FailureWish {
  readonly progress?: ProgressChange | null;
  readonly reason?: string;
}

/** What the last write does, and who waits for it. */
export interface EndingRequest {
  readonly kind: Ending;
  readonly progress: ProgressChange | null;
  readonly reason: string;
  readonly wish: FailureWish;
  /** As they were when the end was decided, however often it is written. */
  readonly facts: FailureFacts;
  readonly waiters: Waiter[];
}

/** A write as sent, to know it again: of a commit or of the ending, never of both. */
export interface SentWrite {
  readonly record: SplitRecord;
  readonly stamp: Stamp;
  readonly ending: EndingRequest | null;
  readonly commit: PendingCommit | null;
}

/** Where the one write of a tenancy that is under way stands (R38). */
export type Line =
  | { readonly kind: 'idle' }
  /** In line; what it will be is built when its turn comes. */
  | { readonly kind: 'queued' }
  | { readonly kind: 'sent'; readonly write: SentWrite };

/** What a tenancy is asked to end with, and who waits for it: nobody where a commit broke a rule (R38). */
export interface Wish {
  readonly ending: EndingWish;
  readonly waiters: readonly Waiter[];
}

/** Everybody who waits for a write. */
export function waitersOf(sent: SentWrite): readonly Waiter[] {
  return (sent.commit ?? sent.ending)?.waiters ?? [];
}
