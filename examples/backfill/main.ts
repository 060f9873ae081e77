/**
 * Counts and hashes every file of a directory tree with a fleet of workers, of which one crashes midway; then checks the
 * result against a plain single pass. `npm start -- --help` says how to call it.
 *
 * Reading order: plan.ts (what is divided), handler.ts (what a service writes), fleet.ts (workers, crash, newcomer). With an
 * etcd: processes/worker-process.ts (one worker), processes/process-fleet.ts (all of them), processes/faults.ts.
 */
import { isLeaseholdError, type PlannedSplit } from '../../src/index.ts';
import { Fleet } from './fleet.ts';
import type { Outcome, Progress } from './job.ts';
import { listFiles, showPath, UnreadableError } from './list-files.ts';
import { packSplits } from './plan.ts';
import { JobFailedError } from './processes/job-failed-error.ts';
import { differences, jsonReport, textReport } from './report.ts';
import { readSettings, type Settings, USAGE } from './settings.ts';
import { countTree } from './single-pass.ts';
import { StatusLine } from './status-line.ts';

/** @returns The exit code. */
async function main(args: readonly string[]): Promise<number> {
  const settings = readSettings(args);
  if (settings === 'help') {
    process.stdout.write(USAGE);
    return 0;
  }
  if (typeof settings === 'string') {
    process.stderr.write(`${settings}\n\n${USAGE}`);
    return 2;
  }
  try {
    return (await backfill(settings)) ? 0 : 1;
  } catch (error) {
    const isOutside = error instanceof JobFailedError || error instanceof UnreadableError;
    // Anything else is a bug: its stack is wanted.
    if (!isOutside && !isLeaseholdError(error)) throw error;
    process.stderr.write(`backfill failed: ${error.message}\n`);
    return error instanceof JobFailedError ? error.exitCode : 1;
  }
}

/** Runs the job, checks it and prints the report. Returns whether the result was verified. */
async function backfill({ root, workers, place, isJson }: Settings): Promise<boolean> {
  const rootPath = Buffer.from(root);
  const status = new StatusLine(process.stderr);
  status.show(`listing ${showPath(rootPath)}`);
  const listing = await listFiles(rootPath);
  const fleet = await fleetFor(rootPath, packSplits(listing.files), place);
  status.follow(listing.files.length, fleet.progress);
  const outcome = await fleet.run(workers).finally(() => {
    status.show('');
  });
  status.show('checking against a plain single pass');
  const found = differences(outcome.tally, await countTree(rootPath));
  status.show('');
  const isVerified = outcome.verdict === 'complete' && found.length === 0 && isClean(outcome);
  const about = { root: showPath(rootPath), skipped: listing.skipped, differences: found };
  const report = isJson ? jsonReport(outcome, isVerified) : textReport(outcome, about);
  process.stdout.write(`${report}\n`);
  return isVerified;
}

async function fleetFor(
  root: Buffer,
  splits: readonly PlannedSplit[],
  place: Settings['place'],
): Promise<{ readonly progress: Progress; run(workers: number): Promise<Outcome> }> {
  if (place === null) return new Fleet(root, splits);
  // The client of etcd takes time to load: only who needs it waits for it.
  const { ProcessFleet } = await import('./processes/process-fleet.ts');
  return new ProcessFleet(root, splits, place);
}

/** Whether nothing speaks for a write by a worker that had lost its split. */
function isClean({ evidence }: Outcome): boolean {
  return evidence === null || (evidence.stale.written === 0 && evidence.violations.length === 0);
}

process.exitCode = await main(process.argv.slice(2));
