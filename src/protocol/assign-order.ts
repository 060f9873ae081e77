/**
 * Linear-time orders for the balance decision: splits by ascending id and by descending weight.
 *
 * A comparison sort of 100,000 ids costs more than the whole decision, so ids are sorted by seven characters at a time,
 * past what they have in common, and weights by eleven bits at a time. Both sorts are stable.
 * Tests: test/protocol/assign-order.test.ts.
 */
import { InvariantViolation } from '../base/errors.ts';

/** Anything that is told apart by its id. */
export interface Identified {
  readonly id: string;
}

const DIGIT_BITS = 11;
const DIGIT_SIZE = 2 ** DIGIT_BITS;
/** Characters that fit one exact sort key: seven ASCII characters are 49 bits. */
const KEY_CHARACTERS = 7;
/** Runs up to this length are sorted by insertion. */
const SHORT_RUN = 24;

/**
 * The items in ascending order of id (UTF-16 code units, as `<` compares).
 *
 * Returns the input itself when it already ascends, which costs one comparison an item; otherwise a sorted copy.
 * @throws InvariantViolation when two items have the same id.
 */
export function inIdOrder<T extends Identified>(items: readonly T[]): readonly T[] {
  let index = 1;
  while (index < items.length && items[index - 1]!.id < items[index]!.id) index += 1;
  if (index >= items.length) return items;
  const order = idOrder(items);
  const sorted = new Array<T>(items.length);
  for (let rank = 0; rank < sorted.length; rank += 1) sorted[rank] = items[order[rank]!]!;
  for (let rank = 1; rank < sorted.length; rank += 1) {
    if (sorted[rank - 1]!.id === sorted[rank]!.id) {
      throw new InvariantViolation(`${sorted[rank]!.id} is listed twice; ids must be unique`);
    }
  }
  return sorted;
}

/** Indexes of `items` by ascending id. */
function idOrder(items: readonly Identified[]): Uint32Array {
  const order = identity(items.length);
  const keys = new Float64Array(items.length);
  // Runs of [start, end) whose ids agree on their first `depth` characters, still to be sorted.
  const runs: [start: number, end: number, depth: number][] = [[0, items.length, 0]];
  for (let run = runs.pop(); run !== undefined; run = runs.pop()) {
    const [start, end] = run;
    if (end - start <= SHORT_RUN) {
      sortShortRun(items, order, start, end);
      continue;
    }
    const part = order.subarray(start, end);
    const depth = commonPrefix(items, part, run[2]);
    if (!fillKeys(items, part, depth, keys)) {
      // Not ASCII, which no id of ours is (R43): leave the run to the engine.
      part.set(Array.from(part).sort((a, b) => compareText(items[a]!.id, items[b]!.id)));
      continue;
    }
    sortByKeys(part, keys, 'ascending');
    pushTies(runs, { part, keys, items, start, depth });
  }
  return order;
}

/** Queues what seven more characters did not tell apart. */
function pushTies(
  runs: [number, number, number][],
  run: {
    readonly part: Uint32Array;
    readonly keys: Float64Array;
    readonly items: readonly Identified[];
    readonly start: number;
    readonly depth: number;
  },
): void {
  const { part, keys, items } = run;
  const depth = run.depth + KEY_CHARACTERS;
  let first = 0;
  let hasMore = false;
  for (let index = 0; index <= part.length; index += 1) {
    if (index < part.length && keys[part[index]!] === keys[part[first]!]) {
      hasMore ||= items[part[index]!]!.id.length > depth;
      continue;
    }
    // Ids that end here are equal, which the caller reports.
    if (hasMore && index - first > 1) runs.push([run.start + first, run.start + index, depth]);
    first = index;
    hasMore = index < part.length && items[part[index]!]!.id.length > depth;
  }
}

/** How many leading characters all items of `part` share; at least `known` are. */
function commonPrefix(items: readonly Identified[], part: Uint32Array, known: number): number {
  const model = items[part[0]!]!.id;
  let shared = model.length;
  for (let index = 1; index < part.length && shared > known; index += 1) {
    const text = items[part[index]!]!.id;
    let at = known;
    while (at < shared && at < text.length && text.charCodeAt(at) === model.charCodeAt(at)) at += 1;
    shared = at;
  }
  return shared;
}

/** Sets the sort key of each item from the seven characters at `depth`; false when one of them is not ASCII. */
function fillKeys(
  items: readonly Identified[],
  part: Uint32Array,
  depth: number,
  keys: Float64Array,
): boolean {
  for (const item of part) {
    const text = items[item]!.id;
    let key = 0;
    for (let at = depth; at < depth + KEY_CHARACTERS; at += 1) {
      // The end of an id sorts below every character.
      const code = at < text.length ? text.charCodeAt(at) : 0;
      if (code > 127 || (code === 0 && at < text.length)) return false;
      key = key * 128 + code;
    }
    keys[item] = key;
  }
  return true;
}

function sortShortRun(
  items: readonly Identified[],
  order: Uint32Array,
  start: number,
  end: number,
): void {
  for (let index = start + 1; index < end; index += 1) {
    const item = order[index]!;
    const { id } = items[item]!;
    let hole = index;
    while (hole > start && items[order[hole - 1]!]!.id > id) {
      order[hole] = order[hole - 1]!;
      hole -= 1;
    }
    order[hole] = item;
  }
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function identity(length: number): Uint32Array {
  const order = new Uint32Array(length);
  for (let index = 0; index < length; index += 1) order[index] = index;
  return order;
}

/** Indexes of `weights` by descending weight, equal weights by ascending index. Weights: whole, 0 to 2^53-1. */
export function heaviestFirst(weights: Float64Array): Uint32Array {
  const order = identity(weights.length);
  sortByKeys(order, weights, 'descending');
  return order;
}

/**
 * Sorts indexes by their keys, stably. Keys: whole, 0 to 2^53-1.
 *
 * Source: least-significant-digit radix sort; digits that all keys share cost one look.
 */
function sortByKeys(
  order: Uint32Array,
  keys: Float64Array,
  direction: 'ascending' | 'descending',
): void {
  let greatest = 0;
  for (const item of order) if (keys[item]! > greatest) greatest = keys[item]!;
  const flip = direction === 'ascending' ? 0 : DIGIT_SIZE - 1;
  const digits = new Uint16Array(order.length);
  const starts = new Uint32Array(DIGIT_SIZE + 1);
  let from: Uint32Array = order;
  let to: Uint32Array = new Uint32Array(order.length);
  for (let divisor = 1; divisor <= greatest; divisor *= DIGIT_SIZE) {
    starts.fill(0);
    for (let index = 0; index < from.length; index += 1) {
      // The bitwise operator drops the fraction.
      const digit = ((keys[from[index]!]! / divisor) & (DIGIT_SIZE - 1)) ^ flip;
      digits[index] = digit;
      starts[digit + 1]! += 1;
    }
    for (let digit = 1; digit < DIGIT_SIZE; digit += 1) starts[digit]! += starts[digit - 1]!;
    for (let index = 0; index < from.length; index += 1) {
      const digit = digits[index]!;
      to[starts[digit]!] = from[index]!;
      starts[digit]! += 1;
    }
    [from, to] = [to, from];
  }
  if (from !== order) order.set(from);
}
