/** What a small fleet is made of: a store, workers with their charts, and transactions under way. */
import type { Ending } from '../../../machines/tenancy/tenancy.events.ts';
import { leaderMachine } from '../../../machines/leader/leader.machine.ts';
import { tenancyMachine } from '../../../machines/tenancy/tenancy.machine.ts';
import type { InstanceId, Nonce, SplitId } from '../../../src/base/ids.ts';
import type { SplitRecord, SplitStatus } from '../../../src/records/records.ts';
import { type ChartState, PureChart } from './charts.ts';
import { cloneEtcd, type Entry, type EtcdState, type Outcome, type Txn } from './etcd.ts';

/** How often each thing may happen in a world; what is not named never happens. */
export interface Bounds {
  /** Answers that are lost: the write is sent again, the copy before it may land at any time. */
  readonly unheard: number;
  /** Sessions that the store ends while their worker believes in them. */
  readonly expiries: number;
  /** Sessions that a worker gives up by itself; the store ends them later. */
  readonly fences: number;
  readonly crashes: number;
  /** Splits moved by hand where nobody leads; with leaders, instances drained by the operator and taken back. */
  readonly moves: number;
  readonly commits: number;
  readonly fails: number;
  readonly requeues: number;
  /** Records written anew by hand, with what they hold. */
  readonly rewrites: number;
  /** Leases deleted by hand. */
  readonly deletes: number;
  /** Terms given up for cause. */
  readonly resignations: number;
  /** Marks put again by a tick. */
  readonly ticks: number;
}

/** A rule left out. */
export type Omission =
  | 'R1: an unanswered claim is settled by reading'
  | 'R4: an ending that meets its own epoch ends there'
  | 'R19: leader writes compare nothing'
  | 'R23: the verdict does not compare the plan'
  | 'R23: a requeue writes the plan only to take a verdict back'
  | 'R24: ticks read nothing again'
  | 'R32: a mark compares the session only'
  | 'R32: a mark compares the create revision only'
  | 'R32: a mark is put without a session';

export interface Setting {
  readonly instances: readonly string[];
  readonly splits: readonly string[];
  readonly bounds: Partial<Bounds>;
  /** Workers stand for election, divide and judge; otherwise splits are named by hand. */
  readonly hasLeaders: boolean;
  /** Handlers complete their splits; otherwise they only hold them. */
  readonly completes: boolean;
  readonly maxAttempts: number;
  /**
   * Watches are prompt, but for owners whose lease is gone, and so are the answers to what leaders write. Larger worlds
   * are: the smaller ones explore every delay.
   */
  readonly isPrompt: boolean;
  /** A lease without a tenancy is broken at once; otherwise it is if no tick can drop it any more (R12). */
  readonly isStrict: boolean;
  readonly without: Omission | null;
}

/** What a worker knows of a key, and since when. */
export interface Known {
  readonly entry: Entry | null;
  readonly revision: number;
}

export type ItemKind =
  | 'claim'
  | 'commit'
  | 'end'
  | 'mark'
  | 'orphan'
  | 'election'
  | 'assignment'
  | 'verdict'
  | 'quarantine'
  | 'resignation'
  | 'requeue';

/** A write that is not settled. */
export interface Item {
  readonly kind: ItemKind;
  /** The split it is about, or the instance. */
  readonly about: string;
  readonly txn: Txn;
  /** The session that it is put under. */
  readonly session: string | null;
  /** The record as sent. */
  readonly record: SplitRecord | null;
  readonly ending: Ending | null;
  /** The term that a leader's write belongs to: the revision that created its key. */
  readonly term: number | null;
  readonly answer: Outcome | null;
  /** Not answered, and not sent again. */
  readonly isGivenUp: boolean;
}

/** One copy of a transaction under way. */
export interface Packet {
  readonly from: string;
  readonly nonce: string;
  readonly item: Omit<Item, 'answer' | 'isGivenUp'>;
  /** Its sender waits for the answer to this copy. */
  readonly isAwaited: boolean;
}

export interface Tenancy {
  chart: ChartState;
  record: SplitRecord | null;
  revision: number;
  isStale: boolean;
  epoch: string | null;
  startWatermark: string | null;
  hasGrant: boolean;
  hasPendingCommit: boolean;
  ending: Ending | null;
}

/** What a leader knows of a split. */
export interface Indexed {
  readonly status: SplitStatus;
  readonly owner: string | null;
  readonly attempts: number;
  readonly revision: number;
}

export interface Term {
  readonly createRevision: number;
  readonly generation: number;
}

export interface Leading {
  chart: ChartState;
  session: string | null;
  term: Term | null;
  index: Record<string, Indexed>;
  /** To be read: their lease was deleted. */
  due: string[];
}

export interface Worker {
  readonly id: string;
  /** The process, from 1. */
  process: number;
  isUp: boolean;
  session: string | null;
  /** Sessions opened so far, by all processes. */
  sessionCount: number;
  assignment: Known;
  leases: Record<string, Known>;
  tenancies: Record<string, Tenancy>;
  /** Splits known to have ended. */
  over: string[];
  leading: Leading;
  items: Item[];
}

export interface Fleet {
  etcd: EtcdState;
  workers: Worker[];
  operator: Item | null;
  /** Instances that an operator drains. */
  drained: string[];
  wire: Packet[];
  stamps: number;
  left: Bounds;
  /** What was seen to go wrong in a landing. */
  fault: string | null;
}

export const tenancyChart = new PureChart(tenancyMachine, { split: 's', drainDeadlineMs: 1 });
export const leaderChart = new PureChart(leaderMachine, { instance: 'a', replanIntervalMs: 1 });

/** Where something happens. */
export interface Place {
  readonly setting: Setting;
  readonly fleet: Fleet;
  readonly worker: Worker;
}

export const keys = {
  split: (split: string) => `splits/${split}`,
  lease: (split: string) => `leases/${split}`,
  assignment: (instance: string) => `assign/${instance}`,
  presence: (instance: string) => `workers/${instance}`,
  parked: (split: string) => `parked/${split}`,
  leader: 'leader',
  plan: 'plan',
};

export const NOTHING_LEFT: Bounds = {
  unheard: 0,
  expiries: 0,
  fences: 0,
  crashes: 0,
  moves: 0,
  commits: 0,
  fails: 0,
  requeues: 0,
  rewrites: 0,
  deletes: 0,
  resignations: 0,
  ticks: 0,
};

export function nonceOf(worker: Worker): Nonce {
  return `${worker.id}${worker.process}` as Nonce;
}

export function instanceOf(worker: Worker): InstanceId {
  return worker.id as InstanceId;
}

export function splitIdFor(split: string): SplitId {
  return split as SplitId;
}

export function recordOf(entry: Entry | null | undefined): SplitRecord | null {
  return (entry?.value ?? null) as SplitRecord | null;
}

export function newLeading(): Leading {
  return { chart: leaderChart.initial, session: null, term: null, index: {}, due: [] };
}

export function newTenancy(): Tenancy {
  return {
    chart: tenancyChart.initial,
    record: null,
    revision: 0,
    isStale: true,
    epoch: null,
    startWatermark: null,
    hasGrant: false,
    hasPendingCommit: false,
    ending: null,
  };
}

export function cloneFleet(fleet: Fleet): Fleet {
  return {
    ...fleet,
    etcd: cloneEtcd(fleet.etcd),
    workers: fleet.workers.map(cloneWorker),
    drained: fleet.drained,
    wire: fleet.wire.slice(),
    left: fleet.left,
  };
}

function cloneWorker(worker: Worker): Worker {
  const tenancies: Record<string, Tenancy> = {};
  for (const split of Object.keys(worker.tenancies)) {
    tenancies[split] = { ...worker.tenancies[split]! };
  }
  return {
    ...worker,
    leases: { ...worker.leases },
    tenancies,
    over: worker.over,
    leading: { ...worker.leading, index: { ...worker.leading.index } },
    items: worker.items.slice(),
  };
}

/** Uses up one of the things that may go wrong. */
export function spend(fleet: Fleet, what: keyof Bounds): void {
  fleet.left = { ...fleet.left, [what]: fleet.left[what] - 1 };
}
