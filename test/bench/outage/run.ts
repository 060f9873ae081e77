/**
 * What faults cost that are nobody's own, and how soon a bad split is found, with the default options and in simulated time:
 * outages, splits that fail or kill, processes that die, sick hosts.
 */
import { CASES, type OutageCase } from './cases.ts';
import { OutageFleet, type Outcome } from './fleet.ts';

/** What a case came to. */
export interface OutageResult {
  readonly name: string;
  readonly splits: number;
  readonly workers: number;
  /** Bad splits, and how many of them were set aside. */
  readonly poison: number;
  readonly poisonFound: number;
  /**
   * The longest until one of them was set aside: from when it was first worked on, or from the end of the trouble if that
   * came later. Below zero when it was found before that end.
   */
  readonly foundMs: number | null;
  /** Splits set aside that are not bad. */
  readonly innocent: number;
  /** From the end of the trouble until as many splits have progressed as there are lanes, or all that are left. */
  readonly resumedMs: number | null;
  /** Why not every bad split can be found, or innocents are taken for bad; and what happens instead. */
  readonly note?: string;
}

/**
 * Runs all cases, or those with a word in their name (`--only=<word>`), and prints: one JSON document with `--json`, else a
 * table. Returns 1 when a promise was broken.
 */
export async function run(
  flags: readonly string[],
  print: (line: string) => void,
): Promise<number> {
  const isJson = flags.includes('--json');
  const only = flags.find((flag) => flag.startsWith('--only='))?.slice('--only='.length) ?? '';
  const cases: OutageResult[] = [];
  let exitCode = 0;
  if (!isJson) print(row(['case', 'bad', 'found', 'after', 'innocent', 'resumed']));
  for (const one of CASES) {
    if (!one.name.includes(only)) continue;
    const { result, broken } = await measured(one);
    cases.push(result);
    if (!isJson) {
      const { name, poison, poisonFound, foundMs, innocent, resumedMs, note } = result;
      print(row([name, poison, poisonFound, seconds(foundMs), innocent, seconds(resumedMs)]));
      if (note !== undefined) print(`      ${note}`);
    }
    for (const text of broken) {
      exitCode = 1;
      process.stderr.write(`${one.name}: ${text}\n`);
    }
  }
  if (isJson) print(JSON.stringify({ cases }));
  return exitCode;
}

/** Runs one case. */
export async function measured(
  one: OutageCase,
): Promise<{ readonly result: OutageResult; readonly broken: readonly string[] }> {
  const { unfinished, ...outcome } = await new OutageFleet(one).run();
  const { name, splits, workers, instead } = one;
  const note = instead === undefined ? {} : { note: instead.note };
  return {
    result: { name, splits, workers, ...outcome, ...note },
    broken: [...brokenPromises(one, { unfinished, ...outcome })],
  };
}

/** What a case has promised and not kept. */
function* brokenPromises(one: OutageCase, outcome: Outcome): Iterable<string> {
  const { promised, instead, trouble } = one;
  const { poison, poisonFound, foundMs, innocent, unfinished, resumedMs } = outcome;
  const toFind = instead?.poisonFound ?? poison;
  if (poisonFound !== toFind) yield `${poisonFound} of ${poison} bad splits were set aside`;
  if (innocent > (instead?.innocentMax ?? 0)) yield `${innocent} innocent splits were set aside`;
  if (unfinished > 0) yield `${unfinished} splits were never finished`;
  const { foundMsMax = Infinity, resumedMsMax = Infinity } = promised;
  if (foundMs !== null && foundMs > foundMsMax) {
    yield `a bad split was found after ${foundMs} ms, and not within ${foundMsMax} ms`;
  }
  if (trouble === undefined || resumedMsMax === Infinity) return;
  if (resumedMs === null || resumedMs > resumedMsMax) {
    yield `work went on after ${resumedMs} ms, and not within ${resumedMsMax} ms`;
  }
}

function seconds(ms: number | null): string {
  return ms === null ? '' : `${(ms / 1_000).toFixed(1)} s`;
}

function row(cells: readonly (string | number)[]): string {
  const [name = '', ...others] = cells.map(String);
  return name.padEnd(78) + others.map((cell) => cell.padStart(10)).join('');
}
