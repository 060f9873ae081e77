/** A verdict must say how the splits of its plan stand, at the revision at which it was written (R22, R23, R29). */
import type { PlanRecord, SplitRecord, SplitStatus, VerdictRecord } from '../../records/records.ts';
import { VERDICT_IDS_MAX } from '../../records/records.ts';
import type { Version } from './key-states.ts';

interface Job {
  readonly runnable: Set<string>;
  readonly quarantined: Set<string>;
  completed: number;
  isPaused: boolean;
}

/** Follows the splits of every job. */
export class VerdictRules {
  readonly #jobs = new Map<string, Job>();

  /** Takes a version in. */
  take({ kind, root, id, entry, before, after }: Version): void {
    if (kind === 'control') {
      if (id === 'paused') this.#jobOf(root).isPaused = entry.value !== null;
      return;
    }
    if (kind !== 'splits') return;
    const job = this.#jobOf(root);
    move(job, id, (before?.record as SplitRecord | undefined)?.status, -1);
    move(job, id, (after?.record as SplitRecord | undefined)?.status, 1);
  }

  /** What is wrong with a version of the plan, once its whole revision is taken in. */
  *problems({ root, before, after }: Version): Iterable<string> {
    const plan = after!.record as PlanRecord;
    const previous = before?.record as PlanRecord | undefined;
    if (previous !== undefined && previous.sealed && !plan.sealed) yield 'the seal was broken';
    const { verdict } = plan;
    if (previous !== undefined && previous.verdict !== null) {
      const isRequeue = plan.requeues > previous.requeues && verdict === null;
      const isSame = JSON.stringify(previous.verdict) === JSON.stringify(verdict);
      if (!isRequeue && !isSame) yield 'a verdict was changed (R23)';
      return;
    }
    if (verdict === null) return;
    const job = this.#jobOf(root);
    if (!plan.sealed || plan.finality !== 'final') yield 'a verdict on an unsealed plan (R22)';
    if (job.isPaused) yield 'a verdict while paused (R23)';
    yield* countProblems(verdict, job);
  }

  #jobOf(root: string): Job {
    const known = this.#jobs.get(root);
    if (known !== undefined) return known;
    const job = {
      runnable: new Set<string>(),
      quarantined: new Set<string>(),
      completed: 0,
      isPaused: false,
    };
    this.#jobs.set(root, job);
    return job;
  }
}

function move(job: Job, id: string, status: SplitStatus | undefined, by: 1 | -1): void {
  if (status === 'completed') job.completed += by;
  else if (status === 'runnable' || status === 'quarantined') {
    if (by === 1) job[status].add(id);
    else job[status].delete(id);
  }
}

function* countProblems(verdict: VerdictRecord, job: Job): Iterable<string> {
  if (job.runnable.size > 0) {
    yield `a verdict while ${[...job.runnable].slice(0, 5).join(', ')} can run (R23)`;
  }
  const ids = [...job.quarantined].sort().slice(0, VERDICT_IDS_MAX);
  const isExact =
    verdict.kind === (job.quarantined.size > 0 ? 'stalled' : 'complete') &&
    verdict.completed === job.completed &&
    verdict.quarantined === job.quarantined.size &&
    JSON.stringify(verdict.ids) === JSON.stringify(ids);
  if (!isExact) {
    yield `a verdict of ${JSON.stringify(verdict)} on ${job.completed} completed and ${ids.join(', ')} quarantined`;
  }
}
