/** Draws what happens to a fleet. */
import type { Random } from '../../../base/random.ts';
import {
  type Act,
  ACT_WEIGHTS,
  type ActKind,
  type CallClass,
  type CallFaultKind,
  type DeniedClass,
  type ReadClass,
} from '../scenario.ts';
import { Draw } from '../shapes.ts';

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
    case 'crashLoop':
      return drawDeath(draw, kind, { atMs, worker, forMs, leaseMs });
    case 'downstream':
      return { atMs, do: kind, of: draw.pick(['all', 'all', 'half']), forMs };
    case 'sickHost':
      return { atMs, do: kind, worker, forMs };
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

/** What ends processes. */
function drawDeath(
  draw: Draw,
  kind: 'crash' | 'crashLoop',
  { atMs, worker, leaseMs }: DrawnSpan,
): Act {
  if (kind === 'crash') {
    return {
      atMs,
      do: kind,
      worker,
      restartAfterMs: draw.chance(0.92) ? draw.whole(10, 1.5 * leaseMs) : null,
      as: draw.pick(['same', 'same', 'other']),
    };
  }
  return {
    atMs,
    do: kind,
    worker,
    lives: draw.whole(3, 7),
    lifeMs: draw.whole(200, 0.6 * leaseMs),
    restartAfterMs: draw.whole(10, 500),
    as: draw.pick(['same', 'other']),
  };
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
