/**
 * The options of a worker: one table holds their defaults, bounds and meaning, for the check, the types and the README.
 *
 * All violations are reported together, each with its value and its rule (R43, R44).
 */
import { DELAY_MS_MAX } from '../../base/clock.ts';
import { describe } from '../../base/ids.ts';
import { type Field, mustPass, readTable, refuseIfAny, type Violation } from '../../base/shape.ts';
import { MAX_IN_FLIGHT_MAX } from '../../records/records.ts';

/** Tuning of a worker; every field has a default. Times are milliseconds. */
export interface WorkerConfig {
  readonly leaseDurationMs: number;
  readonly opTimeoutMs: number;
  readonly maxAttempts: number;
  readonly maxInFlight: number;
  readonly replanIntervalMs: number;
  readonly reconcileIntervalMs: number;
  readonly startupMaxAttempts: number;
  readonly rebalanceDelayMs: number;
  readonly drainDeadlineMs: number;
}

/** One option as the README shows it. */
export interface OptionDescription {
  readonly name: keyof WorkerConfig;
  readonly defaultText: string;
  readonly min: number;
  readonly max: number;
  readonly unit: 'ms' | 'count';
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
    meaning:
      'Tenancies that may end badly in a row, without progress, before a split is quarantined.',
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
  violations.push(...found, ...relationViolations(config, refused));
  return config;
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
  return {
    leaseDurationMs,
    opTimeoutMs,
    maxAttempts: given.maxAttempts ?? 4,
    maxInFlight: given.maxInFlight ?? 8,
    replanIntervalMs: given.replanIntervalMs ?? Math.max(60_000, leaseDurationMs),
    reconcileIntervalMs: given.reconcileIntervalMs ?? 30_000,
    startupMaxAttempts: given.startupMaxAttempts ?? 8,
    rebalanceDelayMs: given.rebalanceDelayMs ?? 10_000,
    drainDeadlineMs: given.drainDeadlineMs ?? Math.max(10_000, opTimeoutMs),
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
  const { leaseDurationMs, opTimeoutMs } = config;
  const relations = [
    {
      option: 'leaseDurationMs',
      least: 2 * opTimeoutMs,
      needs: 'opTimeoutMs',
      rule: `must be at least twice opTimeoutMs (${opTimeoutMs})`,
    },
    {
      option: 'replanIntervalMs',
      least: leaseDurationMs,
      needs: 'leaseDurationMs',
      rule: `must be at least leaseDurationMs (${leaseDurationMs})`,
    },
    {
      option: 'drainDeadlineMs',
      least: opTimeoutMs,
      needs: 'opTimeoutMs',
      rule: `must be at least opTimeoutMs (${opTimeoutMs}), so that the last commit can land`,
    },
  ] as const;
  return relations
    .filter(({ option, least }) => config[option] < least)
    .filter(({ option, needs }) => !refused.has(option) && !refused.has(needs))
    .map(({ option, rule }) => ({ option, value: describe(config[option]), rule }));
}
