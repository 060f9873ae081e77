/** Ways into the states of the leader chart. */
import { fatalPlannerError, type PlanAnswer, type Planner } from '../../../src/index.ts';
import { looksAt, writesTo } from '../../../src/store/faults.ts';
import type { AnyFleet, SeamWorker } from '../fleet.ts';
import {
  chartIn,
  keyStarts,
  leaderIn,
  loseOpenings,
  loseResignation,
  LOST,
  publishes,
  type StateCase,
  way,
} from './way.ts';

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
export const brokenPlanner: Planner = {
  fingerprint: () => 'broken',
  plan: () => {
    throw fatalPlannerError('no such table');
  },
};

/** Another worker that leads before `a` comes. */
async function otherLeads(fleet: AnyFleet): Promise<void> {
  const b = fleet.seam('b', { config: { maxInFlight: 0 } });
  await fleet.until('b leads', () => b.coordinator.status().isLeading);
}

async function completeAll(a: SeamWorker): Promise<void> {
  const all = [...a.held.keys()];
  await Promise.all(all.map((id) => a.coordinator.commit(id, { watermark: 1, completed: true })));
}

export const LEADER_CASES: readonly StateCase[] = [
  way('leader.following.barred', chartIn('leader', 'following.barred'), {
    started: (fleet, a) => {
      a.client.when(writesTo(keyStarts(fleet, 'workers/'))).loseBefore(LOST);
    },
  }),
  way('leader.following.led', chartIn('leader', 'following.led'), {
    before: otherLeads,
    then: () => undefined,
  }),
  way('leader.following.vacant', chartIn('leader', 'following.vacant'), {
    before: otherLeads,
    then: async (fleet) => {
      await fleet.store.remove(fleet.keys.leader);
    },
  }),
  way('leader.following.planless', chartIn('leader', 'following.planless'), {
    then: async (fleet, a) => {
      a.client.when(writesTo((key) => key === fleet.keys.plan)).loseBefore(LOST);
      await fleet.store.remove(fleet.keys.plan);
      await fleet.store.remove(fleet.keys.leader);
    },
  }),
  way('leader.following.resting', chartIn('leader', 'following.resting'), {
    planner: brokenPlanner,
  }),
  way('leader.campaigning.opening', chartIn('leader', 'campaigning.opening'), {
    // The first is the probe's, the second the worker's.
    started: (_, a) => {
      loseOpenings(a, 2);
    },
  }),
  way('leader.campaigning.standing', chartIn('leader', 'campaigning.standing'), {
    started: (fleet, a) => {
      a.client.when(writesTo((key) => key === fleet.keys.leader)).loseBefore(LOST);
    },
  }),
  way('leader.leading.opening', chartIn('leader', 'leading.opening'), {
    started: (fleet, a) => {
      a.client.when(looksAt((key) => key === `${fleet.keys.root}assign/`)).loseBefore(LOST);
    },
  }),
  way('leader.leading.governing.planning.idle', leaderIn('planning.idle'), {
    planner: openPlanner,
    then: () => undefined,
  }),
  way('leader.leading.governing.planning.enumerating', leaderIn('planning.enumerating'), {
    planner: stuckPlanner,
  }),
  way('leader.leading.governing.planning.seeding', leaderIn('planning.seeding'), {
    started: (fleet, a) => {
      a.client.when(writesTo(keyStarts(fleet, 'specs/'))).loseBefore(LOST);
    },
  }),
  way('leader.leading.governing.planning.publishing', leaderIn('planning.publishing'), {
    started: (fleet, a) => {
      a.client
        .when((call) => a.coordinator.status().isLeading && publishes(fleet)(call))
        .loseBefore(LOST);
    },
  }),
  way('leader.leading.governing.planning.recreating', leaderIn('planning.recreating'), {
    then: async (fleet, a) => {
      a.client.when(writesTo((key) => key === fleet.keys.plan)).loseBefore(LOST);
      await fleet.store.remove(fleet.keys.plan);
    },
  }),
  way('leader.leading.governing.planning.sealed', leaderIn('planning.sealed'), {
    then: () => undefined,
  }),
  way('leader.leading.governing.balancing.settled', leaderIn('balancing.settled'), {
    then: () => undefined,
  }),
  way('leader.leading.governing.balancing.dirty', leaderIn('balancing.dirty'), {
    then: async (fleet) => {
      await fleet.operator().cordon('a');
      await fleet.advance(20);
      await fleet.operator().uncordon('a');
    },
  }),
  way('leader.leading.governing.balancing.publishing', leaderIn('balancing.publishing'), {
    started: (fleet, a) => {
      a.client.when(writesTo(keyStarts(fleet, 'assign/'))).loseBefore(LOST);
    },
  }),
  way('leader.leading.governing.judging.open', leaderIn('judging.open'), { then: () => undefined }),
  way('leader.leading.governing.judging.reading', leaderIn('judging.reading'), {
    then: async (fleet, a) => {
      a.client.when(looksAt((key) => key === `${fleet.keys.root}splits/`)).loseBefore(LOST);
      await completeAll(a);
    },
  }),
  way('leader.leading.governing.judging.recording', leaderIn('judging.recording'), {
    then: async (fleet, a) => {
      a.client.when(publishes(fleet)).loseBefore(LOST);
      await completeAll(a);
    },
  }),
  way('leader.leading.governing.judging.decided', leaderIn('judging.decided'), {
    then: (_, a) => completeAll(a),
  }),
  way('leader.resigning', leaderIn('resigning'), {
    planner: brokenPlanner,
    started: loseResignation,
  }),
  way('leader.deposed', leaderIn('deposed'), {
    then: async (fleet, a) => {
      a.client.when('closeSession').loseBefore(LOST);
      await fleet.store.remove(fleet.keys.leader);
    },
  }),
];
