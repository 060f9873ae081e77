/**
 * The rebalance delay: splits of an instance that is gone wait for it to come back (R26).
 *
 * Tests: test/protocol/withheld.test.ts.
 */
import type { InstanceId, SplitId } from '../base/ids.ts';

/** An instance that left without parting. One that parted is not listed: nothing is withheld for it (R16). */
export interface Departure {
  readonly instance: InstanceId;
  /** When its window opened, on the leader's monotonic clock. */
  readonly sinceMs: number;
}

/** A split and the owner on its record. */
export interface OwnedSplit {
  readonly id: SplitId;
  readonly owner: InstanceId | null;
}

/** What is kept from everyone now, and when that changes next. */
export interface Withheld {
  readonly splits: ReadonlySet<SplitId>;
  /** When the first window ends that keeps a split; null when none does. */
  readonly nextDueMs: number | null;
}

/**
 * The splits that stay with nobody because their owner may yet return.
 *
 * A window is open for less than `rebalanceDelayMs` from the departure. A delay of 0 withholds nothing, whatever the
 * clock says. An owner that has come back is no departure; the caller drops it from the list.
 */
export function withheldSplits(input: {
  readonly splits: Iterable<OwnedSplit>;
  readonly departures: readonly Departure[];
  readonly rebalanceDelayMs: number;
  readonly nowMs: number;
}): Withheld {
  const splits = new Set<SplitId>();
  if (input.rebalanceDelayMs === 0) return { splits, nextDueMs: null };
  const ends = new Map<InstanceId, number>();
  for (const { instance, sinceMs } of input.departures) {
    const endMs = sinceMs + input.rebalanceDelayMs;
    if (endMs > input.nowMs) ends.set(instance, endMs);
  }
  let nextDueMs: number | null = null;
  if (ends.size === 0) return { splits, nextDueMs };
  for (const { id, owner } of input.splits) {
    const endMs = owner === null ? undefined : ends.get(owner);
    if (endMs === undefined) continue;
    splits.add(id);
    if (nextDueMs === null || endMs < nextDueMs) nextDueMs = endMs;
  }
  return { splits, nextDueMs };
}

/**
 * What a leader makes of an owner that it has never seen present.
 *
 * Its assignment is still there: an earlier leader had not given it up, so its window opens with this leader's election.
 * No assignment: an earlier leader found it gone, and its splits are placed at once.
 */
export function departureOfUnseen(owner: {
  readonly instance: InstanceId;
  readonly hasAssignment: boolean;
  readonly electedAtMs: number;
}): Departure | 'gone' {
  if (!owner.hasAssignment) return 'gone';
  return { instance: owner.instance, sinceMs: owner.electedAtMs };
}
