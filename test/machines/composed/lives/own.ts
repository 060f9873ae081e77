/** What one worker of such a fleet does next: what it is answered, hears, and does when a timer fires. */
import { actorOf, type ActorName, fire, isIn, tell } from './actors.ts';
import { callNamed, drop, isDenied, isLeaderDenied, refused } from './calls.ts';
import { isToBeSetAside, setAside } from './divides.ts';
import { claimed, ended } from './holds.ts';
import {
  divided,
  elected,
  failsAsLeader,
  judged,
  opened,
  planned,
  resign,
  resigned,
  sought,
} from './leads.ts';
import { reset, saidGoodbye } from './leaves.ts';
import type { Add, At, Call } from './model.ts';
import { announced, stepAnswered, stepFailed, unannounced } from './presences.ts';
import {
  closed,
  granted,
  notGranted,
  notRenewed,
  renewed,
  type SessionName,
  sessionOf,
} from './sessions.ts';

/** What it hears, and what it is answered. */
export function addOwn(add: Add, at: At): void {
  addSession(add, at, 'session', 'session');
  addSession(add, at, 'leaderSession', 'leader session');
  for (const one of at.worker.calls) addCall(add, at, one);
  addNews(add, at);
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

export function addTimers(add: Add, { worker }: At): void {
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

export function addHandler(add: Add, { worker, setting }: At): void {
  const { id, tenancy } = worker;
  if (tenancy?.actor.chart.has('mayCommit') !== true) return;
  const says = (label: string, type: string): void => {
    add(`${id} ${label}`, (to) => tell(to, 'tenancy', { type }));
  };
  if (setting.completes) says('completes s', 'split.complete');
  if (!isIn(worker, 'tenancy', 'held.owned')) says('hands s back', 'drain.finished');
  if (isIn(worker, 'tenancy', 'held.cancelledDrain')) says('goes on with s', 'intake.resumed');
}
