/** Ways into the states of a worker's place in the fleet: presence, session, departure, and the others. */
import { looksAt, writesTo } from '../../../src/store/faults.ts';
import { DRAIN_MS, OPERATION_MS } from '../departures.ts';
import type { AnyFleet, SeamWorker } from '../fleet.ts';
import { brokenPlanner } from './leading.ts';
import {
  chartIn,
  expire,
  keyStarts,
  loseOpenings,
  loseRelease,
  loseResignation,
  LOST,
  peerIn,
  presenceIn,
  type StateCase,
  way,
} from './way.ts';

function leave(_: AnyFleet, a: SeamWorker): void {
  void a.coordinator.stop();
}

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
  way('presence.announcing.opening', chartIn('presence', 'announcing.opening'), {
    // The first is the probe's.
    started: (_, a) => {
      loseOpenings(a, 1);
    },
  }),
  way('presence.announcing.putting', chartIn('presence', 'announcing.putting'), {
    started: (fleet, a) => {
      a.client.when(writesTo(keyStarts(fleet, 'workers/'))).loseBefore(LOST);
    },
  }),
  way('presence.present.announced', chartIn('presence', 'present.announced'), {
    then: () => undefined,
  }),
  way('presence.present.updating', chartIn('presence', 'present.updating'), {
    then: (fleet, a) => {
      a.client.when(writesTo(keyStarts(fleet, 'workers/'))).loseBefore(LOST);
      a.coordinator.giveUp('s1').catch(() => undefined);
    },
  }),
  way('presence.rejoining.joining', chartIn('presence', 'rejoining.joining'), {
    then: async (fleet, a) => {
      a.client.when(looksAt((key) => key === fleet.keys.plan)).loseBefore(LOST);
      await fleet.store.reset();
    },
  }),
  way('presence.rejoining.opening', chartIn('presence', 'rejoining.opening'), {
    then: async (fleet, a) => {
      a.client.when('openSession').loseBefore(LOST);
      await expire(fleet);
    },
  }),
  way('presence.rejoining.putting', chartIn('presence', 'rejoining.putting'), {
    then: async (fleet, a) => {
      a.client.when(writesTo(keyStarts(fleet, 'workers/'))).loseBefore(LOST);
      await expire(fleet);
    },
  }),
  way('presence.rejoining.barred', chartIn('presence', 'rejoining.barred'), {
    then: (_, a) => {
      a.client.when('any').deny();
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

export const SESSION_CASES: readonly StateCase[] = [
  way('session.closed', chartIn('session', 'closed'), {
    started: (_, a) => {
      a.client.when('transact').loseBefore(LOST);
    },
  }),
  way('session.opening', chartIn('session', 'opening'), {
    started: (_, a) => {
      loseOpenings(a, 1);
    },
  }),
  way('session.open.kept', chartIn('session', 'open.kept'), { then: () => undefined }),
  way('session.open.renewing', chartIn('session', 'open.renewing'), {
    then: (_, a) => {
      a.client.when('keepAlive').loseBefore(LOST);
    },
  }),
  way('session.open.late', chartIn('session', 'open.late'), {
    then: (_, a) => {
      a.client.when('keepAlive').loseBefore();
    },
  }),
  way('session.open.lapsing', chartIn('leaderSession', 'open.lapsing'), {
    planner: brokenPlanner,
    started: loseResignation,
  }),
  way('session.closing', chartIn('leaderSession', 'closing'), {
    then: async (fleet, a) => {
      a.client.when('closeSession').loseBefore(LOST);
      await fleet.store.remove(fleet.keys.leader);
    },
  }),
];

export const DEPARTURE_CASES: readonly StateCase[] = [
  way('departure.staying', chartIn('departure', 'staying'), { then: () => undefined }),
  way('departure.draining', chartIn('departure', 'draining'), { then: leave }),
  way('departure.settling', chartIn('departure', 'settling'), {
    then: async (fleet, a) => {
      loseRelease(fleet, a);
      leave(fleet, a);
      await fleet.advance(DRAIN_MS);
    },
  }),
  way('departure.leaving', chartIn('departure', 'leaving'), {
    then: async (fleet, a) => {
      a.client.when(writesTo(keyStarts(fleet, 'workers/'))).loseBefore(LOST);
      leave(fleet, a);
      await fleet.advance(DRAIN_MS);
    },
  }),
  way('departure.closing.sessions', chartIn('departure', 'closing.sessions'), {
    then: async (fleet, a) => {
      a.client.when('closeSession').loseBefore(LOST);
      leave(fleet, a);
      await fleet.advance(DRAIN_MS);
    },
  }),
  way('departure.closing.answers', chartIn('departure', 'closing.answers'), {
    then: async (fleet, a) => {
      loseRelease(fleet, a);
      leave(fleet, a);
      await fleet.advance(DRAIN_MS + OPERATION_MS / 2);
    },
  }),
];
