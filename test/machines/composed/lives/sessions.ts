/** Follows src/coordinator/link/session-keeper.ts, and what engine.ts and leadership.ts do when a session opens or ends. */
import type { ExpiryReason, SessionEvent } from '../../../../machines/session/session.events.ts';
import { endSession } from '../etcd.ts';
import { isIn, keep, provide, tell } from './actors.ts';
import type { At } from './model.ts';

export type SessionName = 'session' | 'leaderSession';

function effects(name: SessionName): Parameters<typeof provide>[1] {
  return {
    openSession: ({ lives, worker }) => {
      lives.sessionCount += 1;
      const id = `${worker.id}-${lives.sessionCount}`;
      keep(worker, name, { held: 'asked', id, isCalling: true });
    },
    openAgain: ({ worker }) => {
      keep(worker, name, { isCalling: true });
    },
    discardOpening: ({ worker }) => {
      forget(worker, name);
    },
    tellOpened: (at) => {
      if (at.worker[name].held !== 'open') return;
      tell(at, name === 'session' ? 'presence' : 'leader', { type: 'session.opened' });
    },
    tellUnopened: (at) => {
      if (name === 'session') tell(at, 'presence', { type: 'step.failed' });
    },
    renew: ({ worker }) => {
      keep(worker, name, { isCalling: true });
    },
    tellExpired: (at, event) => {
      if (at.worker[name].held !== 'open') return;
      keep(at.worker, name, { held: 'over', isCalling: false });
      expired(at, name, reasonOf(event as SessionEvent));
    },
    closeSession: ({ worker }) => {
      const { held, id } = worker[name];
      forget(worker, name);
      if (held === 'asked' || held === 'open') keep(worker, name, { closing: id });
    },
  };
}

provide('session', effects('session'));
provide('leaderSession', effects('leaderSession'));

function forget(worker: At['worker'], name: SessionName): void {
  keep(worker, name, { held: 'none', isCalling: false });
}

function reasonOf(event: SessionEvent): ExpiryReason {
  if (event.type === 'session.gone') return 'gone';
  if (event.type === 'store.reset') return 'reset';
  return event.type === 'session.abandoned' ? event.reason : 'deadline';
}

function expired(at: At, name: SessionName, reason: ExpiryReason): void {
  if (name === 'session') {
    // Every tenancy ends before a new session is used (R41).
    tell(at, 'tenancy', { type: 'session.expired' });
    tell(at, 'presence', { type: 'session.expired', isDenied: reason === 'denied' });
    return;
  }
  const isOver = isIn(at.worker, 'leader', 'resigning') || isIn(at.worker, 'leader', 'deposed');
  if (isOver) tell(at, 'leader', { type: 'term.closed' });
  else tell(at, 'leader', { type: 'session.expired', reason });
}

/** The open session; empty while there is none. */
export function sessionOf({ worker }: Pick<At, 'worker'>, name: SessionName): string {
  return worker[name].held === 'open' ? worker[name].id : '';
}

/** The store grants what was asked for. */
export function granted(at: At, name: SessionName): void {
  const { lives, worker } = at;
  lives.etcd.sessions = [...lives.etcd.sessions, worker[name].id].sort();
  keep(worker, name, { held: 'open', isCalling: false });
  tell(at, name, { type: 'opening.granted', renewMs: 1 });
}

export function notGranted(at: At, name: SessionName): void {
  keep(at.worker, name, { isCalling: false });
  tell(at, name, { type: 'opening.failed', pauseMs: 1 });
}

export function renewed(at: At, name: SessionName): void {
  keep(at.worker, name, { isCalling: false });
  if (at.lives.etcd.sessions.includes(at.worker[name].id)) {
    tell(at, name, { type: 'renewal.answered', renewMs: 1 });
  } else tell(at, name, { type: 'session.gone' });
}

export function notRenewed(at: At, name: SessionName): void {
  keep(at.worker, name, { isCalling: false });
  tell(at, name, { type: 'renewal.failed', pauseMs: 1 });
}

/** The store said that a session is gone. */
export function gone(at: At, name: SessionName, id: string): void {
  if (sessionOf(at, name) === id) tell(at, name, { type: 'session.gone' });
}

/** What was given back is answered; whoever waits for it goes on. */
export function closed(at: At, name: SessionName): void {
  const { lives, worker } = at;
  endSession(lives.etcd, worker[name].closing);
  keep(worker, name, { closing: '' });
  tell(at, name, { type: 'closing.answered' });
  if (name === 'leaderSession') termClosed(at);
}

export function termClosed(at: At): void {
  if (isIn(at.worker, 'leader', 'deposed')) tell(at, 'leader', { type: 'term.closed' });
}

/** The store is another one (R8). */
export function resetSession(at: At, name: SessionName): void {
  const isDropped =
    isIn(at.worker, name, 'opening') &&
    at.setting.without ===
      'L1: a reset drops a session that is being opened, and nobody joins anew';
  // What was asked for is forgotten, and nobody is told.
  if (isDropped) tell(at, name, { type: 'session.released' });
  else tell(at, name, { type: 'store.reset' });
}
