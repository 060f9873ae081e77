/** Everything that can happen next in the lives of a fleet. */
import { endSession } from '../etcd.ts';
import type { Step } from '../explore.ts';
import { keys } from '../model.ts';
import { actorOf, type ActorName, fire, isIn, step, tell } from './actors.ts';
import { callNamed, drop, isDenied, isLeaderDenied, refused } from './calls.ts';
import { isToBeSetAside, setAside } from './divides.ts';
import { claimed, clearUp, ended, reconcile } from './holds.ts';
import {
  divided,
  elected,
  failsAsLeader,
  judged,
  looked,
  opened,
  planned,
  resign,
  resigned,
  sought,
} from './leads.ts';
import { advanceDeparture, reset, saidGoodbye } from './leaves.ts';
import { type Add, type At, type Call, charts, type Lives, type LifeSetting } from './model.ts';
import { announced, ownPresence, stepAnswered, stepFailed, unannounced } from './presences.ts';
import { addFaults } from './faults.ts';
import {
  closed,
  granted,
  notGranted,
  notRenewed,
  renewed,
  type SessionName,
  sessionOf,
} from './sessions.ts';

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

function addOwn(add: Add, at: At): void {
  addSession(add, at, 'session', 'session');
  addSession(add, at, 'leaderSession', 'leader session');
  for (const one of at.worker.calls) addCall(add, at, one);
  addNews(add, at);
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

function addSession(add: Add, at: At, name: SessionName, what: string): void {
  const { lives, worker } = at;
  const { id } = worker;
  const { isCalling, closing } = worker[name];
  if (closing !== '') {
    add(
      `${id}’s ${what} is closed`,
      (to) => {
        closed(to, name);
      },
      'atOnce',
    );
  }
  if (isIn(worker, name, 'opening')) {
    // What another store grants tells of that first.
    if (!isCalling || (worker.hasWatches && !worker.isCurrent)) return;
    add(
      `${id}’s ${what} opens`,
      (to) => {
        granted(to, name);
      },
      'atOnce',
    );
    add(
      `${id}’s ${what} does not open`,
      (to) => {
        notGranted(to, name);
      },
      'lost',
    );
    return;
  }
  if (!isIn(worker, name, 'open')) return;
  if (isIn(worker, name, 'open.renewing') || isIn(worker, name, 'open.late')) {
    if (!isCalling) return;
    add(`${id}’s ${what} is renewed`, (to) => {
      renewed(to, name);
    });
  }
  const isGone = !lives.etcd.sessions.includes(worker[name].id);
  if (isGone && !isIn(worker, name, 'open.lapsing')) {
    add(
      `${id} hears that its ${what} is gone`,
      (to) => tell(to, name, { type: 'session.gone' }),
      'atOnce',
    );
  }
  const passes = (to: At): void => tell(to, name, { type: 'deadline.passed' });
  const label = `the time of ${id}’s ${what} is up`;
  if (isIn(worker, name, 'open.lapsing')) add(label, passes);
  else add(label, passes, 'expiries');
  if (!isIn(worker, name, 'open.kept')) return;
  // What is renewed in time changes nothing; what is not is late.
  add(
    `a renewal of ${id}’s ${what} is not answered`,
    (to) => {
      tell(to, name, { type: 'renewal.due' });
      notRenewed(to, name);
    },
    'lost',
  );
}

const TIMED: readonly ActorName[] = [
  'presence',
  'session',
  'leader',
  'leaderSession',
  'departure',
  'link',
  'tenancy',
];
/** Renewals that change nothing, and planning again what is planned. */
const IDLE = new Set(['renewal:renewal.due', 'replan:plan.due']);

function addTimers(add: Add, { worker }: At): void {
  for (const name of TIMED) {
    const isKept =
      (name === 'session' || name === 'leaderSession') && isIn(worker, name, 'open.kept');
    for (const timer of actorOf(worker, name)?.armed ?? []) {
      if (IDLE.has(timer) && (isKept || name === 'leader')) continue;
      const event = timer.slice(timer.indexOf(':') + 1);
      add(`${worker.id}’s ${name}: ${event}`, (to) => {
        fire(to, name, timer);
      });
    }
  }
}

function addCall(add: Add, at: At, one: Call): void {
  const { worker, lives } = at;
  const { name, session } = one;
  const label = `${worker.id}’s ${name} is answered`;
  const answers = (answer: (to: At, call: Call) => void): void => {
    add(
      label,
      (to) => {
        const sent = callNamed(to.worker, name)!;
        // An answer of another store says so before anything else (R8).
        if (to.worker.hasWatches && !to.worker.isCurrent) reset(to);
        if (callNamed(to.worker, name) === sent) answer(to, sent);
      },
      // Who is elected is a matter of who is first.
      name === 'election' ? undefined : 'atOnce',
    );
  };
  switch (name) {
    case 'probe':
    case 'join':
      answers(stepAnswered);
      add(
        `${worker.id}’s ${name} is not answered`,
        (to) => {
          drop(to, name);
          stepFailed(to, 'step.failed');
        },
        'lost',
      );
      return;
    case 'announcement':
      if (sessionOf(at, 'session') !== session) {
        add(`${worker.id} gives up its announcement under a session that is over`, unannounced);
      }
      if (!isDenied(at)) answers(announced);
      else if (
        isIn(worker, 'presence', 'announcing') ||
        isIn(worker, 'presence', 'rejoining.putting')
      ) {
        add(
          `${worker.id}’s ${name} is refused`,
          (to) => {
            refused(to);
            stepFailed(to, 'step.denied');
          },
          'atOnce',
        );
      }
      return;
    case 'seek':
      answers(sought);
      return;
    case 'election':
      answers(elected);
      return;
    case 'resignation':
      if (!isDenied(at)) answers(resigned);
      return;
    case 'opening of its term':
      if (!isLeaderDenied(at)) answers(opened);
      return;
    case 'plan':
      if (!isLeaderDenied(at)) answers(planned);
      return;
    case 'assignments':
      if (!isLeaderDenied(at)) answers(divided);
      return;
    case 'judgement':
      if (!isLeaderDenied(at)) answers(judged);
      return;
    case 'claim':
      if (!isDenied(at)) answers(claimed);
      return;
    case 'ending':
      if (!isDenied(at)) answers(ended);
      return;
    case 'goodbye':
      if (lives.denied.includes(worker.id) || worker.leader.chart.hasEnded) answers(saidGoodbye);
      return;
  }
}

/** What a worker hears and does by itself. */
function addNews(add: Add, at: At): void {
  const { worker } = at;
  const { id } = worker;
  const isRefusedHere = isDenied(at);
  if (worker.hasWatches && !worker.isCurrent) {
    add(`${id} hears that the store is another one`, reset, 'atOnce');
  }
  if (worker.hasWatches && worker.isCurrent && !worker.isListed && !isRefusedHere) {
    add(
      `${id} has read the job`,
      ({ worker: one }) => {
        one.isListed = true;
      },
      'atOnce',
    );
  }
  const knows = isIn(worker, 'link', 'denied') || isIn(worker, 'link', 'barred');
  if (worker.hasWatches && isRefusedHere && !(worker.isRefused && knows)) {
    add(
      `${id} hears that it is refused`,
      (to) => {
        to.worker.isRefused = true;
        refused(to);
      },
      'atOnce',
    );
  }
  if (!isRefusedHere && worker.isRefused) {
    add(
      `${id} hears that it is served again`,
      (to) => {
        to.worker.isRefused = false;
        tell(to, 'link', { type: 'calls.healed' });
      },
      'atOnce',
    );
  }
  if (!isRefusedHere && !worker.isRefused && isIn(worker, 'link', 'denied')) {
    add(`${id}’s calls work again`, (to) => tell(to, 'link', { type: 'calls.healed' }), 'atOnce');
  }
  if (failsAsLeader(at)) {
    add(`what ${id} does as leader has failed for a lease`, (to) => {
      resign(to, 'failing');
    });
  }
  if (isToBeSetAside(at)) add(`${id} sets s aside`, setAside);
}

function addHandler(add: Add, { worker, setting }: At): void {
  const { id, tenancy } = worker;
  if (tenancy?.actor.chart.has('mayCommit') !== true) return;
  const says = (label: string, type: string): void => {
    add(`${id} ${label}`, (to) => tell(to, 'tenancy', { type }));
  };
  if (setting.completes) says('completes s', 'split.complete');
  if (!isIn(worker, 'tenancy', 'held.owned')) says('hands s back', 'drain.finished');
  if (isIn(worker, 'tenancy', 'held.cancelledDrain')) says('goes on with s', 'intake.resumed');
}

/** True while some process renews this session. */
export function isBelievedIn({ workers }: Lives, session: string): boolean {
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
export function settleAll(setting: LifeSetting, lives: Lives, first: At): void {
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
