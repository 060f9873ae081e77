/**
 * The next plan, for each write that changes it. Every builder but that of a new plan keeps the fields it does not own, those
 * of a newer version and what others put there meanwhile included (R23).
 */
import type { PlanRecord, VerdictRecord } from '../records/records.ts';

/** A plan of which nothing is known yet: of a new job, or put back after it was deleted (T1, R42). */
export function newPlan(
  fingerprint: string,
  { generation = 0, planned = 0 }: { readonly generation?: number; readonly planned?: number } = {},
): PlanRecord {
  return {
    fingerprint,
    generation,
    finality: 'open',
    sealed: false,
    planned,
    cursor: null,
    requeues: 0,
    verdict: null,
  };
}

/** An election raises the generation (R20). */
export function electedPlan(plan: PlanRecord): PlanRecord {
  return { ...plan, generation: plan.generation + 1 };
}

/** What a planning run leaves; null when that is what stands there: an unchanged plan is not written again (R22). */
export function publishedPlan(
  plan: PlanRecord,
  run: {
    readonly finality: 'open' | 'final';
    readonly cursor: string | null;
    /** Splits that are stored. */
    readonly planned: number;
  },
): PlanRecord | null {
  const next: PlanRecord = {
    ...plan,
    finality: run.finality,
    sealed: run.finality === 'final',
    planned: run.planned,
    cursor: run.cursor ?? plan.cursor,
  };
  const isSame =
    next.finality === plan.finality &&
    next.sealed === plan.sealed &&
    next.planned === plan.planned &&
    next.cursor === plan.cursor;
  return isSame ? null : next;
}

/** The job has ended (T13). */
export function judgedPlan(plan: PlanRecord, verdict: VerdictRecord): PlanRecord {
  return { ...plan, verdict };
}

/** A requeue takes the verdict back, and moves the plan in any case: a verdict in the making fails (T15). */
export function reopenedPlan(plan: PlanRecord): PlanRecord {
  return { ...plan, verdict: null, requeues: plan.requeues + 1 };
}
