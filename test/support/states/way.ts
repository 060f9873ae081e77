/** A way into one state of one chart, and what the ways share. */
import type { Planner } from '../../../src/index.ts';
import type { InstanceId } from '../../../src/base/ids.ts';
import { type StoreCall, writesTo } from '../../../src/store/faults.ts';
import type { Write } from '../../../src/store/port.ts';
import type { AnyFleet, SeamWorker } from '../fleet.ts';
import { startFleet } from '../scenario.ts';

/** One state of one chart, and the way there. */
export interface StateCase {
  /** `<chart>.<state>`, as `status()` shows it. */
  readonly name: string;
  /** Starts the fleet; resolves once worker `a` is in the state. */
  reach(): Promise<{ fleet: AnyFleet; a: SeamWorker }>;
  /** True while `a` is in the state. */
  holds(a: SeamWorker): boolean;
}

export const LOST = { silent: true } as const;

export const keyStarts = (fleet: AnyFleet, kind: string) => (key: string) =>
  key.startsWith(`${fleet.keys.root}${kind}`);

function writesOf(call: StoreCall): Write[] {
  return call.kind === 'transact' ? call.batch.txns.flatMap(({ writes }) => [...writes]) : [];
}

/** Writes of the plan alone: not the election, which writes the leader key too. */
export function publishes(fleet: AnyFleet): (call: StoreCall) => boolean {
  return (call) => {
    const keys = writesOf(call).map((write) => ('put' in write ? write.put : write.delete));
    return keys.includes(fleet.keys.plan) && !keys.includes(fleet.keys.leader);
  };
}

export const tenancyIn =
  (state: string) =>
  (a: SeamWorker): boolean =>
    a.coordinator
      .status()
      .tenancies.some(
        (tenancy) => tenancy.state === state || tenancy.state.startsWith(`${state}.`),
      );
type OwnCharts = keyof ReturnType<SeamWorker['coordinator']['status']>['charts'];
export const chartIn =
  (chart: OwnCharts, state: string) =>
  (a: SeamWorker): boolean =>
    a.coordinator.status().charts[chart] === state;
export const watchIn =
  (range: string, state: string) =>
  (a: SeamWorker): boolean =>
    a.coordinator.status().watches.some((one) => one.range === range && one.state === state);
export const laneIn =
  (state: string) =>
  (a: SeamWorker): boolean =>
    a.coordinator.status().lanes.some((lane) => lane.state === state);
export const leaderIn =
  (state: string) =>
  (a: SeamWorker): boolean =>
    a.coordinator.status().charts.leader.includes(state);
export const presenceIn =
  (state: string) =>
  (a: SeamWorker): boolean =>
    a.coordinator.status().presence === state;
export const peerIn =
  (state: string) =>
  (a: SeamWorker): boolean =>
    a.coordinator.status().peers.some((peer) => peer.state === state);

/** A release that nobody answers. */
export function loseRelease(fleet: AnyFleet, a: SeamWorker): void {
  a.client.when(writesTo(keyStarts(fleet, 'splits/'))).loseBefore(LOST);
  a.coordinator.releaseDrained(['s1']).catch(() => undefined);
}

/** The leader key cannot be given back. */
export function loseResignation(fleet: AnyFleet, a: SeamWorker): void {
  a.client
    .when((call) =>
      writesOf(call).some((write) => 'delete' in write && write.delete === fleet.keys.leader),
    )
    .loseBefore(LOST);
}

/** Ends the session of `a` in the store. */
export async function expire(fleet: AnyFleet): Promise<void> {
  const presence = fleet.store.dump(fleet.keys.presence('a' as InstanceId))[0]!;
  await fleet.store.expireSession(presence.session!);
}

/** Loses the openings of sessions, but for the first so many of this worker. */
export function loseOpenings(a: SeamWorker, first: number): void {
  const but = first - (a.client.counts.openSession ?? 0);
  const seen = new Set<string>();
  a.client
    .when((call) => call.kind === 'openSession' && seen.add(call.id).size > but)
    .loseBefore(LOST);
}

/** What is done on the way. */
interface Way {
  readonly planner?: Planner;
  /** Before `a` starts. */
  before?(fleet: AnyFleet): Promise<void> | void;
  /** Right after `a` was started. */
  started?(fleet: AnyFleet, a: SeamWorker): void;
  /** Once `a` holds all four splits and everything is at rest. */
  then?(fleet: AnyFleet, a: SeamWorker): Promise<void> | void;
}

export function way(name: string, holds: (a: SeamWorker) => boolean, steps: Way = {}): StateCase {
  return {
    name,
    holds,
    reach: async () => {
      const fleet = await startFleet(steps.planner === undefined ? {} : { planner: steps.planner });
      await steps.before?.(fleet);
      const a = fleet.seam('a');
      steps.started?.(fleet, a);
      if (steps.then !== undefined) {
        await fleet.until('a holds all', () => a.held.size === 4);
        await fleet.advance(1_000);
        await steps.then(fleet, a);
      }
      await fleet.until(name, () => holds(a), 30_000, 5);
      return { fleet, a };
    },
  };
}
