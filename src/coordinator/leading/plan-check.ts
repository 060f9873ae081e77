/** Checks what a planner returned, as a whole, before any of it is stored (R43). */
import { LeaseholdError } from '../../base/errors.ts';
import { describe, idProblem, type SplitId } from '../../base/ids.ts';
import type { Progress as StoredProgress } from '../../protocol/tenancy-records.ts';
import { CURSOR_BYTES_MAX, DESCRIPTOR_BYTES_MAX } from '../../records/records.ts';
import {
  base64OfBytes,
  byteLengthOf,
  isBytes,
  progressProblem,
  storedProgressOf,
} from '../api/bytes.ts';
import type { PlannedSplit } from '../api/api.ts';
import { PART_MAX } from '../loop/next-turn.ts';

/** A planned split, ready to be stored. */
export interface CheckedSplit {
  readonly id: SplitId;
  readonly weight: number;
  /** Base64. */
  readonly descriptor: string;
  readonly seed: (StoredProgress & { readonly completed: boolean }) | null;
}

/** A planner's answer, ready to be stored. */
export interface CheckedPlan {
  readonly splits: readonly CheckedSplit[];
  readonly finality: 'open' | 'final';
  /** Base64; null keeps the last one. */
  readonly cursor: string | null;
}

/** Problems named in one error; the rest is counted. */
const PROBLEMS_MAX = 20;

/**
 * Reads a planner's answer; in parts, so that a long one does not hold up the renewal of leases.
 *
 * @param pause  Awaited between two parts; when it rejects, so does the check, and no more of the answer is read.
 * @throws LeaseholdError `E_PLAN_INVALID` that names every broken rule.
 */
export async function checkPlanAnswer(
  answer: unknown,
  pause: () => Promise<void>,
): Promise<CheckedPlan> {
  const problems: string[] = [];
  const { splits, finality, cursor } = shapeOf(answer);
  if (finality !== 'open' && finality !== 'final') {
    problems.push(`finality must be 'open' or 'final', got ${describe(finality)}`);
  }
  const checkedCursor = cursorOf(cursor, problems);
  const checked: CheckedSplit[] = [];
  const seen = new Set<string>();
  let looked = 0;
  for (const split of iterableOf(splits, problems)) {
    looked += 1;
    if (looked % PART_MAX === 0) await pause();
    const problem = splitProblem(split, seen);
    if (problem === undefined) checked.push(checkedSplit(split as PlannedSplit));
    else problems.push(problem);
  }
  if (problems.length > 0) throw invalid(problems);
  return { splits: checked, finality: finality as 'open' | 'final', cursor: checkedCursor };
}

function shapeOf(answer: unknown): { splits?: unknown; finality?: unknown; cursor?: unknown } {
  if (typeof answer === 'object' && answer !== null) return answer;
  throw invalid([`must be an object with splits and finality, got ${describe(answer)}`]);
}

function iterableOf(splits: unknown, problems: string[]): Iterable<unknown> {
  if (typeof splits === 'object' && splits !== null && Symbol.iterator in splits) {
    return splits as Iterable<unknown>;
  }
  problems.push(`splits must be iterable, got ${describe(splits)}`);
  return [];
}

function cursorOf(cursor: unknown, problems: string[]): string | null {
  if (cursor === undefined || cursor === null) return null;
  if (!isBytes(cursor)) {
    problems.push(`cursor must be bytes or a string, got ${describe(cursor)}`);
    return null;
  }
  if (byteLengthOf(cursor) > CURSOR_BYTES_MAX) {
    problems.push(`cursor must be at most ${CURSOR_BYTES_MAX} bytes, got ${byteLengthOf(cursor)}`);
    return null;
  }
  return base64OfBytes(cursor);
}

function splitProblem(split: unknown, seen: Set<string>): string | undefined {
  if (typeof split !== 'object' || split === null) {
    return `a split must be an object, got ${describe(split)}`;
  }
  const { id, weight, descriptor, seed } = split as Partial<Record<keyof PlannedSplit, unknown>>;
  const wrongId = idProblem(id);
  if (wrongId !== undefined) return `split id ${wrongId}`;
  const name = `split ${describe(id)}`;
  if (seen.has(id as string)) return `${name} is listed twice`;
  seen.add(id as string);
  const isWeight = Number.isSafeInteger(weight) && (weight as number) >= 1;
  if (weight !== undefined && !isWeight) {
    return `${name}: weight must be a whole number from 1 to ${Number.MAX_SAFE_INTEGER}, got ${describe(weight)}`;
  }
  if (!isBytes(descriptor)) {
    return `${name}: descriptor must be bytes or a string, got ${describe(descriptor)}`;
  }
  if (byteLengthOf(descriptor) > DESCRIPTOR_BYTES_MAX) {
    return `${name}: descriptor must be at most ${DESCRIPTOR_BYTES_MAX} bytes, got ${byteLengthOf(descriptor)}`;
  }
  const wrongSeed = seed === undefined ? undefined : progressProblem(seed);
  return wrongSeed === undefined ? undefined : `${name}: seed ${wrongSeed}`;
}

function checkedSplit(split: PlannedSplit): CheckedSplit {
  const { id, weight = 1, descriptor, seed } = split;
  return {
    id: id as SplitId,
    weight,
    descriptor: base64OfBytes(descriptor),
    seed:
      seed === undefined ? null : { ...storedProgressOf(seed), completed: seed.completed === true },
  };
}

function invalid(problems: readonly string[]): LeaseholdError {
  const shown = problems.slice(0, PROBLEMS_MAX).join('; ');
  const more = problems.length > PROBLEMS_MAX ? `; and ${problems.length - PROBLEMS_MAX} more` : '';
  return new LeaseholdError('E_PLAN_INVALID', `the planner's answer is invalid: ${shown}${more}`, {
    details: { problems: problems.slice(0, PROBLEMS_MAX), problemCount: problems.length },
  });
}
