/** What must happen once the faults are over, and within which time. */
import { resolveConfig, type WorkerConfig } from '../../coordinator/api/config.ts';
import { longestRestMs } from '../../protocol/faults/failures.ts';
import { PROBATION_MS, RELAPSES_MAX } from '../../protocol/faults/suspicion.ts';
import { KEY_PREFIXES } from '../../records/keys.ts';
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
  return resolveConfig({ ...scenario.config });
}

/**
 * The longest that a fleet without faults may take to its verdict, or to where nothing moves, in milliseconds.
 *
 * To rest it may take {@link restMs} more. A sum of everything that can stand in the way one after the other: what handlers
 * and planners still do; what is not ready yet; leases of the dead; leaders that resigned and may not stand (ten leases) and workers barred for a split (ten leases); the rebalance
 * delay; a drain that is cancelled and forced; two replans; two reconciles; suspects, which wait until a process has lived
 * for four leases and are then tried one by one; for each wave of splits through the lanes every attempt with its rest and
 * its work; and what fails until it is given up.
 */
export function settleBoundMs(world: World): number {
  const { scenario, store, keys } = world;
  const config = configOf(scenario);
  const leaseMs = config.leaseDurationMs + scenario.expiryLagMs;
  const lanes = scenario.workers.reduce((sum, { maxInFlight }) => sum + maxInFlight, 0);
  const splitCount = Math.max(scenario.splits.length, store.dump(`${keys.root}specs/`).length);
  const waves = Math.ceil(splitCount / Math.max(1, lanes));
  const { backoff, giveUpAfterMs, maxAttempts } = config.retry;
  const workMs = 2 * config.opTimeoutMs + scenario.splitMs;
  const attemptMs = longestRestMs(backoff) + workMs;
  const hosts = scenario.workers.filter(({ maxInFlight }) => maxInFlight > 0).length;
  const trials = Math.ceil(splitCount / Math.max(1, hosts));
  const longestMs = Math.max(
    0,
    ...scenario.planner.map(({ delayMs }) => delayMs),
    ...scenario.splits.flatMap(({ misdeeds, stepMs, drainMs }) => [
      stepMs + drainMs + Math.max(0, ...misdeeds.map(({ forMs }) => forMs)),
    ]),
  );
  const notReadyMs = Math.max(
    0,
    ...scenario.splits.map(({ notReady }) =>
      notReady === null ? 0 : notReady.untilMs + (notReady.restMs ?? 0) + leaseMs,
    ),
  );
  // Each of those that kill dies on trial three times, in a process that is four leases old.
  const killers = scenario.splits.filter(({ poison }) => poison.startsWith('kills')).length;
  const trialsMs = 3 * (1 + killers) * 5 * leaseMs;
  const sumMs =
    longestMs +
    notReadyMs +
    trialsMs +
    relapsed(world) * PROBATION_MS +
    22 * leaseMs +
    2 * config.rebalanceDelayMs +
    2 * config.drainDeadlineMs +
    2 * config.replanIntervalMs +
    2 * 1.2 * config.reconcileIntervalMs +
    4 * leaseMs +
    trials * (workMs + 2 * leaseMs) +
    waves * maxAttempts * attemptMs +
    4 * backoff.maxMs +
    giveUpAfterMs +
    STARTUP_BACKOFF_MS +
    REJOIN_BACKOFF_MS +
    SLACK_MS;
  return sumMs * CLOCK_SLACK;
}

/** Splits that have died after progress again and again: each is tried for long, and alone in its process (R48). */
export function relapsed({ store, keys }: World): number {
  return store.dump(`${keys.root}${KEY_PREFIXES.splits}`).filter(({ value }) => {
    const split = splitCodec.decode(value);
    if (split.kind !== 'record' || split.record.status !== 'runnable') return false;
    return (split.record.suspicion?.relapses ?? 0) >= RELAPSES_MAX - 1;
  }).length;
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
