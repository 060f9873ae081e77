/** What was set aside, as an operator sees it. */
import { aFunction, type TableOf } from '../base/shape.ts';
import { parkedCodec } from '../records/records.ts';

/** A split that was set aside. */
export interface ParkedSplit {
  readonly splitId: string;
  /** What it failed with last. */
  readonly reason: string;
  /** Failures that counted, or deaths on trial. */
  readonly attempts: number;
  /** What set it aside: `never`, `attempts`, `deaths`, `last` or `job`; null when version 0.1.0 did. */
  readonly rule: string | null;
}

export interface RequeueAllOptions {
  /** Which of them; all when absent. */
  readonly filter?: (split: ParkedSplit) => boolean;
}

/** The options of `requeueAll`. */
export const REQUEUE_ALL_OPTIONS: TableOf<RequeueAllOptions> = {
  filter: { rule: aFunction('(parked) => boolean'), meaning: 'Which of them are put back.' },
};

export interface RequeueAllResult {
  readonly matched: number;
  /** Fewer than matched when others put some of them back meanwhile. */
  readonly requeued: number;
}

/** Reads `parked/<split>`. */
export function parkedOf(splitId: string, value: string): ParkedSplit {
  const decoded = parkedCodec.decode(value);
  if (decoded.kind !== 'record') return { splitId, reason: 'unknown', attempts: 0, rule: null };
  const { reason, attempts, rule } = decoded.record;
  return { splitId, reason, attempts, rule };
}
