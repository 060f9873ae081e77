/** Runs a user's own planner and handler on a simulated fleet, under faults, with the checks of the library's own tests. */
import { LeaseholdError, isLeaseholdError } from '../base/errors.ts';
import { describe } from '../base/ids.ts';
import { hash32 } from '../base/hash.ts';
import { type Random, seededRandom } from '../base/random.ts';
import type { Planner } from '../coordinator/api/api.ts';
import type { Violation, WorkerConfig } from '../coordinator/api/config.ts';
import { drawActs } from './simulation/draw.ts';
import { configOf } from './simulation/liveness.ts';
import type { SimulatedHandler } from './simulation/program.ts';
import { runScenario } from './simulation/runner.ts';
import { ACT_WEIGHTS, type ActKind, type Scenario } from './simulation/scenario.ts';
import { added, NO_RUNS, type RunViolation, tallyOf } from './simulation/tally.ts';

/**
 * What can happen to a fleet: calls that are slow, lost, repeated or refused (`calls`), watch events that are (`events`),
 * processes that crash, freeze, stop or come back, leaders that fall, sessions and keys taken away, records written again by
 * hand, renewals that are answered late before the connection is gone, outages after which the store is as it was, another one
 * or restored from a snapshot (`outage`), refusals for want of permission (`denied`), reads that fail while writes work
 * (`failReads`), values too large for one answer (`hugeAnswers`), a leader whose two sessions end apart, and what operators do.
 */
export type FaultKind = ActKind;

/** A broken promise, of the handler or of the library, and the seed of the run that shows it again. */
export type SimulationViolation = RunViolation;

/** What to simulate. */
export interface SimulationOptions {
  /** Shared by all workers; its `plan` is called on the leader, whichever that is. */
  readonly planner: Planner;
  readonly handler: SimulatedHandler;
  /** Seed of the first run, 0 to 2^32-1; 1 when absent. The same seed gives the same run. */
  readonly seed?: number;
  /** Runs with the seeds that follow, 1 to 1,000,000; 1 when absent. Ends early with the first run that breaks a promise. */
  readonly runs?: number;
  /** Workers of the fleet, 1 to 100; 3 when absent. */
  readonly workers?: number;
  /** What may happen; everything when absent, nothing when empty. */
  readonly faults?: readonly FaultKind[];
  /** How long it happens, 0 to 3,600,000 ms of the fleet's time; 30,000 when absent. */
  readonly faultsMs?: number;
  /** The longest a handler takes for one split when nothing goes wrong, in milliseconds; 60,000 when absent. */
  readonly splitMs?: number;
  /** What the planner's last answer says; `final` when absent. A final plan must reach a verdict, an open one come to rest. */
  readonly finality?: 'final' | 'open';
  /** Of all workers. Leases of 3 s when absent, so that much happens in little time. */
  readonly config?: Partial<WorkerConfig>;
}

/** What came of all runs. JSON. */
export interface SimulationReport {
  readonly runs: number;
  /** What happened in all: on the time lines of handlers and in the store. */
  readonly events: number;
  /** Requests of handlers that were accepted. */
  readonly commits: number;
  /** Splits that were taken from an owner who had not given them back. */
  readonly takeovers: number;
  /** How often each kind of fault has struck. */
  readonly faults: Readonly<Record<string, number>>;
  /** Empty when every promise was kept. */
  readonly violations: readonly SimulationViolation[];
}

const CONFIG: Partial<WorkerConfig> = { leaseDurationMs: 3_000, opTimeoutMs: 1_000 };
const SEED_MAX = 2 ** 32 - 1;

/**
 * Runs a fleet of real workers over a memory store on a virtual clock: first with faults, then without, until the job has
 * its verdict or nothing moves any more; then everybody leaves.
 *
 * Handlers and planners must take time and chance from their context, and wait for nothing but promises that come from it
 * or from the grant: what waits for the world outside makes runs differ. Simulate one fleet at a time: what nobody
 * catches in the process is a violation of the run that is on.
 *
 * @throws LeaseholdError `E_CONFIG_INVALID` listing every violation.
 */
export async function simulate(options: SimulationOptions): Promise<SimulationReport> {
  const { seed = 1, runs = 1 } = options;
  check(options);
  let total = NO_RUNS;
  for (let run = seed; run < seed + runs && total.violations.length === 0; run += 1) {
    const { report } = await runScenario(scenarioFor(options, run), () => ({
      planner: () => options.planner,
      handler: options.handler,
    }));
    total = added(total, tallyOf(report));
  }
  return total;
}

function scenarioFor(options: SimulationOptions, seed: number): Scenario {
  const { workers = 3, faults, faultsMs = 30_000, splitMs = 60_000, finality = 'final' } = options;
  const random = seededRandom(hash32(seed, 'acts'));
  const config = { ...CONFIG, ...options.config };
  const scenario: Scenario = {
    seed,
    config,
    latencyMs: 5,
    expiryLagMs: 500,
    workers: Array.from({ length: workers }, (_, index) => ({
      id: `worker-${index}`,
      maxInFlight: config.maxInFlight ?? 8,
      startAtMs: 0,
      clockRate: 1,
      wallOffsetMs: 0,
    })),
    finality,
    planRuns: 1,
    planner: [],
    splits: [],
    splitMs,
    durationMs: faultsMs,
    faultsMin: 0,
    acts: [],
  };
  return { ...scenario, acts: actsFor(scenario, random, faults) };
}

function actsFor(
  scenario: Scenario,
  random: Random,
  kinds: readonly FaultKind[] = Object.keys(ACT_WEIGHTS) as FaultKind[],
): Scenario['acts'] {
  const { leaseDurationMs } = configOf(scenario);
  const { durationMs, workers } = scenario;
  return drawActs(random, { workers: workers.length, durationMs, leaseDurationMs, kinds });
}

/** All broken rules together, those of the workers' own options included. */
function check(options: SimulationOptions): void {
  const violations: Violation[] = [];
  const wrong = (option: string, value: unknown, rule: string): void => {
    violations.push({ option, value: describe(value), rule });
  };
  const whole = (option: 'seed' | 'runs' | 'workers', least: number, most: number): void => {
    const value = options[option];
    if (value === undefined || (Number.isInteger(value) && value >= least && value <= most)) return;
    wrong(option, value, `must be a whole number from ${least} to ${most}`);
  };
  const span = (option: 'faultsMs' | 'splitMs'): void => {
    const value = options[option];
    if (value === undefined || (value >= 0 && value <= 3_600_000)) return;
    wrong(option, value, 'must be from 0 to 3600000 ms');
  };
  whole('seed', 0, SEED_MAX);
  whole('runs', 1, 1_000_000);
  whole('workers', 1, 100);
  span('faultsMs');
  span('splitMs');
  for (const kind of options.faults ?? []) {
    if (Object.hasOwn(ACT_WEIGHTS, kind)) continue;
    wrong('faults', kind, `is no fault; the faults are ${Object.keys(ACT_WEIGHTS).join(', ')}`);
  }
  const { finality = 'final' } = options;
  if (!['final', 'open'].includes(finality)) wrong('finality', finality, 'must be final or open');
  if (typeof options.handler !== 'function')
    wrong('handler', options.handler, 'must be a function');
  if (typeof options.planner?.plan !== 'function')
    wrong('planner', options.planner, 'must be a planner');
  violations.push(...configViolations({ ...CONFIG, ...options.config }));
  if (violations.length === 0) return;
  const lines = violations.map(({ option, value, rule }) => `${option} = ${value}: ${rule}`);
  throw new LeaseholdError('E_CONFIG_INVALID', `invalid options: ${lines.join('; ')}`, {
    details: { violations },
  });
}

function configViolations(config: Partial<WorkerConfig>): readonly Violation[] {
  try {
    configOf({ config });
    return [];
  } catch (error) {
    if (!isLeaseholdError(error)) throw error;
    return error.details.violations as readonly Violation[];
  }
}
