/** Claims of one worker (T7): when, as what, and what their answers mean. Follows src/coordinator/claims.ts. */
import { type ClaimDecision, decideClaim } from '../../../src/protocol/claim.ts';
import { claimedRecord } from '../../../src/protocol/tenancy-records.ts';
import type { SessionId } from '../../../src/base/ids.ts';
import type { LeaseRecord } from '../../../src/records/records.ts';
import type { Entry, Outcome, Put } from './etcd.ts';
import { abandon, enqueue } from './items.ts';
import { instanceOf, type Item, keys, nonceOf, type Place, recordOf } from './model.ts';
import { foldLease, isOver, tell } from './tenancies.ts';
import { expire } from './sessions.ts';

/** What claiming a split would be now; null when the worker cannot even ask. A stale record is read first. */
export function decide({ fleet, worker, setting }: Place, split: string): ClaimDecision | null {
  const tenancy = worker.tenancies[split];
  if (worker.session === null || tenancy?.chart.name !== 'awaiting') return null;
  const record = tenancy.isStale ? recordOf(fleet.etcd.entries[keys.split(split)]) : tenancy.record;
  return record === null ? null : decisionOn({ fleet, worker, setting }, split, record);
}

function decisionOn(
  { worker, setting }: Place,
  split: string,
  record: NonNullable<ReturnType<typeof recordOf>>,
): ClaimDecision {
  const seen = worker.leases[split]!.entry;
  const session = seen?.session as SessionId | null | undefined;
  const lease =
    seen === null ? null : { owner: (seen.value as LeaseRecord).owner, session: session ?? null };
  return decideClaim(
    { record, lease },
    { instance: instanceOf(worker), session: worker.session as SessionId },
    // A claim of the process that holds the record follows the loss of its session, or a claim it gave up (R31).
    { maxAttempts: setting.maxAttempts, waivesAttempt: record.nonce === nonceOf(worker) },
  );
}

/** Reads the record if it must, and claims the split, or learns that it has ended. */
export function advanceClaim(place: Place, split: string): void {
  const { fleet, worker } = place;
  const tenancy = worker.tenancies[split]!;
  if (tenancy.isStale) {
    const entry = fleet.etcd.entries[keys.split(split)]!;
    tenancy.isStale = false;
    tenancy.record = recordOf(entry);
    tenancy.revision = entry.modRevision;
  }
  const decision = decide(place, split);
  if (decision?.kind === 'claim') tell(place, split, { type: 'claim.due' });
  else if (decision?.kind === 'ended') {
    isOver(worker, split);
    tell(place, split, { type: 'split.ended' });
  }
}

/** Sends the claim that the chart asked for. */
export function claim(place: Place, split: string): void {
  const { worker } = place;
  const tenancy = worker.tenancies[split]!;
  const { session } = worker;
  const decision = session === null ? null : decisionOn(place, split, tenancy.record!);
  if (decision?.kind !== 'claim') {
    tell(place, split, { type: 'claim.lost' });
    return;
  }
  const owner = instanceOf(worker);
  const nonce = nonceOf(worker);
  const { attempts } = decision;
  const record = claimedRecord(tenancy.record!, { owner, nonce, attempts });
  const lease: LeaseRecord = { owner, nonce, epoch: record.epoch, state: 'owned' };
  const splitKey = keys.split(split);
  const leaseKey = keys.lease(split);
  const leaseRevision = worker.leases[split]!.entry?.modRevision ?? 0;
  enqueue(place, {
    kind: 'claim',
    about: split,
    session,
    record,
    txn: {
      compares: [
        { key: splitKey, target: 'modRevision', equals: tenancy.revision },
        { key: leaseKey, target: 'modRevision', equals: leaseRevision },
      ],
      writes: [
        { put: splitKey, value: record, session: null },
        { put: leaseKey, value: lease, session },
      ],
      onConflict: [splitKey, leaseKey],
    },
  });
}

export function claimed(place: Place, split: string, item: Item, answer: Outcome): void {
  const { fleet, worker } = place;
  abandon(fleet, worker, item);
  if (answer.kind === 'committed') landed(place, split, item, { revision: answer.revision });
  else if (answer.kind === 'conflict') onConflict(place, split, item, answer);
  else if (worker.session === item.session) expire(place);
}

function onConflict(
  place: Place,
  split: string,
  item: Item,
  answer: Outcome & { kind: 'conflict' },
): void {
  const { worker } = place;
  const [found = null, lease = null] = answer.found;
  if (found?.stamp === item.txn.stamp) {
    const { revision } = answer;
    landed(place, split, item, { revision: found.modRevision, lease: { entry: lease, revision } });
    return;
  }
  foldLease(worker, split, lease, lease?.modRevision ?? answer.revision);
  const tenancy = worker.tenancies[split]!;
  const epochBefore = tenancy.record!.epoch;
  tenancy.record = recordOf(found);
  tenancy.revision = found!.modRevision;
  const { epoch, status } = tenancy.record!;
  const isUnchanged = epoch === epochBefore && status === 'runnable';
  // A legal late commit of the last owner is adopted, and the claim goes out again at once (R30).
  if (isUnchanged && worker.session === item.session) claim(place, split);
  else tell(place, split, { type: 'claim.lost' });
}

function landed(
  place: Place,
  split: string,
  item: Item,
  at: { revision: number; lease?: { entry: Entry | null; revision: number } },
): void {
  const { worker } = place;
  const write = item.txn.writes[1] as Put;
  const entry: Entry = {
    value: write.value,
    stamp: item.txn.stamp,
    createRevision: worker.leases[split]!.entry?.createRevision ?? at.revision,
    modRevision: at.revision,
    session: write.session,
  };
  foldLease(worker, split, entry, at.revision);
  if (at.lease !== undefined) {
    const { entry: now, revision } = at.lease;
    foldLease(worker, split, now, now?.modRevision ?? revision);
  }
  const tenancy = worker.tenancies[split]!;
  tenancy.record = item.record;
  tenancy.revision = at.revision;
  tenancy.isStale = true;
  const shown = worker.leases[split]!.entry;
  // Landed is not held: the lease must show under the session this worker has now (R3).
  const isHeld =
    worker.session !== null &&
    shown?.session === worker.session &&
    (shown.value as LeaseRecord).epoch === item.record!.epoch;
  if (!isHeld) {
    tell(place, split, { type: 'claim.lost' });
    return;
  }
  tenancy.epoch = item.record!.epoch;
  tenancy.startWatermark = item.record!.watermark;
  tell(place, split, { type: 'claim.won' });
}

/** Where R1 is left out: the record is read, and what it shows is believed. */
export function settleByReading(place: Place, split: string, item: Item): void {
  const { fleet, worker } = place;
  abandon(fleet, worker, item);
  const entry = fleet.etcd.entries[keys.split(split)]!;
  if (entry.stamp === item.txn.stamp) {
    landed(place, split, item, { revision: entry.modRevision });
    return;
  }
  worker.tenancies[split]!.isStale = true;
  tell(place, split, { type: 'claim.lost' });
}
