/** The charts: pure, without I/O, the same objects that run, are drawn and generate the tests. */
export type { Ignored, Tag } from './chart.ts';
export { CHARTS, type Chart, type ChartName } from './charts.ts';
export type { LeaderEvent } from './leader/leader.events.ts';
export { leaderMachine } from './leader/leader.machine.ts';
export type { PeerEvent } from './peer/peer.events.ts';
export { peerMachine } from './peer/peer.machine.ts';
export type { PresenceEvent } from './presence/presence.events.ts';
export { presenceMachine } from './presence/presence.machine.ts';
export type { TenancyEvent } from './tenancy/tenancy.events.ts';
export { tenancyMachine } from './tenancy/tenancy.machine.ts';
export type { WritingEvent } from './writing/writing.events.ts';
export { writingMachine } from './writing/writing.machine.ts';
