/** The table of all charts, for diagrams, lint and generated tests. */
import type { AnyStateMachine } from 'xstate';
import type { Ignored } from './chart.ts';
import { departureIgnores } from './departure/departure.ignores.ts';
import { departureMachine } from './departure/departure.machine.ts';
import { followIgnores } from './follow/follow.ignores.ts';
import { followMachine } from './follow/follow.machine.ts';
import { leaderIgnores } from './leader/leader.ignores.ts';
import { leaderMachine } from './leader/leader.machine.ts';
import { linkIgnores } from './link/link.ignores.ts';
import { linkMachine } from './link/link.machine.ts';
import { peerIgnores } from './peer/peer.ignores.ts';
import { peerMachine } from './peer/peer.machine.ts';
import { presenceIgnores } from './presence/presence.ignores.ts';
import { presenceMachine } from './presence/presence.machine.ts';
import { sessionIgnores } from './session/session.ignores.ts';
import { sessionMachine } from './session/session.machine.ts';
import { tenancyIgnores } from './tenancy/tenancy.ignores.ts';
import { tenancyMachine } from './tenancy/tenancy.machine.ts';
import { writingIgnores } from './writing/writing.ignores.ts';
import { writingMachine } from './writing/writing.machine.ts';

/** The charts by name. */
export type ChartName =
  | 'tenancy'
  | 'presence'
  | 'session'
  | 'leader'
  | 'peer'
  | 'departure'
  | 'link'
  | 'follow'
  | 'writing';

/** One chart: its machine, what it ignores, and an input to start it with. */
export interface Chart {
  readonly name: ChartName;
  readonly machine: AnyStateMachine;
  readonly ignores: readonly Ignored[];
  /** An input that the chart can be started with, for tests and drawings. */
  readonly exampleInput: Readonly<Record<string, unknown>>;
}

export const CHARTS: readonly Chart[] = [
  {
    name: 'tenancy',
    machine: tenancyMachine,
    ignores: tenancyIgnores,
    exampleInput: { split: 's1', drainDeadlineMs: 10_000 },
  },
  {
    name: 'presence',
    machine: presenceMachine,
    ignores: presenceIgnores,
    exampleInput: { instance: 'w1', failuresMax: 8 },
  },
  {
    name: 'session',
    machine: sessionMachine,
    ignores: sessionIgnores,
    exampleInput: { of: 'worker' },
  },
  {
    name: 'leader',
    machine: leaderMachine,
    ignores: leaderIgnores,
    exampleInput: { instance: 'w1', replanIntervalMs: 60_000 },
  },
  {
    name: 'peer',
    machine: peerMachine,
    ignores: peerIgnores,
    exampleInput: { instance: 'w2' },
  },
  {
    name: 'departure',
    machine: departureMachine,
    ignores: departureIgnores,
    exampleInput: { instance: 'w1' },
  },
  {
    name: 'link',
    machine: linkMachine,
    ignores: linkIgnores,
    exampleInput: { instance: 'w1', leaseDurationMs: 15_000 },
  },
  {
    name: 'follow',
    machine: followMachine,
    ignores: followIgnores,
    exampleInput: { range: 'leases/' },
  },
  {
    name: 'writing',
    machine: writingMachine,
    ignores: writingIgnores,
    exampleInput: { lane: 1, resendMs: 200, resendMsMax: 5_000 },
  },
];
