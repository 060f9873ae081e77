/**
 * The package entry `leasehold/machines`: the charts, as XState runs and draws them. Their types are said in words of our own,
 * because those of XState do not compile in every project that is strict with what it installs.
 */
import type { ChartName, Ignored, Tag } from './chart.ts';
import type { DepartureEvent } from './departure/departure.events.ts';
import type { FollowEvent } from './follow/follow.events.ts';
import type { LeaderEvent } from './leader/leader.events.ts';
import type { LinkEvent } from './link/link.events.ts';
import type { PeerEvent } from './peer/peer.events.ts';
import type { PresenceEvent } from './presence/presence.events.ts';
import type { SessionEvent } from './session/session.events.ts';
import type { TenancyEvent } from './tenancy/tenancy.events.ts';
import type { WritingEvent } from './writing/writing.events.ts';
import * as charts from './index.ts';

export type { ChartName, Ignored, Tag };
export type {
  DepartureEvent,
  FollowEvent,
  LeaderEvent,
  LinkEvent,
  PeerEvent,
  PresenceEvent,
  SessionEvent,
  TenancyEvent,
  WritingEvent,
};

/** How far a running chart is. */
type Stage =
  | { readonly status: 'active' | 'stopped'; readonly output: undefined; readonly error: undefined }
  | { readonly status: 'done'; readonly output: unknown; readonly error: undefined }
  | { readonly status: 'error'; readonly output: undefined; readonly error: unknown };

/** A running chart at one moment. */
export type ChartSnapshot = Stage & {
  /** The state: its name, or the names of the states within it. */
  readonly value: string | Readonly<Record<string, unknown>>;
  readonly context: object;
  hasTag(tag: Tag): boolean;
};

/** A machine of XState: `createActor(machine, { input })` runs it, its effects replaced by nothing. */
export interface ChartMachine<Event extends { readonly type: string } = { readonly type: string }> {
  readonly id: string;
  /** What the chart was made from, as XState and its tools read it. */
  readonly config: object;
  /** The types of all events that it knows. */
  readonly events: readonly string[];
  transition(snapshot: unknown, event: Event, scope: unknown): ChartSnapshot;
  getInitialSnapshot(scope: unknown, input: unknown): ChartSnapshot;
  getPersistedSnapshot(snapshot: unknown): Stage;
}

/** One chart: its machine, what it ignores, and an input to start it with. */
export interface Chart {
  readonly name: ChartName;
  readonly machine: ChartMachine;
  readonly ignores: readonly Ignored[];
  readonly exampleInput: Readonly<Record<string, unknown>>;
}

export const CHARTS: readonly Chart[] = charts.CHARTS;
export const departureMachine: ChartMachine<DepartureEvent> = charts.departureMachine;
export const followMachine: ChartMachine<FollowEvent> = charts.followMachine;
export const leaderMachine: ChartMachine<LeaderEvent> = charts.leaderMachine;
export const linkMachine: ChartMachine<LinkEvent> = charts.linkMachine;
export const peerMachine: ChartMachine<PeerEvent> = charts.peerMachine;
export const presenceMachine: ChartMachine<PresenceEvent> = charts.presenceMachine;
export const sessionMachine: ChartMachine<SessionEvent> = charts.sessionMachine;
export const tenancyMachine: ChartMachine<TenancyEvent> = charts.tenancyMachine;
export const writingMachine: ChartMachine<WritingEvent> = charts.writingMachine;
