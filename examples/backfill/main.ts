/**
 * Counts and hashes every file of a directory tree with a fleet of workers, of which one crashes midway; then checks the
 * result against a plain single pass. `npm start -- --help` says how to call it.
 *
 * Reading order: plan.ts (what is divided), handler.ts (what a service writes), fleet.ts (workers, crash, newcomer).
 */
import { statSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { Fleet } from './fleet.ts';
import { isLeaseholdError } from '../../src/index.ts';
import { listFiles, showPath, UnreadableError } from './list-files.ts';
import { packSplits } from './plan.ts';
import { differences, jsonReport, textReport } from './report.ts';
import { countTree } from './single-pass.ts';
import { StatusLine } from './status-line.ts';

const WORKERS_MAX = 64;

const USAGE = `usage: npm start --silent -- [DIR] [--workers N] [--json]

Counts and hashes every file under DIR with a fleet of N workers; one of them crashes
midway and a new one joins. Checks the result against a plain single pass.

  DIR          directory to read; node_modules of this project when absent
  --workers N  workers at the start, 1 to ${WORKERS_MAX}; 3 when absent
  --json       print one JSON document instead of a report for people
  --help       print this

Exit code: 0 verified, 1 not verified or failed, 2 wrong usage.
`;

interface Settings {
  readonly root: string;
  readonly workers: number;
  readonly isJson: boolean;
}

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
    // Anything else is a bug: its stack is wanted.
    const isExpected = error instanceof UnreadableError || isLeaseholdError(error);
    if (!isExpected) throw error;
    process.stderr.write(`backfill failed: ${error.message}\n`);
    return 1;
  }
}

/** Runs the job, checks it and prints the report. Returns whether the result was verified. */
async function backfill({ root, workers, isJson }: Settings): Promise<boolean> {
  const rootPath = Buffer.from(root);
  const status = new StatusLine(process.stderr);
  status.show(`listing ${showPath(rootPath)}`);
  const listing = await listFiles(rootPath);
  const fleet = new Fleet(rootPath, packSplits(listing.files));
  status.follow(listing.files.length, fleet.progress);
  const outcome = await fleet.run(workers).finally(() => {
    status.show('');
  });
  status.show('checking against a plain single pass');
  const found = differences(outcome.tally, await countTree(rootPath));
  status.show('');
  const isVerified = outcome.verdict === 'complete' && found.length === 0;
  const about = { root: showPath(rootPath), skipped: listing.skipped, differences: found };
  const report = isJson ? jsonReport(outcome, isVerified) : textReport(outcome, about);
  process.stdout.write(`${report}\n`);
  return isVerified;
}

/** The settings, `help`, or what is wrong with the arguments. */
function readSettings(args: readonly string[]): Settings | string {
  let parsed;
  try {
    parsed = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        workers: { type: 'string', default: '3' },
        json: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    });
  } catch (error) {
    return (error as Error).message;
  }
  const { values, positionals } = parsed;
  if (values.help) return 'help';
  if (positionals.length > 1) {
    return `one directory at most, got ${positionals.length}: ${positionals.join(' ')}`;
  }
  const workers = /^\d+$/.test(values.workers) ? Number(values.workers) : NaN;
  if (!(workers >= 1 && workers <= WORKERS_MAX)) {
    return `--workers must be a whole number from 1 to ${WORKERS_MAX}, got '${values.workers}'`;
  }
  const ownModules = path.resolve(import.meta.dirname, '../../node_modules');
  const root = path.resolve(positionals[0] ?? ownModules);
  const stats = statSync(root, { throwIfNoEntry: false });
  if (stats === undefined) return `no such directory: ${root}`;
  if (!stats.isDirectory()) return `not a directory: ${root}`;
  return { root, workers, isJson: values.json };
}

process.exitCode = await main(process.argv.slice(2));
