/** Small fleets as worlds to explore. */
import { seededRecord } from '../../../src/protocol/tenancy-records.ts';
import type { PlanRecord, SplitRecord } from '../../../src/records/records.ts';
import { emptyEtcd, put } from './etcd.ts';
import { after, type World } from './explore.ts';
import { brokenIn, isJudged, isServed, renewedInVain } from './invariants.ts';
import { keyOfFleet } from './keys.ts';
import {
  cloneFleet,
  type Fleet,
  keys,
  newLeading,
  NOTHING_LEFT,
  type Setting,
  type Worker,
} from './model.ts';
import { openSession } from './sessions.ts';
import { name, stepsOf } from './steps.ts';
import { reconcile } from './tenancies.ts';

/** How a world begins, beside its setting. */
export interface Beginning {
  /** Splits in the order of the setting: named for this worker from the beginning, where nobody leads. */
  readonly named?: string;
  /** Every split has used up its attempts. */
  readonly isParked?: boolean;
  /** Steps by their labels, before the first one that counts. */
  readonly then?: readonly string[];
}

const SETTING: Setting = {
  instances: ['a'],
  splits: ['s'],
  bounds: {},
  hasLeaders: false,
  completes: false,
  maxAttempts: 9,
  isPrompt: false,
  isStrict: true,
  without: null,
};

export function fleetWorld(
  worldName: string,
  change: Partial<Setting>,
  beginning: Beginning = {},
): World<Fleet> {
  const setting: Setting = { ...SETTING, ...change };
  const world: World<Fleet> = {
    name: worldName,
    initial: firstState(setting, beginning),
    clone: cloneFleet,
    keyOf: keyOfFleet,
    stepsOf: (fleet) => stepsOf(setting, fleet),
    brokenIn: (fleet) => brokenIn(fleet, setting),
    goals: goalsOf(setting),
  };
  return { ...world, initial: after(world, beginning.then ?? []) };
}

function goalsOf(setting: Setting): World<Fleet>['goals'] {
  const served = {
    name: 'every split has ended or is owned',
    isReached: (fleet: Fleet) => isServed(fleet, setting),
  };
  const judged = {
    name: 'where every split has ended there is a verdict',
    isReached: (fleet: Fleet) => isJudged(fleet, setting),
  };
  const tidied = {
    name: 'no lease is renewed by a worker that does not hold it',
    isReached: (fleet: Fleet) =>
      setting.splits.every((split) => renewedInVain(fleet, split) === null),
  };
  return [served, ...(setting.hasLeaders ? [judged] : []), ...(setting.isStrict ? [] : [tidied])];
}

function firstState(setting: Setting, { named, isParked }: Beginning): Fleet {
  const etcd = emptyEtcd();
  const fleet: Fleet = {
    etcd,
    workers: setting.instances.map((id) => newWorker(id, setting)),
    operator: null,
    drained: [],
    wire: [],
    stamps: 0,
    left: { ...NOTHING_LEFT, ...setting.bounds },
    fault: null,
  };
  put(etcd, keys.plan, PLAN);
  for (const split of setting.splits) {
    const record = seededRecord({ weight: 1, seed: null });
    const { maxAttempts } = setting;
    const parked: SplitRecord = { ...record, status: 'quarantined', attempts: maxAttempts };
    put(etcd, keys.split(split), isParked === true ? parked : record);
    if (named !== undefined) name({ setting, fleet }, split, named);
  }
  for (const worker of fleet.workers) {
    openSession({ fleet, worker });
    const { entries, revision } = etcd;
    worker.assignment = { entry: entries[keys.assignment(worker.id)] ?? null, revision };
    reconcile({ setting, fleet, worker });
  }
  return fleet;
}

const PLAN: PlanRecord = {
  fingerprint: 'f',
  generation: 1,
  finality: 'final',
  sealed: true,
  planned: 1,
  cursor: null,
  requeues: 0,
  verdict: null,
};

function newWorker(id: string, setting: Setting): Worker {
  const nothing = { entry: null, revision: 0 };
  return {
    id,
    process: 1,
    isUp: true,
    session: null,
    sessionCount: 0,
    assignment: nothing,
    leases: Object.fromEntries(setting.splits.map((split) => [split, nothing])),
    tenancies: {},
    over: [],
    leading: newLeading(),
    items: [],
  };
}
