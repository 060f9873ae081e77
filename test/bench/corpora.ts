/**
 * Fleets to decide about, the same on every host: `settled` (nothing to do), `unowned` (everything to place), `joined`
 * (a settled fleet and one empty instance more) and `skewed-joined` (the same, where 1 split in 20 weighs gigabytes).
 *
 * They have the shape of the assignment benches of the system that Leasehold replaces, at three sizes.
 * Tests: test/protocol/corpora.test.ts.
 */
import type { InstanceId, SplitId } from '../../src/base/ids.ts';
import { type Random, randomInteger, seededRandom } from '../../src/base/random.ts';
import { MAX_IN_FLIGHT_MAX } from '../../src/records/records.ts';
import {
  type AssignableInstance,
  type AssignableSplit,
  type AssignInput,
  assign,
} from '../../src/protocol/assign.ts';

/** The kinds of fleet, in the order in which they are measured. */
export const CORPUS_NAMES = ['settled', 'unowned', 'joined', 'skewed-joined'] as const;

export type CorpusName = (typeof CORPUS_NAMES)[number];

const MIB = 1024 * 1024;
const GIB = 1024 * MIB;
const SEED = 20_260_101;

/**
 * Builds a corpus of plain records, splits in ascending order of id as a store lists them.
 *
 * @param size.instances  Instances that own something; a corpus with a newcomer has one more.
 */
export function corpus(
  name: CorpusName,
  size: { readonly splits: number; readonly instances: number },
  seed = SEED,
): AssignInput {
  const random = seededRandom(seed);
  const weigh = name === 'skewed-joined' ? skewedWeight : plainWeight;
  const unowned: AssignInput = {
    instances: Array.from({ length: size.instances }, (_, index) => instance(index)),
    splits: Array.from({ length: size.splits }, (_, index) => ({
      id: `objects-${digits(index, 8)}` as SplitId,
      weight: weigh(random),
      owner: null,
    })),
    withheld: new Set(),
    seed,
  };
  if (name === 'unowned') return unowned;
  const settled = { ...unowned, splits: settledSplits(unowned) };
  if (name === 'settled') return settled;
  return { ...settled, instances: [...settled.instances, instance(size.instances)] };
}

function instance(index: number): AssignableInstance {
  const id = `worker-${digits(index, 4)}` as InstanceId;
  return { id, maxInFlight: MAX_IN_FLIGHT_MAX, cordoned: false };
}

/** 1 to 64 MiB. */
function plainWeight(random: Random): number {
  return MIB + randomInteger(random, 63 * MIB + 1);
}

/** 1 to 5 GiB for 1 split in 20, 1 to 64 MiB for the rest. */
function skewedWeight(random: Random): number {
  return randomInteger(random, 20) === 0
    ? GIB + randomInteger(random, 4 * GIB + 1)
    : plainWeight(random);
}

function settledSplits(input: AssignInput): AssignableSplit[] {
  const owners = new Map<SplitId, InstanceId>();
  for (const [id, splits] of assign(input).byInstance) {
    for (const split of splits) owners.set(split, id);
  }
  return input.splits.map((split) => ({ ...split, owner: owners.get(split.id) ?? null }));
}

function digits(value: number, length: number): string {
  return String(value).padStart(length, '0');
}
