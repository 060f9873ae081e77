/**
 * What the lives of a small fleet are made of: every chart of each worker with its timers and the calls it waits for, and one
 * store. The writes of a split, and answers that come late, are the business of the fleets beside it.
 */
import { departureMachine } from '../../../../machines/departure/departure.machine.ts';
import { leaderMachine } from '../../../../machines/leader/leader.machine.ts';
import { linkMachine } from '../../../../machines/link/link.machine.ts';
import { peerMachine } from '../../../../machines/peer/peer.machine.ts';
import { presenceMachine } from '../../../../machines/presence/presence.machine.ts';
import { sessionMachine } from '../../../../machines/session/session.machine.ts';
import { tenancyMachine } from '../../../../machines/tenancy/tenancy.machine.ts';
import { type ChartState, PureChart } from '../charts.ts';
import { cloneEtcd, type EtcdState } from '../etcd.ts';

/** How often each thing may happen; what is not named never does. `total` bounds all of them together. */
export interface Bounds {
  readonly total: number;
  /** The store is replaced by another one, or restored from a snapshot. */
  readonly resets: number;
  /** A session that is believed in ends: by the store, or because its time was up. */
  readonly expiries: number;
  /** The store refuses a worker. */
  readonly denials: number;
  /** The store refuses a worker what only a leader does. */
  readonly leaderDenials: number;
  /** Calls that are not answered. */
  readonly lost: number;
  /** Workers that are asked to leave. */
  readonly stops: number;
  readonly kills: number;
  /** Acts of operators, and keys deleted by hand. */
  readonly hands: number;
}

/** A fault that was there, put back. */
export type LifeOmission =
  | 'L1: a reset drops a session that is being opened, and nobody joins anew'
  | 'L3: what a leader cannot read costs it nothing'
  | 'L7: the leader does not see itself as a worker'
  | 'R14: what was announced in the store before still counts'
  | 'R45: a session is kept for as long as it can be renewed'
  | 'R45: giving everything up drops a session that is being opened';

export interface LifeSetting {
  readonly instances: readonly string[];
  readonly bounds: Partial<Bounds>;
  /** Workers that hear every answer and all news at once; of the others every delay is explored. */
  readonly prompt: readonly string[];
  readonly maxAttempts: number;
  /** Denials end by themselves; otherwise they stay, and somebody else must be able to go on. */
  readonly denialsEnd: boolean;
  /** Handlers complete their splits; otherwise they work on for ever. */
  readonly completes: boolean;
  readonly without: LifeOmission | null;
}

/** A chart and its armed timers, as `id:event`. Never changed in place. */
export interface Actor {
  readonly chart: ChartState;
  readonly armed: readonly string[];
}

/** What a session keeper has, beside its chart. */
export interface Keeper {
  readonly actor: Actor;
  readonly held: 'none' | 'asked' | 'open' | 'over';
  /** Of what is asked for or open. */
  readonly id: string;
  /** An opening or a renewal is on its way. */
  readonly isCalling: boolean;
  /** The session that is being given back; empty when none is. */
  readonly closing: string;
}

export interface Tenancy {
  readonly actor: Actor;
  readonly epoch: string | null;
}

/** What a worker waits for an answer to. */
export type CallName =
  | 'probe'
  | 'join'
  | 'announcement'
  | 'seek'
  | 'election'
  | 'opening of its term'
  | 'resignation'
  | 'plan'
  | 'assignments'
  | 'judgement'
  | 'claim'
  | 'ending'
  | 'goodbye';

export interface Call {
  readonly name: CallName;
  /** The session that it is put under, or hangs on. */
  readonly session: string;
  /** An announcement says that the worker leaves. */
  readonly isParting: boolean;
}

export interface Life {
  readonly id: string;
  /** False once the process is over. */
  isUp: boolean;
  presence: Actor;
  session: Keeper;
  leader: Actor;
  leaderSession: Keeper;
  departure: Actor;
  link: Actor;
  tenancy: Tenancy | null;
  calls: readonly Call[];
  /** It follows the store that there is now. */
  isCurrent: boolean;
  hasWatches: boolean;
  /** Everything followed has been read. */
  isListed: boolean;
  /** It was told that its watches are refused. */
  isRefused: boolean;
  /** It never was in the fleet: a refusal ends it. */
  isStarting: boolean;
  announcedAt: number | null;
  hasLanded: boolean;
  /** The revision that created its leader key; null without a term. */
  term: number | null;
  /** What ended it before its time. */
  error: string | null;
}

export interface Lives {
  etcd: EtcdState;
  workers: Life[];
  /** One chart for each worker, as all the others see it. */
  peers: Record<string, Actor>;
  denied: readonly string[];
  deniedLeaders: readonly string[];
  isPaused: boolean;
  drained: readonly string[];
  sessionCount: number;
  left: Bounds;
  fault: string | null;
}

/** Where something happens. `later` is done at the end of the step, as what is posted to a mailbox. */
export interface At {
  readonly setting: LifeSetting;
  readonly lives: Lives;
  readonly worker: Life;
  readonly later: (() => void)[];
}

/** A bound that a step uses up. */
export type Spent = Exclude<keyof Bounds, 'total'>;
/** Adds what can happen next: by itself, at once where a worker is prompt, or using a bound up. */
export type Add = (label: string, act: (at: At) => void, kind?: Spent | 'atOnce') => void;

export const SPLIT = 's';
export const nonceOf = (id: string): string => `${id}1`;

export const charts = {
  presence: new PureChart(presenceMachine, { instance: 'a', failuresMax: 9 }, ['refusals']),
  session: new PureChart(sessionMachine, { of: 'worker' }),
  leader: new PureChart(leaderMachine, { instance: 'a', replanIntervalMs: 1 }),
  departure: new PureChart(departureMachine, { instance: 'a' }),
  link: new PureChart(linkMachine, { instance: 'a', leaseDurationMs: 2 }),
  tenancy: new PureChart(tenancyMachine, { split: SPLIT, drainDeadlineMs: 1 }),
  peer: new PureChart(peerMachine, { instance: 'a' }),
};

export const NO_BOUNDS: Bounds = {
  total: 0,
  resets: 0,
  expiries: 0,
  denials: 0,
  leaderDenials: 0,
  lost: 0,
  stops: 0,
  kills: 0,
  hands: 0,
};

/** As much as `total` allows, of every kind. */
export const ANYTHING: Bounds = {
  total: 9,
  resets: 9,
  expiries: 9,
  denials: 9,
  leaderDenials: 9,
  lost: 9,
  stops: 9,
  kills: 9,
  hands: 9,
};

export function cloneLives(lives: Lives): Lives {
  return {
    ...lives,
    etcd: cloneEtcd(lives.etcd),
    workers: lives.workers.map((worker) => ({ ...worker })),
    peers: { ...lives.peers },
  };
}

export function newActor(chart: PureChart): Actor {
  return { chart: chart.initial, armed: [] };
}

export function newLife(id: string): Life {
  const keeper = (): Keeper => ({
    actor: newActor(charts.session),
    held: 'none',
    id: '',
    isCalling: false,
    closing: '',
  });
  return {
    id,
    isUp: true,
    presence: newActor(charts.presence),
    session: keeper(),
    leader: newActor(charts.leader),
    leaderSession: keeper(),
    departure: newActor(charts.departure),
    link: newActor(charts.link),
    tenancy: null,
    calls: [{ name: 'probe', session: '', isParting: false }],
    isCurrent: true,
    hasWatches: false,
    isListed: false,
    isRefused: false,
    isStarting: true,
    announcedAt: null,
    hasLanded: false,
    term: null,
    error: null,
  };
}
