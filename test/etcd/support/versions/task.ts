/** The work of a mixed fleet: sums that come out wrong when a step is lost, repeated, or taken from another state. */

/** One split, as its descriptor says. */
export interface Task {
  readonly id: string;
  /** The watermark at which it is complete. */
  readonly steps: number;
  /** Its last step waits until the parent says so. */
  readonly isLong: boolean;
  /** Its handler throws now and then, after some progress. */
  readonly stumbles: boolean;
}

/** What a split has come to, as it is stored with each step. */
interface Sum {
  readonly steps: number;
  readonly sum: number;
  /** Depends on the order, too. */
  readonly chain: number;
}

const MODULUS = 1_000_003;
const STUMBLES_EVERY = 60;

/** Tasks of many lengths: the short ones end while versions change. */
export function tasksOf(count: { readonly short: number; readonly long: number }): Task[] {
  const all = count.short + count.long;
  return Array.from({ length: all }, (_, index) => {
    const isLong = index >= count.short;
    return {
      id: `task-${index}`,
      steps: isLong ? 500 + 5 * index : 30 + 12 * index,
      isLong,
      stumbles: index % 10 === 3,
    };
  });
}

/** The state after one more step. */
export function stepped(task: Task, state: string | null): string {
  const { steps, sum, chain } =
    state === null ? { steps: 0, sum: 0, chain: 1 } : (JSON.parse(state) as Sum);
  const value = (steps * 7_919 + task.steps) % 1_009;
  const next: Sum = { steps: steps + 1, sum: sum + value, chain: (chain * 31 + value) % MODULUS };
  return JSON.stringify(next);
}

/** The state that one pass through a task leaves. */
export function singlePass(task: Task): string {
  let state: string | null = null;
  for (let step = 0; step < task.steps; step += 1) state = stepped(task, state);
  return state!;
}

/** Whether the handler throws before the step that follows `at`. */
export function stumblesAt(task: Task, at: number): boolean {
  return task.stumbles && at % STUMBLES_EVERY === STUMBLES_EVERY / 2;
}
