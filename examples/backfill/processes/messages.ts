/** What a worker process and the process that started it say to each other. */

import type { Released } from './held-writes.ts';

/** Splits a worker works on at a time; it may hold many more. */
export const SPLITS_AT_A_TIME = 8;

/** What a worker process is started with. */
export interface WorkerSetup {
  readonly job: string;
  readonly instanceId: string;
  readonly endpoints: readonly string[];
  /** The directory to read, in hexadecimal: a path is bytes. */
  readonly root: string;
  /** Most splits it may hold. */
  readonly maxInFlight: number;
}

export type FromWorker =
  | {
      readonly type: 'fileRead';
      readonly splitId: string;
      readonly index: number;
      readonly bytes: number;
    }
  /** All files of a split are read: may it end? */
  | { readonly type: 'mayEnd'; readonly splitId: string; readonly epoch: string }
  /** Commits that are held back, since `hold`. */
  | { readonly type: 'held'; readonly commits: number }
  /** What the store answered to the commits that were held back. */
  | ({ readonly type: 'released' } & Readonly<Released>)
  | { readonly type: 'ended'; readonly verdict: 'complete' | 'stalled' }
  | { readonly type: 'failed'; readonly message: string };

export type ToWorker =
  /** The answer to `mayEnd`. */
  | { readonly type: 'end'; readonly splitId: string; readonly epoch: string }
  /** Hold back what is written from now on, as if the process were stopped just before it is sent. */
  | { readonly type: 'hold' }
  /** Send what was held back. */
  | { readonly type: 'release' };
