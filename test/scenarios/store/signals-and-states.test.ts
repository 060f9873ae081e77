/**
 * Everything that makes a worker drop what it knew, in every state of every chart: it is back within two leases of the last
 * fault, and the job goes on; or, where it was leaving, it has left (R8, R11, R17, R45).
 */
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { CHARTS } from '../../../machines/index.ts';
import type { InstanceId } from '../../../src/base/ids.ts';
import { guardProcess, STOP_MS } from '../../support/departures.ts';
import { type AnyFleet, LEASE_MS, memoryOf, type SeamWorker } from '../../support/fleet.ts';
import { ALL_CASES, type StateCase } from '../../support/states/index.ts';

let guard: ReturnType<typeof guardProcess>;
beforeEach(() => {
  guard = guardProcess();
});
afterEach(() => {
  guard.end();
  expect(guard.caught).toEqual([]);
});

interface Signal {
  readonly name: string;
  /** Gives it; resolves when the last fault is over. */
  give(fleet: AnyFleet, a: SeamWorker): Promise<void> | void;
  /** The store refuses the worker: where it is only starting, that ends it. */
  readonly isDenial?: boolean;
  /** Nothing is answered for longer than the tries of a start last. */
  readonly isOutage?: boolean;
}

/** The session of a key of `a`, expired; there may be none. */
function expire(fleet: AnyFleet, key: string): void {
  const session = fleet.entry(key)?.session;
  if (session !== null && session !== undefined) memoryOf(fleet).expireSession(session);
}

async function whileAway(fleet: AnyFleet, a: SeamWorker, act: () => void): Promise<void> {
  a.client.partition({ silent: true });
  await fleet.advance(2 * LEASE_MS);
  act();
  a.client.heal();
}

const SIGNALS: readonly Signal[] = [
  {
    name: 'another store',
    give: (fleet) => {
      memoryOf(fleet).reset();
    },
  },
  {
    name: 'another store after two leases away',
    isOutage: true,
    give: (fleet, a) =>
      whileAway(fleet, a, () => {
        memoryOf(fleet).reset();
      }),
  },
  {
    name: 'a snapshot',
    give: async (fleet) => {
      const snapshot = memoryOf(fleet).snapshot();
      await fleet.advance(1_000);
      memoryOf(fleet).restore(snapshot);
    },
  },
  {
    name: 'a snapshot under the same id after two leases away',
    isOutage: true,
    give: (fleet, a) => {
      const snapshot = memoryOf(fleet).snapshot();
      return whileAway(fleet, a, () => {
        memoryOf(fleet).restore(snapshot, { sameCluster: true });
      });
    },
  },
  {
    name: 'the end of its session',
    give: (fleet) => {
      expire(fleet, fleet.keys.presence('a' as InstanceId));
    },
  },
  {
    name: 'the end of the leader session',
    give: (fleet) => {
      expire(fleet, fleet.keys.leader);
    },
  },
  {
    name: 'a denial of half a lease',
    isDenial: true,
    give: async (fleet, a) => {
      const rule = a.client.when('any').deny();
      await fleet.advance(LEASE_MS / 2);
      rule.remove();
    },
  },
  {
    name: 'a denial of two leases',
    isDenial: true,
    give: async (fleet, a) => {
      const rule = a.client.when('any').deny();
      await fleet.advance(2 * LEASE_MS);
      rule.remove();
    },
  },
];

const isStarting = ({ name }: StateCase): boolean =>
  /^presence\.(probing|joining|announcing)|^leader\.following\.barred|^session\.(closed|opening)/.test(
    name,
  );
const hasFailed = (a: SeamWorker): boolean => a.coordinator.status().presence === 'failed';

/** What may end a worker that was not leaving; anything else is waited out. */
function endOf(state: StateCase, { isOutage }: Signal): RegExp {
  // Nobody knows the plan any more once its leader is gone as well: no worker may invent one (R22).
  if (/planless|recreating/.test(state.name))
    return /^the plan at .* is gone while splits are there/;
  // Who has never been in the fleet tries a stated number of times.
  if (isStarting(state) && isOutage === true) return /^starting up failed \d+ times/;
  return /^nothing may end it here$/;
}

/** Splits that somebody should work on and nobody does. */
function unserved(fleet: AnyFleet): string[] {
  if (fleet.entry(fleet.keys.paused) !== undefined) return [];
  return fleet
    .under('splits/')
    .map(({ key }) => key.slice(`${fleet.keys.root}splits/`.length))
    .filter((id) => fleet.split(id)?.status === 'runnable' && fleet.lease(id) === null);
}

async function endsWell(state: StateCase, signal: Signal): Promise<void> {
  const { fleet, a } = await state.reach();
  const isLeaving = a.coordinator.status().charts.departure !== 'staying';
  await signal.give(fleet, a);
  a.client.clearRules();
  if (isLeaving) {
    const isGone = (): boolean => ['departed', 'failed'].includes(a.coordinator.status().presence);
    await fleet.until('it leaves', isGone, STOP_MS);
    return;
  }
  if (signal.isDenial === true && isStarting(state)) {
    await fleet.until('it has failed', () => hasFailed(a), STOP_MS);
    expect(a.coordinator.status().lastError).toContain('was refused');
    return;
  }
  const isBack = (): boolean => a.coordinator.status().presence === 'present';
  await fleet.until('it is back, or says why not', () => isBack() || hasFailed(a), 2 * LEASE_MS);
  if (hasFailed(a)) {
    expect(a.coordinator.status().lastError).toMatch(endOf(state, signal));
    return;
  }
  const isServed = (): boolean => isBack() && unserved(fleet).length === 0;
  await fleet.until('every split is served', isServed, 2 * LEASE_MS);
  // What is not tried any more is forgotten after a lease.
  const isWell = (): boolean => a.coordinator.status().failing.length === 0;
  await fleet.until('nothing is said to fail', isWell, 2 * LEASE_MS);
  expect(a.coordinator.status().charts.link).toBe('serving');
}

describe.each(SIGNALS.map((signal) => [signal.name, signal] as const))('%s', (_, signal) => {
  test.each(ALL_CASES.map((state) => [state.name, state] as const))(
    'in %s - is followed by its return and the job’s going on, or by its end (R8)',
    async (__, state) => {
      await endsWell(state, signal);
    },
  );
});

test('the states - are all those of all charts that are no ends', () => {
  const leaves = CHARTS.flatMap(({ name, machine }) => leavesOf(machine.root, name));
  const known = ALL_CASES.map(({ name }) => name);
  expect([...new Set(known)].sort()).toEqual([...new Set(leaves)].sort());
});

interface Node {
  readonly type: string;
  readonly states: Readonly<Record<string, Node>>;
}

function leavesOf(node: Node, name: string): string[] {
  const parts = Object.entries(node.states);
  if (parts.length === 0) return node.type === 'final' ? [] : [name];
  return parts.flatMap(([key, part]) => leavesOf(part, `${name}.${key}`));
}
