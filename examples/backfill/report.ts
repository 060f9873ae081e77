/** What the program says at the end: as a JSON document for programs, as text for people. */
import { CONFIG, type Outcome, type WorkerReport } from './fleet.ts';
import type { Tally } from './tally.ts';

const EXTENSIONS_SHOWN = 6;

/** Where the fleet's result differs from a plain single pass; empty when they agree. */
export function differences(fleet: Tally, plain: Tally): string[] {
  const found: string[] = [];
  const compare = (what: string, left: string | number, right: string | number): void => {
    if (left !== right) {
      found.push(`${what}: the fleet found ${left}, a single pass ${right}`);
    }
  };
  compare('files', fleet.total.files, plain.total.files);
  compare('bytes', fleet.total.bytes, plain.total.bytes);
  compare('lines', fleet.total.lines, plain.total.lines);
  for (const extension of new Set([...fleet.byExtension.keys(), ...plain.byExtension.keys()])) {
    compare(extension, countsOf(fleet, extension), countsOf(plain, extension));
  }
  compare('digest', fleet.digest.toString(16), plain.digest.toString(16));
  return found;
}

function countsOf(tally: Tally, extension: string): string {
  const counts = tally.byExtension.get(extension) ?? { files: 0, bytes: 0, lines: 0 };
  return `${counts.files} files, ${counts.bytes} bytes, ${counts.lines} lines`;
}

/** The report as one JSON document. */
export function jsonReport(outcome: Outcome, isVerified: boolean): string {
  const { files, bytes, lines } = outcome.tally.total;
  const takeoverMs = outcome.crash?.takeoverMs ?? null;
  return JSON.stringify({
    verdict: outcome.verdict,
    verified: isVerified,
    files,
    bytes,
    lines,
    splits: outcome.splits,
    moved: outcome.moved,
    replayedFiles: outcome.replayedFiles,
    takeoverMs: takeoverMs === null ? null : Math.round(takeoverMs),
    workers: outcome.workers.map(({ instanceId, splits, files, bytes, left }) => ({
      instanceId,
      splits,
      files,
      bytes,
      left,
    })),
  });
}

/** The report for people. */
export function textReport(
  outcome: Outcome,
  about: { readonly root: string; readonly skipped: number; readonly differences: string[] },
): string {
  const { files, bytes, lines } = outcome.tally.total;
  const skipped = about.skipped === 0 ? '' : ` (${about.skipped} links and special files left out)`;
  return [
    '',
    `${about.root}${skipped}`,
    `${plural(files, 'file')}, ${showBytes(bytes)}, ${plural(lines, 'line')}, in ${plural(outcome.splits, 'split')}: ` +
      `${outcome.verdict} after ${showSeconds(outcome.tookMs)}`,
    '',
    ...table([
      ['worker', 'splits', 'files', 'bytes', 'left'],
      ...outcome.workers.map((worker) => workerRow(worker, outcome)),
    ]),
    '',
    ...extensionLines(outcome.tally),
    ...takeoverLines(outcome),
    ...verifiedLines(about.differences),
    '',
  ].join('\n');
}

function workerRow(worker: WorkerReport, outcome: Outcome): string[] {
  const { crash } = outcome;
  const hasJoinedLate = worker.joinedAtMs > 0 && worker.joinedAtMs >= (crash?.atMs ?? Infinity);
  const joined = hasJoinedLate ? `, joined at ${showSeconds(worker.joinedAtMs)}` : '';
  const crashed =
    crash?.instanceId === worker.instanceId
      ? ` at ${showSeconds(crash.atMs)} with ${plural(crash.splits, 'split')} in hand${crash.wasLeading ? ', while leading' : ''}`
      : '';
  return [
    worker.instanceId,
    showCount(worker.splits),
    showCount(worker.files),
    showBytes(worker.bytes),
    `${worker.left}${crashed}${joined}`,
  ];
}

function extensionLines({ byExtension }: Tally): string[] {
  if (byExtension.size === 0) return [];
  const sorted = [...byExtension].sort(([, a], [, b]) => b.files - a.files);
  const rows = sorted
    .slice(0, EXTENSIONS_SHOWN)
    .map(([name, { files, bytes, lines }]) => [
      name,
      showCount(files),
      showBytes(bytes),
      showCount(lines),
    ]);
  const rest = sorted.length - rows.length;
  const more = rest > 0 ? [`and ${rest} more`] : [];
  return [...table([['extension', 'files', 'bytes', 'lines'], ...rows]), ...more, ''];
}

function takeoverLines({ crash, moved, replayedFiles }: Outcome): string[] {
  if (crash === null) {
    return ['takeover   none: there was no work over which a worker could have crashed'];
  }
  const about = `lease ${showSeconds(CONFIG.leaseDurationMs)} + rebalance delay ${showSeconds(CONFIG.rebalanceDelayMs)}`;
  const takeover =
    crash.takeoverMs === null
      ? 'not all of its splits were seen with another owner'
      : `${showSeconds(crash.takeoverMs)} from the crash until all its splits had an owner again (${about})`;
  return [
    `takeover   ${takeover}`,
    `moved      ${plural(moved, 'change')} of owner after a split's first claim`,
    `replayed   ${plural(replayedFiles, 'file')} read again, because the crash came before their commit`,
  ];
}

function verifiedLines(found: readonly string[]): string[] {
  if (found.length === 0) {
    return ['verified   a plain single pass finds the same files, bytes, lines and digest'];
  }
  return [
    'NOT VERIFIED: a plain single pass finds something else. Did the files change meanwhile?',
    ...found.map((line) => `  ${line}`),
  ];
}

/** Numbers to the right; the first column, and a fifth one, to the left. */
function table(rows: readonly string[][]): string[] {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  return rows.map((row) =>
    row
      .map((cell, column) => {
        const isLeft = column === 0 || column === 4;
        return isLeft ? cell.padEnd(widths[column]!) : cell.padStart(widths[column]!);
      })
      .join('   ')
      .trimEnd(),
  );
}

export function showCount(count: number): string {
  return count.toLocaleString('en-US');
}

function plural(count: number, what: string): string {
  return `${showCount(count)} ${what}${count === 1 ? '' : 's'}`;
}

export function showSeconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}

function showBytes(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  const power = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, bytes)) / 3));
  return power === 0 ? `${bytes} B` : `${(bytes / 1_000 ** power).toFixed(1)} ${units[power]}`;
}
