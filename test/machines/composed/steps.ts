/** Everything that can happen next in a fleet: what workers and the store do, and what goes wrong. */
import type { TenancyEvent } from '../../../machines/tenancy/tenancy.events.ts';
import { requeuedRecord } from '../../../src/protocol/tenancy-records.ts';
import type { AssignmentRecord, PlanRecord } from '../../../src/records/records.ts';
import { isInState } from './charts.ts';
import { type Outcome, put, type Write } from './etcd.ts';
import type { Step } from './explore.ts';
import { abandon, enqueueForOperator, giveUp, itemFor, land, sendAgain } from './items.ts';
import { dropDeadCopies } from './keys.ts';
import {
  campaign,
  depose,
  elected,
  hasToDivide,
  isToBeRead,
  judge,
  judgementOf,
  leaderHearsLease,
  leads,
  ledWrite,
  readAgain,
  readSoon,
  resigned,
  startDividing,
  tellLeader,
} from './leaders.ts';
import { type Fleet, type Item, keys, type Place, recordOf, type Setting, spend } from './model.ts';
import { crash, end, isBelievedIn, openSession, restart } from './sessions.ts';
import {
  advanceClaim,
  claimed,
  commit,
  decide,
  dropOrphan,
  expire,
  hearLease,
  isOrphan,
  mark,
  marked,
  needsMark,
  orphanDropped,
  reconcile,
  settleByReading,
  tell,
  written,
} from './tenancies.ts';

type Add = (label: string, act: (place: Place) => void, spent?: keyof Fleet['left']) => void;

export function stepsOf(setting: Setting, fleet: Fleet): Step<Fleet>[] {
  const steps: Step<Fleet>[] = [];
  const adding =
    (index: number): Add =>
    (label, act, spent) => {
      if (spent !== undefined && fleet.left[spent] <= 0) return;
      steps.push({
        label,
        isFailure: spent !== undefined && !HARMLESS.has(spent),
        act: (draft) => {
          // The operator has no worker; nothing it does looks at one.
          const place = { setting, fleet: draft, worker: draft.workers[index]! };
          if (spent !== undefined) spend(draft, spent);
          act(place);
          for (const worker of draft.workers) settle({ setting, fleet: draft, worker });
          dropDeadCopies(draft);
        },
      });
    };
  fleet.workers.forEach((worker, index) => {
    const place = { setting, fleet, worker };
    const add = adding(index);
    if (!worker.isUp) {
      add(`${worker.id} restarts`, (at) => restart(at.fleet, at.worker));
      return;
    }
    addHearing(add, place);
    addItems(add, place);
    for (const split of setting.splits) addTenancy(add, place, split);
    addSession(add, place);
    if (setting.hasLeaders) addLeading(add, place);
  });
  addStore(adding(0), fleet);
  addOperator(adding(0), setting, fleet);
  return steps;
}

/** What a worker does at once. */
function settle(place: Place): void {
  const { setting, fleet, worker } = place;
  if (!worker.isUp) return;
  if (setting.isPrompt) {
    for (const item of worker.items) {
      if (item.term !== null && item.answer !== null) hear(place, item, item.answer);
    }
    hearAssignment(place);
    for (const split of setting.splits) {
      const isHeld = worker.tenancies[split]?.chart.has('held') === true;
      if (!isHeld && isLeaseNew({ fleet, worker }, split)) hearLeases(place, split);
    }
  }
  reconcile(place);
}

function hearAssignment({ fleet, worker }: Pick<Place, 'fleet' | 'worker'>): void {
  const { entries, revision } = fleet.etcd;
  const entry = entries[keys.assignment(worker.id)] ?? null;
  if (entry?.modRevision === worker.assignment.entry?.modRevision) return;
  worker.assignment = { entry, revision };
  // What had ended may be named for a reason.
  worker.over = [];
}

function isLeaseNew({ fleet, worker }: Pick<Place, 'fleet' | 'worker'>, split: string): boolean {
  const now = fleet.etcd.entries[keys.lease(split)];
  return now?.modRevision !== worker.leases[split]!.entry?.modRevision;
}

function hearLeases(place: Place, split: string): void {
  hearLease(place, split);
  leaderHearsLease(place, split);
}

/** What has a bound but is part of the ordinary course. */
const HARMLESS: ReadonlySet<string> = new Set(['commits', 'ticks', 'moves']);

function addHearing(add: Add, { setting, fleet, worker }: Place): void {
  const { id, assignment } = worker;
  const named = fleet.etcd.entries[keys.assignment(id)];
  if (named?.modRevision !== assignment.entry?.modRevision) {
    add(`${id} hears its assignment`, hearAssignment);
  }
  for (const split of setting.splits) {
    if (!isLeaseNew({ fleet, worker }, split)) continue;
    add(`${id} hears of the lease of ${split}`, (at) => {
      hearLeases(at, split);
    });
  }
}

function addItems(add: Add, { setting, worker }: Place): void {
  for (const item of worker.items) {
    const { kind, about, answer } = item;
    const what = about === '' ? `its ${kind}` : `its ${kind} of ${about}`;
    const same = (at: Place): Item => itemFor(at.worker, kind, about)!;
    if (item.isGivenUp) {
      add(`${worker.id} reads ${about} and believes it`, (at) => {
        settleByReading(at, about, same(at));
      });
      continue;
    }
    if (answer !== null) {
      add(`${worker.id} hears of ${what}: ${answer.kind}`, (at) => hear(at, same(at), answer));
    }
    const isDropped = kind === 'mark';
    const isBelieved = kind === 'claim' && setting.without === BY_READING;
    const after = isDropped ? ', and drops it' : isBelieved ? '' : ', and sends it again';
    add(
      `${worker.id} does not hear of ${what}${after}`,
      (at) => {
        unheard(at, same(at));
      },
      'unheard',
    );
  }
}

const BY_READING = 'R1: an unanswered claim is settled by reading';

function unheard(place: Place, item: Item): void {
  const { setting, fleet, worker } = place;
  if (item.kind === 'mark') {
    abandon(fleet, worker, item);
    return;
  }
  if (item.kind === 'claim' && setting.without === BY_READING) {
    giveUp(fleet, worker, item);
    return;
  }
  if (item.kind === 'end') tell(place, item.about, { type: 'ending.unanswered' });
  sendAgain(fleet, worker, item);
}

function hear(place: Place, item: Item, answer: Outcome): void {
  switch (item.kind) {
    case 'claim':
      claimed(place, item.about, item, answer);
      return;
    case 'commit':
    case 'end':
      written(place, item.about, item, answer);
      return;
    case 'orphan':
      orphanDropped(place, item.about, item, answer);
      return;
    case 'mark':
      marked(place, item.about, item, answer);
      return;
    case 'election':
      elected(place, item, answer);
      return;
    case 'resignation':
      resigned(place, item);
      return;
    case 'assignment':
    case 'verdict':
    case 'quarantine':
      ledWrite(place, item, answer);
      return;
    case 'requeue':
      return;
  }
}

function addTenancy(add: Add, place: Place, split: string): void {
  const { setting, fleet, worker } = place;
  const tenancy = worker.tenancies[split];
  const { id } = worker;
  if (isOrphan(place, split)) {
    add(`${id} drops the orphan lease of ${split}`, (at) => dropOrphan(at, split));
  }
  if (tenancy === undefined) return;
  const decision = decide(place, split);
  const isOver = decision?.kind === 'ended';
  if (isOver || decision?.kind === 'claim') {
    const what = isOver ? `finds ${split} ended` : `claims ${split}`;
    add(`${id} ${what}`, (at) => {
      advanceClaim(at, split);
    });
  }
  if (!tenancy.chart.has('mayCommit')) return;
  const ends = (label: string, event: TenancyEvent, spent?: keyof Fleet['left']): void => {
    add(`${id} ${label} ${split}`, (at) => tell(at, split, event), spent);
  };
  const isIdle = !itemFor(worker, 'commit', split) && !tenancy.hasPendingCommit;
  if (isIdle) add(`${id} commits ${split}`, (at) => commit(at, split), 'commits');
  if (setting.completes) ends('completes', { type: 'split.complete' });
  ends('fails', { type: 'split.fail' }, 'fails');
  const { name } = tenancy.chart;
  if (name !== 'held.owned') ends('hands back', { type: 'drain.finished' });
  if (name === 'held.draining') ends('runs out of time to hand back', { type: 'drain.expired' });
  if (name === 'held.cancelledDrain') ends('goes on with', { type: 'intake.resumed' });
  if (needsMark(place, split) && itemFor(worker, 'mark', split) === undefined) {
    add(`${id} marks ${split} again`, (at) => mark(at, split), 'ticks');
  }
  // The lease is this worker's to lose by a hand that deletes it.
  if (fleet.etcd.entries[keys.lease(split)]?.session !== worker.session) return;
  add(
    `somebody deletes the lease of ${split}`,
    (at) => dropKey(at.fleet, keys.lease(split)),
    'deletes',
  );
}

function dropKey(fleet: Fleet, key: string): void {
  fleet.etcd.revision += 1;
  delete fleet.etcd.entries[key];
}

function addSession(add: Add, { fleet, worker }: Place): void {
  const { id, session } = worker;
  if (session === null) add(`${id} opens a session`, openSession);
  else if (fleet.etcd.sessions.includes(session)) {
    add(`${id} gives its session up`, expire, 'fences');
  } else add(`${id} hears that its session is gone`, expire);
  add(`${id} crashes`, (at) => crash(at.fleet, at.worker), 'crashes');
}

function addLeading(add: Add, place: Place): void {
  const { setting, fleet, worker } = place;
  const { id, leading, session } = worker;
  const leader = fleet.etcd.entries[keys.leader];
  const isIn = (state: string): boolean => isInState(leading.chart, state);
  if (isIn('following') && leader === undefined && session !== null) {
    add(`${id} stands for election`, campaign);
  }
  const isGone = leading.session !== null && !fleet.etcd.sessions.includes(leading.session);
  if (isGone && !leads(place)) {
    add(`${id} hears that its leader session is gone`, (at) => leaderSessionGone(at));
  }
  if (isIn('campaigning') && leader !== undefined && leader.session !== leading.session) {
    add(`${id} sees who leads`, (at) => tellLeader(at, { type: 'leader.seen' }));
  }
  if (!leads(place)) return;
  if (leader?.createRevision !== leading.term!.createRevision) {
    add(`${id} hears that it leads no more`, (at) => depose(at, 'term.lost'));
  }
  add(`${id} resigns`, (at) => tellLeader(at, UNHEALTHY), 'resignations');
  for (const split of setting.splits) {
    if (isToBeRead(place, split))
      add(`${id} reads ${split} as leader`, (at) => readAgain(at, split));
  }
  if (hasToDivide(place)) add(`${id} divides the work`, startDividing);
  const judgement = judgementOf(place);
  const isNews = judgement?.kind === 'verdict' || isRunnable(judgement);
  if (isNews) add(`${id} judges`, judge);
  const { verdict } = fleet.etcd.entries[keys.plan]!.value as PlanRecord;
  if (verdict === null && isIn('leading.governing.judging.decided')) {
    add(`${id} hears that the verdict is taken back`, (at) => {
      tellLeader(at, { type: 'verdict.cleared' });
    });
  }
}

const UNHEALTHY = { type: 'term.unhealthy', reason: 'writing', restMs: 0 } as const;

function isRunnable(judgement: ReturnType<typeof judgementOf>): boolean {
  return judgement?.kind === 'wait' && judgement.reason === 'runnable';
}

function leaderSessionGone(at: Place): void {
  const { chart } = at.worker.leading;
  if (chart.name === 'resigning') {
    at.worker.leading.session = null;
    for (const item of at.worker.items) {
      if (item.kind === 'resignation') abandon(at.fleet, at.worker, item);
    }
    tellLeader(at, { type: 'term.closed' });
  } else tellLeader(at, { type: 'session.expired', reason: 'gone' });
}

function addStore(add: Add, fleet: Fleet): void {
  const labels = new Set<string>();
  fleet.wire.forEach((packet, index) => {
    const { kind, about } = packet.item;
    const late = packet.isAwaited ? '' : 'late ';
    const what = about === '' ? kind : `${kind} of ${about}`;
    let label = `${packet.from}’s ${late}${what} lands`;
    while (labels.has(label)) label += ' too';
    labels.add(label);
    add(label, (at) => {
      land(at.fleet, index);
    });
  });
  for (const session of fleet.etcd.sessions) {
    const isBelieved = isBelievedIn(fleet, session);
    const label = `the store ends session ${session}`;
    add(label, (at) => end(at.fleet, session), isBelieved ? 'expiries' : undefined);
  }
}

function addOperator(add: Add, setting: Setting, fleet: Fleet): void {
  for (const split of setting.splits) {
    const record = recordOf(fleet.etcd.entries[keys.split(split)])!;
    if (record.status === 'quarantined' && fleet.operator === null) {
      add(`the operator requeues ${split}`, (at) => requeue(at, split), 'requeues');
    }
    if (fleet.workers.some(({ tenancies }) => tenancies[split]?.epoch === record.epoch)) {
      add(`somebody rewrites the record of ${split}`, (at) => rewrite(at.fleet, split), 'rewrites');
    }
    if (!setting.hasLeaders) addNaming(add, setting, fleet, split);
  }
  if ((fleet.operator?.answer ?? null) !== null) add('the operator hears of it', requeueHeard);
  if (!setting.hasLeaders) return;
  for (const id of setting.instances) {
    const isDrained = fleet.drained.includes(id);
    // Somebody must be left to take the work.
    if (!isDrained && fleet.drained.length > 0) continue;
    const label = isDrained
      ? `the operator takes the drain of ${id} back`
      : `the operator drains ${id}`;
    add(
      label,
      (at) => {
        const others = at.fleet.drained.filter((one) => one !== id);
        at.fleet.drained = isDrained ? others : [...others, id].sort();
      },
      'moves',
    );
  }
}

/** Where nobody leads, splits are named by hand: for one worker and no other. */
function addNaming(add: Add, setting: Setting, fleet: Fleet, split: string): void {
  const isNamed = (id: string): boolean => {
    const entry = fleet.etcd.entries[keys.assignment(id)];
    return (entry?.value as AssignmentRecord | undefined)?.splits.includes(split as never) === true;
  };
  for (const id of [...setting.instances, 'nobody']) {
    const wasNamed = setting.instances.find(isNamed) ?? 'nobody';
    if (wasNamed === id) continue;
    add(`${split} is named for ${id}`, (at) => name(at, split, id), 'moves');
  }
}

export function name(
  { setting, fleet }: Pick<Place, 'setting' | 'fleet'>,
  split: string,
  to: string,
): void {
  for (const id of setting.instances) {
    const key = keys.assignment(id);
    const before = (fleet.etcd.entries[key]?.value ?? { splits: [] }) as AssignmentRecord;
    const others = before.splits.filter((one) => one !== split);
    const splits = id === to ? [...others, split as (typeof others)[number]].sort() : others;
    if (fleet.etcd.entries[key] === undefined || splits.length !== before.splits.length) {
      put(fleet.etcd, key, { generation: 1, splits } satisfies AssignmentRecord);
    }
  }
}

/** The same content in the same epoch, by somebody who is no worker. */
function rewrite(fleet: Fleet, split: string): void {
  const { value } = fleet.etcd.entries[keys.split(split)]!;
  put(fleet.etcd, keys.split(split), value);
}

/** Reads record and plan, and writes both (T15). */
function requeue({ setting, fleet }: Place, split: string): void {
  const { entries } = fleet.etcd;
  const record = entries[keys.split(split)]!;
  const plan = entries[keys.plan]!;
  const { requeues } = plan.value as PlanRecord;
  const reopened = { ...(plan.value as PlanRecord), verdict: null, requeues: requeues + 1 };
  const isNeeded = (plan.value as PlanRecord).verdict !== null;
  const writesPlan = isNeeded || setting.without !== ONLY_TO_CLEAR;
  const compared = [keys.split(split), ...(writesPlan ? [keys.plan] : [])];
  const writes: Write[] = [
    { put: keys.split(split), value: requeuedRecord(recordOf(record)!), session: null },
    ...(writesPlan ? [{ put: keys.plan, value: reopened, session: null }] : []),
    { delete: keys.parked(split) },
  ];
  enqueueForOperator(fleet, {
    kind: 'requeue',
    about: split,
    txn: {
      compares: compared.map((key) => {
        return { key, target: 'modRevision', equals: entries[key]!.modRevision } as const;
      }),
      writes,
      onConflict: [keys.split(split), keys.plan],
    },
  });
}

const ONLY_TO_CLEAR = 'R23: a requeue writes the plan only to take a verdict back';

/** Everybody watches what is parked: a leader reads the split, a worker may open it again. */
function requeueHeard({ setting, fleet }: Place): void {
  const { answer, about } = fleet.operator!;
  fleet.operator = null;
  if (answer!.kind !== 'committed') return;
  for (const worker of fleet.workers) {
    worker.over = worker.over.filter((one) => one !== about);
    if (leads({ worker })) readSoon({ setting, fleet, worker }, about);
  }
}
