/**
 * Splits that can run and that nobody is named for: how many, and why (R60). Plain JSON, made from counts and from what one
 * decision left over: not by looking at the whole plan.
 *
 * Tests: test/protocol/unplaced.test.ts.
 */
import type { SplitId } from '../base/ids.ts';
import type { AssignableInstance, AssignableSplit, Assignment } from './assign.ts';

/** Why splits wait for a place. */
export type UnplacedReason =
  /** Every lane of every worker that may take them is taken. */
  | 'noRoom'
  /** Every worker is cordoned, drained, spared because everything fails there, or has no lanes at all. */
  | 'nobodyMay'
  /** Every worker that has lanes refuses them, or has left them unclaimed. */
  | 'barred'
  /** Their owner vanished, and may come back within the rebalance delay. */
  | 'withheld'
  /** They rest after a failure, or because their handler said so. */
  | 'resting'
  /** A process died with them in hand, and they wait to be tried apart from others. */
  | 'suspect'
  /** The job is paused. */
  | 'paused';

/** Those that wait for one reason. */
export interface UnplacedPart {
  readonly reason: UnplacedReason;
  readonly count: number;
  /** Some of them, at most `SAMPLE_MAX`. */
  readonly splits: readonly string[];
  /** When the first of them is looked at again for this reason alone, in milliseconds since 1970; null when time changes nothing. */
  readonly until: number | null;
}

/** All that wait. */
export interface Unplaced {
  readonly count: number;
  /** In the order of the reasons above; none whose count is 0. */
  readonly parts: readonly UnplacedPart[];
}

/** Most ids named for one reason. */
export const SAMPLE_MAX = 5;

/** What a decision knows of those it left over. */
export interface UnplacedSight {
  readonly instances: readonly AssignableInstance[];
  /** The splits that were decided on, and what became of them. */
  readonly splits: readonly AssignableSplit[];
  readonly unassigned: Assignment['unassigned'];
  /** Those that have no owner and wait for nothing but a place, decided on or not. */
  readonly idle: {
    readonly count: number;
    has(split: SplitId): boolean;
    /** Some of them, at least so many where there are. */
    some(count: number): readonly SplitId[];
  };
  /** Those of workers that are away; `until` is when the first of the workers is given up. */
  readonly withheld: { readonly splits: ReadonlySet<SplitId>; readonly until: number | null };
  /** Those that rest and were not decided on. */
  readonly resting: {
    readonly count: number;
    readonly sample: readonly SplitId[];
    readonly until: number | null;
  };
  /** Those that wait for a trial, placed or not. */
  readonly suspects: readonly SplitId[];
}

/** A paused job: nobody is named anew, whatever else there is. */
export function pausedUnplaced(count: number, sample: readonly SplitId[]): Unplaced {
  return unplaced([part('paused', count, sample, null)]);
}

/** What one decision left over. */
export function unplacedOf(sight: UnplacedSight): Unplaced {
  const { instances, withheld, resting } = sight;
  const open = instances.filter(({ cordoned, maxInFlight }) => !cordoned && maxInFlight > 0);
  const { waiting, barred, away, suspects, waitingCount } = sorted(sight, open);
  return unplaced([
    part(open.length === 0 ? 'nobodyMay' : 'noRoom', waitingCount, waiting, null),
    part('barred', barred.length, barred, null),
    part('withheld', away.length, away, withheld.until),
    part('resting', resting.count, resting.sample, resting.until),
    part('suspect', suspects.length, suspects, null),
  ]);
}

function sorted(sight: UnplacedSight, open: readonly AssignableInstance[]) {
  const { splits, withheld, idle } = sight;
  const left = new Set(sight.unassigned);
  const suspects = new Set(sight.suspects);
  const [waiting, barred, away]: [SplitId[], SplitId[], SplitId[]] = [[], [], []];
  let waitingCount = idle.count;
  for (const split of splits) {
    const { id } = split;
    const isLeft = left.has(id);
    if (suspects.has(id)) {
      if (!isLeft) suspects.delete(id);
      continue;
    }
    // Counted with all that are idle.
    if (idle.has(id)) waitingCount -= 1;
    if (!isLeft) continue;
    if (withheld.splits.has(id)) away.push(id);
    else if (isBarredByAll(split, open)) barred.push(id);
    else waiting.push(id);
  }
  waitingCount += waiting.length;
  if (waiting.length === 0 && waitingCount > 0) {
    const decided = new Set(splits.map(({ id }) => id));
    const others = idle.some(decided.size + SAMPLE_MAX).filter((id) => !decided.has(id));
    waiting.push(...others.slice(0, SAMPLE_MAX));
  }
  return { waiting, barred, away, suspects: [...suspects], waitingCount };
}

function isBarredByAll({ barred }: AssignableSplit, open: readonly AssignableInstance[]): boolean {
  if (barred === undefined || open.length === 0) return false;
  return open.every(({ id }) => barred.includes(id));
}

function part(
  reason: UnplacedReason,
  count: number,
  sample: readonly SplitId[],
  until: number | null,
): UnplacedPart {
  return { reason, count, splits: sample.slice(0, SAMPLE_MAX), until };
}

function unplaced(all: readonly UnplacedPart[]): Unplaced {
  const parts = all.filter(({ count }) => count > 0);
  return { count: parts.reduce((sum, { count }) => sum + count, 0), parts };
}
