/**
 * Exact sums of weights, and instances kept in order of their sums.
 *
 * A load is a sum of weights of up to 2^53-1 each, so it may pass what a double holds exactly. It is kept in two doubles,
 * `high * 2^52 + low` with low below 2^52; as long as a load is below 2^52, high stays 0 and costs nothing but a look.
 * Tests: test/protocol/assign-loads.test.ts.
 */

const LIMB = 2 ** 52;

/** The loads of a fleet, by index of the instance. */
export class Loads {
  readonly #high: Float64Array;
  readonly #low: Float64Array;
  readonly #tieRanks: Int32Array;

  /** @param tieRanks  Order among equal loads: distinct numbers, one for each instance. */
  constructor(tieRanks: Int32Array) {
    this.#high = new Float64Array(tieRanks.length);
    this.#low = new Float64Array(tieRanks.length);
    this.#tieRanks = tieRanks;
  }

  /** Adds a weight of 0 to 2^53-1. */
  add(index: number, weight: number): void {
    // A weight may itself exceed one limb; either way the sum of two lows stays below 2^53.
    const carried = weight >= LIMB ? 1 : 0;
    const low = this.#low[index]! + (weight - carried * LIMB);
    const overflow = low >= LIMB ? 1 : 0;
    this.#low[index] = low - overflow * LIMB;
    if (carried + overflow > 0) this.#high[index]! += carried + overflow;
  }

  /** Takes back a weight that was added. */
  subtract(index: number, weight: number): void {
    const carried = weight >= LIMB ? 1 : 0;
    const low = this.#low[index]! - (weight - carried * LIMB);
    const borrow = low < 0 ? 1 : 0;
    this.#low[index] = low + borrow * LIMB;
    if (carried + borrow > 0) this.#high[index]! -= carried + borrow;
  }

  reset(index: number): void {
    this.#high[index] = 0;
    this.#low[index] = 0;
  }

  /** Whether `load(from) > load(to) + weight`, exactly: then moving the weight lowers the sum of squared loads. */
  improves(from: number, to: number, weight: number): boolean {
    const high = this.#high[from]! - this.#high[to]!;
    const low = this.#low[from]! - this.#low[to]!;
    if (high === 0) return low > weight;
    // |low| < 2^52 and weight < 2^53: one limb less never improves, three more always do.
    return high > 0 && (high > 2 || low > weight - high * LIMB);
  }

  /** `load(a) - load(b)`, exact below 2^53 and rounded above. */
  difference(a: number, b: number): number {
    return (this.#high[a]! - this.#high[b]!) * LIMB + (this.#low[a]! - this.#low[b]!);
  }

  /** Below zero when `a` carries less than `b`; ties by rank, so never zero for two instances. */
  compare(a: number, b: number): number {
    const high = this.#high[a]! - this.#high[b]!;
    if (high !== 0) return high;
    const low = this.#low[a]! - this.#low[b]!;
    return low === 0 ? this.#tieRanks[a]! - this.#tieRanks[b]! : low;
  }
}

/** A set of instances that knows its least (or most) loaded one. Tell it when a load has changed. */
export class LoadHeap {
  readonly #loads: Loads;
  /** 1: the least loaded on top; -1: the most loaded. */
  readonly #sign: 1 | -1;
  /** A binary heap of instances. */
  readonly #heap: Int32Array;
  /** Where each instance is in the heap; -1 when it is not. */
  readonly #positions: Int32Array;
  #size = 0;

  constructor(loads: Loads, instanceCount: number, top: 'least' | 'most') {
    this.#loads = loads;
    this.#sign = top === 'least' ? 1 : -1;
    this.#heap = new Int32Array(instanceCount);
    this.#positions = new Int32Array(instanceCount).fill(-1);
  }

  /** The least (or most) loaded member; -1 when there is none. */
  get top(): number {
    return this.#size === 0 ? -1 : this.#heap[0]!;
  }

  /** Members in no particular order. */
  members(): Int32Array {
    return this.#heap.subarray(0, this.#size);
  }

  /** Adds an instance, or finds the place of a member whose load has changed. */
  put(index: number): void {
    let position = this.#positions[index]!;
    if (position < 0) {
      position = this.#size;
      this.#size += 1;
      this.#set(position, index);
    }
    this.#rise(position);
    this.#sink(this.#positions[index]!);
  }

  /** Removes a member. */
  remove(index: number): void {
    const position = this.#positions[index]!;
    if (position < 0) return;
    this.#positions[index] = -1;
    this.#size -= 1;
    if (position === this.#size) return;
    const last = this.#heap[this.#size]!;
    this.#set(position, last);
    this.put(last);
  }

  #set(position: number, index: number): void {
    this.#heap[position] = index;
    this.#positions[index] = position;
  }

  #isAbove(a: number, b: number): boolean {
    return this.#sign * this.#loads.compare(a, b) < 0;
  }

  #rise(start: number): void {
    const index = this.#heap[start]!;
    let position = start;
    while (position > 0) {
      const parent = (position - 1) >> 1;
      const above = this.#heap[parent]!;
      if (!this.#isAbove(index, above)) break;
      this.#set(position, above);
      position = parent;
    }
    this.#set(position, index);
  }

  #sink(start: number): void {
    const heap = this.#heap;
    const index = heap[start]!;
    let position = start;
    for (;;) {
      let child = 2 * position + 1;
      if (child >= this.#size) break;
      if (child + 1 < this.#size && this.#isAbove(heap[child + 1]!, heap[child]!)) child += 1;
      const below = heap[child]!;
      if (!this.#isAbove(below, index)) break;
      this.#set(position, below);
      position = child;
    }
    this.#set(position, index);
  }
}
