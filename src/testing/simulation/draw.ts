/** Draws a whole scenario from one seed. */
import { hash32 } from '../../base/hash.ts';
import { type Random, seededRandom } from '../../base/random.ts';
import type { RetryOptions } from '../../coordinator/api/config.ts';
import { drawActs } from './acts/draw-acts.ts';
import type {
  Act,
  Embedding,
  Listeners,
  Misdeed,
  PlannerRun,
  Scenario,
  ScenarioSplit,
  ScenarioWorker,
} from './scenario.ts';
import { Draw } from './shapes.ts';
import { THROWN_NAMES } from './services/thrown.ts';

/** `full`: at least 200 faults strike. `small`: a quarter of that, for tests that have to be quick. */
export type ScenarioSize = 'full' | 'small';

/** How long a round of faults lasts, at least and at most. */
const DURATIONS_MS: Readonly<Record<ScenarioSize, readonly [number, number]>> = {
  full: [15_000, 32_000],
  small: [4_000, 8_000],
};

/** How long a job fails at least before it is given up. */
const GIVE_UP_MS = 120_000;

/** The scenario of a 32-bit seed. */
export function scenarioOf(seed: number, size: ScenarioSize = 'full'): Scenario {
  return drawScenario(seed, seededRandom(hash32(seed, 'scenario')), size);
}

/** Draws a scenario of 3 to 7 workers and 5 to 60 splits. */
function drawScenario(seed: number, random: Random, size: ScenarioSize): Scenario {
  const draw = new Draw(random);
  const leaseDurationMs = draw.whole(2_000, 6_000);
  const opTimeoutMs = draw.whole(300, leaseDurationMs / 2);
  const workers = drawWorkers(draw);
  const finality = draw.chance(0.7) ? 'final' : 'open';
  const durationMs = draw.whole(...DURATIONS_MS[size]);
  const lanes = workers.reduce((sum, { maxInFlight }) => sum + maxInFlight, 0);
  const count = Math.min(
    draw.whole(5, draw.chance(0.3) ? 60 : 24),
    finality === 'open' ? lanes : 60,
  );
  // As much work as keeps the fleet busy for about as long as the faults last. Now and then it is soon done, and what is set
  // aside is put back again and again: verdicts are on their way all the time.
  const isSoonDone = draw.chance(0.12);
  const share = isSoonDone ? 0.03 : 1;
  const busyMs = (share * durationMs * Math.min(lanes, count)) / count;
  const requeues: Act = {
    atMs: 0,
    do: 'requeue',
    forMs: durationMs,
    afterMs: draw.whole(0, 200),
  };
  // Now and then much of the work is not ready for long, and what is ready must not wait for it.
  const notReady = draw.chance(0.15) ? 0.5 : 0.02;
  const acts = drawActs(random, { workers: workers.length, durationMs, leaseDurationMs });
  return {
    seed,
    config: {
      leaseDurationMs,
      opTimeoutMs,
      rebalanceDelayMs: draw.chance(0.2) ? 0 : draw.whole(0, 2 * leaseDurationMs),
      drainDeadlineMs: draw.whole(opTimeoutMs, 2 * leaseDurationMs),
      retry: drawRetry(draw),
      replanIntervalMs: draw.whole(leaseDurationMs, 3 * leaseDurationMs),
      reconcileIntervalMs: draw.whole(leaseDurationMs, 4 * leaseDurationMs),
    },
    latencyMs: draw.chance(0.65) && !isSoonDone ? 0 : draw.whole(1, 60),
    expiryLagMs: draw.chance(0.5) ? 0 : draw.whole(1, 1_000),
    workers,
    finality,
    planRuns: draw.chance(0.6) ? 1 : draw.whole(2, 4),
    planner: draw.some(0, 3, () => drawPlannerRun(draw, leaseDurationMs)),
    splits: draw.times(count, (index) =>
      drawSplit(draw, `s${index}`, {
        busyMs,
        leaseDurationMs,
        poison: isSoonDone ? 0.2 : 0.06,
        notReady,
      }),
    ),
    durationMs,
    splitMs: 0,
    faultsMin: size === 'full' ? 200 : 0,
    acts: isSoonDone ? [requeues, ...acts] : acts,
  };
}

/** Short rests, so that much happens; a job is given up only when it has failed for longer than any fault lasts. */
function drawRetry(draw: Draw): RetryOptions {
  const maxMs = draw.whole(200, 3_000);
  return {
    maxAttempts: draw.chance(0.1) ? 1 : draw.whole(2, 5),
    backoff: {
      initialMs: draw.whole(20, Math.min(500, maxMs)),
      factor: draw.pick([1, 2, 2, 3]),
      maxMs,
      jitter: draw.pick([0, 0.2, 0.5]),
    },
    giveUpAfterMs: draw.whole(GIVE_UP_MS, 2 * GIVE_UP_MS),
  };
}

function drawWorkers(draw: Draw): ScenarioWorker[] {
  const areSkewed = draw.chance(0.3);
  return draw.times(draw.whole(3, 7), (index) => ({
    id: `w${index}`,
    embedding: draw.pick(EMBEDDINGS),
    listeners: draw.pick(LISTENERS),
    maxInFlight: index > 0 && draw.chance(0.1) ? 0 : draw.whole(2, 12),
    startAtMs: draw.chance(0.7) ? draw.whole(0, 200) : draw.whole(0, 8_000),
    // R10 takes clocks to run at about one rate; its margin is 5 %.
    clockRate: areSkewed ? 1 + draw.whole(-10, 10) / 1_000 : 1,
    wallOffsetMs: areSkewed ? draw.whole(-600_000, 600_000) : 0,
  }));
}

const EMBEDDINGS: readonly Embedding[] = ['run', 'run', 'grants', 'seam', 'seam', 'heedlessSeam'];
const LISTENERS: readonly Listeners[] = ['quiet', 'throw', 'reject'];

function drawPlannerRun(draw: Draw, leaseMs: number): PlannerRun {
  return {
    delayMs: draw.chance(0.4) ? 0 : draw.whole(1, 3 * leaseMs),
    outcome: draw.pick(['answers', 'answers', 'answers', 'throws', 'throws', 'fails']),
    ignoresSignal: draw.chance(0.4),
  };
}

function drawSplit(
  draw: Draw,
  id: string,
  bounds: {
    readonly busyMs: number;
    readonly leaseDurationMs: number;
    readonly poison: number;
    readonly notReady: number;
  },
): ScenarioSplit {
  const stepMs = draw.whole(300, 2_500);
  const { busyMs, leaseDurationMs } = bounds;
  const poison = draw.chance(bounds.poison) ? draw.pick(POISONS) : 'none';
  return {
    id,
    weight: draw.chance(0.5) ? 1 : draw.whole(1, 100),
    steps: Math.max(1, Math.round((busyMs * (0.2 + 2.6 * draw.unit())) / stepMs)),
    stepMs,
    drainMs: draw.chance(0.7) ? 0 : draw.whole(1, 3 * leaseDurationMs),
    poison,
    notReady: draw.chance(bounds.notReady)
      ? {
          untilMs: draw.chance(0.5) ? 0 : draw.whole(0, 8 * leaseDurationMs),
          restMs: draw.chance(0.5) ? null : draw.whole(0, 2 * leaseDurationMs),
        }
      : null,
    misdeeds: draw.chance(0.35) ? draw.some(1, 3, () => drawMisdeed(draw, leaseDurationMs)) : [],
  };
}

const POISONS = ['throws', 'throws', 'kills', 'kills', 'killsLater'] as const;

function drawMisdeed(draw: Draw, leaseMs: number): Misdeed {
  return {
    do: draw.weighted(MISDEEDS),
    afterSteps: draw.whole(0, 6),
    forMs: draw.whole(1, 3 * leaseMs),
    thrown: draw.pick(THROWN_NAMES),
  };
}

/** What handlers do wrong, and how often beside the others. */
const MISDEEDS: Readonly<Record<Misdeed['do'], number>> = {
  throw: 2,
  return: 1,
  giveUp: 1,
  stall: 2,
  block: 1,
  deaf: 2,
  fallBack: 0.5,
  outOfOrder: 0.5,
  kill: 1,
  failAndLinger: 0.5,
  giveUpAndLinger: 0.5,
};
