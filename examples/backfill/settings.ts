/** What the program is called with. */
import { statSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import type { Place } from './processes/process-fleet.ts';

const WORKERS_MAX = 64;
const PROCESSES_MIN = 2;
const PROCESSES_MAX = 16;

export const USAGE = `usage: npm start --silent -- [DIR] [--workers N] [--json]
       npm start --silent -- [DIR] --etcd URL | --with-etcd [--processes N] [--json]

Counts and hashes every file under DIR with a fleet of N workers; one of them crashes
midway and a new one joins. Checks the result against a plain single pass.

With an etcd, each worker is a process of its own: one is killed, then the one that leads,
and one is stopped for three leases; new ones join for the killed. Checks also, from the
store's history, that nobody wrote to a split that was no longer its own.

  DIR            directory to read; node_modules of this project when absent
  --workers N    workers at the start, 1 to ${WORKERS_MAX}; 3 when absent
  --etcd URL     an etcd that runs already; several endpoints are separated by commas
  --with-etcd    start an etcd for this job alone: etcd on the PATH, or LEASEHOLD_ETCD
  --processes N  worker processes at the start, ${PROCESSES_MIN} to ${PROCESSES_MAX}; 4 when absent
  --keep         leave the job's keys in the etcd; needs --etcd
  --json         print one JSON document instead of a report for people
  --help         print this

Exit code: 0 verified, 1 not verified or failed, 2 wrong usage.
`;

export interface Settings {
  readonly root: string;
  /** Workers in one process, or processes with a worker each. */
  readonly workers: number;
  /** Where processes meet; null for one process. */
  readonly place: Place | null;
  readonly isJson: boolean;
}

type Values = Extract<ReturnType<typeof parse>, object>['values'];

/** The settings, `help`, or what is wrong with the arguments. */
export function readSettings(args: readonly string[]): Settings | string {
  const parsed = parse(args);
  if (typeof parsed === 'string') return parsed;
  const { values, positionals } = parsed;
  if (values.help) return 'help';
  if (positionals.length > 1) {
    return `one directory at most, got ${positionals.length}: ${positionals.join(' ')}`;
  }
  const place = placeOf(values);
  if (typeof place === 'string') return place;
  const workers =
    place === null
      ? wholeNumber('--workers', values.workers ?? '3', [1, WORKERS_MAX])
      : wholeNumber('--processes', values.processes ?? '4', [PROCESSES_MIN, PROCESSES_MAX]);
  if (typeof workers === 'string') return workers;
  const ownModules = path.resolve(import.meta.dirname, '../../node_modules');
  const root = path.resolve(positionals[0] ?? ownModules);
  const stats = statSync(root, { throwIfNoEntry: false });
  if (stats === undefined) return `no such directory: ${root}`;
  if (!stats.isDirectory()) return `not a directory: ${root}`;
  return { root, workers, place, isJson: values.json };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        workers: { type: 'string' },
        etcd: { type: 'string' },
        'with-etcd': { type: 'boolean', default: false },
        processes: { type: 'string' },
        keep: { type: 'boolean', default: false },
        json: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    });
  } catch (error) {
    return (error as Error).message;
  }
}

function placeOf(values: Values): Place | null | string {
  const startsEtcd = values['with-etcd'];
  if (values.etcd !== undefined && startsEtcd) return '--etcd and --with-etcd exclude each other';
  if (values.etcd === undefined && values.keep) return '--keep needs --etcd';
  if (values.etcd === undefined && !startsEtcd) {
    return values.processes === undefined ? null : '--processes needs --etcd or --with-etcd';
  }
  if (values.workers !== undefined)
    return '--workers share one process; with an etcd say --processes';
  const endpoints = values.etcd?.split(',') ?? null;
  const bad = endpoints?.find((url) => !URL.canParse(url) || !/^https?:/.test(url));
  if (bad !== undefined) return `--etcd must be a URL such as http://127.0.0.1:2379, got '${bad}'`;
  return { endpoints, keepsKeys: values.keep };
}

function wholeNumber(option: string, text: string, [min, max]: [number, number]): number | string {
  const value = /^\d+$/.test(text) ? Number(text) : NaN;
  if (value >= min && value <= max) return value;
  return `${option} must be a whole number from ${min} to ${max}, got '${text}'`;
}
