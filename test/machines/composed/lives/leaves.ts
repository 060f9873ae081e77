/** Follows src/coordinator: departure.ts, and what engine.ts does on a reset and when a refusal has lasted a lease. */
import { keys } from '../model.ts';
import { isIn, provide, tell } from './actors.ts';
import { call, drop, isDenied, isLeaving } from './calls.ts';
import { clearUp } from './holds.ts';
import { giveUp } from './leads.ts';
import { type At, newActor, charts } from './model.ts';
import { resetPresence } from './presences.ts';
import { resetSession } from './sessions.ts';

provide('departure', {
  beginDrain: (at) => {
    at.later.push(() => {
      tell(at, 'presence', { type: 'worker.stopping' });
      tell(at, 'tenancy', { type: 'assignment.withdrawn', reason: 'stopping', atMs: 1 });
      clearUp(at);
    });
  },
  forceAll: (at) => {
    tell(at, 'tenancy', { type: 'drain.expired' });
    clearUp(at);
  },
  resign: (at) => {
    tell(at, 'leader', { type: 'worker.parting' });
  },
  sayGoodbye: (at) => {
    call(at, 'goodbye');
  },
  closeSessions: (at) => {
    tell(at, 'session', { type: 'session.unwanted' });
    tell(at, 'leaderSession', { type: 'session.unwanted' });
  },
  finish: (at) => {
    at.later.push(() => {
      finish(at);
    });
  },
});

provide('link', {
  abandonAll: (at) => {
    const { without } = at.setting;
    if (without === 'R45: a session is kept for as long as it can be renewed') return;
    const isDropped =
      without === 'R45: giving everything up drops a session that is being opened' &&
      isIn(at.worker, 'session', 'opening');
    if (isDropped) tell(at, 'session', { type: 'session.released' });
    else tell(at, 'session', { type: 'session.abandoned', reason: 'denied' });
    giveUp(at);
  },
});

/** Goes on when what it waited for has happened: looked up, never remembered. */
export function advanceDeparture(at: At): void {
  const { worker } = at;
  if (!isLeaving(worker)) return;
  const { tenancy } = worker;
  const hasHandlers =
    isIn(worker, 'tenancy', 'claiming') || tenancy?.actor.chart.has('mayCommit') === true;
  if (isIn(worker, 'departure', 'draining') && !hasHandlers) {
    tell(at, 'departure', { type: 'drain.finished', atMs: 1 });
  }
  const isWaiting =
    isIn(worker, 'departure', 'settling') || isIn(worker, 'departure', 'closing.answers');
  if (isWaiting && worker.tenancy === null)
    tell(at, 'departure', { type: 'tenancies.ended', atMs: 1 });
  const isClosed = worker.session.closing === '' && worker.leaderSession.closing === '';
  if (isIn(worker, 'departure', 'closing.sessions') && isClosed) {
    tell(at, 'departure', { type: 'sessions.closed' });
  }
}

/** The presence is deleted, and the resignation answered. */
export function saidGoodbye(at: At): void {
  const { lives, worker } = at;
  drop(at, 'goodbye');
  const key = keys.presence(worker.id);
  const isOwn = lives.etcd.entries[key]?.modRevision === worker.announcedAt;
  if (isOwn && !isDenied(at)) delete lives.etcd.entries[key];
  tell(at, 'departure', { type: 'goodbye.answered', atMs: 1 });
}

function finish(at: At): void {
  const { worker } = at;
  tell(at, 'presence', { type: 'departure.finished', hasFailed: worker.error !== null });
  die(at);
}

/** Nothing of the process runs any more. */
export function die({ worker }: At): void {
  const keeper = {
    ...worker.session,
    held: 'none',
    isCalling: false,
    closing: '',
    id: '',
  } as const;
  const dead = { ...keeper, actor: newActor(charts.session) };
  worker.isUp = false;
  worker.tenancy = null;
  worker.calls = [];
  worker.term = null;
  worker.session = dead;
  worker.leaderSession = dead;
  worker.leader = newActor(charts.leader);
  worker.link = newActor(charts.link);
}

/** The worker hears that the store is another one: nothing that was known holds any more (R8). */
export function reset(at: At): void {
  const { worker } = at;
  worker.isCurrent = true;
  worker.isListed = false;
  resetSession(at, 'session');
  resetSession(at, 'leaderSession');
  resetPresence(at);
}
