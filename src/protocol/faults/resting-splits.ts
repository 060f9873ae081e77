/** Splits that rest, the one that rests for the shortest time first. */
import type { SplitId } from '../../base/ids.ts';

interface Rest {
  readonly id: SplitId;
  readonly endsAtMs: number;
}

/** A binary heap by the end of the rest. What was taken out, or put anew, leaves an entry that is passed over. */
export class RestingSplits {
  readonly #heap: Rest[] = [];
  readonly #endsAtMs = new Map<SplitId, number>();

  get size(): number {
    return this.#endsAtMs.size;
  }

  has(id: SplitId): boolean {
    return this.#endsAtMs.has(id);
  }

  /** At most `count` of them, in any order. */
  some(count: number): SplitId[] {
    const some: SplitId[] = [];
    for (const id of this.#endsAtMs.keys()) {
      if (some.length >= count) break;
      some.push(id);
    }
    return some;
  }

  put(id: SplitId, endsAtMs: number): void {
    if (this.#endsAtMs.get(id) === endsAtMs) return;
    this.#endsAtMs.set(id, endsAtMs);
    const heap = this.#heap;
    let position = heap.length;
    heap.push({ id, endsAtMs });
    while (position > 0) {
      const parent = (position - 1) >> 1;
      if (heap[parent]!.endsAtMs <= endsAtMs) break;
      heap[position] = heap[parent]!;
      position = parent;
    }
    heap[position] = { id, endsAtMs };
  }

  /** Takes a split out; one that does not rest is no error. */
  remove(id: SplitId): void {
    this.#endsAtMs.delete(id);
  }

  /** When the first rest ends; null when nothing rests. */
  get nextEndMs(): number | null {
    this.#dropStale();
    return this.#heap[0]?.endsAtMs ?? null;
  }

  /** Takes out all whose rest has ended. */
  ended(nowMs: number): readonly SplitId[] {
    const ended: SplitId[] = [];
    for (let next = this.nextEndMs; next !== null && next <= nowMs; next = this.nextEndMs) {
      const { id } = this.#pop();
      this.#endsAtMs.delete(id);
      ended.push(id);
    }
    return ended;
  }

  #dropStale(): void {
    while (this.#heap.length > 0) {
      const { id, endsAtMs } = this.#heap[0]!;
      if (this.#endsAtMs.get(id) === endsAtMs) return;
      this.#pop();
    }
  }

  #pop(): Rest {
    const heap = this.#heap;
    const first = heap[0]!;
    const last = heap.pop()!;
    if (heap.length === 0) return first;
    let position = 0;
    for (;;) {
      const left = 2 * position + 1;
      if (left >= heap.length) break;
      const right = left + 1;
      const isRightSooner = right < heap.length && heap[right]!.endsAtMs < heap[left]!.endsAtMs;
      const child = isRightSooner ? right : left;
      if (heap[child]!.endsAtMs >= last.endsAtMs) break;
      heap[position] = heap[child]!;
      position = child;
    }
    heap[position] = last;
    return first;
  }
}
