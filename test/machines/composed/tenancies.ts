/**
 * The tenancies of one worker: what the coordinator does when its tenancy chart asks for it, and which events it makes of
 * answers, leases and assignments. Follows src/coordinator: claims.ts, tenancies.ts, tenancy.ts, tenancy-writes.ts, lease-keeper.ts.
 */
import type { Ending, TenancyEvent } from '../../../machines/tenancy/tenancy.events.ts';
import type { SessionId } from '../../../src/base/ids.ts';
import { type ClaimDecision, decideClaim } from '../../../src/protocol/claim.ts';
import { isHandedBack, settleConflict } from '../../../src/protocol/settle.ts';
import {
  claimedRecord,
  committedRecord,
  completedRecord,
  failedRecord,
  parkedRecordFor,
  releasedRecord,
} from '../../../src/protocol/tenancy-records.ts';
import type { Decoded } from '../../../src/records/codec.ts';
import type { AssignmentRecord, LeaseRecord, SplitRecord } from '../../../src/records/records.ts';
import type { Compare, Entry, Outcome, Put, Write } from './etcd.ts';
import { abandon, enqueue, itemFor } from './items.ts';
import {
  instanceOf,
  type Item,
  keys,
  newTenancy,
  nonceOf,
  type Place,
  recordOf,
  type Tenancy,
  tenancyChart,
  type Worker,
} from './model.ts';

/** Hands the chart an event and does what it asks for; an ended tenancy is cleared up. */
export function tell(place: Place, split: string, event: TenancyEvent): void {
  const tenancy = place.worker.tenancies[split];
  if (tenancy === undefined) return;
  const { next, asked } = tenancyChart.step(tenancy.chart, event);
  tenancy.chart = next;
  for (const action of asked) act(place, split, action);
  if (next.hasEnded) clearUp(place, split, tenancy);
}

function act(place: Place, split: string, action: string): void {
  const tenancy = place.worker.tenancies[split]!;
  switch (action) {
    case 'requestClaim':
      claim(place, split);
      return;
    case 'grantSplit':
      tenancy.hasGrant = true;
      return;
    case 'loseGrant':
      tenancy.hasGrant = false;
      tenancy.hasPendingCommit = false;
      return;
    case 'markLease':
      mark(place, split);
      return;
    case 'requestEnding': {
      tenancy.ending = tenancy.chart.context.ending as Ending;
      if (tenancy.ending !== 'release' && tenancy.ending !== 'fail') {
        tenancy.hasPendingCommit = false;
      }
      pump(place, split);
      return;
    }
    default:
      // What only the service hears.
      return;
  }
}

function clearUp({ fleet, worker }: Place, split: string, { chart }: Tenancy): void {
  delete worker.tenancies[split];
  for (const kind of ['claim', 'commit', 'end', 'mark'] as const) {
    const item = itemFor(worker, kind, split);
    if (item !== undefined) abandon(fleet, worker, item);
  }
  if (chart.name === 'completed' || chart.name === 'quarantined') isOver(worker, split);
}

function isOver(worker: Worker, split: string): void {
  if (!worker.over.includes(split)) worker.over = [...worker.over, split].sort();
}

/** Brings tenancies in line with the assignment as this worker knows it. */
export function reconcile(place: Place): void {
  const { worker, setting } = place;
  if (!worker.isUp) return;
  const { entry } = worker.assignment;
  const named = entry === null ? null : (entry.value as AssignmentRecord).splits;
  for (const split of setting.splits) {
    const tenancy = worker.tenancies[split];
    const isNamed = named?.includes(split as never) ?? tenancy?.chart.has('held') === true;
    // Its last write is decided; whether it is wanted again concerns the next tenancy.
    if (tenancy !== undefined && !tenancy.chart.name.startsWith('held.closing')) {
      const isWanted = tenancy.chart.has('wanted');
      if (isWanted && !isNamed) {
        tell(place, split, { type: 'assignment.withdrawn', reason: 'unassigned', atMs: 0 });
      } else if (!isWanted && isNamed) {
        tell(place, split, { type: 'assignment.regained', atMs: 0 });
      }
    }
    const isOpen = worker.tenancies[split] === undefined && !worker.over.includes(split);
    if (named?.includes(split as never) === true && isOpen && worker.session !== null) {
      worker.tenancies[split] = newTenancy();
    }
  }
}

/** The lease of a split as the store has it now reaches this worker. */
export function hearLease(place: Place, split: string): void {
  const { fleet, worker } = place;
  const entry = fleet.etcd.entries[keys.lease(split)] ?? null;
  worker.leases[split] = { entry, revision: fleet.etcd.revision };
  const tenancy = worker.tenancies[split];
  if (tenancy === undefined) return;
  if (!tenancy.chart.has('held')) {
    tenancy.isStale = true;
    return;
  }
  if (entry === null) tell(place, split, { type: 'lease.deleted' });
  else if (entry.session !== worker.session) tell(place, split, { type: 'tenancy.fenced' });
}

/** What a write of this worker, or a conflict, tells of a key; older than what is known, nothing. */
function foldLease(worker: Worker, split: string, entry: Entry | null, at: number): void {
  if (at <= worker.leases[split]!.revision) return;
  worker.leases[split] = { entry, revision: at };
}

/** Shows the tenancy's state on its lease, if it shows another (R32). */
export function mark(place: Place, split: string): void {
  const { worker, setting } = place;
  const { chart } = worker.tenancies[split]!;
  const seen = worker.leases[split]!.entry;
  const { session } = worker;
  if (!SHOWN.has(chart.name) || seen === null || session === null) return;
  const state = chart.name.slice('held.'.length) as LeaseRecord['state'];
  const value: LeaseRecord = { ...(seen.value as LeaseRecord), state };
  if (seen.session !== session || (seen.value as LeaseRecord).state === state) return;
  if (itemFor(worker, 'mark', split) !== undefined) return;
  const key = keys.lease(split);
  const isLoose = setting.without === 'R32: a mark is put without a session';
  enqueue(place, {
    kind: 'mark',
    about: split,
    session,
    txn: {
      compares: [markCompare(place, key, seen)],
      writes: [{ put: key, value, session: isLoose ? null : session }],
      onConflict: [],
    },
  });
}

const SHOWN = new Set(['held.owned', 'held.draining', 'held.cancelledDrain']);

function markCompare({ setting }: Place, key: string, seen: Entry): Compare {
  switch (setting.without) {
    case 'R32: a mark compares the session only':
      return { key, target: 'session', equals: seen.session! };
    case 'R32: a mark compares the create revision only':
      return { key, target: 'createRevision', equals: seen.createRevision };
    default:
      return { key, target: 'modRevision', equals: seen.modRevision };
  }
}

/** True when the lease shows another state than the tenancy is in. */
export function needsMark({ worker }: Place, split: string): boolean {
  const { chart } = worker.tenancies[split]!;
  const seen = worker.leases[split]!.entry;
  if (!SHOWN.has(chart.name) || seen === null || seen.session !== worker.session) return false;
  return (seen.value as LeaseRecord).state !== chart.name.slice('held.'.length);
}

export function marked(place: Place, split: string, item: Item, answer: Outcome): void {
  const { fleet, worker } = place;
  abandon(fleet, worker, item);
  if (answer.kind !== 'committed') return;
  const write = item.txn.writes[0] as Put;
  const known = worker.leases[split]!.entry;
  const entry: Entry = {
    value: write.value,
    stamp: item.txn.stamp,
    createRevision: known?.createRevision ?? answer.revision,
    modRevision: answer.revision,
    session: write.session,
  };
  foldLease(worker, split, entry, answer.revision);
  if (worker.tenancies[split] !== undefined) mark(place, split);
}

/** A lease under this worker's session that no tenancy holds, and no claim of its own could have put (R12). */
export function isOrphan({ worker }: Pick<Place, 'worker'>, split: string): boolean {
  const seen = worker.leases[split]!.entry;
  if (seen === null || worker.session === null || seen.session !== worker.session) return false;
  const isBusy = itemFor(worker, 'claim', split) ?? itemFor(worker, 'orphan', split);
  return isBusy === undefined && worker.tenancies[split]?.chart.has('held') !== true;
}

/** Releases it if the record is this process's, or deletes it alone (T9, T9b). */
export function dropOrphan(place: Place, split: string): void {
  const { fleet, worker } = place;
  const key = keys.split(split);
  const entry = fleet.etcd.entries[key]!;
  const record = entry.value as SplitRecord;
  const seen = worker.leases[split]!.entry!;
  const { epoch } = seen.value as LeaseRecord;
  const isMine = record.nonce === nonceOf(worker) && record.owner === worker.id;
  const isReleased = isMine && record.status === 'runnable' && record.epoch === epoch;
  const lease = keys.lease(split);
  const leaseCompare: Compare = { key: lease, target: 'modRevision', equals: seen.modRevision };
  const recordCompare: Compare = { key, target: 'modRevision', equals: entry.modRevision };
  const released: Write[] = isReleased
    ? [{ put: key, value: releasedRecord(record), session: null }]
    : [];
  enqueue(place, {
    kind: 'orphan',
    about: split,
    session: worker.session,
    txn: {
      compares: isReleased ? [recordCompare, leaseCompare] : [leaseCompare],
      writes: [...released, { delete: lease }],
      onConflict: [],
    },
  });
}

export function orphanDropped(place: Place, split: string, item: Item, answer: Outcome): void {
  const { fleet, worker } = place;
  abandon(fleet, worker, item);
  if (answer.kind !== 'committed') return;
  foldLease(worker, split, null, answer.revision);
  const tenancy = worker.tenancies[split];
  if (tenancy !== undefined && !tenancy.chart.has('held')) tenancy.isStale = true;
}

/** The handler has got further. */
export function commit(place: Place, split: string): void {
  place.worker.tenancies[split]!.hasPendingCommit = true;
  pump(place, split);
}

/** Sends the next write if none is on its way: the commit first, then the ending (R38). */
function pump(place: Place, split: string): void {
  const { worker } = place;
  const tenancy = worker.tenancies[split];
  if (tenancy === undefined || tenancy.chart.hasEnded) return;
  if (itemFor(worker, 'commit', split) ?? itemFor(worker, 'end', split)) return;
  const record = tenancy.record!;
  if (tenancy.hasPendingCommit) {
    tenancy.hasPendingCommit = false;
    const progress = { watermark: nextWatermark(record), state: null };
    const next = committedRecord(record, progress, tenancy.startWatermark);
    put(place, split, { record: next, ending: null });
  } else if (tenancy.ending !== null) {
    const next = endedRecord(place, tenancy, tenancy.ending);
    put(place, split, { record: next, ending: tenancy.ending });
  }
}

function nextWatermark({ watermark }: SplitRecord): string {
  return String(Number(watermark ?? '0') + 1);
}

function endedRecord({ worker, setting }: Place, tenancy: Tenancy, ending: Ending): SplitRecord {
  const record = tenancy.record!;
  switch (ending) {
    case 'complete':
      return completedRecord(record, record, tenancy.startWatermark);
    case 'fail': {
      const { maxAttempts } = setting;
      return failedRecord(record, { reason: 'failed', by: instanceOf(worker), maxAttempts });
    }
    case 'release':
    case 'force':
      return releasedRecord(record);
  }
}

function put(place: Place, split: string, sent: Pick<Item, 'record' | 'ending'>): void {
  const key = keys.split(split);
  const record = sent.record!;
  const writes: Write[] = [{ put: key, value: record, session: null }];
  if (sent.ending !== null) {
    writes.push({ delete: keys.lease(split) });
    if (record.status === 'quarantined') {
      writes.push({ put: keys.parked(split), value: parkedRecordFor(record), session: null });
    }
  }
  const { revision } = place.worker.tenancies[split]!;
  enqueue(place, {
    kind: sent.ending === null ? 'commit' : 'end',
    about: split,
    ...sent,
    txn: {
      compares: [{ key, target: 'modRevision', equals: revision }],
      writes,
      onConflict: [key],
    },
  });
  if (sent.ending !== null) tell(place, split, { type: 'ending.sent' });
}

/** A commit or an ending was answered. */
export function written(place: Place, split: string, item: Item, answer: Outcome): void {
  abandon(place.fleet, place.worker, item);
  if (answer.kind === 'committed') landed(place, split, item, answer.revision);
  else if (answer.kind === 'conflict') onConflict(place, split, item, answer.found[0] ?? null);
}

function landed(place: Place, split: string, item: Item, revision: number): void {
  const { worker } = place;
  const tenancy = worker.tenancies[split]!;
  tenancy.record = item.record;
  tenancy.revision = revision;
  if (item.ending === null) {
    tell(place, split, { type: 'progress.landed' });
    pump(place, split);
    return;
  }
  foldLease(worker, split, null, revision);
  ended(place, split, item);
}

function ended(place: Place, split: string, { record }: Item): void {
  place.worker.tenancies[split]!.ending = null;
  tell(place, split, { type: 'ending.landed', quarantined: record!.status === 'quarantined' });
}

const ENDS_THERE = 'R4: an ending that meets its own epoch ends there';

/** Decides by epoch and owner what a conflict means (R2, R4). */
function onConflict(place: Place, split: string, item: Item, found: Entry | null): void {
  const { worker, setting } = place;
  const tenancy = worker.tenancies[split]!;
  const carriesProgress = item.ending === null || item.ending === 'complete';
  const meaning = settleConflict(
    {
      stamp: { instance: '', nonce: '', write: item.txn.stamp },
      epoch: tenancy.epoch as SplitRecord['epoch'] | null,
      owner: instanceOf(worker),
      nonce: nonceOf(worker),
      watermark: carriesProgress ? item.record!.watermark : undefined,
      completes: item.ending === 'complete',
    },
    decodedOf(found),
  );
  switch (meaning.kind) {
    case 'landed':
      landed(place, split, item, found!.modRevision);
      return;
    case 'completed':
      landed(place, split, { ...item, record: meaning.record }, found!.modRevision);
      return;
    case 'adopt':
      if (item.ending !== null && setting.without === ENDS_THERE) {
        tell(place, split, { type: 'ending.refused' });
        return;
      }
      tenancy.record = meaning.record;
      tenancy.revision = found!.modRevision;
      if (item.ending === null) tenancy.hasPendingCommit = true;
      pump(place, split);
      return;
    case 'fenced': {
      const mayHaveLanded = tenancy.chart.has('mayHaveLanded');
      if (item.ending === null) tell(place, split, { type: 'tenancy.fenced' });
      else if (isHandedBack(item.ending === 'complete', mayHaveLanded)) ended(place, split, item);
      else tell(place, split, { type: 'ending.refused' });
    }
  }
}

function decodedOf(entry: Entry | null): Decoded<SplitRecord> | null {
  if (entry === null) return null;
  const stamp = { instance: '', nonce: '', write: entry.stamp };
  return { kind: 'record', record: entry.value as SplitRecord, stamp };
}

/** The session is used no more: every tenancy ends before the next one is opened (R41). */
export function expire(place: Place): void {
  place.worker.session = null;
  for (const split of Object.keys(place.worker.tenancies)) {
    tell(place, split, { type: 'session.expired' });
  }
  for (const item of place.worker.items) {
    if (item.kind === 'orphan') abandon(place.fleet, place.worker, item);
  }
}

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
function claim(place: Place, split: string): void {
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
  if (answer.kind === 'committed') claimLanded(place, split, item, { revision: answer.revision });
  else if (answer.kind === 'conflict') claimConflicts(place, split, item, answer);
  else if (worker.session === item.session) expire(place);
}

function claimConflicts(
  place: Place,
  split: string,
  item: Item,
  answer: Outcome & { kind: 'conflict' },
): void {
  const { worker } = place;
  const [found = null, lease = null] = answer.found;
  if (found?.stamp === item.txn.stamp) {
    const { revision } = answer;
    claimLanded(place, split, item, {
      revision: found.modRevision,
      lease: { entry: lease, revision },
    });
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

function claimLanded(
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
    claimLanded(place, split, item, { revision: entry.modRevision });
    return;
  }
  worker.tenancies[split]!.isStale = true;
  tell(place, split, { type: 'claim.lost' });
}
