/** Everything that can happen next in the lives of a fleet. */
import { endSession } from '../etcd.ts';
import type { Step } from '../explore.ts';
import { keys } from '../model.ts';
import { isIn, step } from './actors.ts';
import { callNamed, drop, isDenied } from './calls.ts';
import { addFaults } from './faults.ts';
import { clearUp, reconcile } from './holds.ts';
import { looked } from './leads.ts';
import { advanceDeparture } from './leaves.ts';
import { type Add, type At, charts, type Lives, type LifeSetting } from './model.ts';
import { addHandler, addOwn, addTimers } from './own.ts';
import { ownPresence } from './presences.ts';
import type { SessionName } from './sessions.ts';

export function stepsOf(setting: LifeSetting, lives: Lives): Step<Lives>[] {
  const steps: Step<Lives>[] = [];
  const adding =
    (index: number): Add =>
    (label, act, kind) => {
      const spent = kind === 'atOnce' ? undefined : kind;
      if (spent !== undefined && (lives.left[spent] <= 0 || lives.left.total <= 0)) return;
      steps.push({
        label,
        isFailure: spent !== undefined,
        act: (draft) => {
          const at = placeOf(setting, draft, index);
          if (spent !== undefined) {
            const { left } = draft;
            draft.left = { ...left, total: left.total - 1, [spent]: left[spent] - 1 };
          }
          const before = draft.etcd.entries;
          draft.etcd = { ...draft.etcd, entries: { ...before } };
          act(at);
          settleAll(setting, draft, at);
        },
      });
    };
  lives.workers.forEach((worker, index) => {
    const add = adding(index);
    const at = placeOf(setting, lives, index);
    if (!worker.isUp) return;
    addTimers(add, at);
    addOwn(add, at);
    addHandler(add, at);
  });
  addStore(adding(0), setting, lives);
  addFaults(adding, setting, lives);
  return steps;
}

/** What a prompt worker does before anything else happens. */
function doAtOnce(at: At): void {
  const due: ((to: At) => void)[] = [];
  addOwn((_, act, kind) => {
    if (kind === 'atOnce') due.push(act);
  }, at);
  due[0]?.(at);
}

function placeOf(setting: LifeSetting, lives: Lives, index: number): At {
  return { setting, lives, worker: lives.workers[index]!, later: [] };
}

/** True while some process renews this session. */
function isBelievedIn({ workers }: Lives, session: string): boolean {
  const believes = (one: Lives['workers'][number], name: SessionName): boolean =>
    one.isUp &&
    one[name].id === session &&
    one[name].held === 'open' &&
    !isIn(one, name, 'open.lapsing');
  return workers.some((one) => believes(one, 'session') || believes(one, 'leaderSession'));
}

function addStore(add: Add, setting: LifeSetting, lives: Lives): void {
  for (const session of lives.etcd.sessions) {
    const isBelieved = isBelievedIn(lives, session);
    const label = `the store ends session ${session}`;
    add(label, (to) => endSession(to.lives.etcd, session), isBelieved ? 'expiries' : undefined);
  }
  for (const id of setting.instances) {
    for (const timer of lives.peers[id]!.armed) {
      add(`the rebalance delay of ${id} is over`, ({ lives: to }) => {
        const peer = to.peers[id]!;
        const left = { ...peer, armed: peer.armed.filter((one) => one !== timer) };
        to.peers[id] = step(charts.peer, left, { type: 'delay.elapsed' }).next;
      });
    }
  }
  if (!setting.denialsEnd) return;
  for (const id of lives.denied) {
    add(`the store serves ${id} again`, ({ lives: to }) => {
      to.denied = to.denied.filter((one) => one !== id);
    });
  }
  for (const id of lives.deniedLeaders) {
    add(`the store lets ${id} lead again`, ({ lives: to }) => {
      to.deniedLeaders = to.deniedLeaders.filter((one) => one !== id);
    });
  }
}

/** What follows at once: watches are prompt. */
function settleAll(setting: LifeSetting, lives: Lives, first: At): void {
  runLater(first);
  for (let round = 0; ; round += 1) {
    if (round > 40) throw new Error('a fleet does not come to rest');
    const before = lives.workers.map((worker) => ({ ...worker }));
    const { entries } = lives.etcd;
    notePeers(setting, lives);
    lives.workers.forEach((worker, index) => {
      if (worker.isUp) settle(placeOf(setting, lives, index));
    });
    if (lives.etcd.entries === entries && !hasMoved(before, lives.workers)) break;
  }
  dropIdleSessions(lives);
}

/** A session that nobody knows any more and that holds nothing may be over already. */
function dropIdleSessions({ workers, etcd }: Lives): void {
  const known = new Set(Object.values(etcd.entries).map(({ session }) => session));
  for (const { session, leaderSession, calls } of workers) {
    for (const { id, held, closing } of [session, leaderSession]) {
      known.add(closing);
      if (held !== 'none') known.add(id);
    }
    for (const one of calls) known.add(one.session);
  }
  etcd.sessions = etcd.sessions.filter((session) => known.has(session));
}

function hasMoved(before: readonly Lives['workers'][number][], after: Lives['workers']): boolean {
  return after.some((worker, index) => {
    const old = before[index]!;
    return (Object.keys(worker) as (keyof typeof worker)[]).some(
      (name) => worker[name] !== old[name],
    );
  });
}

function runLater({ later }: At): void {
  for (const act of later.splice(0)) act();
}

function settle(at: At): void {
  const { worker } = at;
  // Before it watches anything a worker has nothing to be wrong about.
  if (!worker.hasWatches) worker.isCurrent = true;
  clearUp(at);
  if (worker.isCurrent && worker.isListed && !isDenied(at)) ownPresence(at);
  looked(at);
  runLater(at);
  reconcile(at);
  advanceDeparture(at);
  runLater(at);
  clearUp(at);
  prune(at);
  if (at.setting.prompt.includes(worker.id)) {
    doAtOnce(at);
    runLater(at);
    clearUp(at);
  }
}

/** Calls that nobody waits for any more. */
function prune(at: At): void {
  const { worker, lives } = at;
  if (!isIn(worker, 'presence', 'probing')) drop(at, 'probe');
  if (!isIn(worker, 'presence', 'joining') && !isIn(worker, 'presence', 'rejoining.joining')) {
    drop(at, 'join');
  }
  if (!isIn(worker, 'leader', 'following.planless')) drop(at, 'seek');
  if (worker.term === null) {
    drop(at, 'opening of its term', 'plan', 'assignments', 'judgement');
  }
  if (!isIn(worker, 'leader', 'resigning')) drop(at, 'resignation');
  const election = callNamed(worker, 'election');
  const isStanding = isIn(worker, 'leader', 'campaigning.standing');
  if (election !== undefined && !isStanding && !lives.etcd.sessions.includes(election.session)) {
    drop(at, 'election');
  }
}

/** Presences come and go: everybody sees it. */
function notePeers(setting: LifeSetting, lives: Lives): void {
  for (const id of setting.instances) {
    const entry = lives.etcd.entries[keys.presence(id)];
    const isParting = (entry?.value as { parting?: boolean } | undefined)?.parting === true;
    const event =
      entry === undefined
        ? { type: 'peer.vanished', delayMs: 1 }
        : { type: isParting ? 'peer.parting' : 'peer.announced' };
    lives.peers[id] = step(charts.peer, lives.peers[id]!, event).next;
  }
}
