/** What must hold of every landing and of every state. */
import { compareWatermarks } from '../../../src/protocol/tenancy-records.ts';
import { compareDecimals } from '../../../src/base/decimals.ts';
import type { SplitId } from '../../../src/base/ids.ts';
import type {
  AssignmentRecord,
  LeaseRecord,
  PlanRecord,
  SplitRecord,
} from '../../../src/records/records.ts';
import type { Entry } from './etcd.ts';
import { type Fleet, keys, type Packet, type Setting, type Worker } from './model.ts';

type Entries = Readonly<Record<string, Entry>>;

/** What is wrong with what a transaction has just changed, or null. */
export function faultOfLanding(before: Entries, after: Entries, packet: Packet): string | null {
  const { term } = packet.item;
  if (term !== null && before[keys.leader]?.createRevision !== term) {
    return 'a write of a deposed leader landed';
  }
  for (const write of packet.item.txn.writes) {
    if (!('put' in write) || !write.put.startsWith(keys.split(''))) continue;
    const from = before[write.put]?.value as SplitRecord;
    const fault = faultOfRecord(from, after[write.put]!.value as SplitRecord, packet);
    if (fault !== null) return fault;
  }
  return null;
}

function faultOfRecord(from: SplitRecord, to: SplitRecord, packet: Packet): string | null {
  const { kind } = packet.item;
  if (compareDecimals(to.epoch, from.epoch) < 0) return 'an epoch fell';
  if (compareWatermarks(to.watermark, from.watermark) < 0) return 'a watermark fell';
  if (from.status === 'completed') return 'a completed split was written';
  if (from.status === 'quarantined' && kind !== 'requeue') return 'a parked split was written';
  const isRisen = to.epoch !== from.epoch;
  if (kind === 'claim' && !isRisen) return 'a claim did not raise the epoch';
  if (kind !== 'commit' && kind !== 'end') return null;
  const isWriters = from.nonce === packet.nonce && from.owner === packet.from;
  if (!isWriters) return 'a worker wrote in an epoch of another owner';
  if (isRisen && to.status === 'runnable') return 'an owner raised its own epoch';
  return null;
}

/** What is broken in a state, or null. */
export function brokenIn(fleet: Fleet, { splits, isStrict }: Setting): string | null {
  if (fleet.fault !== null) return fleet.fault;
  for (const split of splits) {
    const broken = brokenLease(fleet, split) ?? (isStrict ? renewedInVain(fleet, split) : null);
    if (broken !== null) return broken;
  }
  return brokenVerdict(fleet, splits);
}

function brokenLease({ etcd }: Fleet, split: string): string | null {
  const entry = etcd.entries[keys.lease(split)];
  if (entry === undefined) return null;
  if (entry.session === null) return 'a lease hangs on no session, and never expires';
  const lease = entry.value as LeaseRecord;
  const record = etcd.entries[keys.split(split)]!.value as SplitRecord;
  const isOfRecord = lease.epoch === record.epoch && lease.nonce === record.nonce;
  if (!isOfRecord) return 'a lease shows another tenancy than the record';
  if (!entry.session.startsWith(lease.owner)) return 'a lease hangs on the session of another';
  return null;
}

/** A lease hangs on a session that its worker keeps alive, and holds nothing. */
export function renewedInVain({ etcd, workers }: Fleet, split: string): string | null {
  const entry = etcd.entries[keys.lease(split)];
  const renewer = workers.find(({ isUp, session }) => isUp && session === entry?.session);
  if (entry === undefined || renewer === undefined || isHeldBy(renewer, split)) return null;
  return 'a lease is renewed by a worker that does not hold it';
}

/** Held: there is a tenancy, or a claim that is not settled (R12). */
function isHeldBy({ tenancies, items }: Worker, split: string): boolean {
  const isClaiming = items.some(({ kind, about }) => kind === 'claim' && about === split);
  return isClaiming || tenancies[split]?.chart.has('held') === true;
}

function brokenVerdict({ etcd }: Fleet, splits: readonly string[]): string | null {
  const { verdict } = etcd.entries[keys.plan]!.value as PlanRecord;
  if (verdict === null) return null;
  const statuses = splits.map(
    (split) => (etcd.entries[keys.split(split)]!.value as SplitRecord).status,
  );
  if (statuses.includes('runnable')) return `a split can run, and the verdict is ${verdict.kind}`;
  const isStalled = statuses.includes('quarantined');
  return isStalled === (verdict.kind === 'stalled') ? null : `the verdict ${verdict.kind} is wrong`;
}

/** Every split has ended, is named for nobody, or is owned by a live worker under a live session. */
export function isServed(fleet: Fleet, { splits, instances, hasLeaders }: Setting): boolean {
  const { entries } = fleet.etcd;
  return splits.every((split) => {
    const record = entries[keys.split(split)]!.value as SplitRecord;
    if (record.status !== 'runnable') return true;
    const isNamed = instances.some((id) => {
      const assignment = entries[keys.assignment(id)]?.value as AssignmentRecord | undefined;
      return assignment?.splits.includes(split as SplitId) === true;
    });
    // A leader must name it; a hand need not.
    if (!isNamed) return !hasLeaders;
    const lease = entries[keys.lease(split)];
    return fleet.workers.some(
      ({ isUp, session, tenancies }) =>
        isUp &&
        lease?.session === session &&
        tenancies[split]?.epoch === record.epoch &&
        tenancies[split].chart.has('held'),
    );
  });
}

/** The verdict is there, or some split can still run. */
export function isJudged({ etcd }: Fleet, { splits }: Setting): boolean {
  const { verdict } = etcd.entries[keys.plan]!.value as PlanRecord;
  const isRunnable = (split: string): boolean =>
    (etcd.entries[keys.split(split)]!.value as SplitRecord).status === 'runnable';
  return verdict !== null || splits.some(isRunnable);
}
