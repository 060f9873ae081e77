/** What must happen once the faults are over, and within which time. */
import { resolveConfig, type WorkerConfig } from '../../coordinator/api/config.ts';
import { splitCodec } from '../../records/records.ts';
import type { Scenario } from './scenario.ts';
import type { World } from './world.ts';

/** The longest a start of a worker backs off. */
export const STARTUP_BACKOFF_MS = 5_000;
/** The longest that a worker which was refused waits before it comes back. */
const REJOIN_BACKOFF_MS = 30_000;
/** What everything that needs a few calls takes, generously. */
const SLACK_MS = 10_000;
/** A slow clock takes longer for the same. */
const CLOCK_SLACK = 1.1;

/** The configuration of a scenario, with its defaults. */
export function configOf(scenario: Pick<Scenario, 'config'>): WorkerConfig {
  const identity = { job: 'job', prefix: 'sim', instanceId: 'worker', fingerprint: 'simulation' };
  return resolveConfig({ ...scenario.config }, identity);
}

/**
 * The longest that a fleet without faults may take to its verdict, or to where nothing moves, in milliseconds.
 *
 * To rest it may take {@link restMs} more. A sum of everything that can stand in the way one after the other: what handlers and planners still do; leases of the
 * dead; leaders that resigned and may not stand (ten leases) and workers barred for a split (ten leases); the rebalance
 * delay; a drain that is cancelled and forced; two replans; two reconciles; and for each wave of splits through the lanes
 * every attempt with its pause and its work.
 */
export function settleBoundMs({ scenario, store, keys }: World): number {
  const config = configOf(scenario);
  const leaseMs = config.leaseDurationMs + scenario.expiryLagMs;
  const lanes = scenario.workers.reduce((sum, { maxInFlight }) => sum + maxInFlight, 0);
  const splitCount = Math.max(scenario.splits.length, store.dump(`${keys.root}specs/`).length);
  const waves = Math.ceil(splitCount / Math.max(1, lanes));
  const attemptMs = leaseMs / 2 + 2 * config.opTimeoutMs + scenario.splitMs;
  const longestMs = Math.max(
    0,
    ...scenario.planner.map(({ delayMs }) => delayMs),
    ...scenario.splits.flatMap(({ misdeeds, stepMs, drainMs }) => [
      stepMs + drainMs + Math.max(0, ...misdeeds.map(({ forMs }) => forMs)),
    ]),
  );
  const sumMs =
    longestMs +
    22 * leaseMs +
    2 * config.rebalanceDelayMs +
    2 * config.drainDeadlineMs +
    2 * config.replanIntervalMs +
    2 * 1.2 * config.reconcileIntervalMs +
    waves * config.maxAttempts * attemptMs +
    STARTUP_BACKOFF_MS +
    REJOIN_BACKOFF_MS +
    SLACK_MS;
  return sumMs * CLOCK_SLACK;
}

/** True when every worker of the scenario has ended with a verdict. */
export function hasVerdict(world: World): boolean {
  return world.scenario.workers.every((_, slot) => (world.at(slot)?.verdict ?? null) !== null);
}

/** How long a worker stays barred for a split that it left unclaimed, in leases (R27). */
const BAR_LEASES = 10;

/** How long nothing has to move before a fleet is at rest: a worker may have been barred for a split until then. */
export function restMs(scenario: Scenario): number {
  const { leaseDurationMs } = configOf(scenario);
  return quietMs(scenario) + BAR_LEASES * leaseDurationMs * CLOCK_SLACK;
}

/** Whatever comes round, comes round once in this time. */
export function quietMs(scenario: Scenario): number {
  const { leaseDurationMs, rebalanceDelayMs, reconcileIntervalMs, replanIntervalMs } =
    configOf(scenario);
  return Math.max(
    2 * leaseDurationMs + rebalanceDelayMs,
    1.2 * reconcileIntervalMs,
    1.2 * replanIntervalMs,
  );
}

/** Splits that can run and have no lease now. */
export function unowned(world: World): string[] {
  const { root } = world.keys;
  const leased = new Set(
    world.store.dump(`${root}leases/`).map(({ key }) => key.slice(`${root}leases/`.length)),
  );
  return world.store.dump(`${root}splits/`).flatMap(({ key, value }) => {
    const id = key.slice(`${root}splits/`.length);
    const decoded = splitCodec.decode(value);
    const isRunnable = decoded.kind === 'record' && decoded.record.status === 'runnable';
    return isRunnable && !leased.has(id) ? [id] : [];
  });
}
