/**
 * What each chart asks for, and which of its events answer: landed, refused, given up, or overtaken by something that ends
 * the wish by name. An action that nothing comes back from says why.
 */
import type { ChartName } from '../../../../machines/index.ts';
import { DRAIN_MS, LEASE_MS, OPERATION_MS } from '../stage.ts';

export interface Request {
  /** Events that answer it, its being given up included. */
  readonly answers: readonly string[];
  /** Events after which nobody waits for an answer any more. */
  readonly overtakenBy: readonly string[];
  /** The longest that an answer may take. */
  readonly withinMs: number;
  /**
   * Why it is not given up while what it asks fails: asked again until it is answered or overtaken, and then answered within
   * the time given once nothing fails any more.
   */
  readonly persists?: string;
  /** A full store is waited out: it refuses everybody, and another leader would fare no better (R18). */
  readonly waitsForRoom?: true;
}

/** One call, or several of which the first that is not answered ends the try. */
const CALL_MS = OPERATION_MS + 100;
/** What is tried again after a pause, and the pause has grown. */
const RETRY_MS = CALL_MS + 2_000;
/** What a term does not manage for a lease ends it (R18). */
const TERM_MS = LEASE_MS + RETRY_MS + OPERATION_MS;
/** A session is believed in for no longer. */
const LIFE_MS = LEASE_MS;
/** The longest pause of a worker that is refused, and the way back after it. */
const RETURN_MS = 30_000 + 4 * CALL_MS;

const SETTLED = 'What may have landed is sent until it is answered (R1).';
const LEAVING = ['worker.stopping', 'departure.finished'];
const STANDING = ['leader.seen', 'standing.barred', 'worker.parting', 'session.expired'];
const TERM_ENDS = ['term.lost', 'term.unhealthy', 'session.expired', 'worker.parting'];
const TENANCY_ENDS = ['session.expired', 'tenancy.fenced', 'tenancy.starved', 'lease.deleted'];
const ENDINGS = [
  'drain.finished',
  'drain.declined',
  'drain.expired',
  'split.complete',
  'split.fail',
  'split.release',
];

export const REQUESTS: Readonly<Record<ChartName, Readonly<Record<string, Request>>>> = {
  tenancy: {
    requestClaim: {
      answers: ['claim.won', 'claim.lost'],
      overtakenBy: ['session.expired'],
      withinMs: RETRY_MS,
      persists: SETTLED,
    },
    askForSplit: {
      answers: [...ENDINGS, 'assignment.regained'],
      overtakenBy: TENANCY_ENDS,
      withinMs: DRAIN_MS,
    },
    withdrawRequest: {
      answers: ['intake.resumed', ...ENDINGS],
      overtakenBy: [...TENANCY_ENDS, 'assignment.withdrawn'],
      withinMs: DRAIN_MS,
    },
    requestEnding: {
      answers: ['ending.landed', 'ending.refused'],
      overtakenBy: ['session.expired', 'tenancy.fenced', 'tenancy.starved'],
      withinMs: RETRY_MS,
      persists: SETTLED,
    },
  },
  presence: {
    probeStore: {
      answers: ['probe.passed', 'step.failed', 'step.denied'],
      overtakenBy: LEAVING,
      withinMs: CALL_MS,
    },
    joinJob: {
      answers: ['job.joined', 'job.planless', 'step.failed', 'step.denied'],
      overtakenBy: [...LEAVING, 'store.reset'],
      withinMs: CALL_MS,
    },
    openSession: {
      answers: ['session.opened', 'step.failed', 'step.denied'],
      overtakenBy: [...LEAVING, 'store.reset'],
      withinMs: CALL_MS,
    },
    announce: {
      answers: ['announcement.landed', 'announcement.missed', 'step.failed', 'step.denied'],
      overtakenBy: [...LEAVING, 'store.reset', 'session.expired'],
      // What was lost is sent again by its lane.
      withinMs: RETRY_MS,
    },
    reportExhaustion: { answers: ['worker.stopping'], overtakenBy: [], withinMs: 0 },
    reportDenial: { answers: ['worker.stopping'], overtakenBy: [], withinMs: 0 },
  },
  session: {
    openSession: {
      answers: ['opening.granted', 'opening.late', 'opening.failed'],
      overtakenBy: ['session.unwanted', 'session.released', 'store.reset'],
      withinMs: CALL_MS + 200,
    },
    openAgain: {
      answers: ['opening.granted', 'opening.late', 'opening.failed'],
      overtakenBy: ['session.unwanted', 'session.released', 'store.reset'],
      withinMs: CALL_MS,
    },
    renew: {
      answers: ['renewal.answered', 'renewal.failed', 'session.gone', 'deadline.passed'],
      overtakenBy: ['session.unwanted', 'session.released', 'session.abandoned', 'store.reset'],
      withinMs: LIFE_MS / 4 + 100,
    },
    closeSession: {
      answers: ['closing.answered'],
      overtakenBy: ['session.wanted'],
      withinMs: CALL_MS,
    },
  },
  leader: {
    seekPlan: {
      answers: ['plan.sought'],
      overtakenBy: STANDING.concat('leader.absent'),
      withinMs: CALL_MS + RETRY_MS,
      persists: SETTLED,
    },
    openLeaderSession: {
      answers: ['session.opened'],
      overtakenBy: STANDING,
      withinMs: RETRY_MS,
      persists: 'A worker that stands asks for as long as nobody leads; the link says what fails.',
    },
    requestElection: {
      answers: ['election.won', 'election.lost'],
      overtakenBy: STANDING,
      withinMs: RETRY_MS,
      persists: SETTLED,
    },
    openTerm: { answers: ['term.ready'], overtakenBy: TERM_ENDS, withinMs: TERM_MS },
    takeUp: {
      answers: ['plan.due', 'plan.kept', 'plan.lost'],
      overtakenBy: TERM_ENDS,
      withinMs: 0,
    },
    requestResignation: {
      answers: ['term.closed'],
      overtakenBy: [],
      // By its answer, or by the end of the session that is renewed no more.
      withinMs: LIFE_MS,
    },
    startPlanner: {
      answers: ['planner.returned', 'planner.threw'],
      overtakenBy: TERM_ENDS,
      withinMs: 100,
    },
    seedSplits: {
      answers: ['splits.seeded'],
      overtakenBy: TERM_ENDS,
      withinMs: TERM_MS,
      waitsForRoom: true,
    },
    publishPlan: {
      answers: ['plan.published', 'plan.lost'],
      overtakenBy: TERM_ENDS,
      withinMs: TERM_MS,
      waitsForRoom: true,
    },
    recreatePlan: {
      answers: ['plan.recreated'],
      overtakenBy: TERM_ENDS,
      withinMs: TERM_MS,
      waitsForRoom: true,
    },
    balance: {
      answers: ['assignments.written'],
      overtakenBy: TERM_ENDS,
      withinMs: TERM_MS,
      waitsForRoom: true,
    },
    readSplits: {
      answers: ['judgement.open', 'judgement.reached'],
      overtakenBy: TERM_ENDS,
      withinMs: TERM_MS,
    },
    writeVerdict: {
      answers: ['verdict.written', 'judgement.open'],
      overtakenBy: TERM_ENDS,
      withinMs: TERM_MS,
      waitsForRoom: true,
    },
  },
  peer: {},
  departure: {
    beginDrain: {
      answers: ['drain.finished', 'drain.expired'],
      overtakenBy: [],
      withinMs: DRAIN_MS,
    },
    resign: {
      answers: ['goodbye.answered', 'goodbye.expired'],
      overtakenBy: [],
      withinMs: (OPERATION_MS * 3) / 4,
    },
    sayGoodbye: {
      answers: ['goodbye.answered', 'goodbye.expired'],
      overtakenBy: [],
      withinMs: (OPERATION_MS * 3) / 4,
    },
    closeSessions: {
      answers: ['sessions.closed', 'closing.expired'],
      overtakenBy: [],
      withinMs: OPERATION_MS,
    },
  },
  link: {
    abandonAll: {
      answers: ['worker.returned'],
      overtakenBy: [],
      withinMs: RETURN_MS,
      persists: 'A worker that is refused tries to come back until it may, or leaves.',
    },
  },
  follow: {
    list: {
      answers: ['listing.arrived', 'listing.failed'],
      overtakenBy: ['store.reset', 'follow.closed'],
      // Ranges are read one after the other.
      withinMs: 8 * CALL_MS,
    },
    verify: {
      answers: ['check.passed', 'check.failed'],
      overtakenBy: ['store.reset', 'follow.closed', 'watch.refused', 'watch.compacted'],
      withinMs: 8 * CALL_MS,
    },
  },
  writing: {
    resendBatch: {
      answers: ['batch.answered', 'batch.unanswered', 'batch.abandoned'],
      overtakenBy: ['lane.closed'],
      withinMs: CALL_MS,
    },
  },
};

const TELLS = 'It tells somebody of what has happened.';
const LETS_GO = 'Whatever becomes of it, nobody waits: the time to live ends what is left.';

export const NO_REQUESTS: Readonly<Record<ChartName, Readonly<Record<string, string>>>> = {
  tenancy: {
    grantSplit: 'The service ends it when it likes, by whatever ends a tenancy.',
    loseGrant: TELLS,
    markLease: 'Losing it matters to nobody (R32).',
  },
  presence: {
    announceParting: 'Sent and not awaited (R17).',
  },
  session: {
    discardOpening: LETS_GO,
    tellOpened: TELLS,
    tellUnopened: TELLS,
    tellExpired: TELLS,
    revoke: LETS_GO,
  },
  leader: {
    closeLeaderSession: 'An answer decides nothing, but where a term is closed: see deposed.',
    endTerm: 'It ends what runs, and tells of it.',
  },
  peer: {
    noteMembership: TELLS,
  },
  departure: {
    forceAll: 'It takes what is left; each tenancy writes its own ending.',
    finish: 'Nothing follows.',
  },
  link: {
    reportFailing: TELLS,
    reportDenied: TELLS,
    reportHealed: TELLS,
  },
  follow: {
    watch: 'What happens is told as it happens; nothing happening is no answer to wait for.',
    unwatch: 'It lets go.',
  },
  writing: {},
};
