/** Draws a whole scenario from one seed. */
import { hash32 } from '../../base/hash.ts';
import { type Random, seededRandom } from '../../base/random.ts';
import {
  type Act,
  ACT_WEIGHTS,
  type ActKind,
  type CallClass,
  type CallFaultKind,
  type DeniedClass,
  type Misdeed,
  type PlannerRun,
  type ReadClass,
  type Scenario,
  type ScenarioSplit,
  type ScenarioWorker,
} from './scenario.ts';
import { Draw } from './shapes.ts';

/** `full`: at least 200 faults strike. `small`: a quarter of that, for tests that have to be quick. */
export type ScenarioSize = 'full' | 'small';

/** How long a round of faults lasts, at least and at most. */
const DURATIONS_MS: Readonly<Record<ScenarioSize, readonly [number, number]>> = {
  full: [15_000, 32_000],
  small: [4_000, 8_000],
};

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
  const acts = drawActs(random, { workers: workers.length, durationMs, leaseDurationMs });
  return {
    seed,
    config: {
      leaseDurationMs,
      opTimeoutMs,
      rebalanceDelayMs: draw.chance(0.2) ? 0 : draw.whole(0, 2 * leaseDurationMs),
      drainDeadlineMs: draw.whole(opTimeoutMs, 2 * leaseDurationMs),
      maxAttempts: draw.chance(0.1) ? 1 : draw.whole(2, 5),
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
      drawSplit(draw, `s${index}`, { busyMs, leaseDurationMs, poison: isSoonDone ? 0.2 : 0.04 }),
    ),
    durationMs,
    splitMs: 0,
    faultsMin: size === 'full' ? 200 : 0,
    acts: isSoonDone ? [requeues, ...acts] : acts,
  };
}

function drawWorkers(draw: Draw): ScenarioWorker[] {
  const areSkewed = draw.chance(0.3);
  return draw.times(draw.whole(3, 7), (index) => ({
    id: `w${index}`,
    maxInFlight: index > 0 && draw.chance(0.1) ? 0 : draw.whole(2, 12),
    startAtMs: draw.chance(0.7) ? draw.whole(0, 200) : draw.whole(0, 8_000),
    // R10 takes clocks to run at about one rate; its margin is 5 %.
    clockRate: areSkewed ? 1 + draw.whole(-10, 10) / 1_000 : 1,
    wallOffsetMs: areSkewed ? draw.whole(-600_000, 600_000) : 0,
  }));
}

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
  bounds: { readonly busyMs: number; readonly leaseDurationMs: number; readonly poison: number },
): ScenarioSplit {
  const stepMs = draw.whole(300, 2_500);
  const { busyMs, leaseDurationMs } = bounds;
  const poison = draw.chance(bounds.poison) ? draw.pick(['throws', 'kills'] as const) : 'none';
  return {
    id,
    weight: draw.chance(0.5) ? 1 : draw.whole(1, 100),
    steps: Math.max(1, Math.round((busyMs * (0.2 + 2.6 * draw.unit())) / stepMs)),
    stepMs,
    drainMs: draw.chance(0.7) ? 0 : draw.whole(1, 3 * leaseDurationMs),
    poison,
    misdeeds: draw.chance(0.35) ? draw.some(1, 3, () => drawMisdeed(draw, leaseDurationMs)) : [],
  };
}

function drawMisdeed(draw: Draw, leaseMs: number): Misdeed {
  return {
    do: draw.pick(MISDEEDS),
    afterSteps: draw.whole(0, 6),
    forMs: draw.whole(1, 3 * leaseMs),
  };
}

const MISDEEDS: readonly Misdeed['do'][] = [
  'throw',
  'return',
  'giveUp',
  'stall',
  'stall',
  'block',
  'deaf',
  'deaf',
  'fallBack',
  'kill',
];

/** What acts are drawn for. */
export interface ActBounds {
  readonly workers: number;
  readonly durationMs: number;
  readonly leaseDurationMs: number;
  /** All kinds when absent. */
  readonly kinds?: readonly ActKind[];
}

/** Acts in a second, at least and at most. */
const ACTS_PER_SECOND = [4, 6] as const;

/** Draws what happens to a fleet, in its order. */
export function drawActs(random: Random, bounds: ActBounds): Act[] {
  const draw = new Draw(random);
  const { kinds = Object.keys(ACT_WEIGHTS) as ActKind[], durationMs } = bounds;
  const weights = Object.fromEntries(kinds.map((kind) => [kind, ACT_WEIGHTS[kind]]));
  const [least, most] = ACTS_PER_SECOND.map((rate) => (rate * durationMs) / 1_000);
  const count = kinds.length === 0 ? 0 : draw.whole(least!, most!);
  return draw
    .times(count, () => drawAct(draw, bounds, draw.weighted(weights) as ActKind))
    .sort((a, b) => a.atMs - b.atMs);
}

function drawAct(draw: Draw, bounds: ActBounds, kind: ActKind): Act {
  const { leaseDurationMs: leaseMs } = bounds;
  const atMs = draw.whole(0, bounds.durationMs);
  const worker = draw.whole(0, bounds.workers - 1);
  const forMs = draw.whole(20, 2.5 * leaseMs);
  switch (kind) {
    case 'calls':
    case 'events':
    case 'cutWatches':
    case 'partition':
      return drawNetworkAct(draw, kind, { atMs, worker, forMs, leaseMs });
    case 'outage':
    case 'denied':
    case 'failReads':
    case 'hugeAnswers':
    case 'sessionsApart':
      return drawLongAct(draw, kind, { atMs, worker, forMs, leaseMs });
    case 'crash':
      return {
        atMs,
        do: kind,
        worker,
        restartAfterMs: draw.chance(0.92) ? draw.whole(10, 1.5 * leaseMs) : null,
        as: draw.pick(['same', 'same', 'other']),
      };
    case 'stop':
      return { atMs, do: kind, worker, restartAfterMs: draw.whole(10, 2 * leaseMs) };
    case 'freeze':
      return { atMs, do: kind, worker, forMs, time: draw.pick(['runs', 'runs', 'stops']) };
    case 'stepWall':
      return { atMs, do: kind, worker, byMs: draw.whole(-7_200_000, 7_200_000) };
    case 'twin':
    case 'rewrite':
      return { atMs, do: kind, worker };
    case 'lateRenewals':
      return {
        atMs,
        do: kind,
        worker,
        lateMs: draw.whole(0.1 * leaseMs, 0.3 * leaseMs),
        forMs: 1.5 * leaseMs,
      };
    case 'compact':
      return { atMs, do: kind };
    case 'requeue':
      return {
        atMs,
        do: kind,
        forMs: draw.chance(0.5) ? 0 : 3 * forMs,
        afterMs: draw.whole(0, 80),
      };
    case 'freezeExpiry':
    case 'pause':
      return { atMs, do: kind, forMs };
    case 'revokeSession':
      return { atMs, do: kind, worker, of: draw.pick(['worker', 'worker', 'leader']) };
    case 'deleteKey':
      return { atMs, do: kind, worker, key: draw.pick(DELETED_KEYS) };
    case 'bounceLeader':
      return { atMs, do: kind, how: draw.pick(BOUNCES), forMs };
    case 'cordon':
    case 'drain':
      return { atMs, do: kind, worker, forMs: 3 * forMs };
  }
}

/** What happens between a worker and the store. */
function drawNetworkAct(
  draw: Draw,
  kind: 'calls' | 'events' | 'cutWatches' | 'partition',
  { atMs, worker, forMs, leaseMs }: DrawnSpan,
): Act {
  switch (kind) {
    case 'calls': {
      // Everything goes wrong for a moment, or something now and then for long: a fleet has to get on meanwhile.
      const isShort = draw.chance(0.4);
      return {
        atMs,
        do: kind,
        worker,
        fault: draw.pick(CALL_FAULTS),
        of: draw.pick(CALL_CLASSES),
        chance: draw.pick(isShort ? [0.4, 0.7, 1] : [0.05, 0.15, 0.3]),
        forMs: isShort ? forMs / 2 : 5 * forMs,
        spanMs: draw.whole(1, draw.chance(0.5) ? 300 : leaseMs),
        silent: draw.chance(0.5),
      };
    }
    case 'events':
      return {
        atMs,
        do: kind,
        worker,
        fault: draw.pick(['delayEvents', 'duplicateEvents']),
        chance: draw.pick([0.2, 0.5, 1]),
        forMs: 4 * forMs,
        spanMs: draw.whole(1, leaseMs),
      };
    case 'cutWatches':
      return { atMs, do: kind, worker, forMs };
    case 'partition':
      return {
        atMs,
        do: kind,
        worker,
        forMs: forMs / 2,
        side: draw.pick(['both', 'both', 'requests', 'answers']),
        silent: draw.chance(0.6),
      };
  }
}

/** What lasts longer or shorter than a lease, which decides what it costs. */
function drawLongAct(
  draw: Draw,
  kind: 'outage' | 'denied' | 'failReads' | 'hugeAnswers' | 'sessionsApart',
  { atMs, worker, forMs, leaseMs }: DrawnSpan,
): Act {
  const spanMs = draw.chance(0.5)
    ? draw.whole(0.05 * leaseMs, 0.9 * leaseMs)
    : draw.whole(1.05 * leaseMs, 3 * leaseMs);
  switch (kind) {
    case 'outage':
      return {
        atMs,
        do: kind,
        afterMs: draw.whole(0, 3 * leaseMs),
        forMs: spanMs,
        then: draw.pick([
          'another',
          'earlier',
          'earlier',
          'earlierUnderTheSameId',
          'earlierUnderTheSameId',
          'same',
        ]),
        silent: draw.chance(0.5),
      };
    case 'denied':
      return { atMs, do: kind, worker, of: draw.pick(DENIED_CLASSES), forMs: spanMs };
    case 'failReads':
      return {
        atMs,
        do: kind,
        worker,
        of: draw.pick(READ_CLASSES),
        forMs: spanMs,
        silent: draw.chance(0.5),
      };
    case 'hugeAnswers':
      return {
        atMs,
        do: kind,
        worker,
        entriesMax: draw.whole(1, 20),
        entryMs: draw.whole(0, 30),
        forMs: 4 * forMs,
      };
    case 'sessionsApart':
      return {
        atMs,
        do: kind,
        first: draw.pick(['worker', 'worker', 'leader']),
        how: draw.pick(['revoked', 'notRenewed']),
        forMs: 1.5 * leaseMs,
        thenMs: draw.chance(0.5) ? null : draw.whole(0, 2 * leaseMs),
      };
  }
}

/** When something happens, to whom, and for how long. */
interface DrawnSpan {
  readonly atMs: number;
  readonly worker: number;
  readonly forMs: number;
  readonly leaseMs: number;
}

const DENIED_CLASSES: readonly DeniedClass[] = [
  'any',
  'writes',
  'reads',
  'sessions',
  'leases/',
  'splits/',
];
const READ_CLASSES: readonly ReadClass[] = [
  'reads',
  'reads',
  'splits/',
  'assign/',
  'leases/',
  'workers/',
];
const DELETED_KEYS = ['presence', 'assignment', 'lease', 'lease', 'leader'] as const;
const BOUNCES = [
  'crash',
  'stop',
  'freeze',
  'revokeSession',
  'deleteKey',
  'partition',
  'denied',
  'failReads',
] as const;
const CALL_FAULTS: readonly CallFaultKind[] = [
  'delay',
  'delayAnswer',
  'loseBefore',
  'loseAfter',
  'lateLanding',
  'duplicate',
  'full',
];
const CALL_CLASSES: readonly CallClass[] = ['any', 'any', 'writes', 'writes', 'sessions', 'reads'];
