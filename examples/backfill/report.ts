/** What the program says at the end: as a JSON document for programs, as text for people. */
import {
  CONFIG,
  type Evidence,
  type Fault,
  type Outcome,
  STOPPED_FOR_LEASES,
  type WorkerReport,
} from './job.ts';
import type { Tally } from './tally.ts';

const EXTENSIONS_SHOWN = 6;
const VIOLATIONS_SHOWN = 10;

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
  const { progress } = outcome;
  const takeoverMs = progress.faults[0]?.takeoverMs ?? null;
  return JSON.stringify({
    verdict: outcome.verdict,
    verified: isVerified,
    files,
    bytes,
    lines,
    splits: progress.splits,
    moved: outcome.moved,
    replayedFiles: progress.replayedFiles,
    takeoverMs: takeoverMs === null ? null : Math.round(takeoverMs),
    workers: progress.workers.map((worker) => ({
      instanceId: worker.instanceId,
      splits: worker.splits,
      files: worker.files,
      bytes: worker.bytes,
      left: leftOf(worker, faultOf(worker, progress.faults)),
    })),
  });
}

function faultOf(worker: WorkerReport, faults: readonly Fault[]): Fault | undefined {
  return faults.find(({ instanceId }) => instanceId === worker.instanceId);
}

function leftOf({ left }: WorkerReport, fault: Fault | undefined): string {
  return fault?.kind === 'stopped' ? `stopped for ${STOPPED_FOR_LEASES} leases, ${left}` : left;
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
    `${plural(files, 'file')}, ${showBytes(bytes)}, ${plural(lines, 'line')}, in ${plural(outcome.progress.splits, 'split')}: ` +
      `${outcome.verdict} after ${showSeconds(outcome.tookMs)}`,
    '',
    ...table([
      ['worker', 'splits', 'files', 'bytes', 'left'],
      ...outcome.progress.workers.map((worker) => workerRow(worker, outcome.progress.faults)),
    ]),
    '',
    ...extensionLines(outcome.tally),
    ...takeoverLines(outcome),
    ...verifiedLines(about.differences, outcome.evidence?.violations.length ?? 0),
    '',
  ].join('\n');
}

function workerRow(worker: WorkerReport, faults: readonly Fault[]): string[] {
  const fault = faultOf(worker, faults);
  const hasJoinedLate = worker.joinedAtMs > 0 && worker.joinedAtMs >= (faults[0]?.atMs ?? Infinity);
  const joined = hasJoinedLate ? `, joined at ${showSeconds(worker.joinedAtMs)}` : '';
  return [
    worker.instanceId,
    showCount(worker.splits),
    showCount(worker.files),
    showBytes(worker.bytes),
    `${fault === undefined ? worker.left : disturbedText(worker, fault)}${joined}`,
  ];
}

function disturbedText({ left }: WorkerReport, fault: Fault): string {
  const inHand = `with ${plural(fault.splits, 'split')} in hand`;
  const leading = fault.wasLeading && fault.kind !== 'leader killed' ? ', while leading' : '';
  const when = `at ${showSeconds(fault.atMs)} ${inHand}${leading}`;
  if (fault.kind !== 'stopped') return `${left} ${when}`;
  return `stopped for ${STOPPED_FOR_LEASES} leases ${when}, ${left}`;
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

function takeoverLines({ progress, moved, evidence }: Outcome): string[] {
  const { faults, replayedFiles } = progress;
  if (faults.length === 0) {
    return ['takeover   none: there was no work over which a worker could have crashed'];
  }
  const cause =
    evidence === null ? 'the crash came before their commit' : 'a fault came before their commit';
  return [
    ...faults.map((fault) => `takeover   ${takeoverText(fault)}`),
    `moved      ${plural(moved, 'change')} of owner after a split's first claim`,
    `replayed   ${plural(replayedFiles, 'file')} read again, because ${cause}`,
    ...(evidence === null ? [] : evidenceLines(evidence)),
  ];
}

function takeoverText({ kind, instanceId, splits, takeoverMs, stoppedForMs }: Fault): string {
  const what = {
    crashed: 'the crash',
    killed: `SIGKILL of ${instanceId}`,
    'leader killed': `SIGKILL of leader ${instanceId}`,
    stopped: `SIGSTOP of ${instanceId}`,
  }[kind];
  const resumed = stoppedForMs === null ? '' : `; SIGCONT after ${showSeconds(stoppedForMs)}`;
  if (splits === 0) return `nothing to take over after ${what}${resumed}`;
  const about = `(lease ${showSeconds(CONFIG.leaseDurationMs)} + rebalance delay ${showSeconds(CONFIG.rebalanceDelayMs)})`;
  return takeoverMs === null
    ? `not all of its splits were seen with another owner ${about}${resumed}`
    : `${showSeconds(takeoverMs)} from ${what} until all its splits had an owner again ${about}${resumed}`;
}

function evidenceLines({ stale, writes, violations, keptKeys }: Evidence): string[] {
  const { refused, written, unanswered } = stale;
  const silent = unanswered === 0 ? '' : `, ${unanswered} without an answer`;
  return [
    `zombies    ${plural(refused + written + unanswered, 'commit')} of the stopped worker reached the store after its splits had moved: ` +
      `${refused} refused, ${written} written${silent}`,
    violations.length === 0
      ? `history    ${plural(writes, 'write')} of splits, watched from the first on: none by a process that had lost its split`
      : `NOT VERIFIED: ${plural(violations.length, 'write')} of ${showCount(writes)} should not have happened`,
    ...violations.slice(0, VIOLATIONS_SHOWN).map((violation) => `  ${violation}`),
    ...(keptKeys === null ? [] : [`keys       kept under ${keptKeys}`]),
  ];
}

function verifiedLines(found: readonly string[], violations: number): string[] {
  if (found.length === 0) {
    const word = violations === 0 ? 'verified' : 'totals  ';
    return [`${word}   a plain single pass finds the same files, bytes, lines and digest`];
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
