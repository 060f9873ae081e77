import { LeaseholdError } from '../../base/errors.ts';

/** What a planner throws when no retry would help: the worker gives leadership up for at least `replanIntervalMs`. */
export function fatalPlannerError(message: string, cause?: unknown): LeaseholdError {
  return new LeaseholdError('E_PLANNER_FAILED', message, cause === undefined ? {} : { cause });
}
