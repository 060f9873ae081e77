/**
 * The options of a worker: one table holds their defaults, bounds and meaning, for the check, the types and the README.
 *
 * All violations are reported together, each with its value and its rule (R43, R44).
 */
import { DELAY_MS_MAX } from '../../base/clock.ts';
import { LeaseholdError } from '../../base/errors.ts';
import { describe, idProblem } from '../../base/ids.ts';
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

/** What identifies a worker and its job. */
export interface Identity {
  readonly job: unknown;
  readonly prefix: unknown;
  readonly instanceId: unknown;
  /** What the planner gave as its fingerprint. */
  readonly fingerprint: unknown;
}

/** One broken rule. */
export interface Violation {
  readonly option: string;
  readonly value: string;
  readonly rule: string;
}

/**
 * Fills in defaults and checks every rule.
 *
 * @throws LeaseholdError `E_CONFIG_INVALID` that lists all violations.
 */
export function resolveConfig(
  given: Readonly<Record<string, unknown>>,
  identity: Identity,
): WorkerConfig {
  const violations: Violation[] = identityViolations(identity);
  const names = new Set<string>(OPTIONS.map((option) => option.name));
  for (const name of Object.keys(given)) {
    if (names.has(name) || given[name] === undefined) continue;
    violations.push({
      option: name,
      value: describe(given[name]),
      rule: `is no option; the options are ${[...names].join(', ')}`,
    });
  }
  const usable: Partial<Record<keyof WorkerConfig, number>> = {};
  for (const option of OPTIONS) {
    const value = given[option.name];
    if (value === undefined) continue;
    const problem = boundsProblem(option, value);
    if (problem === undefined) usable[option.name] = value as number;
    else violations.push({ option: option.name, value: describe(value), rule: problem });
  }
  const config = withDefaults(usable);
  const refused = new Set(violations.map(({ option }) => option));
  violations.push(...relationViolations(config, refused));
  if (violations.length > 0) throw configError(violations);
  return config;
}

function configError(violations: readonly Violation[]): LeaseholdError {
  const lines = violations.map(({ option, value, rule }) => `${option} = ${value}: ${rule}`);
  return new LeaseholdError('E_CONFIG_INVALID', `invalid options: ${lines.join('; ')}`, {
    details: { violations },
  });
}

function identityViolations({ job, prefix, instanceId, fingerprint }: Identity): Violation[] {
  const violations: Violation[] = [];
  for (const [option, value] of Object.entries({ job, instanceId })) {
    const problem = idProblem(value);
    if (problem !== undefined) violations.push({ option, value: describe(value), rule: problem });
  }
  if (
    typeof prefix !== 'string' ||
    !/^[A-Za-z0-9_/.-]{1,256}$/.test(prefix) ||
    prefix.endsWith('/')
  ) {
    violations.push({
      option: 'prefix',
      value: describe(prefix),
      rule: 'must be 1 to 256 characters of [A-Za-z0-9_/.-] and not end with /',
    });
  }
  if (typeof fingerprint !== 'string' || fingerprint.length === 0) {
    violations.push({
      option: 'planner.fingerprint()',
      value: describe(fingerprint),
      rule: 'must return a string that is not empty',
    });
  }
  return violations;
}

/** Defaults that hang on other options are computed from the values given. */
function withDefaults(given: Partial<WorkerConfig>): WorkerConfig {
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
