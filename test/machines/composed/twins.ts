/**
 * Two processes under one name: the presence chart and the one key they both announce themselves at. Every event of the
 * key reaches each process, in order and late. Follows src/coordinator: membership/announcement.ts, membership/presence.ts.
 */
import type { PresenceEvent } from '../../../machines/presence/presence.events.ts';
import { presenceMachine } from '../../../machines/presence/presence.machine.ts';
import { ABSENT, type Revision } from '../../../src/base/decimals.ts';
import type { Nonce, SessionId } from '../../../src/base/ids.ts';
import {
  type Announcer,
  announceOn,
  isTwin,
  type PresenceView,
  settleAnnouncement,
} from '../../../src/protocol/announcing.ts';
import type { PresenceRecord } from '../../../src/records/records.ts';
import { type ChartState, isInState, PureChart } from './charts.ts';
import {
  cloneEtcd,
  emptyEtcd,
  endSession,
  type Entry,
  type EtcdState,
  type Outcome,
  transact,
  type Txn,
} from './etcd.ts';
import type { Step, World } from './explore.ts';

export type TwinOmission =
  | 'R14: any foreign presence is fatal'
  | 'R14: a foreign presence is fatal while an own announcement is under way';

export interface TwinBounds {
  readonly unheard: number;
  readonly expiries: number;
  /** Announcements made again because what they say has changed. */
  readonly changes: number;
  /** Presences deleted by hand. */
  readonly deletes: number;
}

interface Change {
  readonly revision: number;
  readonly entry: Entry | null;
}

interface Announced {
  readonly txn: Txn;
  readonly session: string;
  /** What it says, by number. */
  readonly says: number;
  readonly answer: Outcome | null;
}

interface Process {
  readonly nonce: string;
  chart: ChartState;
  session: string | null;
  sessionCount: number;
  known: Change;
  /** What the watch has not delivered. */
  queue: Change[];
  announcedAt: number | null;
  hasLanded: boolean;
  writing: Announced | null;
  /** What there is to say, by number. */
  says: number;
}

interface Packet {
  readonly nonce: string;
  readonly txn: Txn;
  readonly isAwaited: boolean;
}

export interface Twins {
  etcd: EtcdState;
  processes: Process[];
  wire: Packet[];
  stamps: number;
  left: TwinBounds;
}

interface At {
  readonly twins: Twins;
  readonly process: Process;
  readonly without: TwinOmission | null;
}

const KEY = 'workers/a';
const chart = new PureChart(presenceMachine, { instance: 'a', failuresMax: 2 });

function tell(at: At, event: PresenceEvent): void {
  const { next, asked } = chart.step(at.process.chart, event);
  at.process.chart = next;
  for (const action of asked) {
    if (action === 'openSession') openSession(at);
    if (action === 'announce') announce(at);
  }
}

function openSession({ twins, process }: At): void {
  process.sessionCount += 1;
  process.session = `${process.nonce}-${process.sessionCount}`;
  twins.etcd.sessions = [...twins.etcd.sessions, process.session].sort();
}

function nonceAt(entry: Entry | null): string | null {
  return entry === null ? null : (entry.value as { nonce: string }).nonce;
}

function viewOf(entry: Entry | null): PresenceView | undefined {
  if (entry === null) return undefined;
  const record = entry.value as PresenceRecord;
  const session = entry.session as SessionId | null;
  return { record, modRevision: String(entry.modRevision) as Revision, session };
}

function announcerOf({ nonce, session, hasLanded }: Process): Announcer {
  return { nonce: nonce as Nonce, session: session as SessionId | null, hasLanded };
}

/** Puts the presence; while one is on its way, its answer brings the next one. */
function announce(at: At): void {
  const { process } = at;
  if (process.writing !== null || process.session === null) return;
  const { entry } = process.known;
  const seenAt = String(entry?.modRevision ?? process.announcedAt ?? 0) as Revision;
  put(at, Number(announceOn(announcerOf(process), viewOf(entry), seenAt).equals));
}

const BELIEVES = 'R14: a foreign presence is fatal while an own announcement is under way';
function put({ twins, process }: At, equals: number): void {
  const { session, nonce, says } = process;
  twins.stamps += 1;
  const txn: Txn = {
    guard: [],
    compares: [{ key: KEY, target: 'modRevision', equals }],
    writes: [{ put: KEY, value: { nonce }, session }],
    onConflict: [KEY],
    stamp: twins.stamps,
  };
  process.writing = { txn, session: session!, says, answer: null };
  twins.wire.push({ nonce, txn, isAwaited: true });
}

/** The process leaves with an error that names the instance. */
function die(at: At): void {
  tell(at, { type: 'worker.stopping' });
  tell(at, { type: 'departure.finished', hasFailed: true });
  at.process.session = null;
  at.process.queue = [];
  stopWaiting(at);
}

function stopWaiting({ twins, process }: At): void {
  const stamp = process.writing?.txn.stamp;
  process.writing = null;
  twins.wire = twins.wire.map((one) =>
    one.txn.stamp === stamp ? { ...one, isAwaited: false } : one,
  );
}

function hear(at: At, answer: Outcome): void {
  const { process } = at;
  const sent = process.writing!;
  stopWaiting(at);
  if (answer.kind === 'committed') landed(at, sent, answer.revision);
  else if (answer.kind === 'conflict') onConflict(at, sent, answer.found[0] ?? null);
  else {
    if (process.session === sent.session) lose(at);
    tell(at, { type: 'announcement.missed' });
  }
}

function onConflict(at: At, sent: Announced, found: Entry | null): void {
  const shown = viewOf(found);
  const stamp = { instance: '', nonce: '', write: sent.txn.stamp };
  const { kind } = settleAnnouncement(
    announcerOf(at.process),
    stamp,
    shown === undefined
      ? null
      : {
          decoded: {
            kind: 'record',
            record: shown.record,
            stamp: { ...stamp, write: found!.stamp },
          },
          session: shown.session,
        },
  );
  if (kind === 'landed') landed(at, sent, found!.modRevision);
  else if (kind === 'twin') die(at);
  // Its session is gone; one that has opened since waits for this answer.
  else if (at.process.session === sent.session) put(at, found?.modRevision ?? 0);
  else tell(at, { type: 'announcement.missed' });
}

function landed(at: At, { txn, session, says }: Announced, revision: number): void {
  const { process } = at;
  process.announcedAt = revision;
  if (revision > process.known.revision) {
    const { stamp, writes } = txn;
    const { value } = writes[0] as { value: object };
    const entry = { value, stamp, createRevision: revision, modRevision: revision, session };
    process.known = { revision, entry };
  }
  const shown = process.known.entry;
  const isHeld = process.session !== null && shown?.session === process.session;
  if (!isHeld) {
    tell(at, { type: 'announcement.missed' });
    return;
  }
  process.hasLanded = true;
  tell(at, { type: 'announcement.landed', isCurrent: says === process.says });
}

/** The session is gone: another one is opened. What is on its way under the old one is answered first. */
function lose(at: At): void {
  at.process.session = null;
  tell(at, { type: 'session.expired', isDenied: false });
  tell(at, { type: 'session.opened' });
}

/** The next event of the watch. */
function deliver(at: At): void {
  const { process, without } = at;
  const change = process.queue[0]!;
  process.queue = process.queue.slice(1);
  const reactsToAny = without === 'R14: any foreign presence is fatal';
  const isNew = change.revision > process.known.revision;
  if (isNew) process.known = change;
  else if (!reactsToAny) return;
  if (!isInState(process.chart, 'present')) return;
  if (change.entry === null) {
    if (isNew) tell(at, { type: 'presence.deleted' });
    return;
  }
  if (process.writing !== null && !reactsToAny && without !== BELIEVES) return;
  const { announcedAt } = process;
  const since = announcedAt === null ? null : (String(announcedAt) as Revision);
  const isTheirs = isTwin(announcerOf(process), viewOf(change.entry), reactsToAny ? ABSENT : since);
  if (isTheirs) die(at);
}

function start(at: At): void {
  const { twins, process } = at;
  tell(at, { type: 'probe.passed' });
  process.known = { entry: twins.etcd.entries[KEY] ?? null, revision: twins.etcd.revision };
  tell(at, { type: 'job.joined' });
  tell(at, { type: 'session.opened' });
}

function clone(twins: Twins): Twins {
  return {
    ...twins,
    etcd: cloneEtcd(twins.etcd),
    processes: twins.processes.map((process) => ({ ...process })),
    wire: twins.wire.slice(),
  };
}

function stepsOf(twins: Twins, without: TwinOmission | null): Step<Twins>[] {
  const steps: Step<Twins>[] = [];
  const add = (
    label: string,
    index: number,
    act: (at: At) => void,
    spent?: keyof TwinBounds,
  ): void => {
    if (spent !== undefined && twins.left[spent] <= 0) return;
    steps.push({
      label,
      isFailure: spent !== undefined && spent !== 'changes',
      act: (draft) => {
        if (spent !== undefined) draft.left = { ...draft.left, [spent]: draft.left[spent] - 1 };
        const before = draft.etcd.entries[KEY];
        act({ twins: draft, process: draft.processes[index]!, without });
        publish(draft, before);
      },
    });
  };
  twins.processes.forEach((process, index) => {
    addProcess(twins, process, (label, act, spent) => {
      add(`${process.nonce} ${label}`, index, act, spent);
    });
  });
  twins.wire.forEach((packet, index) => {
    const late = packet.isAwaited ? '' : 'late ';
    add(`${packet.nonce}’s ${late}announcement lands (${index + 1})`, 0, (at) => land(at, index));
  });
  for (const session of twins.etcd.sessions) {
    const isBelieved = twins.processes.some((process) => process.session === session);
    const end = (at: At): void => {
      endSession(at.twins.etcd, session);
    };
    add(`the store ends session ${session}`, 0, end, isBelieved ? 'expiries' : undefined);
  }
  if (twins.etcd.entries[KEY] !== undefined) {
    add(
      'somebody deletes the presence',
      0,
      ({ twins: { etcd } }) => {
        etcd.revision += 1;
        delete etcd.entries[KEY];
      },
      'deletes',
    );
  }
  return steps;
}

function addProcess(
  twins: Twins,
  { chart: state, queue, writing, session }: Process,
  add: (label: string, act: (at: At) => void, spent?: keyof TwinBounds) => void,
): void {
  if (state.hasEnded) return;
  if (state.name === 'probing') {
    add('starts', start);
    return;
  }
  if (queue.length > 0) add('hears the next event', deliver);
  if (writing !== null) {
    const { answer } = writing;
    if (answer !== null) add(`hears of its announcement: ${answer.kind}`, (at) => hear(at, answer));
    if (writing.session === session) {
      add('does not hear of its announcement, and sends it again', sendAgain, 'unheard');
    } else {
      add('gives up its announcement under a session that is gone', (at) => {
        stopWaiting(at);
        tell(at, { type: 'announcement.missed' });
      });
    }
  }
  if (session !== null && !twins.etcd.sessions.includes(session)) {
    add('hears that its session is gone', lose);
  }
  if (isInState(state, 'present')) {
    add(
      'has something to say',
      (at) => {
        at.process.says += 1;
        tell(at, { type: 'announcement.due' });
      },
      'changes',
    );
  }
}

function sendAgain(at: At): void {
  const sent = at.process.writing!;
  stopWaiting(at);
  at.process.writing = { ...sent, answer: null };
  at.twins.wire.push({ nonce: at.process.nonce, txn: sent.txn, isAwaited: true });
}

function land({ twins }: At, index: number): void {
  const [packet] = twins.wire.splice(index, 1);
  const { txn, isAwaited, nonce } = packet!;
  const answer = transact(twins.etcd, txn);
  const process = twins.processes.find((one) => one.nonce === nonce)!;
  if (isAwaited && process.writing !== null) process.writing = { ...process.writing, answer };
}

/** What has changed is on its way to every process that watches. */
function publish(twins: Twins, before: Entry | undefined): void {
  const { etcd } = twins;
  const entry = etcd.entries[KEY];
  if (entry?.modRevision !== before?.modRevision) {
    const change: Change = { revision: etcd.revision, entry: entry ?? null };
    for (const process of twins.processes) {
      if (process.chart.hasEnded || process.chart.name === 'probing') continue;
      process.queue = [...process.queue, change];
    }
  }
  twins.wire = twins.wire.filter(({ isAwaited, txn }) => isAwaited || mayLand(etcd, txn));
}

function mayLand(etcd: EtcdState, { compares, writes }: Txn): boolean {
  const { equals } = compares[0]!;
  const { session } = writes[0] as { session: string };
  const isAt = equals === 0 || etcd.entries[KEY]?.modRevision === equals;
  return isAt && etcd.sessions.includes(session);
}

/** Revisions by their order, which is all that decides. */
function keyOf(twins: Twins): string {
  const { etcd, processes, wire, left } = twins;
  const revisions = new Set<number>([0]);
  const stamps = new Map<number, string>();
  const entryText = (entry: Entry | null): string =>
    entry === null ? '-' : `${nonceAt(entry)}${entry.session}${stamps.get(entry.stamp) ?? ''}`;
  for (const { known, queue, announcedAt, writing } of processes) {
    for (const { revision } of [known, ...queue]) revisions.add(revision);
    revisions.add(announcedAt ?? 0);
    if (writing === null) continue;
    for (const one of revisionsOf(writing)) revisions.add(one);
  }
  const now = etcd.entries[KEY] ?? null;
  revisions.add(now?.modRevision ?? 0);
  for (const { txn } of wire) revisions.add(txn.compares[0]!.equals as number);
  for (const { writing, nonce } of processes) {
    if (writing !== null) stamps.set(writing.txn.stamp, `!${nonce}`);
  }
  const ranks = new Map([...revisions].sort((a, b) => a - b).map((one, rank) => [one, rank]));
  const changeText = ({ revision, entry }: Change): string =>
    `${ranks.get(revision)}${entryText(entry)}`;
  const sentText = (txn: Txn): string => `${ranks.get(txn.compares[0]!.equals as number)}`;
  const processText = (one: Process): string => {
    const { writing } = one;
    const sent = writing === null ? '' : `${sentText(writing.txn)}${writing.session}`;
    const { answer = null } = writing ?? {};
    const answers = revisionsOf(writing).map((revision) => ranks.get(revision));
    const found = answer?.kind === 'conflict' ? entryText(answer.found[0] ?? null) : '';
    return [
      one.chart.id,
      one.session,
      changeText(one.known),
      one.queue.map(changeText).join(),
      one.announcedAt === null ? '' : ranks.get(one.announcedAt),
      one.hasLanded,
      writing?.says === one.says,
      sent,
      answer?.kind,
      answers,
      found,
    ].join('/');
  };
  const packets = wire.map(
    ({ nonce, txn, isAwaited }) =>
      `${nonce}${sentText(txn)}${isAwaited}${stamps.get(txn.stamp) ?? ''}${(txn.writes[0] as { session: string }).session}`,
  );
  return [
    entryText(now),
    ranks.get(now?.modRevision ?? 0),
    etcd.sessions.join(),
    ...processes.map(processText),
    packets.sort().join('&'),
    Object.values(left).join(''),
  ].join('#');
}

function revisionsOf(writing: Announced | null): number[] {
  if (writing === null) return [];
  const compared = writing.txn.compares[0]!.equals as number;
  const { answer } = writing;
  if (answer?.kind === 'committed') return [compared, answer.revision];
  if (answer?.kind === 'conflict') return [compared, answer.found[0]?.modRevision ?? 0];
  return [compared];
}

/** Processes under one name, none started. */
export function twinWorld(
  name: string,
  bounds: Partial<TwinBounds>,
  without: TwinOmission | null = null,
): World<Twins> {
  const process = (nonce: string): Process => ({
    nonce,
    chart: chart.initial,
    session: null,
    sessionCount: 0,
    known: { revision: 0, entry: null },
    queue: [],
    announcedAt: null,
    hasLanded: false,
    writing: null,
    says: 0,
  });
  const initial: Twins = {
    etcd: emptyEtcd(),
    processes: [process('p'), process('q')],
    wire: [],
    stamps: 0,
    left: { unheard: 0, expiries: 0, changes: 0, deletes: 0, ...bounds },
  };
  const deaths = ({ processes }: Twins): number =>
    processes.filter((one) => one.chart.name === 'failed').length;
  return {
    name,
    initial,
    clone,
    keyOf,
    stepsOf: (twins) => stepsOf(twins, without),
    brokenIn: (twins) => (deaths(twins) > 1 ? 'both twins die' : null),
    goals: [{ name: 'one of two twins dies', isReached: (twins) => deaths(twins) === 1 }],
  };
}
