/**
 * Deaths: processes that ended with splits in hand, and which of those is to blame (R28, R48).
 *
 * A death charges nobody. What showed no progress in its tenancy becomes a suspect. Suspects are tried one a process, and
 * only where the process has outlived what was lost with them by far: a death there counts against the one suspect.
 * Tests: test/protocol/faults.
 */
import type { Nonce } from '../../base/ids.ts';
import type { SplitRecord, SuspicionRecord, TenureRecord } from '../../records/records.ts';

/** Deaths on trial that set a split aside (R28). */
export const CHARGES_MAX = 3;
/** Deaths after progress from which on progress alone clears nobody. */
export const RELAPSES_MAX = 3;
/** So long a tenancy with progress must go on to be above suspicion. */
export const PROBATION_MS = 10 * 60_000;
/** Deaths in a row from which on it is worth saying that processes die again and again. */
export const CRASH_LOOP_DEATHS = 3;

const LIFE_LEASES_MAX = 2;
const AGE_PER_LIFE = 2;

/** True for a split that is tried apart. */
export function isSuspect(suspicion: SuspicionRecord | null): boolean {
  return suspicion !== null && !suspicion.isCleared;
}

/** What is known of the tenancy that a record shows; null when an older version began it. */
function tenureOf({ tenure, epoch }: Mortal): TenureRecord | null {
  return tenure?.epoch === epoch ? tenure : null;
}

/** What of a record tells of deaths. */
export type Mortal = Pick<SplitRecord, 'epoch' | 'tenure' | 'suspicion'>;

/**
 * What is to be thought of a split whose owner is gone: the process of its last claim died, was blocked until its session
 * was gone, or its handler ignored that it was lost.
 *
 * How long that process lived is not known, but for its age at the claim. A lease more is assumed: a process that lives for
 * longer than the trials that this allows, and dies all the same, makes the next ones wait for twice as long.
 */
export function suspicionAfterDeath(record: Mortal, leaseDurationMs: number): SuspicionRecord {
  const before = record.suspicion;
  const tenure = tenureOf(record);
  const wasOnTrial = isSuspect(before) && tenure !== null;
  const rose = tenure?.rose === true;
  const isRelapse = rose || before?.isCleared === true;
  const relapses = (before?.relapses ?? 0) + (isRelapse ? 1 : 0);
  const lifeMs = Math.round((tenure?.agedMs ?? 0) + leaseDurationMs);
  return {
    ...before,
    deaths: (before?.deaths ?? 0) + 1,
    relapses,
    charged: (before?.charged ?? 0) + (wasOnTrial ? 1 : 0),
    lifeMs: Math.min(Math.max(before?.lifeMs ?? 0, lifeMs), LIFE_LEASES_MAX * leaseDurationMs),
    isCleared: rose && relapses < RELAPSES_MAX,
  };
}

/** True for a split that has died on trial too often: nobody claims it, and the leader sets it aside (R28). */
export function isCondemned(suspicion: SuspicionRecord | null): boolean {
  return isSuspect(suspicion) && suspicion!.charged >= CHARGES_MAX;
}

/** What a leader sees of the process that claimed a split last. */
export interface LastOwnerSight {
  /** The nonce that is announced under the owner's instance id; null when nothing is. */
  readonly announcedNonce: Nonce | null;
  /** How long ago that was heard, or the lease was seen to go, whichever came later. */
  readonly waitedForMs: number;
}

/**
 * Whether the process that owns a split without a lease is to be taken for dead. While it is announced it may take the
 * split back itself, at most one lease from its announcement or from when the lease was seen to go.
 */
export function isOwnerGone(
  split: Pick<SplitRecord, 'status' | 'owner' | 'nonce'>,
  sight: LastOwnerSight,
  leaseDurationMs: number,
): boolean {
  if (split.status !== 'runnable' || split.owner === null) return false;
  const isItself = split.nonce !== null && sight.announcedNonce === split.nonce;
  return !isItself || sight.waitedForMs >= leaseDurationMs;
}

/** How long a process must have lived before it takes a suspect. */
export function trialAgeMs({ lifeMs }: SuspicionRecord): number {
  return AGE_PER_LIFE * lifeMs;
}

/** How long a suspect must be in hand, without a word of progress, to be cleared. */
export function survivalMs({ lifeMs, relapses }: SuspicionRecord): number {
  return relapses >= RELAPSES_MAX ? PROBATION_MS : lifeMs;
}

/** What is left of a suspicion once its split has been in hand for `survivalMs`, and its process lives. */
export function suspicionAfterSurvival(suspicion: SuspicionRecord | null): SuspicionRecord | null {
  if (suspicion === null || suspicion.relapses >= RELAPSES_MAX) return null;
  return { ...suspicion, isCleared: true };
}

/**
 * What progress leaves of a suspicion. It clears a suspect, but not one that has died after progress again and again; and
 * once the tenancy has gone on for `PROBATION_MS`, all is forgotten.
 *
 * @param tenancyMs  How long the tenancy has lasted.
 */
export function suspicionAfterProgress(
  suspicion: SuspicionRecord | null,
  tenancyMs: number,
): SuspicionRecord | null {
  if (suspicion === null || tenancyMs >= PROBATION_MS) return null;
  if (suspicion.isCleared || suspicion.relapses >= RELAPSES_MAX) return suspicion;
  return { ...suspicion, isCleared: true };
}

/** What an end in order leaves of a suspicion: nothing once there was progress. */
export function suspicionAfterOrder(record: Mortal): SuspicionRecord | null {
  return tenureOf(record)?.rose === true ? null : record.suspicion;
}

/** What is worth telling of processes that die with a split in hand; null when they do not die again and again. */
export function crashLoopOf(
  suspicion: SuspicionRecord | null,
): { readonly lives: number; readonly lifeMs: number } | null {
  if (suspicion === null || suspicion.deaths < CRASH_LOOP_DEATHS) return null;
  return { lives: suspicion.deaths, lifeMs: suspicion.lifeMs };
}
