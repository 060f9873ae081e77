/**
 * Instances that do not take what they are named for, and for how long the leader names others instead (R27).
 *
 * An instance refuses a split by listing it on its presence, or by leaving it unclaimed for one lease. The state is plain
 * data and belongs to one leader's term. Tests: test/protocol/refusals.test.ts.
 */
import type { Revision } from '../base/decimals.ts';
import type { InstanceId, SplitId } from '../base/ids.ts';

const BAR_LEASES = 10;

/** How long one instance has left one split unclaimed. */
export interface UnclaimedWait {
  readonly split: SplitId;
  readonly instance: InstanceId;
  readonly announcement: Revision;
  /** Time that counts, up to `countingSinceMs`. */
  readonly countedMs: number;
  /** Since when it counts; null while it does not. */
  readonly countingSinceMs: number | null;
}

/** An instance that is barred for a split because it left it unclaimed. */
export interface Bar {
  readonly split: SplitId;
  readonly instance: InstanceId;
  readonly announcement: Revision;
  readonly untilMs: number;
}

/** What a leader remembers between two looks. */
export interface RefusalState {
  readonly waits: readonly UnclaimedWait[];
  readonly bars: readonly Bar[];
}

/** What a new leader remembers. */
export const NO_REFUSALS: RefusalState = { waits: [], bars: [] };

/** A live instance that is not parting. */
export interface ObservedInstance {
  /** modRevision of its presence: another one is another announcement. */
  readonly announcement: Revision;
  readonly maxInFlight: number;
  /** Leases that hang on its session. */
  readonly leaseCount: number;
  /** Splits it says it cannot take now. */
  readonly refuses: readonly SplitId[];
}

/** A name that waits to be claimed: published for the instance, runnable, and without a lease. */
export interface UnclaimedName {
  readonly split: SplitId;
  readonly instance: InstanceId;
  /** A wait after a failure runs, so nobody may claim it yet (R40). */
  readonly isBackingOff: boolean;
}

/** The fleet as the leader sees it now. */
export interface RefusalObservation {
  readonly instances: ReadonlyMap<InstanceId, ObservedInstance>;
  /** Every name that is unclaimed now, once. A name that is left out was claimed or withdrawn, and is forgotten. */
  readonly unclaimed: Iterable<UnclaimedName>;
  readonly paused: boolean;
  readonly leaseDurationMs: number;
}

/** Who must not be named for what, and when to look again. */
export interface Refusals {
  readonly state: RefusalState;
  /** Barred instances of each split that has any, ascending. */
  readonly barred: ReadonlyMap<SplitId, readonly InstanceId[]>;
  /** When time alone changes the answer next; null when it does not. */
  readonly nextDueMs: number | null;
}

/**
 * Follows names that are left unclaimed.
 *
 * Time counts only while the split has no lease, the instance is live and has a free lane, no back-off runs and the job
 * is not paused; between two looks it counts as the earlier look found it. After one lease of it the instance is barred
 * for the split until it announces itself again, is gone, or ten leases have passed.
 *
 * @param nowMs  The leader's monotonic clock; not before that of the last look.
 */
export function updateRefusals(
  state: RefusalState,
  observation: RefusalObservation,
  nowMs: number,
): Refusals {
  const { instances, leaseDurationMs } = observation;
  const bars = state.bars.filter(
    (bar) => bar.untilMs > nowMs && instances.get(bar.instance)?.announcement === bar.announcement,
  );
  const barKeys = new Set(bars.map(keyOf));
  const earlier = new Map(state.waits.map((wait) => [keyOf(wait), wait]));
  const waits: UnclaimedWait[] = [];
  for (const name of observation.unclaimed) {
    const instance = instances.get(name.instance);
    if (instance === undefined || barKeys.has(keyOf(name))) continue;
    const wait = nextWait(name, {
      instance,
      earlier: earlier.get(keyOf(name)),
      observation,
      nowMs,
    });
    if (wait.countedMs < leaseDurationMs) {
      waits.push(wait);
    } else {
      const { split, announcement } = wait;
      const untilMs = nowMs + BAR_LEASES * leaseDurationMs;
      bars.push({ split, instance: name.instance, announcement, untilMs });
    }
  }
  return {
    state: { waits, bars },
    barred: barredOf(bars, instances),
    nextDueMs: nextDue(waits, bars, leaseDurationMs),
  };
}

function nextWait(
  name: UnclaimedName,
  look: {
    readonly instance: ObservedInstance;
    readonly earlier: UnclaimedWait | undefined;
    readonly observation: RefusalObservation;
    readonly nowMs: number;
  },
): UnclaimedWait {
  const { instance, nowMs } = look;
  // A process that announced itself anew has had no time yet.
  const earlier = look.earlier?.announcement === instance.announcement ? look.earlier : undefined;
  const sinceMs = earlier?.countingSinceMs ?? nowMs;
  const counts =
    !look.observation.paused && !name.isBackingOff && instance.leaseCount < instance.maxInFlight;
  return {
    split: name.split,
    instance: name.instance,
    announcement: instance.announcement,
    countedMs: (earlier?.countedMs ?? 0) + (nowMs - sinceMs),
    countingSinceMs: counts ? nowMs : null,
  };
}

function barredOf(
  bars: readonly Bar[],
  instances: ReadonlyMap<InstanceId, ObservedInstance>,
): Map<SplitId, InstanceId[]> {
  const barred = new Map<SplitId, Set<InstanceId>>();
  const add = (split: SplitId, instance: InstanceId): void => {
    const names = barred.get(split);
    if (names === undefined) barred.set(split, new Set([instance]));
    else names.add(instance);
  };
  for (const bar of bars) add(bar.split, bar.instance);
  for (const [id, { refuses }] of instances) for (const split of refuses) add(split, id);
  return new Map([...barred].map(([split, names]) => [split, [...names].sort()]));
}

function nextDue(
  waits: readonly UnclaimedWait[],
  bars: readonly Bar[],
  leaseDurationMs: number,
): number | null {
  let dueMs = Infinity;
  for (const { countingSinceMs, countedMs } of waits) {
    if (countingSinceMs !== null) {
      dueMs = Math.min(dueMs, countingSinceMs + leaseDurationMs - countedMs);
    }
  }
  for (const { untilMs } of bars) dueMs = Math.min(dueMs, untilMs);
  return dueMs === Infinity ? null : dueMs;
}

/** Ids hold no space, so no two pairs share a key. */
function keyOf({
  split,
  instance,
}: {
  readonly split: SplitId;
  readonly instance: InstanceId;
}): string {
  return `${split} ${instance}`;
}
