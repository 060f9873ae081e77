/** Follows src/coordinator/leading: balancing.ts, split-reader.ts, and membership/peers.ts. */
import type { InstanceId, SplitId } from '../../../../src/base/ids.ts';
import { assign, currentOwner } from '../../../../src/protocol/assign.ts';
import { isLost } from '../../../../src/protocol/attempts.ts';
import { expiredToQuarantine, parkedRecordFor } from '../../../../src/protocol/tenancy-records.ts';
import type { LeaseRecord, PresenceRecord, SplitRecord } from '../../../../src/records/records.ts';
import { isInState } from '../charts.ts';
import { put } from '../etcd.ts';
import { keys } from '../model.ts';
import { isIn } from './actors.ts';
import { isLeaderDenied, sees } from './calls.ts';
import { type At, SPLIT } from './model.ts';
import { splitIn, splitsNamedFor } from './records.ts';

function presenceOf({ lives }: At, id: string): PresenceRecord | undefined {
  return lives.etcd.entries[keys.presence(id)]?.value as PresenceRecord | undefined;
}

/** The splits of a vanished worker wait for it. */
function isAway({ lives, setting, worker }: At, id: string): boolean {
  if (setting.without === 'L7: the leader does not see itself as a worker' && id === worker.id) {
    return false;
  }
  return isInState(lives.peers[id]!.chart, 'withheld');
}

function isGone({ lives }: At, id: string): boolean {
  return isInState(lives.peers[id]!.chart, 'gone');
}

/** Who should hold the split by now, where it differs from what is published; null means that the assignment goes. */
export function divide(at: At): Map<string, readonly SplitId[] | null> {
  const { lives, worker, setting } = at;
  const wanted = new Map<string, readonly SplitId[] | null>();
  const isThere = presenceOf(at, worker.id) !== undefined || isGone(at, worker.id);
  if (lives.isPaused || !isThere) return wanted;
  const members = setting.instances.filter((id) => presenceOf(at, id)?.parting === false);
  const record = splitIn(lives.etcd);
  const isOpen = record?.status === 'runnable' && !isLostHere(at, record, 0);
  const owner = isOpen ? ownerOf(at, record, members) : null;
  const holder = leaseOwner(at) ?? record?.owner ?? null;
  const withheld = isOpen && holder !== null && isAway(at, holder) ? [SPLIT as SplitId] : [];
  const { byInstance } = assign({
    instances: members.map((id) => ({
      id: id as InstanceId,
      maxInFlight: lives.drained.includes(id) ? 0 : 1,
      cordoned: false,
    })),
    splits: isOpen ? [{ id: SPLIT as SplitId, weight: 1, owner }] : [],
    withheld: new Set(withheld),
    seed: 0,
  });
  for (const id of setting.instances) {
    const before = splitsNamedFor(lives.etcd, id);
    const now = byInstance.get(id as InstanceId);
    if (now === undefined && before !== undefined && isGone(at, id)) wanted.set(id, null);
    if (now !== undefined && before?.join() !== now.join()) wanted.set(id, now);
  }
  return wanted;
}

function leaseOwner({ lives }: At): InstanceId | null {
  const lease = lives.etcd.entries[keys.lease(SPLIT)]?.value as LeaseRecord | undefined;
  return lease?.owner ?? null;
}

function ownerOf(at: At, record: SplitRecord, members: readonly string[]): InstanceId | null {
  const named = members.find((id) => splitsNamedFor(at.lives.etcd, id)?.includes(SPLIT));
  return currentOwner(
    {
      published: (named ?? null) as InstanceId | null,
      leaseOwner: leaseOwner(at),
      recordOwner: record.owner,
    },
    (id) => members.includes(id),
  );
}

/**
 * One more claim would be one too many, and nobody may take it back for free (R28): the process of the last claim may, for a
 * lease from its announcement on.
 */
function isLostHere(at: At, record: SplitRecord, waitedForMs: number): boolean {
  if (leaseOwner(at) !== null) return false;
  const { owner } = record;
  const announcedNonce = owner === null ? null : (presenceOf(at, owner)?.nonce ?? null);
  const { maxAttempts } = at.setting;
  return isLost(record, { announcedNonce, waitedForMs }, { maxAttempts, leaseDurationMs: 1 });
}

/** The owner of the split is lost: a leader that reads it sets it aside (T12). */
export function isToBeSetAside(at: At): boolean {
  const { worker, lives } = at;
  const record = splitIn(lives.etcd);
  if (!sees(at) || isLeaderDenied(at) || record === undefined) return false;
  if (!isIn(worker, 'leader', 'leading.governing') || record.owner === null) return false;
  // That lease may be over at any time.
  return isLostHere(at, record, 1) && !isAway(at, record.owner);
}

export function setAside(at: At): void {
  const { lives } = at;
  const record = splitIn(lives.etcd)!;
  if (lives.etcd.entries[keys.leader]?.createRevision !== at.worker.term) return;
  const isAlive = lives.workers.some(({ id, isUp }) => id === record.owner && isUp);
  if (isAlive && isInState(lives.peers[record.owner!]!.chart, 'withheld')) {
    lives.fault ??= 'a split is set aside while the worker that has it is away for a moment';
  }
  const next = expiredToQuarantine(record);
  put(lives.etcd, keys.split(SPLIT), next);
  put(lives.etcd, keys.parked(SPLIT), parkedRecordFor(next));
}
