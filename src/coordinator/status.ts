/** What a worker says about itself: read from the charts, JSON. */
import type { Verdict } from './api/api.ts';
import type { Departure } from './departure.ts';
import type { Core } from './link/core.ts';
import type { JobWatches } from './link/job-watches.ts';
import type { FailingCalls } from './link/link-health.ts';
import type { Leadership } from './leading/leadership.ts';
import type { Peers } from './membership/peers.ts';
import type { Presence } from './membership/presence.ts';
import type { Tenancies } from './holding/tenancies.ts';

/** One tenancy in a status. */
export interface TenancyStatus {
  readonly split: string;
  /** State of the tenancy chart. */
  readonly state: string;
  readonly epoch: string | null;
  /** Decimal; null before the first commit. */
  readonly watermark: string | null;
  readonly attempts: number;
  /** How long the state has lasted, in milliseconds. */
  readonly forMs: number;
  /** Why the split cannot be worked on here; null when it can. */
  readonly problem: string | null;
}

/** A worker at this moment. */
export interface Status {
  readonly job: string;
  readonly instanceId: string;
  readonly nonce: string;
  /** This worker's place in the fleet: the outer state of its presence chart. */
  readonly presence: string;
  /** What it does about leading: the outer state of its leader chart. */
  readonly leader: string;
  readonly isLeading: boolean;
  /** Every chart of this worker that there is one of, with its state in full. */
  readonly charts: {
    readonly presence: string;
    readonly leader: string;
    readonly session: string;
    readonly leaderSession: string;
    readonly link: string;
    readonly departure: string;
  };
  /** Kinds of calls to the store that fail now, since when and why. */
  readonly failing: readonly FailingCalls[];
  /** What this worker follows, each with the state of its chart. */
  readonly watches: readonly { readonly range: string; readonly state: string }[];
  /** Milliseconds for which the session may still be believed in. */
  readonly sessionLeftMs: number;
  readonly plan: {
    readonly generation: number;
    readonly finality: string;
    readonly sealed: boolean;
    readonly planned: number;
  } | null;
  readonly isPaused: boolean;
  readonly tenancies: readonly TenancyStatus[];
  readonly peers: readonly { readonly instance: string; readonly state: string }[];
  readonly lanes: readonly {
    readonly lane: number;
    readonly state: string;
    readonly items: number;
  }[];
  readonly refuses: readonly string[];
  readonly verdict: Verdict | null;
  /** The fatal error, or the planner's last one; null when there is none. */
  readonly lastError: string | null;
  /** Events that the charts of this worker have handled. */
  readonly chartEvents: number;
  /** Store calls that are not answered yet. */
  readonly requestsInFlight: number;
}

/** The parts a status is read from. */
export interface StatusParts {
  readonly core: Core;
  readonly presence: Presence;
  readonly departure: Departure;
  readonly tenancies: Tenancies;
  readonly leadership: Leadership;
  readonly watches: JobWatches;
  readonly peers: Peers;
  readonly verdict: Verdict | null;
  readonly fatalError: string | null;
}

/** Reads the status of a worker; costs time in proportion to the splits it holds. */
export function statusOf(parts: StatusParts): Status {
  const { core, presence, tenancies, leadership, peers } = parts;
  const { view } = core;
  const nowMs = core.clock.nowMs();
  const plan = view.plan.kind === 'seen' ? view.plan.plan.record : null;
  return {
    job: core.job,
    instanceId: core.me,
    nonce: core.nonce,
    presence: outer(presence.state),
    leader: outer(leadership.state),
    isLeading: leadership.isLeading,
    charts: {
      presence: presence.state,
      leader: leadership.state,
      session: core.session.state,
      leaderSession: leadership.session.state,
      link: core.health.state,
      departure: parts.departure.state,
    },
    failing: core.health.failing(),
    watches: parts.watches.states(),
    sessionLeftMs: core.session.leftMs,
    plan:
      plan === null
        ? null
        : {
            generation: plan.generation,
            finality: plan.finality,
            sealed: plan.sealed,
            planned: plan.planned,
          },
    isPaused: view.isPaused,
    tenancies: [...tenancies.all()].map((tenancy) => ({
      split: tenancy.split,
      state: tenancy.chart.state,
      epoch: tenancy.epoch,
      watermark: tenancy.known.record?.watermark ?? null,
      attempts: tenancy.known.record?.attempts ?? 0,
      forMs: nowMs - tenancy.chart.sinceMs,
      problem: tenancy.known.problem,
    })),
    peers: peers.states(),
    lanes: core.batcher.laneStates(),
    refuses: tenancies.refuses(),
    verdict: parts.verdict,
    lastError: parts.fatalError ?? leadership.planning.lastError,
    chartEvents: core.charts.eventCount,
    requestsInFlight: core.gate.inFlight,
  };
}

/** `present` of `present.announced`. */
function outer(state: string): string {
  return /^[^.(]*/.exec(state)![0];
}
