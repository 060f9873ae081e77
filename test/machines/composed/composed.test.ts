/**
 * Small fleets, explored to the last state: every way in which steps of workers, the store and the operator can follow each
 * other, with everything going wrong as often as a world's bounds allow. Each rule is left out once, and must be missed.
 */
import { describe, expect, test } from '@jest/globals';
import { leaseCodec, splitCodec } from '../../../src/records/records.ts';
import type { LeaseRecord, SplitRecord } from '../../../src/records/records.ts';
import {
  type Counterexample,
  described,
  type Explored,
  exploreWorld,
  type World,
} from './explore.ts';
import { type Beginning, fleetWorld } from './fleets.ts';
import { valuesSeen } from './keys.ts';
import type { Omission, Setting } from './model.ts';
import { type TwinBounds, type TwinOmission, twinWorld } from './twins.ts';

function exploreAloud<State>(world: World<State>): Explored {
  const explored = exploreWorld(world);
  const { states, transitions } = explored;
  process.stdout.write(`composed ${world.name}: ${states} states, ${transitions} transitions\n`);
  return explored;
}

/** The shortest way to what goes wrong without a rule. */
function missed(world: World<never>, rule: string): Counterexample | null {
  const { found } = exploreWorld(world);
  const way = found === null ? 'nothing' : described(found);
  process.stdout.write(`composed ${world.name} without ${rule}: ${way}\n`);
  return found;
}

interface FleetCase {
  readonly name: string;
  readonly setting: Partial<Setting>;
  readonly beginning?: Beginning;
}

const B_LEADS = [
  'b stands for election',
  'b’s election lands',
  'b hears of its election: committed',
];
const A_LEADS = B_LEADS.map((label) => label.replace(/^b/, 'a'));

const A_OWNS = [
  ...B_LEADS,
  'b divides the work',
  'b’s assignment of a lands',
  'a claims s',
  'a’s claim of s lands',
  'a hears of its claim of s: committed',
];

const claims: FleetCase = {
  name: 'claims',
  setting: { instances: ['a', 'b'], bounds: { unheard: 1, moves: 1 } },
  beginning: { named: 'a' },
};
const endings: FleetCase = {
  name: 'endings',
  setting: { bounds: { unheard: 1, moves: 1, rewrites: 1, commits: 1, fails: 1 }, completes: true },
  beginning: { named: 'a' },
};
const marks: FleetCase = {
  name: 'marks',
  setting: { bounds: { unheard: 1, moves: 3, ticks: 1 } },
  beginning: { named: 'a' },
};
const restarts: FleetCase = {
  name: 'restarts',
  setting: { bounds: { unheard: 1, moves: 2, crashes: 1 }, isStrict: false },
  beginning: { named: 'a' },
};
const leaders: FleetCase = {
  name: 'leaders',
  setting: { instances: ['a', 'b'], hasLeaders: true, isPrompt: true, bounds: { expiries: 1 } },
  beginning: { isParked: true },
};
const verdict: FleetCase = {
  name: 'verdict',
  setting: {
    hasLeaders: true,
    completes: true,
    maxAttempts: 2,
    bounds: { requeues: 1, unheard: 1 },
  },
  beginning: { isParked: true, then: A_LEADS },
};
const zombies: FleetCase = {
  name: 'zombies',
  setting: {
    instances: ['a', 'b'],
    hasLeaders: true,
    isPrompt: true,
    completes: true,
    bounds: { expiries: 1 },
  },
  beginning: { then: [...A_OWNS, 'a completes s'] },
};
/** Everything at once: two workers that may lead, drains, marks, crashes, lost answers. */
const combined: Partial<Setting> = {
  instances: ['a', 'b'],
  hasLeaders: true,
  isPrompt: true,
  isStrict: false,
  completes: true,
};
const moving: FleetCase = {
  name: 'moving',
  setting: { ...combined, bounds: { moves: 1, unheard: 1 } },
  beginning: { then: A_OWNS },
};
const failover: FleetCase = {
  name: 'failover',
  setting: { ...combined, bounds: { crashes: 1 } },
  beginning: { then: [...B_LEADS, 'b divides the work'] },
};

function worldOf({ name, setting, beginning }: FleetCase, without: Omission | null): World<never> {
  return fleetWorld(name, { ...setting, without }, beginning) as unknown as World<never>;
}

const UNHELD = 'a lease is renewed by a worker that does not hold it';
const OTHERS = 'a lease shows another tenancy than the record';
const STALLED = 'a split can run, and the verdict is stalled';

describe('a small fleet', () => {
  test.each([claims, endings, marks, restarts, leaders, verdict, zombies, moving, failover])(
    'composed - the world of $name is safe in every state, and its goals are in reach from everywhere',
    (one) => {
      expect(exploreAloud(worldOf(one, null)).found).toBeNull();
    },
  );

  test.each<[string, FleetCase, Omission, string, number]>([
    [
      'R1’s settling by the same write a lease is renewed by a worker that gave its claim up',
      claims,
      'R1: an unanswered claim is settled by reading',
      UNHELD,
      4,
    ],
    [
      'R4’s second ending a renewed lease is left behind',
      endings,
      'R4: an ending that meets its own epoch ends there',
      UNHELD,
      7,
    ],
    [
      'R19’s guard a deposed leader assigns after the next election',
      leaders,
      'R19: leader writes compare nothing',
      'a write of a deposed leader landed',
      6,
    ],
    [
      'R23’s compare of the plan a verdict overlooks a requeue',
      verdict,
      'R23: the verdict does not compare the plan',
      STALLED,
      4,
    ],
    [
      'R23’s write of the plan a requeue is overlooked for ever',
      verdict,
      'R23: a requeue writes the plan only to take a verdict back',
      STALLED,
      4,
    ],
    [
      'R24’s reading again the completion of a zombie is never heard of',
      zombies,
      'R24: ticks read nothing again',
      'never again: where every split has ended there is a verdict',
      3,
    ],
    [
      'R32’s revision compare, by the session alone, a late mark lands on a later tenancy',
      marks,
      'R32: a mark compares the session only',
      OTHERS,
      13,
    ],
    [
      'R32’s revision compare, by the create revision alone, a late mark lands on a later tenancy',
      restarts,
      'R32: a mark compares the create revision only',
      OTHERS,
      11,
    ],
    [
      'R32’s session a mark makes a lease that never expires',
      marks,
      'R32: a mark is put without a session',
      'a lease hangs on no session, and never expires',
      6,
    ],
  ])('composed - without %s', (_title, one, without, what, length) => {
    const found = missed(worldOf(one, without), without);
    expect(found).toMatchObject({ what });
    expect(found!.path).toHaveLength(length);
  });
});

describe('two processes under one name', () => {
  const twins = (bounds: Partial<TwinBounds>, without: TwinOmission | null = null): World<never> =>
    twinWorld(`twins (${JSON.stringify(bounds)})`, bounds, without) as unknown as World<never>;

  test.each<[string, Partial<TwinBounds>]>([
    ['answers are lost', { unheard: 1, changes: 1 }],
    ['a session ends', { expiries: 1, changes: 1 }],
    ['a presence is deleted by hand', { deletes: 1, changes: 1 }],
  ])('composed - exactly one of two live twins dies, also when %s', (_what, bounds) => {
    expect(exploreAloud(twins(bounds)).found).toBeNull();
  });

  test.each<[string, Partial<TwinBounds>, TwinOmission, number]>([
    ['compare of revisions', {}, 'R14: any foreign presence is fatal', 11],
    [
      'wait for the answer to an announcement under way',
      { changes: 1, expiries: 1 },
      'R14: a foreign presence is fatal while an own announcement is under way',
      16,
    ],
  ])('composed - without R14’s %s both twins die', (_what, bounds, without, length) => {
    const found = missed(twins(bounds, without), without);
    expect(found).toMatchObject({ what: 'both twins die' });
    expect(found!.path).toHaveLength(length);
  });
});

describe('the records of the worlds', () => {
  test('composed - every record that a world can hold survives the codec', () => {
    const stamp = { instance: 'a', nonce: 'a1', write: 1 };
    const isLease = (value: object): value is LeaseRecord =>
      'epoch' in value && 'state' in value && !('status' in value);
    const isSplit = (value: object): value is SplitRecord => 'status' in value;
    exploreWorld(worldOf(marks, null));
    const leases = valuesSeen.filter(isLease);
    const splits = valuesSeen.filter(isSplit);
    expect(leases.length).toBeGreaterThan(2);
    expect(splits.length).toBeGreaterThan(2);
    for (const record of leases) {
      expect(leaseCodec.decode(leaseCodec.encode(record, stamp))).toMatchObject({ record });
    }
    for (const record of splits) {
      expect(splitCodec.decode(splitCodec.encode(record, stamp))).toMatchObject({ record });
    }
  });
});
