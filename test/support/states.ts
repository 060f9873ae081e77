/** Ways to bring a worker `a` into every state of every chart, so that a test can begin there. */
import type { PlanAnswer, Planner } from '../../src/coordinator/api/api.ts';
import { fatalPlannerError } from '../../src/coordinator/api/planner-error.ts';
import { leaseCodec } from '../../src/records/records.ts';
import type { Epoch } from '../../src/base/decimals.ts';
import type { InstanceId, Nonce, SplitId } from '../../src/base/ids.ts';
import { looksAt, type StoreCall, writesTo } from '../../src/store/faults.ts';
import type { Write } from '../../src/store/port.ts';
import { type AnyFleet, LEASE_MS, type SeamWorker } from './fleet.ts';
import { OPERATION_MS } from './departures.ts';
import { startFleet } from './scenario.ts';

/** One state of one chart, and the way there. */
export interface StateCase {
  /** `<chart>.<state>`, as `status()` shows it. */
  readonly name: string;
  /** Starts the fleet; resolves once worker `a` is in the state. */
  reach(): Promise<{ fleet: AnyFleet; a: SeamWorker }>;
  /** True while `a` is in the state. */
  holds(a: SeamWorker): boolean;
}

const LOST = { silent: true } as const;

const keyStarts = (fleet: AnyFleet, kind: string) => (key: string) =>
  key.startsWith(`${fleet.keys.root}${kind}`);

function writesOf(call: StoreCall): Write[] {
  return call.kind === 'transact' ? call.batch.txns.flatMap(({ writes }) => [...writes]) : [];
}

/** Writes of the plan alone: not the election, which writes the leader key too. */
function publishes(fleet: AnyFleet): (call: StoreCall) => boolean {
  return (call) => {
    const keys = writesOf(call).map((write) => ('put' in write ? write.put : write.delete));
    return keys.includes(fleet.keys.plan) && !keys.includes(fleet.keys.leader);
  };
}

const tenancyIn =
  (state: string) =>
  (a: SeamWorker): boolean =>
    a.coordinator.status().tenancies.some((tenancy) => tenancy.state === state);
const laneIn =
  (state: string) =>
  (a: SeamWorker): boolean =>
    a.coordinator.status().lanes.some((lane) => lane.state === state);
const leaderIn =
  (state: string) =>
  (a: SeamWorker): boolean =>
    a.coordinator.status().leader.includes(state);
const presenceIn =
  (state: string) =>
  (a: SeamWorker): boolean =>
    a.coordinator.status().presence === state;
const peerIn =
  (state: string) =>
  (a: SeamWorker): boolean =>
    a.coordinator.status().peers.some((peer) => peer.state === state);

interface Way {
  readonly planner?: Planner;
  /** Before `a` starts. */
  before?(fleet: AnyFleet): Promise<void> | void;
  /** Right after `a` was started. */
  started?(fleet: AnyFleet, a: SeamWorker): void;
  /** Once `a` holds all four splits and everything is at rest. */
  then?(fleet: AnyFleet, a: SeamWorker): Promise<void> | void;
}

function way(name: string, holds: (a: SeamWorker) => boolean, steps: Way = {}): StateCase {
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

const openPlanner: Planner = {
  fingerprint: () => 'open',
  plan: (): PlanAnswer => ({
    splits: ['s1', 's2', 's3', 's4'].map((id) => ({ id, descriptor: id })),
    finality: 'open',
  }),
};
const stuckPlanner: Planner = {
  fingerprint: () => 'stuck',
  plan: () => new Promise<PlanAnswer>(() => undefined),
};
const brokenPlanner: Planner = {
  fingerprint: () => 'broken',
  plan: () => {
    throw fatalPlannerError('no such table');
  },
};

/** A lease of somebody who is not there. */
async function foreignLease(fleet: AnyFleet): Promise<void> {
  const stamp = { instance: 'z', nonce: 'n', write: 1 };
  const lease = {
    owner: 'z' as InstanceId,
    nonce: 'n' as Nonce,
    epoch: '1' as Epoch,
    state: 'owned' as const,
  };
  await fleet.store.put(fleet.keys.lease('s1' as SplitId), leaseCodec.encode(lease, stamp));
}

/** Another worker that leads before `a` comes. */
async function otherLeads(fleet: AnyFleet): Promise<void> {
  const b = fleet.seam('b', { config: { maxInFlight: 0 } });
  await fleet.until('b leads', () => b.coordinator.status().isLeading);
}

async function completeAll(a: SeamWorker): Promise<void> {
  const all = [...a.held.keys()];
  await Promise.all(all.map((id) => a.coordinator.commit(id, { watermark: 1, completed: true })));
}

export const TENANCY_CASES: readonly StateCase[] = [
  way('tenancy.awaiting', tenancyIn('awaiting'), { before: foreignLease }),
  way('tenancy.claiming', tenancyIn('claiming'), {
    started: (fleet, a) => {
      a.client.when(writesTo(keyStarts(fleet, 'leases/'))).loseBefore(LOST);
    },
  }),
  way('tenancy.held.owned', tenancyIn('held.owned'), { then: () => undefined }),
  way('tenancy.held.draining', tenancyIn('held.draining'), {
    then: (fleet) => fleet.operator().pause(),
  }),
  way('tenancy.held.cancelledDrain', tenancyIn('held.cancelledDrain'), {
    then: async (fleet, a) => {
      await fleet.operator().pause();
      await fleet.until('draining', () => tenancyIn('held.draining')(a));
      await fleet.operator().resume();
    },
  }),
  way('tenancy.held.closing', tenancyIn('held.closing'), {
    then: (fleet, a) => {
      a.client.when(writesTo(keyStarts(fleet, 'splits/'))).loseBefore(LOST);
      a.coordinator.releaseDrained(['s1']).catch(() => undefined);
    },
  }),
];

export const WRITING_CASES: readonly StateCase[] = [
  way('writing.idle', (a) => a.coordinator.status().lanes.every(({ state }) => state === 'idle'), {
    then: (fleet) => fleet.advance(LEASE_MS),
  }),
  way(
    'writing.writing',
    (a) =>
      a.coordinator.status().lanes.some(({ state, items }) => state === 'writing' && items > 0),
    {
      then: (fleet, a) => {
        a.client.when(writesTo(keyStarts(fleet, 'splits/'))).delay(1_000, { times: 1 });
        a.coordinator.commit('s1', { watermark: 1 }).catch(() => undefined);
      },
    },
  ),
  way('writing.settling', laneIn('settling'), {
    then: async (fleet, a) => {
      a.client.when(writesTo(keyStarts(fleet, 'splits/'))).loseBefore(LOST);
      a.coordinator.commit('s1', { watermark: 1 }).catch(() => undefined);
      await fleet.advance(OPERATION_MS);
    },
  }),
];

export const LEADER_CASES: readonly StateCase[] = [
  way('leader.following', leaderIn('following'), {
    before: otherLeads,
    then: () => undefined,
  }),
  way('leader.campaigning', leaderIn('campaigning'), {
    started: (fleet, a) => {
      a.client.when(writesTo((key) => key === fleet.keys.leader)).loseBefore(LOST);
    },
  }),
  way('leader.leading.planning.idle', leaderIn('planning.idle'), {
    planner: openPlanner,
    then: () => undefined,
  }),
  way('leader.leading.planning.enumerating', leaderIn('planning.enumerating'), {
    planner: stuckPlanner,
  }),
  way('leader.leading.planning.seeding', leaderIn('planning.seeding'), {
    started: (fleet, a) => {
      a.client.when(writesTo(keyStarts(fleet, 'specs/'))).loseBefore(LOST);
    },
  }),
  way('leader.leading.planning.publishing', leaderIn('planning.publishing'), {
    started: (fleet, a) => {
      a.client
        .when((call) => a.coordinator.status().isLeading && publishes(fleet)(call))
        .loseBefore(LOST);
    },
  }),
  way('leader.leading.planning.sealed', leaderIn('planning.sealed'), { then: () => undefined }),
  way('leader.leading.balancing.settled', leaderIn('balancing.settled'), { then: () => undefined }),
  way('leader.leading.balancing.dirty', leaderIn('balancing.dirty'), {
    then: async (fleet) => {
      await fleet.operator().cordon('a');
      await fleet.advance(20);
      await fleet.operator().uncordon('a');
    },
  }),
  way('leader.leading.balancing.publishing', leaderIn('balancing.publishing'), {
    started: (fleet, a) => {
      a.client.when(writesTo(keyStarts(fleet, 'assign/'))).loseBefore(LOST);
    },
  }),
  way('leader.leading.judging.open', leaderIn('judging.open'), { then: () => undefined }),
  way('leader.leading.judging.reading', leaderIn('judging.reading'), {
    then: async (fleet, a) => {
      a.client.when(looksAt((key) => key === `${fleet.keys.root}splits/`)).loseBefore(LOST);
      await completeAll(a);
    },
  }),
  way('leader.leading.judging.recording', leaderIn('judging.recording'), {
    then: async (fleet, a) => {
      a.client.when(publishes(fleet)).loseBefore(LOST);
      await completeAll(a);
    },
  }),
  way('leader.leading.judging.decided', leaderIn('judging.decided'), {
    then: (_, a) => completeAll(a),
  }),
  way('leader.resigning', leaderIn('resigning'), {
    planner: brokenPlanner,
    started: (fleet, a) => {
      a.client
        .when((call) =>
          writesOf(call).some((write) => 'delete' in write && write.delete === fleet.keys.leader),
        )
        .loseBefore(LOST);
    },
  }),
  way('leader.deposed', leaderIn('deposed'), {
    then: async (fleet, a) => {
      a.client.when('closeSession').loseBefore(LOST);
      await fleet.store.remove(fleet.keys.leader);
    },
  }),
];

export const PRESENCE_CASES: readonly StateCase[] = [
  way('presence.probing', presenceIn('probing'), {
    started: (_, a) => {
      a.client.when('transact').loseBefore(LOST);
    },
  }),
  way('presence.joining', presenceIn('joining'), {
    started: (fleet, a) => {
      a.client.when(looksAt((key) => key === fleet.keys.plan)).loseBefore(LOST);
    },
  }),
  way('presence.announcing', presenceIn('announcing'), {
    started: (fleet, a) => {
      a.client.when(writesTo(keyStarts(fleet, 'workers/'))).loseBefore(LOST);
    },
  }),
  way('presence.present', presenceIn('present'), { then: () => undefined }),
  way('presence.rejoining', presenceIn('rejoining'), {
    then: async (fleet, a) => {
      a.client.when('openSession').loseBefore(LOST);
      const presence = fleet.store.dump(fleet.keys.presence('a' as InstanceId))[0]!;
      await fleet.store.expireSession(presence.session!);
      await fleet.advance(LEASE_MS / 2);
    },
  }),
  way('presence.parting', presenceIn('parting'), {
    then: (_, a) => {
      void a.coordinator.stop();
    },
  }),
];

export const PEER_CASES: readonly StateCase[] = ['present', 'withheld', 'gone'].map((state) =>
  way(`peer.${state}`, peerIn(state), {
    then: async (fleet, a) => {
      const b = fleet.seam('b');
      await fleet.until('b is seen', () => peerIn('present')(a));
      if (state !== 'present') b.crash();
    },
  }),
);
