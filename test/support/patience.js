/**
 * How much longer real time may take here than on a machine that has nothing else to do. Limits of tests that are measured in
 * real time are taken times this, so that a busy machine fails no test; a test that hangs fails all the same, only later.
 *
 * Plain JavaScript, because Jest loads environments without a transform. Tests: test/base/patience.test.ts.
 */
import { availableParallelism, loadavg } from 'node:os';

export const PATIENCE_MAX = 8;
/** What the loop below takes where nothing else runs. */
const LOOP_MS = 30;
const ROUNDS = 20_000_000;
/** A run of the tests alone has two processes for each processor: that limits have room for. */
const USUAL = 2;
/** A measurement is good for this long. */
const FRESH_MS = 5_000;

/** A global is slow to reach in the context of a test file. */
const { imul } = Math;

let measuredMs = -Infinity;
let measured = 1;

/** A factor from 1 to 8, from how long a short loop takes and how many processes wait for a processor. */
export function patience() {
  const nowMs = performance.now();
  if (nowMs - measuredMs > FRESH_MS) {
    measured = patienceFor(loopMs() / LOOP_MS, (loadavg()[0] ?? 0) / availableParallelism());
    measuredMs = nowMs;
  }
  return measured;
}

/**
 * A limit of real time, for this machine as it is now.
 *
 * @param {number} ms
 */
export function patiently(ms) {
  return Math.ceil(ms * patience());
}

/**
 * Gives a test or a hook, as Jest knows it, the limit that it was written with times the patience of the moment. A hook is run
 * many times: what was written stays beside.
 *
 * @param {{ timeout?: number, written?: number }} limited
 * @param {number} usualMs  Of what has no limit of its own.
 */
export function extendLimit(limited, usualMs) {
  limited.written ??= limited.timeout ?? usualMs;
  limited.timeout = patiently(limited.written);
}

/**
 * @param {number} slowness  Of the loop, in its usual time.
 * @param {number} load  Processes that want to run, for each processor.
 */
export function patienceFor(slowness, load) {
  return Math.min(PATIENCE_MAX, Math.max(1, slowness / USUAL, load / USUAL));
}

function loopMs() {
  const startMs = performance.now();
  let sum = 0;
  for (let round = 0; round < ROUNDS; round += 1) sum = (imul(sum, 31) + round) | 0;
  // What is never used may not be computed.
  return Number.isInteger(sum) ? performance.now() - startMs : 0;
}
