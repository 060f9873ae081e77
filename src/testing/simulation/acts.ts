/** Does to a fleet what a scenario says. */
import { operate } from './acts-of-operators.ts';
import {
  deny,
  disturbCalls,
  disturbEvents,
  failReads,
  failRenewals,
  lateRenewals,
  partition,
} from './acts-on-calls.ts';
import { deleteKey, revokeSession, rewrite, sessionOf } from './acts-on-keys.ts';
import { outage } from './acts-on-store.ts';
import type { Act, ActOf } from './scenario.ts';
import type { SimulatedProcess } from './simulated-process.ts';
import type { World } from './world.ts';

/** Carries one act out. What strikes nothing is not counted. */
export function perform(world: World, act: Act): void {
  switch (act.do) {
    case 'compact':
      world.store.compact();
      world.strike('compact');
      return;
    case 'freezeExpiry':
      world.store.freezeExpiry(true);
      world.strike('freezeExpiry');
      world.later(act.forMs, () => {
        world.store.freezeExpiry(false);
      });
      return;
    case 'bounceLeader':
      bounceLeader(world, act);
      return;
    case 'pause':
    case 'cordon':
    case 'drain':
    case 'requeue':
      operate(world, act);
      return;
    case 'outage':
      outage(world, act);
      return;
    case 'sessionsApart':
      sessionsApart(world, act);
      return;
    case 'calls':
      world.lasts(act.forMs, act.spanMs);
      world.disturb(act.worker, act.forMs, (process) => disturbCalls(process, act));
      return;
    case 'denied':
      world.disturb(act.worker, act.forMs, (process) => deny(world, process, act.of));
      return;
    case 'failReads':
      world.disturb(act.worker, act.forMs, (process) => failReads(process, act));
      return;
    case 'hugeAnswers':
      world.lasts(act.forMs, act.entriesMax * act.entryMs);
      world.disturb(act.worker, act.forMs, (process) => process.answers.swell(act));
      return;
    case 'events':
      world.lasts(act.forMs, act.spanMs);
      world.disturb(act.worker, act.forMs, (process) => disturbEvents(process, act));
      return;
    case 'partition':
      world.disturb(act.worker, act.forMs, (process) => partition(world, process, act));
      return;
    case 'lateRenewals':
      world.lasts(act.forMs / 2, act.lateMs);
      lateRenewals(world, act);
      return;
    default: {
      const process = world.at(act.worker);
      const isThere = process?.state === 'running' || process?.state === 'frozen';
      if (process !== undefined && isThere) performOn(world, process, act);
    }
  }
}

/** Ends every fault that lasts, and starts every worker that is not there. */
export function heal(world: World): void {
  world.isCalm = true;
  world.store.freezeExpiry(false);
  for (const kind of ['paused', 'cordoned/', 'drained/']) {
    for (const { key } of world.store.dump(`${world.keys.root}control/${kind}`)) {
      world.store.remove(key);
    }
  }
  for (const process of world.alive()) {
    process.heal();
    process.thaw();
  }
  world.scenario.workers.forEach((_, slot) => {
    const process = world.at(slot);
    const isThere = process?.state === 'running' && !process.isStopping;
    if (!isThere) world.spawn(slot);
  });
}

type WorkerAct = Extract<Act, { readonly worker: number }>;

function performOn(
  world: World,
  process: SimulatedProcess,
  act: Exclude<
    WorkerAct,
    ActOf<
      | 'cordon'
      | 'drain'
      | 'calls'
      | 'events'
      | 'partition'
      | 'lateRenewals'
      | 'denied'
      | 'failReads'
      | 'hugeAnswers'
    >
  >,
): void {
  switch (act.do) {
    case 'crash':
      process.crash();
      world.strike('crash');
      comeBack(world, process, act.restartAfterMs, act.as);
      return;
    case 'stop':
      process.stop();
      world.strike('stop');
      comeBack(world, process, act.restartAfterMs, 'same');
      return;
    case 'freeze':
      freeze(world, process, act.forMs, act.time);
      return;
    case 'stepWall':
      process.clock.stepWall(act.byMs);
      world.strike('stepWall');
      return;
    case 'twin':
      world.strike('twin');
      world.spawn(act.worker, process.instance);
      return;
    case 'cutWatches':
      process.client.cutWatches(act.forMs);
      world.lasts(0, act.forMs);
      world.strike('cutWatches');
      return;
    case 'revokeSession':
      revokeSession(world, process, act.of);
      return;
    case 'deleteKey':
      deleteKey(world, process, act.key);
      return;
    case 'rewrite':
      rewrite(world, process);
      return;
  }
}

function comeBack(
  world: World,
  process: SimulatedProcess,
  afterMs: number | null,
  as: 'same' | 'other',
): void {
  if (afterMs === null) return;
  const { id } = world.scenario.workers[process.slot]!;
  const instance = as === 'same' ? process.instance : `${id}-${world.processes.length}`;
  world.respawn(process, afterMs, instance);
}

function freeze(
  world: World,
  process: SimulatedProcess,
  forMs: number,
  time: 'runs' | 'stops',
): void {
  if (!process.freeze(time)) return;
  world.strike(time === 'runs' ? 'freeze' : 'suspend');
  world.later(forMs, () => {
    process.thaw();
  });
}

function bounceLeader(world: World, { how, forMs }: ActOf<'bounceLeader'>): void {
  const leader = world.alive().find(({ isLeading }) => isLeading);
  if (leader === undefined) return;
  world.strike('bounceLeader');
  switch (how) {
    case 'crash':
      leader.crash();
      comeBack(world, leader, forMs, 'same');
      return;
    case 'stop':
      leader.stop();
      comeBack(world, leader, forMs, 'same');
      return;
    case 'freeze':
      freeze(world, leader, forMs, 'runs');
      return;
    case 'revokeSession':
      revokeSession(world, leader, 'leader');
      return;
    case 'deleteKey':
      deleteKey(world, leader, 'leader');
      return;
    case 'partition':
      world.disturb(leader.slot, forMs, (process) =>
        partition(world, process, { side: 'both', silent: true }),
      );
      return;
    case 'denied':
      world.disturb(leader.slot, forMs, (process) => deny(world, process, 'any'));
      return;
    case 'failReads':
      world.disturb(leader.slot, forMs, (process) =>
        failReads(process, { of: 'reads', silent: false }),
      );
      return;
  }
}

/** Whoever leads loses one of its two sessions, and the other one later or never. */
function sessionsApart(world: World, { first, how, forMs, thenMs }: ActOf<'sessionsApart'>): void {
  const leader = world.alive().find(({ isLeading }) => isLeading);
  if (leader === undefined) return;
  const end = (of: 'worker' | 'leader'): void => {
    if (how === 'revoked') revokeSession(world, leader, of);
    else {
      const session = sessionOf(world, leader, of);
      if (session !== null) world.later(forMs, failRenewals(leader, session));
    }
  };
  world.strike('sessionsApart');
  end(first);
  if (thenMs !== null) world.later(thenMs, () => end(first === 'worker' ? 'leader' : 'worker'));
}
