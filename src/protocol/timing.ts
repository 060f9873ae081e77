/**
 * Waits of the protocol, as pure functions: what spreads workers apart, and what makes them patient.
 *
 * Nothing here reads a clock; callers set timers from the results. Tests: test/protocol/timing.test.ts.
 */
import { hash32 } from '../base/hash.ts';

const JITTER_STEPS = 1024;
const CANDIDACY_STEP_MS = 100;
const FENCE_MARGIN_MS_MIN = 250;
const STARTUP_BACKOFF_MS = 200;
const STARTUP_BACKOFF_MS_MAX = 5000;
const READ_MS = 200;
const READ_MS_MAX = 2_000;
const REJOIN_MS = 1_000;
const REJOIN_MS_MAX = 30_000;
const RESIGNATION_LEASES_MAX = 10;

/**
 * A period between 0.8 and 1.2 (not included) times `baseMs`, in 1,024 steps, so that workers drift apart.
 *
 * @param seed  The worker's own: a hash of its instance id.
 * @param round  Counts the periods, so that each has another length.
 */
export function jitter(seed: number, round: number, baseMs: number): number {
  const step = hash32(seed, String(round)) % JITTER_STEPS;
  return baseMs * (0.8 + (0.4 * step) / JITTER_STEPS);
}

/**
 * How long a candidate waits before it campaigns, so that candidates come one after the other (R20).
 *
 * @param rank  How many present peers announced themselves before this one; 0 campaigns at once.
 */
export function candidacyDelayMs(rank: number, leaseDurationMs: number): number {
  return Math.min(rank * CANDIDACY_STEP_MS, leaseDurationMs / 3);
}

/** How long before the end of a session its holder stops by itself (R10): 5 %, at least 250 ms. */
export function selfFenceMarginMs(ttlMs: number): number {
  return Math.max(FENCE_MARGIN_MS_MIN, ttlMs * 0.05);
}

/** The wait after a failed startup step: 200 ms, doubling to 5 s. `failures` counts from 1. */
export function startupBackoffMs(failures: number): number {
  return doubling(failures, STARTUP_BACKOFF_MS, STARTUP_BACKOFF_MS_MAX);
}

/** The wait after a reading that failed: 200 ms, doubling to 2 s. `failures` counts from 1. */
export function readPauseMs(failures: number): number {
  return doubling(failures, READ_MS, READ_MS_MAX);
}

/**
 * How long a worker that the store refuses waits before it tries to come back: 1 s, doubling to 30 s. `refusals` counts
 * from 1.
 */
export function rejoinPauseMs(refusals: number): number {
  return doubling(refusals, REJOIN_MS, REJOIN_MS_MAX);
}

/** How long a leader that resigned for cause does not campaign (R18): one lease, doubling to ten. Counts from 1. */
export function resignationPauseMs(resignations: number, leaseDurationMs: number): number {
  return doubling(resignations, leaseDurationMs, leaseDurationMs * RESIGNATION_LEASES_MAX);
}

function doubling(count: number, firstMs: number, mostMs: number): number {
  return Math.min(firstMs * 2 ** Math.max(count - 1, 0), mostMs);
}
