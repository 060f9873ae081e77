/**
 * A set of keys that can be walked in order.
 *
 * Keys are ordered by UTF-16 code unit, which is etcd's byte order for all keys without characters above U+D7FF.
 * Tests: test/store/sorted-keys.test.ts
 */
import type { Key } from '../port.ts';

const CHUNK_KEYS_MAX = 512;

/** Keys in chunks of at most 512: adding and removing cost a binary search and one short move, for any number of keys. */
export class SortedKeys {
  /** Never holds an empty chunk. */
  readonly #chunks: Key[][] = [];

  /** Adds a key; one that is in already stays. */
  add(key: Key): void {
    const index = this.#chunkIndexOf(key);
    const chunk = this.#chunks[index];
    if (chunk === undefined) {
      this.#chunks.push([key]);
      return;
    }
    const position = lowerBound(chunk, key);
    if (chunk[position] === key) return;
    chunk.splice(position, 0, key);
    if (chunk.length > CHUNK_KEYS_MAX) {
      this.#chunks.splice(index + 1, 0, chunk.splice(CHUNK_KEYS_MAX / 2));
    }
  }

  /** Removes a key, if it is in. */
  remove(key: Key): void {
    const index = this.#chunkIndexOf(key);
    const chunk = this.#chunks[index];
    if (chunk === undefined) return;
    const position = lowerBound(chunk, key);
    if (chunk[position] !== key) return;
    chunk.splice(position, 1);
    if (chunk.length === 0) this.#chunks.splice(index, 1);
  }

  /** How many keys come before `key`, which need not be in; all of them for undefined. One look at each chunk. */
  indexOf(key: Key | undefined): number {
    const chunkIndex = key === undefined ? this.#chunks.length : this.#chunkIndexOf(key);
    let index = 0;
    for (let before = 0; before < chunkIndex; before += 1) index += this.#chunks[before]!.length;
    const chunk = this.#chunks[chunkIndex];
    return key === undefined || chunk === undefined ? index : index + lowerBound(chunk, key);
  }

  /** Walks all keys at or after `first`, in order. The set must not change meanwhile. */
  *from(first: Key): Generator<Key, void, undefined> {
    let position: number | undefined;
    for (let index = this.#chunkIndexOf(first); index < this.#chunks.length; index += 1) {
      const chunk = this.#chunks[index]!;
      position = position === undefined ? lowerBound(chunk, first) : 0;
      for (; position < chunk.length; position += 1) yield chunk[position]!;
    }
  }

  /** The last chunk that starts at or before `key`; the first one when all start after it. */
  #chunkIndexOf(key: Key): number {
    let low = 0;
    let high = this.#chunks.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#chunks[middle]![0]! <= key) low = middle + 1;
      else high = middle;
    }
    return Math.max(0, low - 1);
  }
}

/** The first position in `sorted` that holds `key` or a later key. */
function lowerBound(sorted: readonly Key[], key: Key): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! < key) low = middle + 1;
    else high = middle;
  }
  return low;
}
