/**
 * The rebalance delay: splits of an instance that vanished wait for it to come back (R26).
 *
 * Whether an instance is away, and for how long, is the peer chart's to say; zero delay never gets here, because such a
 * peer is gone at once. Tests: test/protocol/withheld.test.ts.
 */
import type { InstanceId, SplitId } from '../base/ids.ts';

/** A split and whom its lease, or else its record, names as the owner. */
export interface OwnedSplit {
  readonly id: SplitId;
  readonly owner: InstanceId | null;
}

/**
 * The splits that stay with nobody because their owner may yet return. A graceful leaver owns nothing any more, so nothing
 * is withheld for it.
 */
export function withheldSplits(
  splits: Iterable<OwnedSplit>,
  isAway: (instance: InstanceId) => boolean,
): Set<SplitId> {
  const withheld = new Set<SplitId>();
  for (const { id, owner } of splits) if (owner !== null && isAway(owner)) withheld.add(id);
  return withheld;
}

/**
 * What is left of the rebalance delay of an instance that this leader never saw: it began when an earlier one saw it go. By
 * wall clocks that may disagree, so it only ever shortens the wait that begins now (R26).
 *
 * @param awaySinceMs  As the assignment says; undefined when nobody has noted it.
 */
export function delayLeftMs(
  awaySinceMs: number | undefined,
  wallMs: number,
  rebalanceDelayMs: number,
): number {
  if (awaySinceMs === undefined) return rebalanceDelayMs;
  return Math.min(rebalanceDelayMs, Math.max(0, awaySinceMs + rebalanceDelayMs - wallMs));
}

/**
 * Owners that a new leader has never seen and nobody had given up, so that their delay begins with its election. One whose
 * assignment is gone had been given up by an earlier leader; its splits are placed at once.
 */
export function ownersToAwait(
  splits: Iterable<OwnedSplit>,
  isPresent: (instance: InstanceId) => boolean,
  hasAssignment: (instance: InstanceId) => boolean,
): Set<InstanceId> {
  const missing = new Set<InstanceId>();
  for (const { owner } of splits) {
    if (owner !== null && !isPresent(owner) && hasAssignment(owner)) missing.add(owner);
  }
  return missing;
}
