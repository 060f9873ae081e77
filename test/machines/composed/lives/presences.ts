/** Follows src/coordinator/membership: presence.ts, announcement.ts, join.ts. */
import type { Revision } from '../../../../src/base/decimals.ts';
import type { Nonce, SessionId } from '../../../../src/base/ids.ts';
import {
  type Announcer,
  isTwin,
  type PresenceView,
  settleAnnouncement,
} from '../../../../src/protocol/announcing.ts';
import { decideJoining, type Joining } from '../../../../src/protocol/joining.ts';
import type { PresenceRecord } from '../../../../src/records/records.ts';
import { type Entry, put } from '../etcd.ts';
import { keys } from '../model.ts';
import { isIn, provide, tell } from './actors.ts';
import { call, callNamed, drop, fatal, isDenied, isLeaving, refused } from './calls.ts';
import { type At, type Call, nonceOf, SPLIT } from './model.ts';
import { newPlan } from './records.ts';
import { gone, sessionOf } from './sessions.ts';

provide('presence', {
  probeStore: (at) => {
    call(at, 'probe');
  },
  joinJob: (at) => {
    call(at, 'join');
  },
  openSession: (at) => {
    tell(at, 'session', { type: 'session.wanted' });
  },
  announce,
  announceParting: (at) => {
    if (at.worker.announcedAt !== null) announce(at);
  },
  reportExhaustion: (at) => {
    fatal(at, 'a step of its start failed too often');
  },
  reportDenial: (at) => {
    fatal(at, 'refused at its start');
  },
});

function tellPresence(at: At, event: Parameters<typeof tell>[2]): void {
  const { worker } = at;
  const wasPresent = isIn(worker, 'presence', 'present');
  tell(at, 'presence', event);
  if (wasPresent || !isIn(worker, 'presence', 'present')) return;
  // Being in the fleet is what ends a time of refusals.
  worker.isStarting = false;
  tell(at, 'link', { type: 'worker.returned' });
}

export function stepFailed(at: At, type: 'step.failed' | 'step.denied'): void {
  tell(at, 'presence', { type });
}

/** The probe or the joining is answered. */
export function stepAnswered(at: At, { name }: Call): void {
  drop(at, name);
  if (isDenied(at)) {
    refused(at);
    stepFailed(at, 'step.denied');
  } else if (name === 'probe') tell(at, 'presence', { type: 'probe.passed' });
  else {
    const outcome = join(at);
    if (outcome === 'lost') fatal(at, PLAN_LOST);
    else if (outcome === 'wait') tell(at, 'presence', { type: 'job.planless' });
    else {
      at.worker.hasWatches = true;
      tell(at, 'presence', { type: 'job.joined' });
    }
  }
}

/** Reads the plan, or makes it (T1). */
export function join({ lives: { etcd } }: At): Joining {
  const sight = {
    hasPlan: etcd.entries[keys.plan] !== undefined,
    isLed: etcd.entries[keys.leader] !== undefined,
    hasRecords: etcd.entries[keys.split(SPLIT)] !== undefined,
  };
  const joining = decideJoining(sight);
  if (joining === 'create') put(etcd, keys.plan, newPlan());
  return joining;
}

/** Puts the presence; while one is on its way, its answer brings the next one. */
function announce(at: At): void {
  const session = sessionOf(at, 'session');
  if (session === '' || callNamed(at.worker, 'announcement') !== undefined) return;
  call(at, 'announcement', session, isLeaving(at.worker));
}

function viewOf(entry: Entry | undefined): PresenceView | undefined {
  if (entry === undefined) return undefined;
  return {
    record: entry.value as PresenceRecord,
    modRevision: String(entry.modRevision) as Revision,
    session: entry.session as SessionId | null,
  };
}

function announcerOf({ worker }: At): Announcer {
  const { id, hasLanded } = worker;
  return { nonce: nonceOf(id) as Nonce, session: worker.session.id as SessionId, hasLanded };
}

/** An announcement reaches the store and is answered. */
export function announced(at: At, { session, isParting }: Call): void {
  const { lives, worker } = at;
  const key = keys.presence(worker.id);
  drop(at, 'announcement');
  if (!lives.etcd.sessions.includes(session)) {
    gone(at, 'session', session);
    tell(at, 'presence', { type: 'announcement.missed' });
    return;
  }
  const shown = viewOf(lives.etcd.entries[key]);
  if (shown !== undefined) {
    const stamp = { instance: '', nonce: '', write: 1 };
    const decoded = { kind: 'record', record: shown.record, stamp } as const;
    const found = { decoded, session: shown.session };
    const sent = { ...stamp, write: 0 };
    // Older than this process's own: a ghost in a store that went back.
    const isGhost = worker.announcedAt !== null && Number(shown.modRevision) < worker.announcedAt;
    const me = { ...announcerOf(at), hasLanded: worker.hasLanded && !isGhost };
    if (settleAnnouncement(me, sent, found).kind === 'twin') {
      fatal(at, TWIN);
      return;
    }
  }
  put(lives.etcd, key, { nonce: nonceOf(worker.id), session, parting: isParting }, session);
  worker.announcedAt = lives.etcd.revision;
  // Landed is not held: it counts while the key shows under the current session (R3).
  if (sessionOf(at, 'session') !== session) {
    tell(at, 'presence', { type: 'announcement.missed' });
    return;
  }
  worker.hasLanded = true;
  tellPresence(at, { type: 'announcement.landed', isCurrent: isParting === isLeaving(worker) });
}

/** Nobody leads who could put it back (R42). */
export const PLAN_LOST = 'the plan is gone while splits are there';
export const TWIN = 'another process runs under its name';

/** Nobody hears of it: its session is over, and it can no longer land. */
export function unannounced(at: At): void {
  drop(at, 'announcement');
  tell(at, 'presence', { type: 'announcement.missed' });
}

/** What a worker that is there makes of its own presence. */
export function ownPresence(at: At): void {
  const { lives, worker } = at;
  if (!isIn(worker, 'presence', 'present')) return;
  const shown = viewOf(lives.etcd.entries[keys.presence(worker.id)]);
  if (shown === undefined) {
    const isSaid = isIn(worker, 'presence', 'present.announced');
    if (isSaid && sessionOf(at, 'session') !== '')
      tell(at, 'presence', { type: 'presence.deleted' });
    return;
  }
  if (callNamed(worker, 'announcement') !== undefined) return;
  const since = worker.announcedAt === null ? null : (String(worker.announcedAt) as Revision);
  if (isTwin(announcerOf(at), shown, since)) fatal(at, TWIN);
}

/** The store is another one: what was announced is gone, and what stands there under this name is a ghost (R14). */
export function resetPresence(at: At): void {
  const { worker, setting } = at;
  if (setting.without !== 'R14: what was announced in the store before still counts') {
    worker.announcedAt = null;
    worker.hasLanded = false;
  }
  const isDeaf =
    setting.without === 'L1: a reset drops a session that is being opened, and nobody joins anew';
  if (!isDeaf) tell(at, 'presence', { type: 'store.reset' });
}
