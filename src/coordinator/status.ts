/** Reads what a worker says about itself from its charts. */
import type { Verdict } from './api/api.ts';
import type { Status } from './api/status.ts';
import type { Departure } from './departure.ts';
import type { Core } from './link/core.ts';
import type { JobWatches } from './link/job-watches.ts';
import type { Leadership } from './leading/leadership.ts';
import type { Peers } from './membership/peers.ts';
import type { Presence } from './membership/presence.ts';
import type { Tenancies } from './holding/tenancies.ts';

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
    planner: leadership.plannerRun,
    isPaused: view.isPaused,
    unplaced: leadership.unplaced,
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
    crashLoop: tenancies.crashLoop,
    lastError: parts.fatalError ?? leadership.plannerError,
    chartEvents: core.charts.eventCount,
    listenerErrors: core.events.errors,
    requestsInFlight: core.gate.inFlight,
  };
}

/** `present` of `present.announced`. */
function outer(state: string): string {
  return /^[^.(]*/.exec(state)![0];
}
