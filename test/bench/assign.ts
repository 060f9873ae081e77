/**
 * Measures the balance decision: from plain records to sorted lists, per corpus and size.
 *
 * Each figure is a median after warm-up. Whether a result is a local optimum is judged from scratch, in BigInt.
 */
import type { InstanceId, SplitId } from '../../src/base/ids.ts';
import { type AssignInput, assign, type Assignment } from '../../src/protocol/assign.ts';
import { corpus, CORPUS_NAMES, type CorpusName } from './corpora.ts';

const SIZES = [
  { splits: 1_200, instances: 6, runs: 301 },
  { splits: 10_000, instances: 50, runs: 51 },
  { splits: 100_000, instances: 100, runs: 15 },
] as const;

/** Calls at the small size before anything is timed, so that the code is compiled. */
const WARM_UP_CALLS = 400;

interface Case {
  readonly name: CorpusName;
  readonly splits: number;
  /** The newcomer included. */
  readonly instances: number;
  readonly ms: number;
  readonly localOptimum: boolean;
}

/** Runs all cases and prints them: one JSON document with `--json`, else a table. Returns the exit code. */
export function run(flags: readonly string[], print: (line: string) => void): number {
  warmUp();
  const cases = SIZES.flatMap((size) => CORPUS_NAMES.map((name) => measure(name, size)));
  if (flags.includes('--json')) {
    print(JSON.stringify({ cases }));
  } else {
    print(row(['corpus', 'splits', 'instances', 'median', 'local optimum']));
    for (const { name, splits, instances, ms, localOptimum } of cases) {
      print(row([name, splits, instances, `${ms.toFixed(3)} ms`, localOptimum ? 'yes' : 'NO']));
    }
  }
  return cases.every(({ localOptimum }) => localOptimum) ? 0 : 1;
}

function row(cells: readonly (string | number)[]): string {
  const widths = [14, 8, 10, 12, 14];
  return cells
    .map((cell, index) =>
      index === 0 ? String(cell).padEnd(widths[0]!) : String(cell).padStart(widths[index]!),
    )
    .join(' ');
}

function warmUp(): void {
  const [small] = SIZES;
  const inputs = CORPUS_NAMES.map((name) => corpus(name, small));
  for (let call = 0; call < WARM_UP_CALLS; call += 1) {
    for (const input of inputs) assign(input);
  }
}

function measure(name: CorpusName, size: (typeof SIZES)[number]): Case {
  const input = corpus(name, size);
  const result = assign(input);
  globalThis.gc?.();
  const times: number[] = [];
  for (let run = 0; run < size.runs; run += 1) {
    const startMs = performance.now();
    assign(input);
    times.push(performance.now() - startMs);
  }
  times.sort((a, b) => a - b);
  return {
    name,
    splits: input.splits.length,
    instances: input.instances.length,
    ms: Number(times[times.length >> 1]!.toFixed(4)),
    localOptimum: isLocalOptimum(input, result),
  };
}

/** Whether no single split can move to an instance with a free slot and lower the sum of squared loads. */
export function isLocalOptimum(input: AssignInput, { byInstance }: Assignment): boolean {
  const weights = new Map<SplitId, bigint>(
    input.splits.map(({ id, weight }) => [id, BigInt(Math.max(weight, 1))]),
  );
  const loads = new Map<InstanceId, bigint>();
  for (const [id, splits] of byInstance) {
    loads.set(
      id,
      splits.reduce((sum, split) => sum + weights.get(split)!, 0n),
    );
  }
  const open = input.instances.filter(
    ({ id, maxInFlight, cordoned }) => !cordoned && byInstance.get(id)!.length < maxInFlight,
  );
  if (open.length === 0) return true;
  const least = open
    .map(({ id }) => loads.get(id)!)
    .reduce((least, load) => (load < least ? load : least));
  for (const [id, splits] of byInstance) {
    for (const split of splits) if (loads.get(id)! > least + weights.get(split)!) return false;
  }
  return true;
}
