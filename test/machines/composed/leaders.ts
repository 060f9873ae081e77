/**
 * Leadership of one worker: elections, divisions, judgements and what a leader reads. Follows src/coordinator:
 * leading/leadership.ts, election.ts, term.ts, balancing.ts, judging.ts, split-reader.ts. The plan is sealed from the beginning.
 */
import type { LeaderEvent } from '../../../machines/leader/leader.events.ts';
import { assign, currentOwner } from '../../../src/protocol/assign.ts';
import { isAtCap } from '../../../src/protocol/attempts.ts';
import { expiredToQuarantine, parkedRecordFor } from '../../../src/protocol/tenancy-records.ts';
import { decideVerdict, type VerdictDecision } from '../../../src/protocol/verdict.ts';
import type { InstanceId, SplitId } from '../../../src/base/ids.ts';
import type { Decoded } from '../../../src/records/codec.ts';
import type {
  AssignmentRecord,
  LeaderRecord,
  LeaseRecord,
  PlanRecord,
  SplitRecord,
} from '../../../src/records/records.ts';
import { endSession } from './etcd.ts';
import type { Compare, Entry, Outcome, Put, Write } from './etcd.ts';
import { abandon, enqueue, itemFor } from './items.ts';
import {
  instanceOf,
  type Item,
  keys,
  leaderChart,
  nonceOf,
  type Place,
  recordOf,
  splitIdFor,
} from './model.ts';

export function tellLeader(place: Place, event: LeaderEvent): void {
  const { leading } = place.worker;
  const { next, asked } = leaderChart.step(leading.chart, event);
  leading.chart = next;
  for (const action of asked) act(place, action);
}

function act(place: Place, action: string): void {
  const { fleet, worker } = place;
  const { leading } = worker;
  switch (action) {
    case 'openLeaderSession':
      worker.sessionCount += 1;
      leading.session = `${worker.id}${worker.sessionCount}`;
      fleet.etcd.sessions = [...fleet.etcd.sessions, leading.session].sort();
      return;
    case 'closeLeaderSession': {
      closeSession(place);
      return;
    }
    case 'requestElection':
      stand(place);
      return;
    case 'openTerm':
      open(place);
      return;
    case 'takeUp':
      takeUp(place);
      return;
    case 'endTerm':
      leading.term = null;
      leading.index = {};
      leading.due = [];
      drop(place, ['assignment', 'verdict', 'quarantine']);
      return;
    case 'requestResignation':
      resign(place);
      return;
    case 'balance':
      balance(place);
      return;
    case 'readSplits':
      read(place);
      return;
    default:
      // The planner is not part of it, and the verdict is written by `read`.
      return;
  }
}

/** The store hears of it some time, or ends the session by itself. */
function closeSession(place: Place): void {
  const { leading } = place.worker;
  if (place.setting.isPrompt && leading.session !== null) {
    endSession(place.fleet.etcd, leading.session);
  }
  leading.session = null;
  drop(place, ['election', 'resignation']);
}

function drop({ fleet, worker }: Place, kinds: readonly Item['kind'][]): void {
  for (const item of worker.items) if (kinds.includes(item.kind)) abandon(fleet, worker, item);
}

/** Its turn has come: opens a session and stands. */
export function campaign(place: Place): void {
  tellLeader(place, { type: 'rest.over' });
  tellLeader(place, { type: 'leader.absent', delayMs: 0 });
  tellLeader(place, { type: 'candidacy.due' });
  tellLeader(place, { type: 'session.opened' });
}

function stand(place: Place): void {
  const { fleet, worker } = place;
  const plan = fleet.etcd.entries[keys.plan]!;
  const record = plan.value as PlanRecord;
  const generation = record.generation + 1;
  const leader: LeaderRecord = { owner: instanceOf(worker), nonce: nonceOf(worker), generation };
  const { session } = worker.leading;
  enqueue(place, {
    kind: 'election',
    about: '',
    session,
    txn: {
      compares: [
        { key: keys.leader, target: 'createRevision', equals: 0 },
        { key: keys.plan, target: 'modRevision', equals: plan.modRevision },
      ],
      writes: [
        { put: keys.leader, value: leader, session },
        { put: keys.plan, value: { ...record, generation }, session: null },
      ],
      onConflict: [keys.leader, keys.plan],
    },
  });
}

export function elected(place: Place, item: Item, answer: Outcome): void {
  const { fleet, worker } = place;
  abandon(fleet, worker, item);
  if (answer.kind === 'committed') wonAt(place, item, answer.revision);
  else if (answer.kind === 'conflict') {
    const [leader = null] = answer.found;
    if (leader?.stamp === item.txn.stamp) wonAt(place, item, leader.modRevision);
    // Only the plan has moved: stand again on what it says now.
    else if (leader === null && worker.leading.session === item.session) stand(place);
    else tellLeader(place, { type: 'election.lost' });
  } else tellLeader(place, { type: 'session.expired', reason: 'gone' });
}

function wonAt(place: Place, item: Item, createRevision: number): void {
  const { leading } = place.worker;
  const { generation } = (item.txn.writes[0] as Put).value as LeaderRecord;
  const isHeld = leading.session !== null && leading.session === item.session;
  if (isHeld) leading.term = { createRevision, generation };
  tellLeader(place, { type: isHeld ? 'election.won' : 'election.lost' });
}

/** Reads everything a leader must know, at once. */
function open(place: Place): void {
  for (const split of place.setting.splits) index(place, split);
  tellLeader(place, { type: 'term.ready' });
}

function takeUp(place: Place): void {
  const { fleet } = place;
  const plan = fleet.etcd.entries[keys.plan]!.value as PlanRecord;
  tellLeader(place, { type: 'plan.kept' });
  if (plan.verdict !== null) tellLeader(place, { type: 'verdict.found' });
}

/** Takes the record of a split in as the store has it. */
function index({ fleet, worker }: Place, split: string): void {
  const entry = fleet.etcd.entries[keys.split(split)]!;
  const { status, owner, attempts } = recordOf(entry)!;
  worker.leading.index[split] = { status, owner, attempts, revision: entry.modRevision };
}

export function leads({ worker }: Pick<Place, 'worker'>): boolean {
  return worker.leading.chart.has('leads');
}

/** The lease of a split changed as this leader hears it (R24). */
export function leaderHearsLease(place: Place, split: string): void {
  const { worker } = place;
  if (!leads(place)) return;
  const { leading } = worker;
  const known = leading.index[split]!;
  const entry = worker.leases[split]!.entry;
  if (entry === null) {
    readSoon(place, split);
    return;
  }
  leading.index[split] = { ...known, owner: (entry.value as LeaseRecord).owner };
  if (known.status !== 'runnable') readSoon(place, split);
}

export function readSoon({ worker }: Place, split: string): void {
  const { leading } = worker;
  if (!leading.due.includes(split)) leading.due = [...leading.due, split].sort();
}

/** What this leader would read now: what is due, and each third of a lease what may have moved unheard (R24). */
export function isToBeRead(place: Place, split: string): boolean {
  const { fleet, worker, setting } = place;
  if (!leads(place)) return false;
  const { due, index: known } = worker.leading;
  if (due.includes(split)) return true;
  if (setting.without === 'R24: ticks read nothing again') return false;
  const { status, owner, revision } = known[split]!;
  const isNamed = setting.instances.some((instance) =>
    publishedFor(place, instance)?.includes(splitIdFor(split)),
  );
  const isOpen = status === 'runnable' && (owner !== null || isNamed);
  const isLeased = worker.leases[split]!.entry !== null;
  // Reading what is known already would change nothing.
  const moved = fleet.etcd.entries[keys.split(split)]!.modRevision !== revision;
  return isOpen && !isLeased && (moved || isToBeSetAside(place, split));
}

/** Reads a record again, and sets it aside if one more attempt would be too many (T12). */
export function readAgain(place: Place, split: string): void {
  const { leading } = place.worker;
  leading.due = leading.due.filter((one) => one !== split);
  index(place, split);
  if (isToBeSetAside(place, split)) setAside(place, split);
}

function isToBeSetAside({ fleet, worker, setting }: Place, split: string): boolean {
  const record = recordOf(fleet.etcd.entries[keys.split(split)])!;
  if (record.status !== 'runnable' || record.owner === null) return false;
  if (worker.leases[split]!.entry !== null) return false;
  if (!isAtCap(record.attempts + 1, setting.maxAttempts)) return false;
  const presence = fleet.etcd.entries[keys.presence(record.owner)];
  const mayReturn = (presence?.value as { nonce?: string } | undefined)?.nonce === record.nonce;
  return !mayReturn && itemFor(worker, 'quarantine', split) === undefined;
}

function setAside(place: Place, split: string): void {
  const entry = place.fleet.etcd.entries[keys.split(split)]!;
  const next = expiredToQuarantine(recordOf(entry)!);
  write(place, 'quarantine', split, {
    compares: [
      { key: keys.split(split), target: 'modRevision', equals: entry.modRevision },
      { key: keys.lease(split), target: 'createRevision', equals: 0 },
    ],
    writes: [
      { put: keys.split(split), value: next, session: null },
      { put: keys.parked(split), value: parkedRecordFor(next), session: null },
    ],
    onConflict: [],
  });
}

/** A write of this term: it says "I lead" (R19). */
function write(
  place: Place,
  kind: Item['kind'],
  about: string,
  txn: { compares: readonly Compare[]; writes: readonly Write[]; onConflict: readonly string[] },
): void {
  const { createRevision } = place.worker.leading.term!;
  const guard: Compare[] = [{ key: keys.leader, target: 'createRevision', equals: createRevision }];
  const isLoose = place.setting.without === 'R19: leader writes compare nothing';
  enqueue(place, {
    kind,
    about,
    term: createRevision,
    txn: { ...txn, guard: isLoose ? [] : guard },
  });
}

function publishedFor({ fleet }: Place, instance: string): readonly SplitId[] | undefined {
  const entry = fleet.etcd.entries[keys.assignment(instance)];
  return (entry?.value as AssignmentRecord | undefined)?.splits;
}

/** Who should hold what by now, where it differs from what is published; null means that it goes. */
function divide(place: Place): Map<string, readonly SplitId[] | null> {
  const { fleet, worker, setting } = place;
  const { entries } = fleet.etcd;
  const members = setting.instances.filter((id) => entries[keys.presence(id)] !== undefined);
  const published = new Map<string, string>();
  for (const id of members) {
    for (const split of publishedFor(place, id) ?? []) published.set(split, id);
  }
  const runnable = setting.splits.filter(
    (split) => worker.leading.index[split]!.status === 'runnable',
  );
  const { byInstance } = assign({
    instances: members.map((id) => ({
      id: id as InstanceId,
      maxInFlight: fleet.drained.includes(id) ? 0 : setting.splits.length,
      cordoned: false,
    })),
    splits: runnable.map((split) => {
      const lease = worker.leases[split]!.entry?.value as LeaseRecord | undefined;
      const owner = currentOwner(
        {
          published: (published.get(split) ?? null) as InstanceId | null,
          leaseOwner: lease?.owner ?? null,
          recordOwner: worker.leading.index[split]!.owner as InstanceId | null,
        },
        (id) => members.includes(id),
      );
      return { id: splitIdFor(split), weight: 1, owner };
    }),
    withheld: new Set(),
    seed: 0,
  });
  const wanted = new Map<string, readonly SplitId[] | null>();
  for (const id of setting.instances) {
    const before = publishedFor(place, id);
    const now = byInstance.get(id as InstanceId);
    if (before?.join() !== now?.join()) wanted.set(id, now ?? null);
  }
  return wanted;
}

/** True when deciding again would publish something. */
export function hasToDivide(place: Place): boolean {
  if (!leads(place) || place.worker.items.some(({ kind }) => kind === 'assignment')) return false;
  return divide(place).size > 0;
}

export function startDividing(place: Place): void {
  tellLeader(place, { type: 'inputs.changed', delayMs: 0 });
  tellLeader(place, { type: 'balance.due' });
}

function balance(place: Place): void {
  const { generation } = place.worker.leading.term!;
  for (const [instance, splits] of divide(place)) {
    const key = keys.assignment(instance);
    const equals = place.fleet.etcd.entries[key]?.modRevision ?? 0;
    const value: AssignmentRecord | null = splits === null ? null : { generation, splits };
    write(place, 'assignment', instance, {
      compares: [{ key, target: 'modRevision', equals }],
      writes: [value === null ? { delete: key } : { put: key, value, session: null }],
      onConflict: [key],
    });
  }
}

/** What the judge would find: only asked when the leader knows of nothing that can run. */
export function judgementOf(place: Place): VerdictDecision | null {
  const { fleet, worker, setting } = place;
  if (!leads(place) || !worker.leading.chart.name.includes('judging.open')) return null;
  if (itemFor(worker, 'verdict', '') !== undefined) return null;
  const { index: known } = worker.leading;
  if (setting.splits.some((split) => known[split]!.status === 'runnable')) return null;
  return decideVerdict({
    plan: fleet.etcd.entries[keys.plan]!.value as PlanRecord,
    splits: setting.splits.map((split) => [
      splitIdFor(split),
      decodedOf(fleet.etcd.entries[keys.split(split)]!),
    ]),
    specs: { count: setting.splits.length },
    paused: false,
  });
}

function decodedOf(entry: Entry): Decoded<SplitRecord> {
  const stamp = { instance: '', nonce: '', write: entry.stamp };
  return { kind: 'record', record: entry.value as SplitRecord, stamp };
}

/** Reads everything at one revision, and decides (R23). */
export function judge(place: Place): void {
  tellLeader(place, { type: 'judgement.due' });
}

function read(place: Place): void {
  const { fleet, worker, setting } = place;
  const { etcd } = fleet;
  const plan = etcd.entries[keys.plan]!;
  const decision = decideVerdict({
    plan: plan.value as PlanRecord,
    splits: setting.splits.map((split) => [
      splitIdFor(split),
      decodedOf(etcd.entries[keys.split(split)]!),
    ]),
    specs: { count: setting.splits.length },
    paused: false,
  });
  if (decision.kind !== 'verdict') {
    for (const split of setting.splits) index(place, split);
    tellLeader(place, { type: 'judgement.open' });
    return;
  }
  tellLeader(place, { type: 'judgement.reached' });
  if (worker.leading.term === null) return;
  const isLoose = setting.without === 'R23: the verdict does not compare the plan';
  write(place, 'verdict', '', {
    compares: isLoose ? [] : [{ key: keys.plan, target: 'modRevision', equals: plan.modRevision }],
    writes: [
      {
        put: keys.plan,
        value: { ...(plan.value as PlanRecord), verdict: decision.verdict },
        session: null,
      },
    ],
    onConflict: [keys.plan],
  });
}

/** The answer to a leader's write. */
export function ledWrite(place: Place, item: Item, answer: Outcome): void {
  const { fleet, worker } = place;
  abandon(fleet, worker, item);
  if (answer.kind === 'guardFailed') {
    tellLeader(place, { type: 'term.lost', reason: 'another leads' });
    tellLeader(place, { type: 'term.closed' });
    return;
  }
  const found = answer.kind === 'conflict' ? (answer.found[0] ?? null) : null;
  const isWritten = answer.kind === 'committed' || found?.stamp === item.txn.stamp;
  if (item.kind === 'verdict') {
    tellLeader(place, { type: isWritten ? 'verdict.written' : 'judgement.open' });
  } else if (item.kind === 'quarantine') {
    if (isWritten) index(place, item.about);
    else readSoon(place, item.about);
  } else if (!worker.items.some(({ kind }) => kind === 'assignment')) {
    tellLeader(place, { type: 'assignments.written' });
  }
}

function resign(place: Place): void {
  const { fleet, worker } = place;
  enqueue(place, {
    kind: 'resignation',
    about: '',
    session: worker.leading.session,
    txn: {
      compares: [
        {
          key: keys.leader,
          target: 'createRevision',
          equals: fleet.etcd.entries[keys.leader]?.createRevision ?? 0,
        },
      ],
      writes: [{ delete: keys.leader }],
      onConflict: [],
    },
  });
}

export function resigned(place: Place, item: Item): void {
  const { fleet, worker } = place;
  abandon(fleet, worker, item);
  worker.leading.session = null;
  tellLeader(place, { type: 'term.closed' });
}

/** The term is over, and so is what belongs to it. */
export function depose(place: Place, event: 'term.lost' | 'session.expired'): void {
  tellLeader(place, { type: event, reason: 'another leads' });
  tellLeader(place, { type: 'term.closed' });
}
