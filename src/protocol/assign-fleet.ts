/**
 * The instances of one balance decision: what each carries, and which one should get the next split.
 *
 * Tests: test/protocol/assign.test.ts, test/protocol/assign.property.test.ts.
 */
import { hash32 } from '../base/hash.ts';
import type { InstanceId } from '../base/ids.ts';
import { LoadHeap, Loads } from './assign-loads.ts';
import { inIdOrder } from './assign-order.ts';

/** An instance that takes part in the balance. */
export interface AssignableInstance {
  readonly id: InstanceId;
  /** Splits it may hold at once; 0 is legal. */
  readonly maxInFlight: number;
  /** Keeps what it has and gets nothing new (R29). */
  readonly cordoned: boolean;
}

/** The index that stands for no instance. */
export const NOBODY = -1;

/**
 * Loads and slots of a fleet. Instances are named by their index in ascending order of id.
 *
 * An instance is open when it is not cordoned and has a free slot. First `preload` what every instance keeps, then `open`
 * the fleet; from then on `place` and `lift` keep `least` right.
 */
export class Fleet {
  readonly ids: readonly InstanceId[];
  readonly loads: Loads;
  readonly #instances: readonly AssignableInstance[];
  readonly #indexes: ReadonlyMap<string, number>;
  readonly #counts: Float64Array;
  readonly #slots: Float64Array;
  readonly #open: LoadHeap;

  /** @param seed  Breaks ties between equal loads. */
  constructor(instances: readonly AssignableInstance[], seed: number) {
    this.#instances = inIdOrder(instances);
    this.ids = this.#instances.map(({ id }) => id);
    this.#indexes = new Map(this.ids.map((id, index) => [id, index]));
    this.#counts = new Float64Array(this.ids.length);
    this.#slots = Float64Array.from(this.#instances, ({ maxInFlight }) => maxInFlight);
    this.loads = new Loads(tieRanks(this.ids, seed));
    this.#open = new LoadHeap(this.loads, this.ids.length, 'least');
  }

  get size(): number {
    return this.ids.length;
  }

  /** The index of an instance; `NOBODY` when it takes no part. */
  indexOf(id: string): number {
    return this.#indexes.get(id) ?? NOBODY;
  }

  /** Splits on an instance now. */
  countOf(index: number): number {
    return this.#counts[index]!;
  }

  isCordoned(index: number): boolean {
    return this.#instances[index]!.cordoned;
  }

  hasFreeSlot(index: number): boolean {
    return this.#counts[index]! < this.#slots[index]!;
  }

  isOverBudget(index: number): boolean {
    return this.#counts[index]! > this.#slots[index]!;
  }

  /** Counts a split that an instance keeps. */
  preload(index: number, weight: number): void {
    this.#counts[index]! += 1;
    this.loads.add(index, weight);
  }

  /** Forgets what was preloaded onto an instance. */
  unload(index: number): void {
    this.#counts[index] = 0;
    this.loads.reset(index);
  }

  open(): void {
    for (let index = 0; index < this.size; index += 1) this.#reopen(index);
  }

  /** The least loaded open instance; `NOBODY` when none is open. */
  get least(): number {
    return this.#open.top;
  }

  /** The least loaded open instance that is not among `barred`. Looks at all of them. */
  leastExcept(barred: readonly number[]): number {
    let least = NOBODY;
    for (const index of this.#open.members()) {
      if (barred.includes(index)) continue;
      if (least === NOBODY || this.loads.compare(index, least) < 0) least = index;
    }
    return least;
  }

  /** Puts a split on an open instance. */
  place(index: number, weight: number): void {
    this.preload(index, weight);
    if (this.hasFreeSlot(index)) this.#open.put(index);
    else this.#open.remove(index);
  }

  /** Takes a split off an instance. */
  lift(index: number, weight: number): void {
    this.#counts[index]! -= 1;
    this.loads.subtract(index, weight);
    this.#reopen(index);
  }

  #reopen(index: number): void {
    if (this.hasFreeSlot(index) && !this.isCordoned(index)) this.#open.put(index);
  }
}

/** The rank of each instance by the seeded hash of its id, then by id. */
function tieRanks(ids: readonly string[], seed: number): Int32Array {
  const hashes = ids.map((id) => hash32(seed, id));
  const order = hashes.map((_, index) => index).sort((a, b) => hashes[a]! - hashes[b]! || a - b);
  const ranks = new Int32Array(ids.length);
  order.forEach((index, rank) => {
    ranks[index] = rank;
  });
  return ranks;
}
