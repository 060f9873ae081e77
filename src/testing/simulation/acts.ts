/** Does to a fleet what a scenario says. */
import { createOperator } from '../../operator/operator.ts';
import type { Revision } from '../../base/decimals.ts';
import type { Entry } from '../../store/port.ts';
import { type CallKind, type Matcher, type StoreCall, writesTo } from '../../store/faults.ts';
import { matches } from '../../store/faults/rules.ts';
import type { Act, CallClass } from './scenario.ts';
import { JOB, PREFIX, type SimulatedProcess } from './simulated-process.ts';
import type { World } from './world.ts';

type ActOf<Kind extends Act['do']> = Extract<Act, { do: Kind }>;

const CLASSES: Readonly<Record<CallClass, Matcher>> = {
  any: 'any',
  writes: 'transact',
  reads: 'read',
  sessions: (call) => SESSION_CALLS.has(call.kind),
};
const PROBE_WRITES = writesTo((key) => key.includes('/probe/'));
const SESSION_CALLS: ReadonlySet<CallKind> = new Set(['openSession', 'keepAlive', 'closeSession']);

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
    case 'calls':
      world.disturb(act.worker, act.forMs, (process) => disturbCalls(process, act));
      return;
    case 'events':
      world.disturb(act.worker, act.forMs, (process) => disturbEvents(process, act));
      return;
    case 'partition':
      world.disturb(act.worker, act.forMs, (process) => partition(world, process, act));
      return;
    case 'lateRenewals':
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
    process.client.clearRules();
    process.client.heal();
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
    ActOf<'cordon' | 'drain' | 'calls' | 'events' | 'partition' | 'lateRenewals'>
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

function disturbCalls(process: SimulatedProcess, act: ActOf<'calls'>): () => void {
  const { chance, silent } = act;
  const of = CLASSES[act.of];
  // The probe tries whether the store repeats anything: it must be right in saying so.
  const isDuplicate = act.fault === 'duplicate';
  const rule = process.client.when((call) => matches(of, call) && !(isDuplicate && isProbe(call)));
  const span = [0, act.spanMs] as const;
  const added = (() => {
    switch (act.fault) {
      case 'delay':
      case 'delayAnswer':
      case 'duplicate':
        return rule[act.fault](span, { chance });
      case 'lateLanding':
        return rule.lateLanding(span, { chance, silent });
      case 'loseBefore':
      case 'loseAfter':
        return rule[act.fault]({ chance, silent });
      case 'full':
        return process.client.when('transact').refuse('E_STORE_FULL', { chance });
    }
  })();
  return () => {
    added.remove();
  };
}

function disturbEvents(process: SimulatedProcess, act: ActOf<'events'>): () => void {
  const span = [0, act.spanMs] as const;
  const rule = process.client.when('watch')[act.fault](span, { chance: act.chance });
  return () => {
    rule.remove();
  };
}

function isProbe(call: StoreCall): boolean {
  return matches(PROBE_WRITES, call);
}

function partition(
  world: World,
  process: SimulatedProcess,
  { side, silent }: Pick<ActOf<'partition'>, 'side' | 'silent'>,
): () => void {
  process.client.partition({ side, silent });
  world.strike(`partition of ${side}`);
  return () => {
    process.client.heal();
  };
}

function lateRenewals(world: World, { worker, lateMs, forMs }: ActOf<'lateRenewals'>): void {
  world.disturb(worker, forMs / 2, ({ client }) => {
    const rule = client.when('keepAlive').delayAnswer(lateMs);
    return () => {
      rule.remove();
    };
  });
  world.later(forMs / 2, () => {
    world.disturb(worker, forMs, (process) =>
      partition(world, process, { side: 'both', silent: true }),
    );
  });
}

function revokeSession(world: World, process: SimulatedProcess, of: 'worker' | 'leader'): void {
  const key = of === 'leader' ? world.keys.leader : `${world.keys.root}workers/${process.instance}`;
  const entry = ownEntry(world, process, key);
  if (entry?.session === undefined || entry.session === null) return;
  rob(world, process);
  world.store.expireSession(entry.session);
  world.strike('revokeSession');
}

function deleteKey(world: World, process: SimulatedProcess, key: ActOf<'deleteKey'>['key']): void {
  const { keys } = world;
  const entry = ((): Entry | undefined => {
    switch (key) {
      case 'leader':
        return ownEntry(world, process, keys.leader);
      case 'presence':
        return ownEntry(world, process, `${keys.root}workers/${process.instance}`);
      case 'assignment':
        return world.store.dump(`${keys.root}assign/${process.instance}`)[0];
      case 'lease':
        return oneOf(world, process, `${keys.root}leases/`);
    }
  })();
  if (entry === undefined) return;
  rob(world, process);
  world.store.remove(entry.key);
  world.strike(`delete of ${key}`);
}

/** Nothing is lost by it: whoever owns the split knows its epoch again (R4). */
function rewrite(world: World, process: SimulatedProcess): void {
  const entry = oneOf(world, process, `${world.keys.root}splits/`);
  if (entry === undefined) return;
  world.store.put(entry.key, entry.value);
  world.strike('rewrite');
}

/** One of the entries that this very process has put under a prefix. */
function oneOf(world: World, process: SimulatedProcess, prefix: string): Entry | undefined {
  const own = world.store.dump(prefix).filter(({ value }) => value.includes(process.nonce));
  return own[Math.floor(world.random.next() * own.length)];
}

/** The entry of a key, if this very process has put it there. */
function ownEntry(world: World, process: SimulatedProcess, key: string): Entry | undefined {
  const entry = world.store.dump(key).find((one) => one.key === key);
  return entry?.value.includes(process.nonce) === true ? entry : undefined;
}

function rob(world: World, process: SimulatedProcess): void {
  world.recorder.note({ kind: 'disturbed', process: process.number, by: 'robbed' });
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
  }
}

function operate(world: World, act: ActOf<'pause' | 'cordon' | 'drain' | 'requeue'>): void {
  const operator = createOperator({
    job: JOB,
    prefix: PREFIX,
    store: world.store,
    random: world.random,
  });
  // What an operator cannot do, such as requeue a split that somebody else has just put back, is not done.
  const attempt = (done: Promise<void>): void => {
    done.then(
      () => {
        world.strike(act.do);
      },
      () => undefined,
    );
  };
  switch (act.do) {
    case 'pause':
      attempt(operator.pause());
      world.later(act.forMs, () => void operator.resume());
      return;
    case 'cordon':
    case 'drain': {
      const instance = world.at(act.worker)?.instance;
      if (instance === undefined) return;
      attempt(operator[act.do](instance));
      world.later(act.forMs, () => void operator[`un${act.do}`](instance));
      return;
    }
    case 'requeue': {
      const prefix = `${world.keys.root}parked/`;
      const requeue = (key: string): void => {
        attempt(operator.requeue(key.slice(prefix.length)));
      };
      for (const { key } of world.store.dump(prefix)) requeue(key);
      if (act.forMs > 0) whenPut(world, prefix, act, requeue);
      return;
    }
  }
}

/** Acts a little after each put under a prefix, for a while. */
function whenPut(
  world: World,
  prefix: string,
  { forMs, afterMs }: { readonly forMs: number; readonly afterMs: number },
  act: (key: string) => void,
): void {
  const next = String(BigInt(world.store.revision) + 1n) as Revision;
  const stream = world.store.watch({ prefix }, next).subscribe({
    next(event) {
      if (event.kind !== 'changes') return;
      for (const { key, entry } of event.changes) {
        if (entry !== null) world.later(afterMs, () => act(key));
      }
    },
  });
  // Also when the faults are over by then.
  world.clock.setTimeout(() => {
    stream.unsubscribe();
  }, forMs);
}
