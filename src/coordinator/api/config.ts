/**
 * The options of a worker: one table holds their defaults, bounds and meaning, for the check, the types and the README.
 *
 * All violations are reported together, each with its value and its rule (R43, R44).
 */
import { DELAY_MS_MAX } from '../../base/clock.ts';
import { describe } from '../../base/ids.ts';
import { type Field, mustPass, readTable, refuseIfAny, type Violation } from '../../base/shape.ts';
import type { Backoff, RetryPolicy } from '../../protocol/faults/failures.ts';
import { MAX_IN_FLIGHT_MAX } from '../../records/records.ts';

export type { Backoff, RetryPolicy } from '../../protocol/faults/failures.ts';

/** Tuning of a worker, complete. Times are milliseconds. */
export interface WorkerConfig {
  readonly leaseDurationMs: number;
  readonly opTimeoutMs: number;
  /** The same as `retry.maxAttempts`. */
  readonly maxAttempts: number;
  readonly retry: RetryPolicy;
  readonly maxInFlight: number;
  readonly replanIntervalMs: number;
  readonly planTimeoutMs: number;
  readonly reconcileIntervalMs: number;
  readonly startupMaxAttempts: number;
  readonly rebalanceDelayMs: number;
  readonly drainDeadlineMs: number;
}

/** What failures cost, as a user gives it. */
export interface RetryOptions extends Partial<Omit<RetryPolicy, 'backoff'>> {
  readonly backoff?: Partial<Backoff>;
}

/** Tuning of a worker, as a user gives it: every field has a default. Times are milliseconds. */
export interface ConfigInput extends Partial<Omit<WorkerConfig, 'retry'>> {
  readonly retry?: RetryOptions;
}

/** The name of an option; one inside another is named by its path. */
export type OptionName =
  | Exclude<keyof WorkerConfig, 'retry'>
  | `retry.${Exclude<keyof RetryPolicy, 'backoff'>}`
  | `retry.backoff.${keyof Backoff}`;

/** One option as the README shows it. */
export interface OptionDescription {
  readonly name: OptionName;
  readonly defaultText: string;
  readonly min: number;
  readonly max: number;
  readonly unit: 'ms' | 'count' | 'ratio';
  readonly rule: string;
  readonly meaning: string;
}

/** Shortest lease: below it the margin of the self-fence leaves no time to work in. */
const LEASE_MS_MIN = 1_000;

/** The table of options. */
export const OPTIONS: readonly OptionDescription[] = [
  {
    name: 'leaseDurationMs',
    defaultText: '15000',
    min: LEASE_MS_MIN,
    max: DELAY_MS_MAX,
    unit: 'ms',
    rule: 'at least twice opTimeoutMs',
    meaning:
      'Life of the worker’s session without renewal: so long after a crash its leases are free at the latest.',
  },
  {
    name: 'opTimeoutMs',
    defaultText: 'min(5000, leaseDurationMs / 2)',
    min: 50,
    max: DELAY_MS_MAX,
    unit: 'ms',
    rule: 'at most half of leaseDurationMs',
    meaning:
      'How long one send of a write, or all tries of a read, may take before its outcome counts as unknown.',
  },
  {
    name: 'maxAttempts',
    defaultText: '4',
    min: 1,
    max: 1_000_000,
    unit: 'count',
    rule: '',
    meaning: 'Short for retry.maxAttempts.',
  },
  {
    name: 'retry.maxAttempts',
    defaultText: '4',
    min: 1,
    max: 1_000_000,
    unit: 'count',
    rule: 'not other than maxAttempts',
    meaning:
      'Failures in a row, without progress, before a split is set aside: only those count during which another split of the same worker progressed, and not before the split has failed for four times retry.backoff.maxMs.',
  },
  {
    name: 'retry.backoff.initialMs',
    defaultText: 'min(500, retry.backoff.maxMs)',
    min: 0,
    max: DELAY_MS_MAX,
    unit: 'ms',
    rule: 'at most retry.backoff.maxMs',
    meaning: 'How long a split rests after its first failure.',
  },
  {
    name: 'retry.backoff.factor',
    defaultText: '2',
    min: 1,
    max: 100,
    unit: 'ratio',
    rule: '',
    meaning: 'How much longer it rests after each further failure in a row.',
  },
  {
    name: 'retry.backoff.maxMs',
    defaultText: 'max(30000, retry.backoff.initialMs)',
    min: 0,
    max: DELAY_MS_MAX / 2,
    unit: 'ms',
    rule: 'at least retry.backoff.initialMs',
    meaning:
      'The longest rest after a failure: so long after the end of an outage work goes on at the latest.',
  },
  {
    name: 'retry.backoff.jitter',
    defaultText: '0.2',
    min: 0,
    max: 1,
    unit: 'ratio',
    rule: '',
    meaning: 'Share by which each rest is longer or shorter, by chance.',
  },
  {
    name: 'retry.giveUpAfterMs',
    defaultText: '21600000',
    min: 0,
    max: DELAY_MS_MAX,
    unit: 'ms',
    rule: 'final plans alone; an open one never gives up',
    meaning:
      'How long everything that is left of a job may fail, before all of it is set aside as the job’s fault.',
  },
  {
    name: 'maxInFlight',
    defaultText: '8',
    min: 0,
    max: MAX_IN_FLIGHT_MAX,
    unit: 'count',
    rule: '0 holds nothing but may lead',
    meaning: 'Most splits this worker holds at once.',
  },
  {
    name: 'replanIntervalMs',
    defaultText: 'max(60000, leaseDurationMs)',
    min: 0,
    max: DELAY_MS_MAX,
    unit: 'ms',
    rule: 'at least leaseDurationMs',
    meaning: 'How often the leader asks the planner again while the plan is open.',
  },
  {
    name: 'planTimeoutMs',
    defaultText: 'max(300000, leaseDurationMs)',
    min: 0,
    max: DELAY_MS_MAX,
    unit: 'ms',
    rule: 'at least leaseDurationMs',
    meaning:
      'How long a planner may take to answer before its run is aborted and another worker may try; doubles each time in vain.',
  },
  {
    name: 'reconcileIntervalMs',
    defaultText: '30000',
    min: 100,
    max: DELAY_MS_MAX,
    unit: 'ms',
    rule: '',
    meaning: 'How often everything watched is read again, as a backstop for lost events.',
  },
  {
    name: 'startupMaxAttempts',
    defaultText: '8',
    min: 1,
    max: 1_000_000,
    unit: 'count',
    rule: '',
    meaning: 'Tries of each startup step (probe, join, announce) before the worker gives up.',
  },
  {
    name: 'rebalanceDelayMs',
    defaultText: '10000',
    min: 0,
    max: DELAY_MS_MAX,
    unit: 'ms',
    rule: '0 moves them at once',
    meaning: 'How long the splits of a worker that vanished wait for it to come back.',
  },
  {
    name: 'drainDeadlineMs',
    defaultText: 'max(10000, opTimeoutMs)',
    min: 0,
    max: DELAY_MS_MAX,
    unit: 'ms',
    rule: 'at least opTimeoutMs; may exceed leaseDurationMs',
    meaning: 'How long a handler may take to hand a split back before it is taken.',
  },
];

/**
 * Fills in defaults and checks every rule.
 *
 * @throws LeaseholdError `E_CONFIG_INVALID` that lists all violations.
 */
export function resolveConfig(given: unknown): WorkerConfig {
  const violations: Violation[] = [];
  const config = readConfig(given, violations);
  refuseIfAny(violations, 'options');
  return config;
}

/** The same; what is wrong is added to `violations`, and has its default meanwhile. */
export function readConfig(given: unknown, violations: Violation[]): WorkerConfig {
  const found: Violation[] = [];
  const usable: Usable = {};
  readGroup(given, '', usable, found);
  const config = withDefaults(usable);
  const refused = new Set(found.map(({ option }) => option));
  violations.push(...found, ...shortFormViolations(usable));
  violations.push(...relationViolations(config, refused));
  return config;
}

/** `maxAttempts` is short for `retry.maxAttempts`: they may not differ. */
function shortFormViolations(usable: Usable): Violation[] {
  const long = usable['retry.maxAttempts'];
  const { maxAttempts } = usable;
  if (long === undefined || maxAttempts === undefined || long === maxAttempts) return [];
  const rule = `is short for retry.maxAttempts (${long}): give one of them, or both alike`;
  return [{ option: 'maxAttempts', value: describe(maxAttempts), rule }];
}

type Usable = Partial<Record<OptionDescription['name'], number>>;

/** Reads the options whose names begin with `path`; a name with a dot is that of an option in a group. */
function readGroup(given: unknown, path: string, usable: Usable, found: Violation[]): void {
  const table: Record<string, Field> = {};
  for (const option of OPTIONS) {
    if (!option.name.startsWith(path)) continue;
    const [head = '', ...inner] = option.name.slice(path.length).split('.');
    table[head] ??=
      inner.length > 0 ? groupField(`${path}${head}.`, usable) : optionField(option, usable);
  }
  const name = path === '' ? 'config' : path.slice(0, -1);
  readTable(given, table, { name, prefix: path, found });
}

function groupField(path: string, usable: Usable): Field {
  const check = (value: unknown, _: string, found: Violation[]): void => {
    readGroup(value, path, usable, found);
  };
  return { rule: { allowed: 'an object of options', check }, meaning: 'A group of options.' };
}

function optionField(option: OptionDescription, usable: Usable): Field {
  const rule = mustPass(option.rule, (value) => {
    const problem = boundsProblem(option, value);
    if (problem === undefined) usable[option.name] = value as number;
    return problem;
  });
  return { rule, meaning: option.meaning };
}

/** Defaults that hang on other options are computed from the values given. */
function withDefaults(given: Usable): WorkerConfig {
  const leaseDurationMs = given.leaseDurationMs ?? 15_000;
  const opTimeoutMs = given.opTimeoutMs ?? Math.min(5_000, Math.floor(leaseDurationMs / 2));
  const retry = retryOf(given);
  return {
    leaseDurationMs,
    opTimeoutMs,
    maxAttempts: retry.maxAttempts,
    retry,
    maxInFlight: given.maxInFlight ?? 8,
    replanIntervalMs: given.replanIntervalMs ?? Math.max(60_000, leaseDurationMs),
    planTimeoutMs: given.planTimeoutMs ?? Math.max(300_000, leaseDurationMs),
    reconcileIntervalMs: given.reconcileIntervalMs ?? 30_000,
    startupMaxAttempts: given.startupMaxAttempts ?? 8,
    rebalanceDelayMs: given.rebalanceDelayMs ?? 10_000,
    drainDeadlineMs: given.drainDeadlineMs ?? Math.max(10_000, opTimeoutMs),
  };
}

function retryOf(given: Usable): RetryPolicy {
  const initialMs =
    given['retry.backoff.initialMs'] ?? Math.min(500, given['retry.backoff.maxMs'] ?? 500);
  return {
    maxAttempts: given['retry.maxAttempts'] ?? given.maxAttempts ?? 4,
    backoff: {
      initialMs,
      factor: given['retry.backoff.factor'] ?? 2,
      maxMs: given['retry.backoff.maxMs'] ?? Math.max(30_000, initialMs),
      jitter: given['retry.backoff.jitter'] ?? 0.2,
    },
    giveUpAfterMs: given['retry.giveUpAfterMs'] ?? 21_600_000,
  };
}

function boundsProblem(option: OptionDescription, value: unknown): string | undefined {
  const bounds = `${option.min} to ${option.max}${option.unit === 'ms' ? ' ms' : ''}`;
  if (typeof value !== 'number' || !Number.isFinite(value)) {
    return `must be a finite number from ${bounds}`;
  }
  if (option.unit === 'count' && !Number.isInteger(value))
    return `must be a whole number from ${bounds}`;
  if (value < option.min || value > option.max) return `must be from ${bounds}`;
  return undefined;
}

/** Relations between options; nothing is said about a value that was refused, because a default stands in its place. */
function relationViolations(config: WorkerConfig, refused: ReadonlySet<string>): Violation[] {
  const { leaseDurationMs, opTimeoutMs, retry } = config;
  const { initialMs, maxMs } = retry.backoff;
  const relations = [
    {
      option: 'leaseDurationMs',
      value: leaseDurationMs,
      least: 2 * opTimeoutMs,
      needs: 'opTimeoutMs',
      rule: `must be at least twice opTimeoutMs (${opTimeoutMs})`,
    },
    {
      option: 'replanIntervalMs',
      value: config.replanIntervalMs,
      least: leaseDurationMs,
      needs: 'leaseDurationMs',
      rule: `must be at least leaseDurationMs (${leaseDurationMs})`,
    },
    {
      option: 'planTimeoutMs',
      value: config.planTimeoutMs,
      least: leaseDurationMs,
      needs: 'leaseDurationMs',
      rule: `must be at least leaseDurationMs (${leaseDurationMs})`,
    },
    {
      option: 'drainDeadlineMs',
      value: config.drainDeadlineMs,
      least: opTimeoutMs,
      needs: 'opTimeoutMs',
      rule: `must be at least opTimeoutMs (${opTimeoutMs}), so that the last commit can land`,
    },
    {
      option: 'retry.backoff.maxMs',
      value: maxMs,
      least: initialMs,
      needs: 'retry.backoff.initialMs',
      rule: `must be at least retry.backoff.initialMs (${initialMs})`,
    },
  ];
  return relations
    .filter(({ value, least }) => value < least)
    .filter(({ option, needs }) => !refused.has(option) && !refused.has(needs))
    .map(({ option, value, rule }) => ({ option, value: describe(value), rule }));
}
