/**
 * The versions of every key: what a read or a watch of the past is answered from.
 *
 * A commit is everything that was written at one revision. Writes are staged one by one, are visible at once, and become
 * a commit with `seal`; nothing is ever rolled back, so the caller checks before it stages. Knows nothing of sessions
 * beyond their names, nor of watches.
 */
import { type Revision, revisionOf } from '../../base/decimals.ts';
import type { SessionId } from '../../base/ids.ts';
import type { Change, Entry, Key, Range } from '../port.ts';
import { SortedKeys } from './sorted-keys.ts';

/** What caused a commit: a batch of a client, the end of a session, or a test that wrote by hand. */
export type CommitCause = 'batch' | 'sessionEnd' | 'hand';

/** Everything that was written at one revision. */
export interface Commit {
  readonly revision: Revision;
  readonly number: number;
  readonly cause: CommitCause;
  readonly atMs: number;
  /** In key order, each key once. */
  readonly changes: readonly Change[];
  /** Per change, what the key held before. */
  readonly replaced: readonly (Entry | null)[];
}

/** Entries of one page and whether more follow. */
export interface Page {
  readonly entries: readonly Entry[];
  readonly more: boolean;
}

/** Which page of a range to read, at which revision number; the newest when absent. */
export interface PageRequest {
  readonly at: number | undefined;
  readonly limit: number;
  readonly after: Key | undefined;
  readonly keysOnly: boolean;
  /** Entries last written before this revision number are left out. */
  readonly modifiedSince: number;
  /** Entries whose last write is the one given here are left out. */
  readonly known: ReadonlyMap<Key, Revision> | undefined;
}

interface Version {
  readonly number: number;
  readonly entry: Entry | null;
  older: Version | undefined;
  newer: Version | undefined;
}

/** The versions of one key that are kept; a single tombstone is kept only as long as a read could ask for it. */
interface KeyVersions {
  oldest: Version;
  newest: Version;
}

/** What a history begins with. */
export interface Beginning {
  readonly entries: readonly Entry[];
  readonly revision: Revision;
}

/** An empty etcd. */
const EMPTY: Beginning = { entries: [], revision: revisionOf(1) };

/** Starts where an empty etcd starts, at revision 1, unless told otherwise. A commit costs O(changes), whatever the store holds. */
export class History {
  readonly #versions = new Map<Key, KeyVersions>();
  /** All keys that have a version. */
  readonly #keys = new SortedKeys();
  /** Those that are there now. */
  readonly #present = new SortedKeys();
  readonly #revisionsMax: number;
  #log: Commit[] = [];
  /** Commits at the start of `#log` that are compacted away. */
  #dropped = 0;
  #staged: { change: Change; replaced: Entry | null }[] = [];
  #number: number;
  #revision: Revision;
  #compacted = 0;

  /**
   * @param revisionsMax  Commits that stay readable; older ones are compacted away by themselves.
   * @param beginning     What is there at first; what was before its revision is compacted away.
   */
  constructor(revisionsMax: number, beginning = EMPTY) {
    this.#revisionsMax = revisionsMax;
    this.#revision = beginning.revision;
    this.#number = Number(beginning.revision);
    if (beginning !== EMPTY) this.#compacted = this.#number;
    for (const entry of beginning.entries) {
      const number = Number(entry.modRevision);
      const version = { number, entry, older: undefined, newer: undefined };
      this.#versions.set(entry.key, { oldest: version, newest: version });
      this.#keys.add(entry.key);
      this.#present.add(entry.key);
    }
  }

  /** The revision of the last commit. */
  get revision(): Revision {
    return this.#revision;
  }

  /** {@link revision} as a number. */
  get number(): number {
    return this.#number;
  }

  /** Revisions below this one can no longer be read; watches must start above it. 0 before the first compaction. */
  get compacted(): number {
    return this.#compacted;
  }

  /** What a key holds now, writes that are staged included. */
  current(key: Key): Entry | null {
    return this.#versions.get(key)?.newest.entry ?? null;
  }

  /** Stages a put. A key must not be staged twice. */
  put(key: Key, value: string, session: SessionId | null): void {
    const replaced = this.current(key);
    const revision = revisionOf(this.#number + 1);
    const createRevision = replaced?.createRevision ?? revision;
    this.#stage(replaced, {
      key,
      modRevision: revision,
      entry: { key, value, createRevision, modRevision: revision, session },
    });
  }

  /** Stages a delete; deleting what is absent writes nothing. */
  delete(key: Key): void {
    const replaced = this.current(key);
    if (replaced === null) return;
    this.#stage(replaced, { key, modRevision: revisionOf(this.#number + 1), entry: null });
  }

  /** Makes one commit of all that is staged; null, and no new revision, when nothing is. */
  seal(cause: CommitCause, atMs: number): Commit | null {
    if (this.#staged.length === 0) return null;
    const staged = this.#staged.sort((a, b) => (a.change.key < b.change.key ? -1 : 1));
    this.#staged = [];
    this.#number += 1;
    this.#revision = revisionOf(this.#number);
    const commit: Commit = {
      revision: this.#revision,
      number: this.#number,
      cause,
      atMs,
      changes: staged.map(({ change }) => change),
      replaced: staged.map(({ replaced }) => replaced),
    };
    this.#log.push(commit);
    this.compact(this.#number - this.#revisionsMax);
    return commit;
  }

  /** Reads one page. `at` must be between {@link compacted} and {@link number}. */
  page(range: Range, request: PageRequest): Page {
    const entries: Entry[] = [];
    for (const key of this.#keysIn(range, request.after)) {
      const entry = this.#at(key, request.at);
      if (entry === null || Number(entry.modRevision) < request.modifiedSince) continue;
      if (request.known?.get(key) === entry.modRevision) continue;
      if (entries.length === request.limit) return { entries, more: true };
      entries.push(request.keysOnly ? { ...entry, value: '' } : entry);
    }
    return { entries, more: false };
  }

  /**
   * Counts the keys of a range behind `after`. `at` must be between {@link compacted} and {@link number}.
   *
   * Cost: a prefix is not walked; what was written since `at` is.
   */
  count(range: Range, at: number, after: Key | undefined): number {
    if ('keys' in range) {
      const keys = [...this.#keysIn(range, after)];
      return keys.filter((key) => this.#at(key, at) !== null).length;
    }
    let count = this.#presentCount(range.prefix, after);
    const changed = new Set<Key>();
    for (const { changes } of this.since(at + 1)) for (const { key } of changes) changed.add(key);
    for (const key of changed) {
      if (!key.startsWith(range.prefix) || (after !== undefined && key <= after)) continue;
      count += Number(this.#at(key, at) !== null) - Number(this.current(key) !== null);
    }
    return count;
  }

  /** The commits from revision number `from` on, oldest first; `from` must be above {@link compacted}. */
  *since(from: number): Generator<Commit, void, undefined> {
    const first = this.#log[this.#dropped]?.number ?? from;
    const start = this.#dropped + Math.max(0, from - first);
    for (let index = start; index < this.#log.length; index += 1) yield this.#log[index]!;
  }

  /** Forgets what was overwritten or deleted before revision `number`; a lower one than before does nothing. */
  compact(number: number): void {
    while (this.#compacted < number) {
      this.#compacted += 1;
      const commit = this.#log[this.#dropped];
      if (commit?.number !== this.#compacted) continue;
      this.#dropped += 1;
      for (const { key } of commit.changes) this.#trim(key);
    }
    if (this.#dropped > 1024 && this.#dropped * 2 > this.#log.length) {
      this.#log = this.#log.slice(this.#dropped);
      this.#dropped = 0;
    }
  }

  #presentCount(prefix: string, after: Key | undefined): number {
    const end = this.#present.indexOf(endOfPrefix(prefix));
    if (after === undefined || after < prefix) return end - this.#present.indexOf(prefix);
    const start = this.#present.indexOf(after) + (this.current(after) === null ? 0 : 1);
    return Math.max(0, end - start);
  }

  #stage(replaced: Entry | null, change: Change): void {
    this.#staged.push({ change, replaced });
    if (change.entry === null) this.#present.remove(change.key);
    else if (replaced === null) this.#present.add(change.key);
    const versions = this.#versions.get(change.key);
    const version: Version = {
      number: this.#number + 1,
      entry: change.entry,
      older: versions?.newest,
      newer: undefined,
    };
    if (versions === undefined) {
      this.#versions.set(change.key, { oldest: version, newest: version });
      this.#keys.add(change.key);
    } else {
      versions.newest.newer = version;
      versions.newest = version;
    }
  }

  /** Drops the versions of a key that no read at or above the compacted revision can see. */
  #trim(key: Key): void {
    const versions = this.#versions.get(key);
    if (versions === undefined) return;
    let { oldest } = versions;
    while (oldest.newer !== undefined && oldest.newer.number <= this.#compacted) {
      oldest = oldest.newer;
    }
    const isDead = oldest.entry === null && oldest.number <= this.#compacted;
    if (isDead && oldest.newer === undefined) {
      this.#versions.delete(key);
      this.#keys.remove(key);
      return;
    }
    versions.oldest = isDead && oldest.newer !== undefined ? oldest.newer : oldest;
    versions.oldest.older = undefined;
  }

  #at(key: Key, number: number | undefined): Entry | null {
    let version = this.#versions.get(key)?.newest;
    if (number !== undefined) {
      while (version !== undefined && version.number > number) version = version.older;
    }
    return version?.entry ?? null;
  }

  *#keysIn(range: Range, after: Key | undefined): Generator<Key, void, undefined> {
    if ('keys' in range) {
      for (const key of [...new Set(range.keys)].sort()) {
        if (after === undefined || key > after) yield key;
      }
      return;
    }
    const first = after !== undefined && after > range.prefix ? after : range.prefix;
    for (const key of this.#keys.from(first)) {
      if (key === after) continue;
      if (!key.startsWith(range.prefix)) return;
      yield key;
    }
  }
}

/** The first key after all that start with `prefix`; undefined when none can follow. */
function endOfPrefix(prefix: string): Key | undefined {
  for (let length = prefix.length; length > 0; length -= 1) {
    const last = prefix.charCodeAt(length - 1);
    if (last < 0xffff) return prefix.slice(0, length - 1) + String.fromCharCode(last + 1);
  }
  return undefined;
}
