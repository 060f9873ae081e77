/** Follows src/coordinator/leading: leadership.ts, candidacy.ts, election.ts, term-opening.ts, planning.ts, judging.ts. */
import { judgedPlan } from '../../../../src/protocol/plan-records.ts';
import { type LeaderSight, outlookOf } from '../../../../src/coordinator/leading/outlook.ts';
import type { VerdictRecord } from '../../../../src/records/records.ts';
import { put } from '../etcd.ts';
import { keys } from '../model.ts';
import { isIn, provide, tell } from './actors.ts';
import { call, drop, fatal, isDenied, isLeaderDenied, mayTakePart, sees } from './calls.ts';
import { divide } from './divides.ts';
import { type At, type Call, nonceOf, SPLIT } from './model.ts';
import { join, PLAN_LOST } from './presences.ts';
import { newPlan, newSplit, planIn, splitIn } from './records.ts';
import { gone, sessionOf, termClosed } from './sessions.ts';

provide('leader', {
  seekPlan: (at) => {
    call(at, 'seek');
  },
  openLeaderSession: (at) => {
    tell(at, 'leaderSession', { type: 'session.wanted' });
  },
  closeLeaderSession: (at) => {
    tell(at, 'leaderSession', { type: 'session.unwanted' });
    if (at.worker.leaderSession.closing === '') {
      at.later.push(() => {
        termClosed(at);
      });
    }
  },
  requestElection: (at) => {
    const session = sessionOf(at, 'leaderSession');
    if (session !== '' && planIn(at.lives.etcd) !== undefined) call(at, 'election', session);
    else {
      at.later.push(() => {
        lost(at);
      });
    }
  },
  openTerm: (at) => {
    call(at, 'opening of its term');
  },
  takeUp: (at) => {
    at.later.push(() => {
      if (at.worker.term !== null) takeUp(at);
    });
  },
  endTerm: ({ worker }) => {
    worker.term = null;
  },
  requestResignation: (at) => {
    call(at, 'resignation', sessionOf(at, 'leaderSession'));
    tell(at, 'leaderSession', { type: 'session.released' });
  },
  startPlanner: forPlan,
  seedSplits: forPlan,
  publishPlan: forPlan,
  recreatePlan: forPlan,
  balance: (at) => {
    call(at, 'assignments');
  },
  readSplits: (at) => {
    call(at, 'judgement');
  },
});

/** The planner and what it makes are one call: nothing else waits for what lies between. */
function forPlan(at: At): void {
  call(at, 'plan');
}

function lost(at: At): void {
  at.worker.term = null;
  tell(at, 'leader', { type: 'election.lost' });
}

/** Looks for the plan, and makes it if nothing says that it was lost (R42). */
export function sought(at: At): void {
  drop(at, 'seek');
  if (!isDenied(at) && join(at) === 'lost') fatal(at, PLAN_LOST);
  tell(at, 'leader', { type: 'plan.sought' });
}

/** An election reaches the store and is answered. */
export function elected(at: At, { session }: Call): void {
  const { lives, worker } = at;
  const { etcd } = lives;
  drop(at, 'election');
  if (isDenied(at)) lost(at);
  else if (!etcd.sessions.includes(session)) gone(at, 'leaderSession', session);
  else if (etcd.entries[keys.leader] !== undefined || planIn(etcd) === undefined) lost(at);
  else {
    const leader = { owner: worker.id, nonce: nonceOf(worker.id), generation: 1 };
    put(etcd, keys.leader, leader, session);
    // Landed is not held: the key must show under the session this candidacy has now (R3).
    const isStanding = isIn(worker, 'leader', 'campaigning.standing');
    if (!isStanding || sessionOf(at, 'leaderSession') !== session) {
      lost(at);
      return;
    }
    worker.term = etcd.revision;
    tell(at, 'leader', { type: 'election.won' });
  }
}

/** Everything that a leader must know was read. */
export function opened(at: At): void {
  drop(at, 'opening of its term');
  tell(at, 'leader', { type: 'term.ready' });
}

function takeUp(at: At): void {
  const plan = planIn(at.lives.etcd);
  if (plan === undefined) tell(at, 'leader', { type: 'plan.lost' });
  else tell(at, 'leader', { type: plan.sealed ? 'plan.kept' : 'plan.due' });
  if ((plan?.verdict ?? null) !== null) tell(at, 'leader', { type: 'verdict.found' });
  tell(at, 'leader', { type: 'inputs.changed', delayMs: 1 });
}

/** The key is deleted, or was another’s already (T14). */
export function resigned(at: At): void {
  const { entries } = at.lives.etcd;
  const isOwn = entries[keys.leader]?.session === callOf(at, 'resignation')?.session;
  drop(at, 'resignation');
  if (isOwn) delete entries[keys.leader];
  tell(at, 'leaderSession', { type: 'session.unwanted' });
  tell(at, 'leader', { type: 'term.closed' });
}

function callOf({ worker }: At, name: Call['name']): Call | undefined {
  return worker.calls.find((one) => one.name === name);
}

/** Every write of a term says "I lead" (R19). */
function isGuarded(at: At): boolean {
  return at.lives.etcd.entries[keys.leader]?.createRevision === at.worker.term;
}

function deposed(at: At): void {
  tell(at, 'leader', { type: 'term.lost', reason: 'another leads' });
}

/** The planner’s answer is stored, and the plan sealed. */
export function planned(at: At): void {
  const { etcd } = at.lives;
  drop(at, 'plan');
  if (!isGuarded(at)) {
    deposed(at);
    return;
  }
  const isRecreated = isIn(at.worker, 'leader', 'leading.governing.planning.recreating');
  if (planIn(etcd) === undefined) put(etcd, keys.plan, newPlan());
  if (isRecreated) tell(at, 'leader', { type: 'plan.recreated', hasAnswer: false });
  tell(at, 'leader', { type: 'planner.returned' });
  if (splitIn(etcd) === undefined) put(etcd, keys.split(SPLIT), newSplit());
  tell(at, 'leader', { type: 'splits.seeded' });
  const plan = planIn(etcd);
  if (plan !== undefined) put(etcd, keys.plan, { ...plan, sealed: true });
  tell(at, 'leader', { type: 'plan.published', isSealed: true });
  drop(at, 'plan');
}

/** What was decided on is written. */
export function divided(at: At): void {
  const { etcd } = at.lives;
  drop(at, 'assignments');
  if (!isGuarded(at)) {
    deposed(at);
    return;
  }
  for (const [id, splits] of divide(at)) {
    const key = keys.assignment(id);
    if (splits !== null) put(etcd, key, { generation: 1, splits });
    else delete etcd.entries[key];
  }
  tell(at, 'leader', { type: 'assignments.written' });
}

/** Every split was read at one revision, and the verdict written if there is one. */
export function judged(at: At): void {
  const { etcd } = at.lives;
  drop(at, 'judgement');
  if (!isGuarded(at)) {
    deposed(at);
    return;
  }
  const plan = planIn(etcd);
  const { status } = splitIn(etcd) ?? {};
  if (plan === undefined || (status !== 'completed' && status !== 'quarantined')) {
    tell(at, 'leader', { type: 'judgement.open' });
    return;
  }
  tell(at, 'leader', { type: 'judgement.reached' });
  const isDone = status === 'completed';
  const verdict: VerdictRecord = {
    kind: isDone ? 'complete' : 'stalled',
    completed: isDone ? 1 : 0,
    quarantined: isDone ? 0 : 1,
    ids: [],
  };
  put(etcd, keys.plan, judgedPlan(plan, verdict));
  tell(at, 'leader', { type: 'verdict.written' });
}

/** What a leader does, and cannot do while it is refused: after a lease of that it resigns (R18). */
const WORK = new Set(['opening of its term', 'plan', 'assignments', 'judgement']);

export function failsAsLeader(at: At): boolean {
  const { setting, worker } = at;
  if (setting.without === 'L3: what a leader cannot read costs it nothing') return false;
  return (
    isLeaderDenied(at) && worker.term !== null && worker.calls.some((one) => WORK.has(one.name))
  );
}

export function resign(at: At, reason: string): void {
  tell(at, 'leader', { type: 'term.unhealthy', reason, restMs: 1 });
}

/** Leads no more, for a reason that is not the term’s: others get a try. */
export function giveUp(at: At): void {
  if (isIn(at.worker, 'leader', 'leading')) resign(at, 'refused');
  else tell(at, 'leader', { type: 'standing.barred' });
}

/** What a worker sees of plan and leader. */
export function looked(at: At): void {
  const { lives, worker } = at;
  const { entries } = lives.etcd;
  const plan = planIn(lives.etcd);
  const isOutside = isIn(worker, 'leader', 'following') || isIn(worker, 'leader', 'campaigning');
  if (isOutside) {
    const leader = !sees(at) ? 'none' : leaderSeen(at);
    const sight = {
      mayStand: mayTakePart(at),
      leader,
      plan: plan === undefined ? 'absent' : 'seen',
    };
    const type = outlookOf(sight as LeaderSight, (state) => isIn(worker, 'leader', state));
    if (type !== null) tell(at, 'leader', { type, delayMs: 1 });
    return;
  }
  if (!sees(at) || worker.term === null) return;
  if (entries[keys.leader]?.createRevision !== worker.term) deposed(at);
  else if (isIn(worker, 'leader', 'leading.governing')) governed(at);
}

function leaderSeen(at: At): LeaderSight['leader'] {
  const leader = at.lives.etcd.entries[keys.leader];
  if (leader === undefined) return 'none';
  return leader.session === sessionOf(at, 'leaderSession') ? 'own' : 'other';
}

/** What moves a leader that knows everything. */
function governed(at: At): void {
  const { lives, worker } = at;
  const { etcd } = lives;
  const isJudging = (state: string): boolean =>
    isIn(worker, 'leader', `leading.governing.judging.${state}`);
  const plan = planIn(etcd);
  // What is on its way puts it back.
  if (plan === undefined && callOf(at, 'plan') === undefined)
    tell(at, 'leader', { type: 'plan.lost' });
  if (plan?.verdict === null && isJudging('decided'))
    tell(at, 'leader', { type: 'verdict.cleared' });
  const isSettled = isIn(worker, 'leader', 'leading.governing.balancing.settled');
  if (isSettled && divide(at).size > 0) tell(at, 'leader', { type: 'inputs.changed', delayMs: 1 });
  const status = splitIn(etcd)?.status;
  const hasEnded = status === 'completed' || status === 'quarantined';
  if (plan?.sealed === true && plan.verdict === null && hasEnded && isJudging('open')) {
    tell(at, 'leader', { type: 'judgement.due' });
  }
}
