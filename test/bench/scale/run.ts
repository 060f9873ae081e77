/**
 * Counts what a fleet of real workers on the memory store and the virtual clock asks of its store, against the formulas
 * of scale: by commit, change of ownership, join, plan, renewal and rest. Counts are exact, and the same in every run.
 */
import { ScaleFleet } from './fleet.ts';
import {
  measureCancelledDrains,
  measureCommits,
  measureEmptyJoin,
  measureMoves,
  measurePlan,
  measureReconcile,
  measureReplan,
  measureRest,
  measureTakeover,
  type Row,
} from './measurements.ts';

/** A fleet with room for every split of its first plan, and for a part of its second. */
interface Size {
  readonly workers: number;
  readonly maxInFlight: number;
  readonly splits: number;
  readonly moreSplits: number;
}

/** Every worker knows every lease: what a fleet of simulated workers holds at once is bounded by the memory of one process. */
const SIZES: readonly Size[] = [
  { workers: 10, maxInFlight: 2_000, splits: 1_000, moreSplits: 100_000 },
  { workers: 100, maxInFlight: 50, splits: 1_000, moreSplits: 100_000 },
  { workers: 1_000, maxInFlight: 2, splits: 1_100, moreSplits: 100_000 },
];

interface Case extends Row {
  readonly workers: number;
  readonly splits: number;
  /** Counted by expected; where nothing is expected, 1 when nothing was counted and 0 otherwise. */
  readonly ratio: number;
}

/**
 * Measures all sizes, or one with `--workers=<count>`, and prints: one JSON document with `--json`, else a table. Returns
 * the exit code.
 */
export async function run(
  flags: readonly string[],
  print: (line: string) => void,
): Promise<number> {
  const isJson = flags.includes('--json');
  const cases: Case[] = [];
  if (!isJson) print(line(['workers', 'splits', 'what', 'counted', 'expected', 'ratio']));
  const only = flags.find((flag) => flag.startsWith('--workers='))?.slice('--workers='.length);
  for (const size of SIZES) {
    if (only !== undefined && size.workers !== Number(only)) continue;
    await measure(size, (splits, rows) => {
      for (const { what, counted, expected } of rows) {
        const ratio = expected === 0 ? Number(counted === 0) : counted / expected;
        const { workers } = size;
        cases.push({ workers, splits, what, counted, expected: Math.round(expected), ratio });
        if (!isJson) print(line([workers, splits, what, counted, Math.round(expected), ratio]));
      }
    });
  }
  if (isJson) print(JSON.stringify({ cases }));
  return 0;
}

async function measure(size: Size, report: (splits: number, rows: Row[]) => void): Promise<void> {
  const { workers, maxInFlight, splits, moreSplits } = size;
  const fleet = new ScaleFleet();
  await fleet.join(workers, maxInFlight);
  report(splits, await measurePlan(fleet, splits));
  report(splits, await measureCommits(fleet));
  report(splits, await measureMoves(fleet, maxInFlight));
  report(splits, await measureCancelledDrains(fleet, maxInFlight));
  report(splits, await measureTakeover(fleet));
  report(splits, await measureRest(fleet));
  report(moreSplits, await measurePlan(fleet, moreSplits));
  report(moreSplits, await measureCommits(fleet));
  report(moreSplits, await measureEmptyJoin(fleet));
  report(moreSplits, await measureReplan(fleet));
  report(moreSplits, await measureRest(fleet));
  report(moreSplits, await measureReconcile(fleet));
  await fleet.close();
}

function line(cells: readonly (string | number)[]): string {
  const [workers = '', splits = '', what = '', ...numbers] = cells.map((cell) =>
    typeof cell === 'number' ? cell.toLocaleString('en-US', { maximumFractionDigits: 3 }) : cell,
  );
  const right = numbers.map((number) => number.padStart(13)).join('');
  return `${workers.padStart(7)} ${splits.padStart(9)}  ${what.padEnd(42)}${right}`;
}
