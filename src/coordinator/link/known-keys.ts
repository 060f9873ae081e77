/**
 * What one worker knows of the keys it watches, whatever the order in which it learns it (R9).
 *
 * A change at or below the revision known of its key is old news and dropped; a delete leaves a tombstone, so that an
 * older put that comes later does not bring the key back. Own answers fold in at their revision, like watch events.
 */
import { compareDecimals, type Revision } from '../../base/decimals.ts';
import { inRange, type Change, type Entry, type Key, type Range } from '../../store/port.ts';

interface Known {
  readonly modRevision: Revision;
  readonly entry: Entry | null;
}

export class KnownKeys {
  readonly #known = new Map<Key, Known>();
  /** Ranges that were read as a whole, and when: an older word on a key that was not listed is old news. */
  readonly #listings = new Map<Range, Revision>();

  /** Takes a change in; false when something at least as new is known. */
  apply(change: Change): boolean {
    const known = this.#known.get(change.key);
    const newest = known === undefined ? this.#listedAt(change.key) : known.modRevision;
    if (newest !== undefined && compareDecimals(change.modRevision, newest) <= 0) return false;
    this.#known.set(change.key, { modRevision: change.modRevision, entry: change.entry });
    return true;
  }

  /** The key as last seen; null when absent or never seen. */
  get(key: Key): Entry | null {
    return this.#known.get(key)?.entry ?? null;
  }

  /** The revision of the last thing known of a key, its delete included. */
  revisionOf(key: Key): Revision | undefined {
    return this.#known.get(key)?.modRevision;
  }

  /**
   * What a full reading of `range` at `revision` changes: newer puts, and deletes of known keys that are not in it.
   * Tombstones that the reading makes needless are dropped; say {@link listed} once the changes are applied.
   */
  changesOf(range: Range, entries: readonly Entry[], revision: Revision): Change[] {
    const listed = new Set<Key>();
    const changes: Change[] = [];
    for (const entry of entries) {
      listed.add(entry.key);
      const known = this.#known.get(entry.key);
      if (known === undefined || compareDecimals(entry.modRevision, known.modRevision) > 0) {
        changes.push({ key: entry.key, modRevision: entry.modRevision, entry });
      }
    }
    for (const [key, known] of this.#known) {
      if (listed.has(key) || !inRange(range, key)) continue;
      if (compareDecimals(known.modRevision, revision) > 0) continue;
      if (known.entry === null) this.#known.delete(key);
      else changes.push({ key, modRevision: revision, entry: null });
    }
    return changes;
  }

  /** Notes that what `changesOf` found in a reading was taken in: what it did not list was absent at `revision`. */
  listed(range: Range, revision: Revision): void {
    const before = this.#listings.get(range);
    if (before === undefined || compareDecimals(revision, before) > 0) {
      this.#listings.set(range, revision);
    }
  }

  /** Forgets everything (R8). */
  clear(): void {
    this.#known.clear();
    this.#listings.clear();
  }

  #listedAt(key: Key): Revision | undefined {
    let newest: Revision | undefined;
    for (const [range, revision] of this.#listings) {
      if (!inRange(range, key)) continue;
      if (newest === undefined || compareDecimals(revision, newest) > 0) newest = revision;
    }
    return newest;
  }

  get size(): number {
    return this.#known.size;
  }
}
