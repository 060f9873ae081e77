/**
 * Fleets for tests of the balance decision, and a judge of its results that shares no code with it: all sums in BigInt,
 * every rule checked split by split.
 */
import fc from 'fast-check';
import type { InstanceId, SplitId } from '../../src/base/ids.ts';
import type {
  AssignableInstance,
  AssignableSplit,
  AssignInput,
  Assignment,
} from '../../src/protocol/assign.ts';

/** The heaviest weight there is. */
export const HEAVIEST = Number.MAX_SAFE_INTEGER;

export function instance(id: string, maxInFlight = 8, cordoned = false): AssignableInstance {
  return { id: id as InstanceId, maxInFlight, cordoned };
}

export function split(
  id: string,
  weight = 1,
  owner: string | null = null,
  barred?: readonly string[],
): AssignableSplit {
  const plain = { id: id as SplitId, weight, owner: owner as InstanceId | null };
  return barred === undefined ? plain : { ...plain, barred: barred as readonly InstanceId[] };
}

export function fleet(
  instances: readonly AssignableInstance[],
  splits: readonly AssignableSplit[],
  withheld: readonly string[] = [],
  seed = 7,
): AssignInput {
  return { instances, splits, withheld: new Set(withheld as SplitId[]), seed };
}

/** An assignment that `toEqual` compares and a person can read. */
export function plain(assignment: Assignment): {
  byInstance: [InstanceId, readonly SplitId[]][];
  unassigned: readonly SplitId[];
} {
  return { byInstance: [...assignment.byInstance], unassigned: assignment.unassigned };
}

/** What one instance got. */
export function given(assignment: Assignment, id: string): readonly string[] {
  return assignment.byInstance.get(id as InstanceId) ?? [];
}

export function ownersOf(assignment: Assignment): Map<SplitId, InstanceId> {
  const owners = new Map<SplitId, InstanceId>();
  for (const [id, splits] of assignment.byInstance) {
    for (const name of splits) owners.set(name, id);
  }
  return owners;
}

/** The same fleet after everyone has what it was given. */
export function fedBack(input: AssignInput, assignment: Assignment): AssignInput {
  const owners = ownersOf(assignment);
  const splits = input.splits.map((one) => ({ ...one, owner: owners.get(one.id) ?? null }));
  return { ...input, splits };
}

/** Splits that are elsewhere than they stuck to. */
export function movedCount(input: AssignInput, assignment: Assignment): number {
  const owners = ownersOf(assignment);
  return input.splits.filter(({ id, owner }) => owner !== null && owners.get(id) !== owner).length;
}

export function loadsOf(input: AssignInput, assignment: Assignment): Map<InstanceId, bigint> {
  const weights = new Map(input.splits.map(({ id, weight }) => [id, exact(weight)]));
  return new Map(
    [...assignment.byInstance].map(([id, splits]) => [
      id,
      splits.reduce((sum, name) => sum + weights.get(name)!, 0n),
    ]),
  );
}

export function exact(weight: number): bigint {
  return weight === 0 ? 1n : BigInt(weight);
}

/** Every broken guarantee, one sentence each. */
export function violations(input: AssignInput, assignment: Assignment): string[] {
  return [
    ...shapeViolations(input, assignment),
    ...placeViolations(input, assignment),
    ...balanceViolations(input, assignment),
  ];
}

function shapeViolations(input: AssignInput, assignment: Assignment): string[] {
  const found: string[] = [];
  const { byInstance, unassigned } = assignment;
  const expected = input.instances.map(({ id }) => id).sort();
  if (JSON.stringify([...byInstance.keys()]) !== JSON.stringify(expected)) {
    found.push('the instances are not listed once each, ascending');
  }
  const seen = new Set<SplitId>();
  for (const list of [...byInstance.values(), unassigned]) {
    list.forEach((name, index) => {
      if (seen.has(name)) found.push(`${name} is listed twice`);
      seen.add(name);
      if (index > 0 && list[index - 1]! >= name) found.push(`${name} is out of order`);
    });
  }
  for (const { id } of input.splits) if (!seen.delete(id)) found.push(`${id} is not listed`);
  for (const id of seen) found.push(`${id} was never asked for`);
  return found;
}

function placeViolations(input: AssignInput, assignment: Assignment): string[] {
  const found: string[] = [];
  const owners = ownersOf(assignment);
  const open = openOf(input, assignment);
  const slots = new Map(input.instances.map(({ id, maxInFlight }) => [id, maxInFlight]));
  const countOf = (id: InstanceId): number => assignment.byInstance.get(id)!.length;
  for (const [id, limit] of slots) {
    if (countOf(id) > limit) found.push(`${id} has ${countOf(id)} splits for ${limit} slots`);
  }
  const cordoned = new Set(input.instances.filter((one) => one.cordoned).map(({ id }) => id));
  for (const one of input.splits) {
    const { id, owner } = one;
    const place = owners.get(id);
    const other = open.find((candidate) => one.barred?.includes(candidate) !== true);
    const isRefused = place !== undefined && one.barred?.includes(place) === true;
    if (input.withheld.has(id)) {
      if (place !== undefined) found.push(`${id} is withheld, yet ${place} has it`);
      continue;
    }
    if (place === undefined && other !== undefined) {
      found.push(`${id} waits while ${other} may get it`);
    }
    if (place !== undefined && cordoned.has(place) && owner !== place) {
      found.push(`${place} is cordoned, yet got ${id}`);
    }
    if (isRefused && owner !== place) found.push(`${place} got ${id}, for which it is barred`);
    if (isRefused && other !== undefined) found.push(`${place} keeps ${id}; ${other} may get it`);
    if (owner === null || owner === place || !cordoned.has(owner)) continue;
    if (one.barred?.includes(owner) !== true && countOf(owner) < slots.get(owner)!) {
      found.push(`${owner} is cordoned, yet lost ${id}`);
    }
  }
  return found;
}

/** Instances that may get a split now, bars left aside. */
function openOf(input: AssignInput, { byInstance }: Assignment): InstanceId[] {
  return input.instances
    .filter(
      ({ id, maxInFlight, cordoned }) => !cordoned && byInstance.get(id)!.length < maxInFlight,
    )
    .map(({ id }) => id);
}

function balanceViolations(input: AssignInput, assignment: Assignment): string[] {
  const found: string[] = [];
  const loads = loadsOf(input, assignment);
  const owners = ownersOf(assignment);
  const open = openOf(input, assignment).map((id) => ({ id, load: loads.get(id)! }));
  const cordoned = new Set(input.instances.filter((one) => one.cordoned).map(({ id }) => id));
  for (const one of input.splits) {
    const from = owners.get(one.id);
    if (from === undefined || cordoned.has(from)) continue;
    const bound = loads.get(from)! - exact(one.weight);
    for (const to of open) {
      if (to.load < bound && to.id !== from && one.barred?.includes(to.id) !== true) {
        found.push(`${one.id} (${one.weight}) should move from ${from} to ${to.id}`);
      }
    }
  }
  return found;
}

/** Weights of every scale: ties, counts, bytes, powers of ten, and the heaviest there are. */
export const anyWeight = fc.oneof(
  fc.integer({ min: 0, max: 50 }),
  fc.integer({ min: 1_000_000_000, max: 8_000_000_000 }),
  fc.integer({ min: 0, max: 15 }).map((power) => 10 ** power),
  fc.maxSafeNat(),
  fc.constantFrom(1, HEAVIEST, HEAVIEST - 1, 2 ** 52, 2 ** 52 - 1, 2 ** 52 + 1),
);

/** Weights whose sums stay below 2^53 for any number of splits used here. */
export const modestWeight = fc.oneof(
  fc.integer({ min: 0, max: 50 }),
  fc.integer({ min: 1_000_000_000, max: 8_000_000_000 }),
);

const anyId = fc.stringMatching(/^[a-zA-Z0-9_-]{1,6}$/);

/** What an arbitrary fleet may hold. */
export interface FleetShape {
  readonly instancesMax: number;
  readonly splitsMax: number;
  readonly slotsMax: number;
  readonly weight?: fc.Arbitrary<number>;
  /** Instances barred per split; none by default. */
  readonly bars?: boolean;
  readonly cordons?: boolean;
}

/**
 * A fleet in any state: owners drawn wider than the fleet, so that a share of splits belongs to nobody who is there;
 * withheld ids from the same alphabet; owners over their budgets.
 */
export function anyFleet(shape: FleetShape): fc.Arbitrary<AssignInput> {
  return fc.integer({ min: 0, max: shape.instancesMax }).chain((instanceCount) => {
    const name = fc.integer({ min: 0, max: instanceCount + 1 }).map((index) => `w${index}`);
    const barred =
      shape.bars === true
        ? fc.option(fc.array(name, { maxLength: 3 }), { nil: undefined, freq: 2 })
        : fc.constant(undefined);
    return fc
      .record({
        slots: fc.array(
          fc.record({
            maxInFlight: fc.integer({ min: 0, max: shape.slotsMax }),
            cordoned: shape.cordons === true ? fc.boolean() : fc.constant(false),
          }),
          { minLength: instanceCount, maxLength: instanceCount },
        ),
        splits: fc.uniqueArray(
          fc.record({
            id: anyId,
            weight: shape.weight ?? anyWeight,
            owner: fc.option(name, { nil: null }),
            barred,
          }),
          { maxLength: shape.splitsMax, selector: ({ id }) => id, size: 'max' },
        ),
        withheld: fc.array(anyId, { maxLength: 4 }),
        seed: fc.integer(),
      })
      .map(({ slots, splits, withheld, seed }) =>
        fleet(
          slots.map((one, index) => instance(`w${index}`, one.maxInFlight, one.cordoned)),
          splits.map((one) => split(one.id, one.weight, one.owner, one.barred)),
          [...withheld, ...splits.slice(0, 2).map(({ id }) => id)].slice(0, withheld.length),
          seed,
        ),
      );
  });
}

/** The same fleet with its members and splits in another order. */
export function shuffled(input: AssignInput, next: () => number): AssignInput {
  const shuffle = <T>(items: readonly T[]): T[] => {
    const copy = [...items];
    for (let index = copy.length - 1; index > 0; index -= 1) {
      const other = Math.floor(next() * (index + 1));
      [copy[index], copy[other]] = [copy[other]!, copy[index]!];
    }
    return copy;
  };
  return { ...input, instances: shuffle(input.instances), splits: shuffle(input.splits) };
}
