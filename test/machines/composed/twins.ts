/**
 * Two processes under one name: the presence chart and the one key they both announce themselves at. Every event of the
 * key reaches each process, in order and late. Follows src/coordinator: announcement.ts, presence.ts.
 */
import type { PresenceEvent } from '../../../machines/presence/presence.events.ts';
import { presenceMachine } from '../../../machines/presence/presence.machine.ts';
import { type ChartState, PureChart } from './charts.ts';
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
  isDue: boolean;
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

function isForeign({ process }: At, entry: Entry | null): boolean {
  return entry !== null && nonceAt(entry) !== process.nonce;
}

function announce(at: At): void {
  const { process } = at;
  if (process.writing !== null) {
    process.isDue = true;
    return;
  }
  if (process.session === null) return;
  const { entry } = process.known;
  if (isForeign(at, entry) && process.hasLanded) die(at);
  else put(at, entry?.modRevision ?? process.announcedAt ?? 0);
}

const BELIEVES = 'R14: a foreign presence is fatal while an own announcement is under way';
function put({ twins, process }: At, equals: number): void {
  const { session, nonce } = process;
  twins.stamps += 1;
  const txn: Txn = {
    guard: [],
    compares: [{ key: KEY, target: 'modRevision', equals }],
    writes: [{ put: KEY, value: { nonce }, session }],
    onConflict: [KEY],
    stamp: twins.stamps,
  };
  process.isDue = false;
  process.writing = { txn, session: session!, answer: null };
  twins.wire.push({ nonce, txn, isAwaited: true });
}

/** The process stops with an error that names the instance. */
function die(at: At): void {
  tell(at, { type: 'fatal.raised' });
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
  if (answer.kind === 'committed') {
    landed(at, sent, answer.revision);
    return;
  }
  if (answer.kind !== 'conflict') {
    if (process.session === sent.session) lose(at);
    else if (process.isDue) announce(at);
    return;
  }
  const found = answer.found[0] ?? null;
  if (found?.stamp === sent.txn.stamp) landed(at, sent, found.modRevision);
  else if (isForeign(at, found) && process.hasLanded) die(at);
  else put(at, found?.modRevision ?? 0);
}

function landed(at: At, { txn, session }: Announced, revision: number): void {
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
  if (!isHeld || process.isDue) {
    if (process.session !== null) announce(at);
    if (!isHeld) return;
  }
  process.hasLanded = true;
  tell(at, { type: 'announcement.landed' });
}

/** The session is gone: another one is opened. */
function lose(at: At): void {
  at.process.session = null;
  stopWaiting(at);
  tell(at, { type: 'session.expired' });
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
  if (process.chart.name !== 'present') return;
  if (change.entry === null) {
    if (isNew) tell(at, { type: 'presence.deleted' });
    return;
  }
  const isNewer = change.revision > (process.announcedAt ?? 0);
  if (process.writing !== null && !reactsToAny && without !== BELIEVES) return;
  if (isForeign(at, change.entry) && (isNewer || reactsToAny)) die(at);
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
    add('does not hear of its announcement, and sends it again', sendAgain, 'unheard');
  }
  if (session !== null && !twins.etcd.sessions.includes(session)) {
    add('hears that its session is gone', lose);
  }
  if (state.name === 'present') {
    add('has something to say', (at) => tell(at, { type: 'announcement.due' }), 'changes');
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
      one.isDue,
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
    isDue: false,
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
