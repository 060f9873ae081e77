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

/** A range that was read as a whole. */
interface Listed {
  /** An older word on a key that was not there then is old news. */
  revision: Revision;
  /** Keys of the range that are there, as far as is known. */
  size: number;
}

/** What a comparison is told: the keys of a range that were written lately, and how many keys it has, at one revision. */
export interface Recent {
  readonly entries: readonly Entry[];
  readonly count: number;
  readonly revision: Revision;
}

export class KnownKeys {
  readonly #known = new Map<Key, Known>();
  readonly #tombstones = new Set<Key>();
  readonly #listed = new Map<Range, Listed>();
  readonly #comparisons = new Set<Comparison>();

  /** Takes a change in; false when something at least as new is known. */
  apply({ key, modRevision, entry }: Change): boolean {
    const known = this.#known.get(key);
    const newest = known === undefined ? this.#listedAt(key) : known.modRevision;
    if (newest !== undefined && compareDecimals(modRevision, newest) <= 0) return false;
    this.#known.set(key, { modRevision, entry });
    if (entry === null) this.#tombstones.add(key);
    else this.#tombstones.delete(key);
    const more = (entry === null ? 0 : 1) - ((known?.entry ?? null) === null ? 0 : 1);
    if (more !== 0) this.#count(key, more, modRevision);
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
   * What a full reading of `range` at `revision` changes: newer puts, and deletes of known keys that are not in it. Say
   * {@link listed} once the changes are applied.
   */
  changesOf(range: Range, entries: readonly Entry[], revision: Revision): Change[] {
    const listed = new Set<Key>();
    const changes: Change[] = [];
    for (const entry of entries) {
      listed.add(entry.key);
      if (this.isNews(entry)) {
        changes.push({ key: entry.key, modRevision: entry.modRevision, entry });
      }
    }
    for (const [key, known] of this.#known) {
      if (known.entry === null || listed.has(key) || !inRange(range, key)) continue;
      if (compareDecimals(known.modRevision, revision) > 0) continue;
      changes.push({ key, modRevision: revision, entry: null });
    }
    return changes;
  }

  /**
   * Notes that everything in `range` is known as of `revision`: what is not known was absent then. Tombstones that this
   * makes needless are dropped.
   */
  listed(range: Range, revision: Revision): void {
    const before = this.#listed.get(range);
    if (before === undefined) {
      this.#listed.set(range, { revision, size: this.#sizeOf(range) });
    } else if (compareDecimals(revision, before.revision) > 0) before.revision = revision;
    for (const key of this.#tombstones) {
      if (!inRange(range, key)) continue;
      if (compareDecimals(this.#known.get(key)!.modRevision, revision) > 0) continue;
      this.#known.delete(key);
      this.#tombstones.delete(key);
    }
  }

  /**
   * Begins to compare a range that was listed with what is there; ask for what is there after this, and `end` it.
   */
  compare(range: Range): Comparison {
    const comparison = new Comparison(range, {
      isNews: (entry) => this.isNews(entry),
      isThere: (key) => this.get(key) !== null,
      size: () => this.#listed.get(range)?.size ?? this.#sizeOf(range),
      end: () => this.#comparisons.delete(comparison),
    });
    this.#comparisons.add(comparison);
    return comparison;
  }

  /** Forgets everything (R8). */
  clear(): void {
    this.#known.clear();
    this.#tombstones.clear();
    this.#listed.clear();
  }

  /** True when an entry is newer than what is known of its key. */
  isNews({ key, modRevision }: Entry): boolean {
    const known = this.#known.get(key);
    return known === undefined || compareDecimals(modRevision, known.modRevision) > 0;
  }

  /**
   * True when an entry cannot be: as of `revision`, at which something newer than it was known already. Only a store that
   * went back in time says so, and has come as far again since (R8).
   */
  contradicts({ key, modRevision }: Entry, revision: Revision): boolean {
    const known = this.#known.get(key);
    if (known === undefined || compareDecimals(modRevision, known.modRevision) >= 0) return false;
    return compareDecimals(revision, known.modRevision) >= 0;
  }

  #count(key: Key, more: number, revision: Revision): void {
    for (const [range, listed] of this.#listed) if (inRange(range, key)) listed.size += more;
    for (const comparison of this.#comparisons) comparison.counted(key, more, revision);
  }

  #sizeOf(range: Range): number {
    let size = 0;
    for (const [key, { entry }] of this.#known) {
      if (entry !== null && inRange(range, key)) size += 1;
    }
    return size;
  }

  #listedAt(key: Key): Revision | undefined {
    let newest: Revision | undefined;
    for (const [range, { revision }] of this.#listed) {
      if (!inRange(range, key)) continue;
      if (newest === undefined || compareDecimals(revision, newest) > 0) newest = revision;
    }
    return newest;
  }

  get size(): number {
    return this.#known.size;
  }
}

/** What a comparison asks of the keys that are known. */
interface KnownNow {
  readonly isNews: (entry: Entry) => boolean;
  readonly isThere: (key: Key) => boolean;
  readonly size: () => number;
  readonly end: () => void;
}

/**
 * Whether everything in a range is known, found from what was written to it lately: which keys, and how many there are.
 *
 * Sound by induction: all was known at an earlier revision; every key written since is looked at; so one that was deleted
 * and is still known, or that is there and is not, shows in the number. What is heard while the answer is on its way is
 * newer than the answer or older; the revision of each tells.
 */
export class Comparison {
  readonly #range: Range;
  readonly #now: KnownNow;
  readonly #moves: { revision: Revision; more: number }[] = [];

  constructor(range: Range, now: KnownNow) {
    this.#range = range;
    this.#now = now;
  }

  /** The number of known keys changed, by a change of this revision. */
  counted(key: Key, more: number, revision: Revision): void {
    if (inRange(this.#range, key)) this.#moves.push({ revision, more });
  }

  /** Keys that must be read; null when the number of keys says that others differ. */
  toRead({ entries, count, revision }: Recent): Key[] | null {
    const news = entries.filter((entry) => this.#now.isNews(entry)).map(({ key }) => key);
    let size = this.#now.size() + news.filter((key) => !this.#now.isThere(key)).length;
    for (const move of this.#moves) {
      if (compareDecimals(move.revision, revision) > 0) size -= move.more;
    }
    return size === count ? news : null;
  }

  end(): void {
    this.#now.end();
  }
}
