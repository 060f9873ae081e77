/** Joining a job (T1): whether its plan can be worked by, is awaited, made, or was lost (R42). */

/** What a worker that joins has found; null where it has not looked. */
export interface JobSight {
  readonly hasPlan: boolean;
  readonly isLed: boolean;
  /** A split or a spec of the job is there. */
  readonly hasRecords: boolean | null;
}

/**
 * - `join`: the plan is there.
 * - `wait`: its leader puts it back.
 * - `look`: whether records are there decides.
 * - `create`: nothing of the job is there.
 * - `lost`: records without a plan, and nobody to put it back.
 */
export type Joining = 'join' | 'wait' | 'look' | 'create' | 'lost';

/** Decides what joining is now. */
export function decideJoining({ hasPlan, isLed, hasRecords }: JobSight): Joining {
  if (hasPlan) return 'join';
  if (isLed) return 'wait';
  if (hasRecords === null) return 'look';
  return hasRecords ? 'lost' : 'create';
}
