import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import {
  afterTenLeases,
  ephemeralKeysOf,
  guardProcess,
  NOTHING,
  remainsOf,
  stopInEveryManner,
  STOP_MS,
  type Stoppable,
} from '../../support/departures.ts';
import { LEASE_MS, type SeamWorker } from '../../support/fleet.ts';
import {
  LEADER_CASES,
  PEER_CASES,
  PRESENCE_CASES,
  type StateCase,
  TENANCY_CASES,
  WRITING_CASES,
} from '../../support/states.ts';

let guard: ReturnType<typeof guardProcess>;
beforeEach(() => {
  guard = guardProcess();
});
afterEach(async () => {
  guard.end();
  expect(guard.caught).toEqual([]);
});

const STORES = {
  'a healthy store': () => undefined,
  'a store that has fallen silent': (a: SeamWorker) => {
    a.client.partition({ silent: true });
  },
  'a store that answers errors': (a: SeamWorker) => {
    a.client.partition();
  },
} as const;

function stoppable(a: SeamWorker): Stoppable {
  return { ...a, stop: () => a.coordinator.stop(), status: () => a.coordinator.status() };
}

async function stopIn(state: StateCase, store: keyof typeof STORES): Promise<void> {
  const { fleet, a } = await state.reach();
  expect(state.holds(a)).toBe(true);
  STORES[store](a);
  const worker = stoppable(a);

  const { reports, tookMs } = await stopInEveryManner(fleet, worker);
  expect(reports).toHaveLength(4);
  const reason = state.name === 'leader.leading.judging.decided' ? 'finished' : 'stopped';
  expect(reports[0]).toMatchObject({ reason, error: null });
  for (const report of reports) expect(report).toBe(reports[0]);
  expect(tookMs).toBeLessThanOrEqual(STOP_MS + fleet.slackMs);
  expect(remainsOf(worker)).toEqual(NOTHING);
  if (store === 'a healthy store' && state.name !== 'leader.deposed') {
    expect(ephemeralKeysOf(fleet, 'a')).toEqual([]);
  }

  // What the network still held back arrives now, at nobody.
  a.client.clearRules();
  a.client.heal();
  const { before, after } = await afterTenLeases(fleet, worker);
  expect(after).toEqual(before);
  expect(remainsOf(worker)).toEqual(NOTHING);
  expect(ephemeralKeysOf(fleet, 'a')).toEqual([]);
  expect(tookMs).toBeLessThan(LEASE_MS + fleet.slackMs);
}

describe.each(Object.keys(STORES) as (keyof typeof STORES)[])('with %s', (store) => {
  const cases = [TENANCY_CASES, WRITING_CASES, LEADER_CASES, PRESENCE_CASES, PEER_CASES].flat();
  test.each(cases.map((state) => [state.name, state] as const))(
    'stop from %s - ends in time with one report, and nothing runs afterwards (R17)',
    async (_, state) => {
      await stopIn(state, store);
    },
  );
});
