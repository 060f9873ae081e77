/**
 * Every kind of error that a store may give, on every kind of call that a worker makes, for two leases: the worker says so
 * within a lease, and is back at work within two leases of the healing; what no retry heals ends it with its own error
 * (R18, R45, R46).
 */
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { InstanceId, SplitId } from '../../../src/base/ids.ts';
import { type Matcher, type Rule, STORE_FAILURES } from '../../../src/store/faults.ts';
import { guardProcess } from '../../support/departures.ts';
import { readsOf, transaction } from '../../support/faults.ts';
import { type AnyFleet, finalPlan, ids, LEASE_MS, type SeamWorker } from '../../support/fleet.ts';
import { startFleet } from '../../support/scenario.ts';

let guard: ReturnType<typeof guardProcess>;
beforeEach(() => {
  guard = guardProcess();
});
afterEach(() => {
  guard.end();
  expect(guard.caught).toEqual([]);
});

const STEP_MS = 300;
/** More than ten a second, for two leases. */
const TRIES_MAX = 500;

interface Path {
  readonly name: string;
  readonly matcher: (fleet: AnyFleet) => Matcher;
  /** What it does; `bound` writes what hangs on a session. */
  readonly kind: 'read' | 'write' | 'bound' | 'open' | 'renew' | 'close';
  /** Makes the worker make the call, where it does not do so by itself. */
  provoke?(fleet: AnyFleet): unknown;
}

const listing = (kind: string) => (fleet: AnyFleet) => readsOf(`${fleet.keys.root}${kind}`);

async function expireWorker(fleet: AnyFleet): Promise<void> {
  const session = fleet.entry(fleet.keys.presence('a' as InstanceId))?.session;
  if (session !== null && session !== undefined) await fleet.store.expireSession(session);
}

const PATHS: readonly Path[] = [
  { name: 'renewing a session', kind: 'renew', matcher: () => 'keepAlive' },
  {
    name: 'opening a session',
    kind: 'open',
    matcher: () => 'openSession',
    provoke: expireWorker,
  },
  {
    name: 'closing a session',
    kind: 'close',
    matcher: () => 'closeSession',
    provoke: (fleet) => fleet.store.remove(fleet.keys.leader),
  },
  { name: 'listing leases', kind: 'read', matcher: listing('leases/') },
  { name: 'listing presences', kind: 'read', matcher: listing('workers/') },
  {
    name: 'listing assignments as leader',
    kind: 'read',
    matcher: listing('assign/'),
    provoke: (fleet) => fleet.store.remove(fleet.keys.leader),
  },
  {
    name: 'listing splits as leader',
    kind: 'read',
    matcher: listing('splits/'),
    provoke: (fleet) => fleet.store.remove(fleet.keys.leader),
  },
  {
    name: 'reading the own assignment',
    kind: 'read',
    matcher: (fleet) => readsOf(fleet.keys.assignment('a' as InstanceId)),
  },
  {
    name: 'reading the own records',
    kind: 'read',
    matcher: (fleet) => readsOf(fleet.keys.split('s1' as SplitId)),
  },
  {
    name: 'electing',
    kind: 'bound',
    matcher: () => transaction('elect'),
    provoke: (fleet) => fleet.store.remove(fleet.keys.leader),
  },
  {
    name: 'announcing',
    kind: 'bound',
    matcher: () => transaction('announce'),
    provoke: (fleet) => fleet.store.remove(fleet.keys.presence('a' as InstanceId)),
  },
  {
    name: 'assigning',
    kind: 'write',
    matcher: () => transaction('assign'),
    provoke: (fleet) => fleet.store.remove(fleet.keys.assignment('a' as InstanceId)),
  },
  {
    name: 'claiming',
    kind: 'bound',
    matcher: () => transaction('claim'),
    provoke: (fleet) => fleet.store.remove(fleet.keys.lease('s1' as SplitId)),
  },
  { name: 'committing', kind: 'write', matcher: () => transaction('commit') },
];

type Failure = (typeof STORE_FAILURES)[number] | 'silence';
const FAILURES: readonly Failure[] = [...STORE_FAILURES, 'silence'];

/** False for what a call of this kind cannot answer. */
function fits({ kind }: Path, failure: Failure): boolean {
  switch (failure) {
    case 'E_STORE_FULL':
      return kind !== 'read';
    case 'E_OUTCOME_UNKNOWN':
    case 'E_OUTCOME_UNKNOWN, landed':
      return kind !== 'read';
    case 'E_LEASE_EXPIRED':
      return kind === 'bound' || kind === 'renew';
    case 'E_STORE_UNSUPPORTED':
    case 'E_CLUSTERS_MIXED':
      // Nobody repeats it, and time closes the session: any other call will tell.
      return kind !== 'close';
    default:
      return true;
  }
}

const isHopeless = (failure: Failure): boolean =>
  failure === 'E_STORE_UNSUPPORTED' || failure === 'E_CLUSTERS_MIXED';

function strike(a: SeamWorker, matcher: Matcher, failure: Failure): Rule {
  let tries = 0;
  const calls = a.client.when((call) => {
    const isMeant = typeof matcher === 'string' ? matcher === call.kind : matcher(call);
    // Thrown here, it ends the worker: nothing else stops one that goes round within one moment.
    if (isMeant && (tries += 1) > TRIES_MAX) throw new Error(`more than ${TRIES_MAX} tries`);
    return isMeant;
  });
  if (failure === 'silence') return calls.loseBefore({ silent: true });
  return failure === 'E_STORE_DENIED' ? calls.deny() : calls.fail(failure);
}

/** Time passes while every split that is held commits. */
async function goOn(
  fleet: AnyFleet,
  a: SeamWorker,
  ms: number,
  isOver: () => boolean = () => false,
) {
  for (let passedMs = 0; passedMs < ms && !isOver(); passedMs += STEP_MS) {
    for (const [id, held] of a.held) {
      held.watermark = (held.watermark ?? 0n) + 1n;
      const { watermark, epoch } = held;
      a.coordinator.commit(id, { watermark }, epoch).catch(() => undefined);
    }
    await fleet.advance(STEP_MS);
  }
}

const stateOf = (a: SeamWorker): string => a.coordinator.status().presence;

async function endsWell(path: Path, failure: Failure): Promise<void> {
  const fleet = await startFleet({ planner: finalPlan(ids(4)) });
  const a = fleet.seam('a');
  await fleet.until('a holds all', () => a.held.size === 4);
  await goOn(fleet, a, 1_000);
  const saidBefore = a.lines.length;
  const rule = strike(a, path.matcher(fleet), failure);
  await path.provoke?.(fleet);
  await goOn(fleet, a, 4 * LEASE_MS, () => rule.hits > 0);
  expect(rule.hits).toBeGreaterThan(0);
  if (isHopeless(failure)) {
    await goOn(fleet, a, LEASE_MS, () => stateOf(a) === 'failed');
    expect(stateOf(a)).toBe('failed');
    return;
  }
  await goOn(fleet, a, LEASE_MS);
  const said = a.lines
    .slice(saidBefore)
    .filter(({ level }) => level === 'warn' || level === 'error');
  const isSaid = said.length > 0 || a.coordinator.status().failing.length > 0;
  // It may cost nothing at all: a session that is not closed, say.
  const isWorking = stateOf(a) === 'present' && a.held.size === 4;
  expect(isSaid || isWorking).toBe(true);
  await goOn(fleet, a, LEASE_MS);
  rule.remove();

  const isBack = (): boolean => stateOf(a) === 'present' && a.held.size === 4;
  await goOn(fleet, a, 2 * LEASE_MS, isBack);
  expect({ state: stateOf(a), held: a.held.size }).toEqual({ state: 'present', held: 4 });
  const before = ids(4).map((id) => BigInt(fleet.split(id)!.watermark ?? 0));
  await goOn(fleet, a, LEASE_MS);
  const after = ids(4).map((id) => BigInt(fleet.split(id)!.watermark ?? 0));
  expect(after.map((watermark, index) => watermark > before[index]!)).toEqual([
    true,
    true,
    true,
    true,
  ]);
  await goOn(fleet, a, LEASE_MS, () => a.coordinator.status().failing.length === 0);
  expect(a.coordinator.status().failing).toEqual([]);
  await goOn(fleet, a, 2 * LEASE_MS, () => fleet.leader() === 'a');
  expect(fleet.leader()).toBe('a');
}

describe.each(PATHS.map((path) => [path.name, path] as const))('%s', (_, path) => {
  test.each(FAILURES.filter((failure) => fits(path, failure)).map((failure) => [failure]))(
    'that fails as %s - is said, and healed from or ended by (R46)',
    async (failure) => {
      await endsWell(path, failure);
    },
  );
});
