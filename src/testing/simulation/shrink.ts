/** Makes a scenario smaller while it still fails. */
import type { Act, Scenario } from './scenario.ts';

/** Lists that may be shortened, the most telling first. */
const LISTS = ['acts', 'splits', 'planner'] as const;

/**
 * Scenarios a step smaller than this one, the boldest steps first: without a part of its acts (halves, quarters, down to
 * single ones), of its splits and planner runs, then without a worker, a split's misdeeds, latency and skew.
 */
export function* smallerScenarios(scenario: Scenario): Generator<Scenario, void, undefined> {
  for (const list of LISTS) {
    for (let size = scenario[list].length; size >= 1; size = Math.floor(size / 2)) {
      for (let first = 0; first < scenario[list].length; first += size) {
        const smaller = without(scenario, list, first, size);
        if (smaller !== null) yield smaller;
      }
    }
  }
  yield* simplerScenarios(scenario);
}

/** What came of shrinking. */
export interface Shrunk {
  readonly scenario: Scenario;
  /** Scenarios that were tried. */
  readonly tries: number;
}

/**
 * The smallest scenario found that still fails.
 *
 * @param fails  Runs a scenario and looks whether it breaks the same promise.
 * @param triesMax  Scenarios to run at most.
 */
export async function shrink(
  scenario: Scenario,
  fails: (candidate: Scenario) => Promise<boolean>,
  triesMax = 500,
): Promise<Shrunk> {
  let smallest = scenario;
  let tries = 0;
  /** True when the candidate fails too: it is the smallest one now. */
  const adopt = async (candidate: Scenario | null): Promise<boolean> => {
    if (candidate === null || tries >= triesMax) return false;
    tries += 1;
    if (!(await fails(candidate))) return false;
    smallest = candidate;
    return true;
  };
  for (let before = ''; before !== JSON.stringify(smallest) && tries < triesMax;) {
    before = JSON.stringify(smallest);
    for (const list of LISTS) {
      for (let size = smallest[list].length; size >= 1; size = Math.floor(size / 2)) {
        for (let first = 0; first < smallest[list].length;) {
          if (!(await adopt(without(smallest, list, first, size)))) first += size;
        }
      }
    }
    for (const candidate of simplerScenarios(smallest)) if (await adopt(candidate)) break;
  }
  return { scenario: smallest, tries };
}

/** Without some items of a list; null when that leaves no split. */
function without(
  scenario: Scenario,
  list: (typeof LISTS)[number],
  first: number,
  size: number,
): Scenario | null {
  const left = scenario[list].filter((_, index) => index < first || index >= first + size);
  return left.length === 0 && list === 'splits' ? null : { ...scenario, [list]: left };
}

/** The same in other respects: fewer workers, better handlers, quicker calls, truer clocks, less time. */
function* simplerScenarios(scenario: Scenario): Generator<Scenario, void, undefined> {
  for (let worker = scenario.workers.length - 1; worker > 0; worker -= 1) {
    yield withoutWorker(scenario, worker);
    yield withoutWorker(aimedAtFirst(scenario, worker), worker);
  }
  const tame = scenario.splits.map((split) => ({ ...split, misdeeds: [], drainMs: 0 }));
  if (!isSame(tame, scenario.splits)) yield { ...scenario, splits: tame };
  for (const [index, split] of scenario.splits.entries()) {
    if (isSame(split, tame[index])) continue;
    yield { ...scenario, splits: scenario.splits.with(index, tame[index]!) };
  }
  const workers = scenario.workers.map((worker) => ({ ...worker, clockRate: 1, wallOffsetMs: 0 }));
  if (!isSame(workers, scenario.workers)) yield { ...scenario, workers };
  if (scenario.latencyMs > 0) yield { ...scenario, latencyMs: 0 };
  if (scenario.expiryLagMs > 0) yield { ...scenario, expiryLagMs: 0 };
  if (scenario.planRuns > 1) yield { ...scenario, planRuns: 1 };
  if (scenario.faultsMin > 0) yield { ...scenario, faultsMin: 0 };
  const lastMs = Math.max(0, ...scenario.acts.map((act) => act.atMs));
  const durationMs = Math.ceil(Math.max(lastMs + 1_000, scenario.durationMs / 2));
  if (durationMs < scenario.durationMs) yield { ...scenario, durationMs };
}

/** Without a worker, and without what happens to it. */
function withoutWorker(scenario: Scenario, worker: number): Scenario {
  return {
    ...scenario,
    workers: scenario.workers.filter((_, index) => index !== worker),
    acts: scenario.acts.flatMap((act): Act[] => {
      if (!('worker' in act) || act.worker < worker) return [act];
      return act.worker === worker ? [] : [{ ...act, worker: act.worker - 1 }];
    }),
  };
}

/** What happens to a worker happens to the first one. */
function aimedAtFirst(scenario: Scenario, worker: number): Scenario {
  const acts = scenario.acts.map((act) =>
    'worker' in act && act.worker === worker ? { ...act, worker: 0 } : act,
  );
  return { ...scenario, acts };
}

function isSame(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
