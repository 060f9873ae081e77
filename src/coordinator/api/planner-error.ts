import { LeaseholdError, messageOf } from '../../base/errors.ts';

/** What a planner throws when no retry would help: the worker gives leadership up for at least `replanIntervalMs`. */
export function fatalPlannerError(message: string, cause?: unknown): LeaseholdError {
  // Callers without types hand in whatever they caught.
  const text = messageOf(message);
  return new LeaseholdError('E_PLANNER_FAILED', text, cause === undefined ? {} : { cause });
}
