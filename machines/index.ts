/** The charts: pure, without I/O, the same objects that run, are drawn and generate the tests. */
export type { Ignored, Tag } from './chart.ts';
export { CHARTS, type Chart, type ChartName } from './charts.ts';
export { leaderMachine, type LeaderEvent } from './leader.machine.ts';
export { peerMachine, type PeerEvent } from './peer.machine.ts';
export { presenceMachine, type PresenceEvent } from './presence.machine.ts';
export { tenancyMachine, type TenancyEvent } from './tenancy.machine.ts';
export { writingMachine, type WritingEvent } from './writing.machine.ts';
