/** What each chart is fed with when its states are explored: inputs, and every event with payloads that differ. */
import type {
  ChartName,
  DepartureEvent,
  FollowEvent,
  LeaderEvent,
  LinkEvent,
  PeerEvent,
  PresenceEvent,
  SessionEvent,
  TenancyEvent,
  WritingEvent,
} from '../../machines/index.ts';

/** Payloads for every member of a vocabulary; the compiler sees to it that none is missing. */
type Payloads<E extends { type: string }> = {
  readonly [T in E['type']]: readonly Omit<Extract<E, { type: T }>, 'type'>[];
};

export interface Cases {
  readonly inputs: readonly Readonly<Record<string, unknown>>[];
  readonly events: readonly { readonly type: string }[];
}

const reasons = ['unassigned', 'paused', 'stopping'] as const;

const tenancy: Payloads<TenancyEvent> = {
  'claim.due': [{}],
  'claim.won': [{}],
  'claim.lost': [{}],
  // At once, in time, and after the deadline of a drain that began at once.
  'assignment.withdrawn': reasons.flatMap((reason) =>
    [0, 4_000, 12_000].map((atMs) => ({ reason, atMs })),
  ),
  'assignment.regained': [{ atMs: 5_000 }],
  'split.ended': [{}],
  'split.complete': [{}],
  'split.fail': [{}],
  'split.release': [{}],
  'drain.finished': [{}],
  'drain.declined': [{}],
  'drain.expired': [{}],
  'intake.resumed': [{}],
  'progress.landed': [{}],
  'ending.sent': [{}],
  'ending.unanswered': [{}],
  'ending.landed': [{ quarantined: false }, { quarantined: true }],
  'ending.refused': [{}],
  'tenancy.fenced': [{}],
  'tenancy.starved': [{}],
  'lease.deleted': [{}],
  'session.expired': [{}],
};

const reason = 'told why';

const leader: Payloads<LeaderEvent> = {
  'standing.barred': [{}],
  'leader.absent': [{ delayMs: 0 }, { delayMs: 300 }],
  'leader.seen': [{}],
  'plan.missing': [{}],
  'plan.sought': [{}],
  'candidacy.due': [{}],
  'rest.over': [{}],
  'session.opened': [{}],
  'session.expired': [{ reason }],
  'election.won': [{}],
  'election.lost': [{}],
  'term.ready': [{}],
  'term.lost': [{ reason }],
  'term.unhealthy': [{ reason, restMs: 9_000 }],
  'term.closed': [{}],
  'worker.parting': [{}],
  'plan.due': [{}],
  'plan.kept': [{}],
  'plan.lost': [{}],
  'plan.recreated': [{ hasAnswer: false }, { hasAnswer: true }],
  'planner.returned': [{}],
  'planner.threw': [{ pauseMs: 1_000 }],
  'planner.retry': [{}],
  'splits.seeded': [{}],
  'plan.published': [{ isSealed: false }, { isSealed: true }],
  'inputs.changed': [{ delayMs: 200 }],
  'balance.due': [{}],
  'assignments.written': [{}],
  'judgement.due': [{}],
  'judgement.open': [{}],
  'judgement.reached': [{}],
  'verdict.written': [{}],
  'verdict.found': [{}],
  'verdict.cleared': [{}],
};

const presence: Payloads<PresenceEvent> = {
  'probe.passed': [{}],
  'job.joined': [{}],
  'job.planless': [{}],
  'session.opened': [{}],
  'session.expired': [{ isDenied: false }, { isDenied: true }],
  'announcement.landed': [{ isCurrent: true }, { isCurrent: false }],
  'announcement.missed': [{}],
  'announcement.due': [{}],
  'presence.deleted': [{}],
  'step.failed': [{}],
  'step.denied': [{}],
  'step.retry': [{}],
  'rejoin.due': [{}],
  'store.reset': [{}],
  'worker.stopping': [{}],
  'departure.finished': [{ hasFailed: false }, { hasFailed: true }],
};

const session: Payloads<SessionEvent> = {
  'session.wanted': [{}],
  'session.unwanted': [{}],
  'session.abandoned': [{ reason: 'closed' }],
  'session.gone': [{}],
  'session.released': [{}],
  'opening.granted': [{ renewMs: 3_000 }],
  'opening.late': [{}],
  'opening.failed': [{ pauseMs: 200 }],
  'opening.due': [{}],
  'renewal.due': [{}],
  'renewal.answered': [{ renewMs: 3_000 }],
  'renewal.failed': [{ pauseMs: 200 }],
  'deadline.passed': [{}],
  'store.reset': [{}],
  'closing.answered': [{}],
};

const departure: Payloads<DepartureEvent> = {
  'leave.asked': [{ atMs: 0, drainMs: 10_000, settleMs: 4_000 }],
  'leave.skipped': [{}],
  'drain.finished': [{ atMs: 1_000 }],
  'drain.expired': [{}],
  'tenancies.ended': [{ atMs: 2_000 }],
  'settling.expired': [{}],
  'goodbye.answered': [{ atMs: 3_000 }],
  'goodbye.expired': [{}],
  'sessions.closed': [{}],
  'closing.expired': [{}],
};

const follow: Payloads<FollowEvent> = {
  'listing.arrived': [{}],
  'listing.failed': [{}],
  'listing.due': [{}],
  'watch.compacted': [{}],
  'watch.refused': [{}],
  'watch.accepted': [{}],
  'check.due': [{}],
  'check.passed': [{}],
  'check.failed': [{}],
  'store.reset': [{}],
  'follow.closed': [{}],
};

const link: Payloads<LinkEvent> = {
  'call.failed': [{}],
  'call.denied': [{}],
  'denial.lifted': [{}],
  'calls.healed': [{}],
  'silence.over': [{}],
  'patience.over': [{}],
  'worker.returned': [{}],
};

const peer: Payloads<PeerEvent> = {
  'peer.announced': [{}],
  'peer.parting': [{}],
  'peer.vanished': [{ delayMs: 10_000 }, { delayMs: 0 }],
  'delay.elapsed': [{}],
};

const writing: Payloads<WritingEvent> = {
  'batch.submitted': [{}],
  'batch.unanswered': [{}],
  'batch.answered': [{}],
  'batch.abandoned': [{}],
  'resend.due': [{}],
  'lane.rested': [{}],
  'lane.closed': [{}],
};

function eventsFrom(payloads: Readonly<Record<string, readonly object[]>>): { type: string }[] {
  return Object.entries(payloads).flatMap(([type, all]) =>
    all.map((payload) => ({ type, ...payload })),
  );
}

/** Inputs beside a chart's own example, and its events. */
export const CASES: Readonly<Record<ChartName, Cases>> = {
  tenancy: { inputs: [], events: eventsFrom(tenancy) },
  leader: { inputs: [], events: eventsFrom(leader) },
  presence: { inputs: [{ instance: 'w1', failuresMax: 1 }], events: eventsFrom(presence) },
  session: { inputs: [], events: eventsFrom(session) },
  departure: { inputs: [], events: eventsFrom(departure) },
  follow: { inputs: [], events: eventsFrom(follow) },
  link: { inputs: [], events: eventsFrom(link) },
  peer: { inputs: [{ instance: 'w1' }], events: eventsFrom(peer) },
  writing: { inputs: [], events: eventsFrom(writing) },
};
