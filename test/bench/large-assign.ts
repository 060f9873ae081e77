/**
 * The balance decision on large fleets: splits that weigh 1 to 20, lanes that differ by a fifth, and what happens to such a
 * fleet. Beside the time, how even the loads are and how much more was moved than had to be.
 */
import type { InstanceId, SplitId } from '../../src/base/ids.ts';
import { type Random, randomInteger, seededRandom } from '../../src/base/random.ts';
import {
  type AssignableInstance,
  type AssignableSplit,
  type AssignInput,
  assign,
  type Assignment,
} from '../../src/protocol/assign.ts';

export const LARGE_NAMES = ['unowned', 'random', 'stacked', 'gone', 'joined'] as const;
export type LargeName = (typeof LARGE_NAMES)[number];

export const LARGE_SIZES = [
  { splits: 75_000, instances: 1_000 },
  { splits: 375_000, instances: 5_000 },
] as const;

const RUNS = 5;
const WEIGHT_MAX = 20;
/** Lanes of a fleet over its splits. */
const SPARE = 1.5;
/** Above so much of the mean, load has to go. */
const EVEN = 1.01;

export interface LargeCase {
  readonly name: string;
  readonly splits: number;
  readonly instances: number;
  readonly ms: number;
  /** The highest load over the mean. */
  readonly maxOverMean: number;
  /** Weight that changed hands over the least that had to; null where nothing had to. */
  readonly movedOverLeast: number | null;
  /** The same over all that lies above the mean: a local optimum (P4) moves at least that. */
  readonly movedOverExcess: number | null;
}

/** Measures every large case. */
export function largeCases(): LargeCase[] {
  return LARGE_SIZES.flatMap((size) => LARGE_NAMES.map((name) => measureLarge(name, size)));
}

function measureLarge(name: LargeName, size: (typeof LARGE_SIZES)[number]): LargeCase {
  const input = largeFleet(name, size);
  const result = assign(input);
  const times = Array.from({ length: RUNS }, () => {
    const startMs = performance.now();
    assign(input);
    return performance.now() - startMs;
  }).sort((a, b) => a - b);
  return {
    name: `${name}-large`,
    splits: input.splits.length,
    instances: input.instances.length,
    ms: Number(times[RUNS >> 1]!.toFixed(1)),
    ...evenness(input, result),
  };
}

/** A fleet of this kind, the same on every host. */
export function largeFleet(
  name: LargeName,
  {
    splits: splitCount,
    instances: instanceCount,
  }: { readonly splits: number; readonly instances: number },
): AssignInput {
  const random = seededRandom(1);
  const lanes = (SPARE * splitCount) / instanceCount;
  const all = Array.from({ length: instanceCount }, (_, index): AssignableInstance => ({
    id: `worker-${String(index).padStart(5, '0')}` as InstanceId,
    maxInFlight: Math.round(lanes * (0.8 + 0.4 * fraction(random))),
    cordoned: false,
  }));
  const instances = name === 'gone' ? all.slice(0, Math.round(0.9 * instanceCount)) : all;
  const owners = name === 'unowned' ? [] : ownersIn(name, all);
  const owned = Array.from({ length: splitCount }, (_, index): AssignableSplit => ({
    id: `split-${String(index).padStart(7, '0')}` as SplitId,
    weight: 1 + randomInteger(random, WEIGHT_MAX),
    owner: owners.length === 0 ? null : owners[randomInteger(random, owners.length)]!,
  }));
  const input = { instances, splits: owned, withheld: new Set<SplitId>(), seed: 1 };
  return name === 'gone' || name === 'joined'
    ? { ...input, splits: settled(input, all, name) }
    : input;
}

/** Whom the splits may belong to: everybody, or half of the fleet. */
function ownersIn(name: LargeName, all: readonly AssignableInstance[]): InstanceId[] {
  const some = name === 'stacked' ? all.slice(0, all.length / 2) : all;
  return some.map(({ id }) => id);
}

/** As an even fleet holds them: all of it before a tenth went, or all but a twentieth before that came. */
function settled(
  input: AssignInput,
  all: readonly AssignableInstance[],
  name: 'gone' | 'joined',
): AssignableSplit[] {
  const before = name === 'gone' ? all : all.slice(0, Math.round(0.95 * all.length));
  const unowned = input.splits.map((split) => ({ ...split, owner: null }));
  const { byInstance } = assign({ ...input, instances: before, splits: unowned });
  const owners = new Map<SplitId, InstanceId>();
  for (const [id, splits] of byInstance) for (const split of splits) owners.set(split, id);
  return unowned.map((split) => ({ ...split, owner: owners.get(split.id) ?? null }));
}

/** How even a division is, and how much was moved for it. What has no owner left is no move. */
export function evenness(
  { instances, splits }: AssignInput,
  { byInstance }: Assignment,
): Pick<LargeCase, 'maxOverMean' | 'movedOverLeast' | 'movedOverExcess'> {
  const byId = new Map(splits.map((split) => [split.id, split]));
  const before = new Map<InstanceId, number>(instances.map(({ id }) => [id, 0]));
  let total = 0;
  for (const { weight, owner } of splits) {
    total += weight;
    if (owner !== null && before.has(owner)) before.set(owner, before.get(owner)! + weight);
  }
  let most = 0;
  let moved = 0;
  for (const [instance, ids] of byInstance) {
    let load = 0;
    for (const id of ids) {
      const { weight, owner } = byId.get(id)!;
      load += weight;
      if (owner !== null && owner !== instance && before.has(owner)) moved += weight;
    }
    most = Math.max(most, load);
  }
  const mean = total / instances.length;
  const above = (bound: number): number =>
    [...before.values()].reduce((sum, load) => sum + Math.max(0, load - bound), 0);
  const ratio = (least: number): number | null =>
    least === 0 ? null : Number((moved / least).toFixed(5));
  return {
    maxOverMean: Number((most / mean).toFixed(5)),
    movedOverLeast: ratio(above(EVEN * mean)),
    movedOverExcess: ratio(above(mean)),
  };
}

function fraction(random: Random): number {
  return randomInteger(random, 1_000_001) / 1_000_000;
}
