/**
 * Whether a job has ended, and how (R23).
 *
 * Decides from one consistent read; the write compares the plan's revision, so a requeue in between is not overlooked.
 * Tests: test/protocol/verdict.test.ts.
 */
import type { SplitId } from '../base/ids.ts';
import type { Decoded } from '../records/codec.ts';
import {
  type PlanRecord,
  type SplitRecord,
  VERDICT_IDS_MAX,
  type VerdictRecord,
} from '../records/records.ts';

/** Everything a judge reads, at one revision. */
export interface VerdictInput {
  readonly plan: PlanRecord;
  /** All of `splits/`, in any order. */
  readonly splits: Iterable<readonly [SplitId, Decoded<SplitRecord>]>;
  /** Keys under `specs/`: their count, and their ids where they were read. */
  readonly specs: { readonly count: number; readonly ids?: ReadonlySet<SplitId> };
  readonly paused: boolean;
}

/**
 * Why there is no verdict.
 *
 * - `decided`: the plan holds one.
 * - `unsealed`: splits may still be added.
 * - `paused`: an operator holds the job.
 * - `mismatch`: specs and splits do not pair up; a named error for people (R21).
 * - `unreadable`: a split is junk or newer than this version (R42).
 * - `runnable`: work is left.
 */
export type VerdictWait =
  'decided' | 'unsealed' | 'paused' | 'mismatch' | 'unreadable' | 'runnable';

/** A verdict to write, or what it waits for and the splits to blame, ascending, all of them. */
export type VerdictDecision =
  | { readonly kind: 'verdict'; readonly verdict: VerdictRecord }
  | { readonly kind: 'wait'; readonly reason: VerdictWait; readonly ids: readonly SplitId[] };

/**
 * Judges a job: `complete` when every split is completed, `stalled` when every split has ended and some are quarantined.
 *
 * Counts are exact; at most 1,000 ids of quarantined splits are named, the lowest.
 * A sealed plan without splits is complete.
 */
export function decideVerdict(input: VerdictInput): VerdictDecision {
  const { plan } = input;
  if (plan.verdict !== null) return wait('decided');
  if (!plan.sealed || plan.finality !== 'final') return wait('unsealed');
  if (input.paused) return wait('paused');
  const found = sortOut(input.splits);
  const mismatched = mismatch(found.ids, input.specs);
  if (mismatched !== undefined) return wait('mismatch', mismatched);
  if (found.unreadable.length > 0) return wait('unreadable', found.unreadable);
  if (found.runnable.length > 0) return wait('runnable', found.runnable);
  const { completed, quarantined } = found;
  return {
    kind: 'verdict',
    verdict: {
      kind: quarantined.length > 0 ? 'stalled' : 'complete',
      completed,
      quarantined: quarantined.length,
      ids: quarantined.sort(compareIds).slice(0, VERDICT_IDS_MAX),
    },
  };
}

function wait(reason: VerdictWait, ids: SplitId[] = []): VerdictDecision {
  return { kind: 'wait', reason, ids: ids.sort(compareIds) };
}

interface SortedOut {
  readonly ids: Set<SplitId>;
  readonly unreadable: SplitId[];
  readonly runnable: SplitId[];
  readonly quarantined: SplitId[];
  completed: number;
}

function sortOut(splits: VerdictInput['splits']): SortedOut {
  const found: SortedOut = {
    ids: new Set(),
    unreadable: [],
    runnable: [],
    quarantined: [],
    completed: 0,
  };
  for (const [id, decoded] of splits) {
    found.ids.add(id);
    const status = decoded.kind === 'record' ? decoded.record.status : 'unknown';
    if (status === 'completed') found.completed += 1;
    else if (status === 'unknown') found.unreadable.push(id);
    else found[status].push(id);
  }
  return found;
}

/** Ids that are on one side only; undefined when both sides agree. Without ids, counts must do. */
function mismatch(
  splits: ReadonlySet<SplitId>,
  specs: VerdictInput['specs'],
): SplitId[] | undefined {
  if (specs.ids === undefined) return specs.count === splits.size ? undefined : [];
  const oneSided = [...splits].filter((id) => !specs.ids!.has(id));
  for (const id of specs.ids) if (!splits.has(id)) oneSided.push(id);
  return oneSided.length === 0 && specs.count === splits.size ? undefined : oneSided;
}

function compareIds(a: SplitId, b: SplitId): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
