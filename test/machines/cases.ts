/** What each chart is fed with when its states are explored: inputs, and every event with payloads that differ. */
import type {
  ChartName,
  LeaderEvent,
  PeerEvent,
  PresenceEvent,
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
  'ending.landed': [{ quarantined: false }, { quarantined: true }],
  'tenancy.fenced': [{}],
  'lease.deleted': [{}],
  'session.expired': [{}],
};

const leader: Payloads<LeaderEvent> = {
  'leader.absent': [{ delayMs: 0 }, { delayMs: 300 }],
  'leader.seen': [{}],
  'candidacy.due': [{}],
  'session.opened': [{}],
  'session.expired': [{}],
  'election.won': [{}],
  'election.lost': [{}],
  'term.lost': [{}],
  'term.unhealthy': [{}],
  'term.closed': [{}],
  'worker.parting': [{}],
  'plan.due': [{}],
  'plan.kept': [{}],
  'plan.lost': [{}],
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
  'session.opened': [{}],
  'announcement.landed': [{}],
  'announcement.due': [{}],
  'presence.deleted': [{}],
  'session.expired': [{}],
  'step.failed': [{}],
  'step.retry': [{}],
  'worker.stopping': [{}],
  'departure.finished': [{}],
  'fatal.raised': [{}],
};

const peer: Payloads<PeerEvent> = {
  'peer.announced': [{}],
  'peer.parting': [{}],
  'peer.vanished': [{}],
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
  peer: { inputs: [{ instance: 'w2', rebalanceDelayMs: 0 }], events: eventsFrom(peer) },
  writing: { inputs: [], events: eventsFrom(writing) },
};
