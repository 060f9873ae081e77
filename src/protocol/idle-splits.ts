/**
 * Splits that nobody owns, heaviest first: in a large plan most of them wait, and a decision can place only as many as
 * there are free slots. It is spared the others: its cost follows the lanes of the fleet, not the size of the plan.
 */
import type { InstanceId, SplitId } from '../base/ids.ts';
import type { AssignableInstance, AssignableSplit } from './assign.ts';

/** A split that waits for a place. */
export interface IdleSplit {
  readonly id: SplitId;
  readonly weight: number;
}

interface Held extends IdleSplit {
  position: number;
}

/** From this part of all on, all are handed out: a decision over them costs less than finding the heaviest. */
const ALL_FROM_SHARE = 1 / 16;

/** A binary heap in the order in which `assign` fills: by descending weight, then ascending by id. */
export class IdleSplits {
  readonly #heap: Held[] = [];
  readonly #held = new Map<SplitId, Held>();

  get size(): number {
    return this.#heap.length;
  }

  /** Adds a split; one that is there with this weight stays where it is. */
  put(id: SplitId, weight: number): void {
    if (this.#held.get(id)?.weight === weight) return;
    this.remove(id);
    const held = { id, weight, position: this.#heap.length };
    this.#held.set(id, held);
    this.#heap.push(held);
    this.#rise(held);
  }

  /** Removes a split; one that is not there is no error. */
  remove(id: SplitId): void {
    const held = this.#held.get(id);
    if (held === undefined) return;
    this.#held.delete(id);
    const last = this.#heap.pop()!;
    if (last === held) return;
    this.#set(held.position, last);
    this.#rise(last);
    this.#sink(last);
  }

  /** At least the `count` heaviest, or all there are, in any order. O(count log n), at most O(n). */
  heaviest(count: number): readonly IdleSplit[] {
    if (count <= 0) return [];
    if (count >= this.size * ALL_FROM_SHARE) return [...this.#heap];
    const taken: IdleSplit[] = [];
    while (taken.length < count) {
      const first = this.#heap[0]!;
      taken.push(first);
      this.remove(first.id);
    }
    for (const { id, weight } of taken) this.put(id, weight);
    return taken;
  }

  #rise(held: Held): void {
    while (held.position > 0) {
      const parent = this.#heap[(held.position - 1) >> 1]!;
      if (!isBefore(held, parent)) return;
      this.#swap(held, parent);
    }
  }

  #sink(held: Held): void {
    for (;;) {
      const left = this.#heap[2 * held.position + 1];
      if (left === undefined) return;
      const right = this.#heap[2 * held.position + 2];
      const child = right !== undefined && isBefore(right, left) ? right : left;
      if (!isBefore(child, held)) return;
      this.#swap(held, child);
    }
  }

  #swap(a: Held, b: Held): void {
    const { position } = a;
    this.#set(b.position, a);
    this.#set(position, b);
  }

  #set(position: number, held: Held): void {
    this.#heap[position] = held;
    held.position = position;
  }
}

/**
 * Slots that a decision may fill with splits of nobody: those free once everyone keeps what sticks to it, within its
 * budget. Moves between instances change where they are, not how many.
 */
export function freeSlots(
  instances: readonly AssignableInstance[],
  splits: Iterable<AssignableSplit>,
  withheld: ReadonlySet<SplitId>,
): number {
  const kept = new Map<InstanceId, number>();
  for (const { id, owner } of splits) {
    if (owner !== null && !withheld.has(id)) kept.set(owner, (kept.get(owner) ?? 0) + 1);
  }
  let free = 0;
  for (const { id, maxInFlight, cordoned } of instances) {
    if (!cordoned) free += Math.max(0, maxInFlight - (kept.get(id) ?? 0));
  }
  return free;
}

/** A weight of 0 counts as 1. */
function isBefore(a: IdleSplit, b: IdleSplit): boolean {
  const heavier = Math.max(1, a.weight) - Math.max(1, b.weight);
  return heavier > 0 || (heavier === 0 && a.id < b.id);
}
