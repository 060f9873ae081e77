/** Follows src/coordinator/holding: tenancies.ts, claims.ts, tenancy.ts. Claims and endings are answered at once, or not yet. */
import { nextEpoch } from '../../../../src/base/decimals.ts';
import type { InstanceId, Nonce, SessionId } from '../../../../src/base/ids.ts';
import type { Ending } from '../../../../machines/tenancy/tenancy.events.ts';
import { type ClaimDecision, decideClaim } from '../../../../src/protocol/claim.ts';
import {
  claimedRecord,
  completedRecord,
  releasedRecord,
} from '../../../../src/protocol/tenancy-records.ts';
import type { LeaseRecord } from '../../../../src/records/records.ts';
import { put } from '../etcd.ts';
import { keys } from '../model.ts';
import { isIn, provide, tell } from './actors.ts';
import { call, drop, isLeaving, mayTakePart, sees } from './calls.ts';
import { type At, type Call, charts, newActor, nonceOf, SPLIT } from './model.ts';
import { splitIn, splitsNamedFor } from './records.ts';
import { gone, sessionOf } from './sessions.ts';

provide('tenancy', {
  requestClaim: (at) => {
    const session = sessionOf(at, 'session');
    if (session === '') tell(at, 'tenancy', { type: 'claim.lost' });
    else call(at, 'claim', session);
  },
  requestEnding: (at) => {
    call(at, 'ending');
    tell(at, 'tenancy', { type: 'ending.sent' });
  },
});

/** Brings the tenancy in line with the assignment, and claims what is free. */
export function reconcile(at: At): void {
  clearUp(at);
  const { lives, worker } = at;
  if (isLeaving(worker) || !sees(at)) return;
  hearLease(at);
  const named = splitsNamedFor(lives.etcd, worker.id);
  const isHeld = worker.tenancy?.actor.chart.has('held') === true;
  const isNamed = named === undefined ? isHeld : named.includes(SPLIT);
  if (worker.tenancy !== null && !isIn(worker, 'tenancy', 'held.closing')) {
    const isWanted = worker.tenancy.actor.chart.has('wanted');
    if (isWanted && (!isNamed || lives.isPaused)) {
      tell(at, 'tenancy', { type: 'assignment.withdrawn', reason: 'unassigned', atMs: 1 });
    } else if (!isWanted && isNamed && !lives.isPaused) {
      tell(at, 'tenancy', { type: 'assignment.regained', atMs: 1 });
    }
    clearUp(at);
  }
  if (lives.isPaused || !mayTakePart(at)) return;
  const isOpen = splitIn(lives.etcd)?.status === 'runnable';
  if (named?.includes(SPLIT) === true && isOpen && worker.tenancy === null) {
    worker.tenancy = { actor: newActor(charts.tenancy), epoch: null };
  }
  if (isIn(worker, 'tenancy', 'awaiting')) claimDue(at);
}

function claimDue(at: At): void {
  const decision = decide(at);
  if (decision?.kind === 'claim') tell(at, 'tenancy', { type: 'claim.due' });
  else if (decision?.kind === 'ended') tell(at, 'tenancy', { type: 'split.ended' });
  clearUp(at);
}

/** A tenancy that has ended is over, and what it waited for. */
export function clearUp(at: At): void {
  if (at.worker.tenancy?.actor.chart.hasEnded !== true) return;
  at.worker.tenancy = null;
  drop(at, 'claim', 'ending');
}

/** What others did to the lease and the record of what is held. */
function hearLease(at: At): void {
  const { lives, worker } = at;
  const session = sessionOf(at, 'session');
  if (worker.tenancy?.actor.chart.has('held') !== true || session === '') return;
  const lease = lives.etcd.entries[keys.lease(SPLIT)];
  if (lease === undefined) tell(at, 'tenancy', { type: 'lease.deleted' });
  else if (lease.session !== session) tell(at, 'tenancy', { type: 'tenancy.fenced' });
  // The record is looked at too, from time to time (R39).
  else if (splitIn(lives.etcd)?.epoch !== worker.tenancy.epoch) {
    tell(at, 'tenancy', { type: 'tenancy.fenced' });
  }
  clearUp(at);
}

function decide(at: At): ClaimDecision | null {
  const { lives, worker, setting } = at;
  const record = splitIn(lives.etcd);
  const session = sessionOf(at, 'session') as SessionId;
  if (record === undefined || (session as string) === '') return null;
  const entry = lives.etcd.entries[keys.lease(SPLIT)];
  const lease =
    entry === undefined
      ? null
      : { owner: (entry.value as LeaseRecord).owner, session: entry.session as SessionId | null };
  return decideClaim(
    { record, lease },
    { instance: worker.id as InstanceId, session },
    // A claim of the process that holds the record follows the loss of its session (R31).
    { maxAttempts: setting.maxAttempts, waivesAttempt: record.nonce === nonceOf(worker.id) },
  );
}

/** A claim reaches the store and is answered. */
export function claimed(at: At, { session }: Call): void {
  const { lives, worker } = at;
  drop(at, 'claim');
  if (!lives.etcd.sessions.includes(session)) {
    gone(at, 'session', session);
    return;
  }
  const decision = decide(at);
  if (decision?.kind !== 'claim') {
    tell(at, 'tenancy', { type: 'claim.lost' });
    return;
  }
  const nonce = nonceOf(worker.id) as Nonce;
  const owner = worker.id as InstanceId;
  const before = splitIn(lives.etcd)!;
  const record = claimedRecord(before, { owner, nonce, attempts: decision.attempts });
  if (record.epoch !== nextEpoch(before.epoch)) lives.fault ??= 'a claim did not raise the epoch';
  put(lives.etcd, keys.split(SPLIT), record);
  const lease: LeaseRecord = { owner, nonce, epoch: record.epoch, state: 'owned' };
  put(lives.etcd, keys.lease(SPLIT), lease, session);
  worker.tenancy = { ...worker.tenancy!, epoch: record.epoch };
  tell(at, 'tenancy', { type: 'claim.won' });
}

/** The last write of a tenancy reaches the store and is answered. */
export function ended(at: At): void {
  const { lives, worker } = at;
  drop(at, 'ending');
  const record = splitIn(lives.etcd);
  if (
    record === undefined ||
    record.epoch !== worker.tenancy!.epoch ||
    record.owner !== worker.id
  ) {
    tell(at, 'tenancy', { type: 'ending.refused' });
    return;
  }
  const ending = worker.tenancy!.actor.chart.context.ending as Ending;
  const isDone = ending === 'complete';
  const next = isDone ? completedRecord(record, record, record.watermark) : releasedRecord(record);
  put(lives.etcd, keys.split(SPLIT), next);
  delete lives.etcd.entries[keys.lease(SPLIT)];
  tell(at, 'tenancy', { type: 'ending.landed', quarantined: false });
}
