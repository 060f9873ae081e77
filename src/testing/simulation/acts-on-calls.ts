/** What goes wrong between a process and the store. */
import type { SessionId } from '../../base/ids.ts';
import {
  type CallKind,
  looksAt,
  type Matcher,
  type StoreCall,
  writesTo,
} from '../../store/faults.ts';
import { matches } from '../../store/faults/rules.ts';
import type { ActOf, CallClass, DeniedClass, ReadClass } from './scenario.ts';
import type { SimulatedProcess } from './simulated-process.ts';
import type { World } from './world.ts';

const CLASSES: Readonly<Record<CallClass, Matcher>> = {
  any: 'any',
  writes: 'transact',
  reads: 'read',
  sessions: (call) => SESSION_CALLS.has(call.kind),
};
const PROBE_WRITES = writesTo((key) => key.includes('/probe/'));
const SESSION_CALLS: ReadonlySet<CallKind> = new Set(['openSession', 'keepAlive', 'closeSession']);

type KeyPart = Exclude<ReadClass | DeniedClass, CallClass>;

function isPart(of: ReadClass | DeniedClass): of is KeyPart {
  return of.endsWith('/');
}

/** Calls about keys of one kind. */
function about(part: KeyPart): Matcher {
  const isMeant = (key: string): boolean => key.includes(`/${part}`);
  const isLook = looksAt(isMeant);
  const isWrite = writesTo(isMeant);
  return (call) => matches(isLook, call) || matches(isWrite, call);
}

/** Calls go wrong. */
export function disturbCalls(process: SimulatedProcess, act: ActOf<'calls'>): () => void {
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

/** Events of watches go wrong. */
export function disturbEvents(process: SimulatedProcess, act: ActOf<'events'>): () => void {
  const span = [0, act.spanMs] as const;
  const rule = process.client.when('watch')[act.fault](span, { chance: act.chance });
  return () => {
    rule.remove();
  };
}

function isProbe(call: StoreCall): boolean {
  return matches(PROBE_WRITES, call);
}

/** It is cut off. */
export function partition(
  world: World,
  process: SimulatedProcess,
  { side, silent }: Pick<ActOf<'partition'>, 'side' | 'silent'>,
): () => void {
  world.strike(`partition of ${side}`);
  return process.cutOff({ side, silent });
}

/** The store does not let it do something; of keys, neither read and watch them nor write them. */
export function deny(world: World, process: SimulatedProcess, of: DeniedClass): () => void {
  world.recorder.note({ kind: 'denied', process: process.number });
  const matcher = isPart(of) ? about(of) : CLASSES[of];
  const rule = process.client.when(matcher).deny();
  return () => {
    rule.remove();
  };
}

/** Its reads fail; what it writes lands, and is answered. */
export function failReads(
  { client }: SimulatedProcess,
  { of, silent }: Pick<ActOf<'failReads'>, 'of' | 'silent'>,
): () => void {
  const isMeant = isPart(of) ? about(of) : CLASSES[of];
  const rule = client
    .when((call) => call.kind === 'read' && matches(isMeant, call))
    .loseBefore({ silent });
  return () => {
    rule.remove();
  };
}

/** Renewals of one session are lost. */
export function failRenewals({ client }: SimulatedProcess, session: SessionId): () => void {
  const rule = client.when((call) => call.kind === 'keepAlive' && call.id === session).loseBefore();
  return () => {
    rule.remove();
  };
}

/** Renewals are answered late, and then nothing arrives any more. */
export function lateRenewals(world: World, { worker, lateMs, forMs }: ActOf<'lateRenewals'>): void {
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
