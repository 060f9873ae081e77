import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import {
  afterTenLeases,
  ephemeralKeysOf,
  guardProcess,
  NOTHING,
  remainsOf,
  STOP_MS,
  stopInEveryManner,
  type Stoppable,
} from '../../support/departures.ts';
import { LEASE_MS, type SeamWorker } from '../../support/fleet.ts';
import { ALL_CASES, type StateCase } from '../../support/states/index.ts';

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

/** The way into these is that the store does not take goodbyes. */
const CANNOT_CLEAR_UP = new Set([
  'leader.deposed',
  'session.closing',
  'departure.leaving',
  'departure.closing.sessions',
  'presence.present.updating',
  'presence.rejoining.barred',
  'link.denied',
  'link.barred',
]);

/** Where the worker was on its way out already: what it leaves for. */
const ENDS: Readonly<Record<string, { reason: string; error: unknown }>> = {
  'leader.leading.governing.judging.decided': { reason: 'finished', error: null },
  'leader.following.planless': {
    reason: 'failed',
    error: expect.stringContaining('is gone while splits are there'),
  },
};

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
  const { reason, error } = reports[0]!;
  expect({ reason, error }).toEqual(ENDS[state.name] ?? { reason: 'stopped', error: null });
  for (const report of reports) expect(report).toBe(reports[0]);
  expect(tookMs).toBeLessThanOrEqual(STOP_MS + fleet.slackMs);
  expect(remainsOf(worker)).toEqual(NOTHING);
  if (store === 'a healthy store' && !CANNOT_CLEAR_UP.has(state.name)) {
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
  test.each(ALL_CASES.map((state) => [state.name, state] as const))(
    'stop from %s - ends in time with one report, and nothing runs afterwards (R17)',
    async (_, state) => {
      await stopIn(state, store);
    },
  );
});
