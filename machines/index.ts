/** The charts: pure, without I/O, the same objects that run, are drawn and generate the tests. */
export type { Ignored, Tag } from './chart.ts';
export { CHARTS, type Chart, type ChartName } from './charts.ts';
export type { LeaderEvent } from './leader.events.ts';
export { leaderMachine } from './leader.machine.ts';
export type { PeerEvent } from './peer.events.ts';
export { peerMachine } from './peer.machine.ts';
export type { PresenceEvent } from './presence.events.ts';
export { presenceMachine } from './presence.machine.ts';
export type { TenancyEvent } from './tenancy.events.ts';
export { tenancyMachine } from './tenancy.machine.ts';
export type { WritingEvent } from './writing.events.ts';
export { writingMachine } from './writing.machine.ts';
