/**
 * Reads a whole range, however large, as it was at one revision, in pages of about a mebibyte.
 *
 * What an entry takes is known only once it is read, so the size of a page follows from the page before: the first one is
 * small, none has more than twice the entries of the last one, and one that is refused as too large is asked for again with
 * half of them. Tests: test/store/read-all.test.ts
 */
import { compareDecimals, type Revision } from '../base/decimals.ts';
import { invariant, LeaseholdError } from '../base/errors.ts';
import type { CallOptions, Entry, Key, Range, ReadOptions, Store } from './port.ts';

type Reader = Pick<Store, 'read'>;

/** How to read a whole range. */
export interface ReadAllOptions extends CallOptions {
  /** Most entries per page, 1..1000; 1000 when absent. */
  readonly pageEntriesMax?: number;
  /** Leave values out. */
  readonly keysOnly?: boolean;
  /** Only entries last written at this revision or after it. */
  readonly minModRevision?: Revision;
  /** How often to start over when history was compacted away between two pages; 8 when absent. */
  readonly restartsMax?: number;
}

/** How to read a range page by page. */
export interface ReadEachOptions extends ReadAllOptions {
  /** What was handed on so far is void: everything comes again, as of a newer revision. */
  readonly restarted?: () => void;
}

/** Everything in a range, ordered by key, as of `revision`. */
export interface Snapshot {
  readonly entries: readonly Entry[];
  readonly revision: Revision;
}

/** What was read: the revision it was read at, and how many keys the range had then, also those that were left out. */
export interface ReadEachResult {
  readonly revision: Revision;
  readonly count: number;
}

const PAGE_ENTRIES_MAX = 1_000;
const FIRST_PAGE_ENTRIES = 256;
const PAGE_BYTES_AIM = 1024 * 1024;

/**
 * Reads all pages of `range` at the revision of the first one, and hands each on before the next is asked for: at no time
 * is more than one page held. An empty page is not handed on.
 *
 * When that revision is compacted away meanwhile, `restarted` is called and the reading starts over at a newer revision.
 * `timeoutMs` bounds each page, not the whole.
 *
 * @throws `E_STORE_UNREACHABLE` when `restartsMax` restarts were not enough; whatever `read` or `take` rejects with.
 */
export async function readEach(
  store: Reader,
  range: Range,
  options: ReadEachOptions,
  take: (entries: readonly Entry[], revision: Revision) => void | Promise<void>,
): Promise<ReadEachResult> {
  const restartsMax = options.restartsMax ?? 8;
  for (let restarts = 0; restarts <= restartsMax; restarts += 1) {
    if (restarts > 0) options.restarted?.();
    const result = await readPages(store, range, options, take);
    if (result !== 'compacted') return result;
  }
  throw new LeaseholdError(
    'E_STORE_UNREACHABLE',
    `history was compacted away while reading, ${restartsMax + 1} times in a row: compact less often, or read less`,
    { details: { range, restartsMax } },
  );
}

/** As {@link readEach}, with everything in one list. */
export async function readAll(
  store: Reader,
  range: Range,
  options: ReadAllOptions,
): Promise<Snapshot> {
  const entries: Entry[] = [];
  const restarted = (): void => void entries.splice(0);
  const { revision } = await readEach(store, range, { ...options, restarted }, (page) => {
    for (const entry of page) entries.push(entry);
  });
  return { entries, revision };
}

/** How to read keys by name. */
export interface ReadKeysOptions extends CallOptions {
  /** Leave values out. */
  readonly keysOnly?: boolean;
  /** Only entries last written at this revision or after it. */
  readonly minModRevision?: Revision;
  /** Leave out those whose last write is the one given here. */
  readonly known?: ReadonlyMap<Key, Revision>;
}

/** Keys read by name, by key. */
export interface ReadKeysResult {
  readonly entries: ReadonlyMap<Key, Entry>;
  /** How many of the keys are there, also those that were left out. */
  readonly count: number;
  /** The lowest revision that any was read at. */
  readonly revision: Revision;
}

/**
 * Reads keys by name: in one read where the answer is small enough, otherwise in as many parts as it takes.
 *
 * The entries of different parts may come from different revisions: `revision` is the lowest of them, so that a watch from
 * the next one on misses nothing, and may repeat what a later part has told. `timeoutMs` bounds each part.
 */
export async function readKeysInParts(
  store: Reader,
  keys: readonly Key[],
  { timeoutMs, ...options }: ReadKeysOptions,
): Promise<ReadKeysResult> {
  const parts = partsOf([...new Set(keys)].sort(), PAGE_ENTRIES_MAX);
  const entries = new Map<Key, Entry>();
  let count = 0;
  let lowest: Revision | undefined;
  for (let part = parts.shift(); part !== undefined; part = parts.shift()) {
    const { keys: names, ...after } = part;
    const page = await store.read({ keys: names }, { ...options, ...after }, { timeoutMs });
    invariant(page.kind !== 'compacted', 'the present is no history');
    if (page.kind === 'tooLarge') {
      invariant(names.length > 1, TOO_LARGE_ALONE);
      parts.unshift(...partsOf(names, Math.ceil(names.length / 2)));
      continue;
    }
    for (const entry of page.entries) entries.set(entry.key, entry);
    // Behind the first page of a part its count covers only what follows.
    if (after.after === undefined) count += page.count;
    const { revision } = page;
    if (lowest === undefined || compareDecimals(revision, lowest) < 0) lowest = revision;
    if (page.more) parts.unshift({ keys: names, after: lastOf(page.entries).key });
  }
  invariant(lowest !== undefined, 'there is at least one part');
  return { entries, count, revision: lowest };
}

/** Keys to read together, all or those behind `after`. */
interface Part {
  readonly keys: readonly Key[];
  readonly after?: Key;
}

/** Cuts a list into parts of at most `size`; an empty one makes one empty part. */
function partsOf(keys: readonly Key[], size: number): Part[] {
  const parts: Part[] = [];
  for (let start = 0; start === 0 || start < keys.length; start += size) {
    parts.push({ keys: keys.slice(start, start + size) });
  }
  return parts;
}

/** How to read a whole range once. */
export interface ReadPagesOptions extends ReadAllOptions {
  /** As of this revision; that of the first page when absent. */
  readonly atRevision?: Revision;
}

/** As {@link readEach}, without starting over: `compacted` when history of that revision is gone. */
export async function readPages(
  store: Reader,
  range: Range,
  options: ReadPagesOptions,
  take: (entries: readonly Entry[], revision: Revision) => void | Promise<void>,
): Promise<ReadEachResult | 'compacted'> {
  const { timeoutMs, keysOnly = false, minModRevision, atRevision } = options;
  const limitMax = options.pageEntriesMax ?? PAGE_ENTRIES_MAX;
  let limit = Math.min(limitMax, keysOnly ? PAGE_ENTRIES_MAX : FIRST_PAGE_ENTRIES);
  let read: ReadOptions = {
    keysOnly,
    ...(minModRevision === undefined ? {} : { minModRevision }),
    ...(atRevision === undefined ? {} : { atRevision }),
  };
  let count: number | undefined;
  for (;;) {
    const page = await store.read(range, { ...read, limit }, { timeoutMs });
    if (page.kind === 'compacted') return 'compacted';
    if (page.kind === 'tooLarge') {
      invariant(limit > 1, TOO_LARGE_ALONE);
      limit = Math.floor(limit / 2);
      continue;
    }
    const { entries, revision } = page;
    count ??= page.count;
    if (entries.length > 0) await take(entries, revision);
    if (!page.more) return { revision, count };
    limit = Math.min(limitMax, 2 * limit, entriesThatFit(entries));
    read = { ...read, atRevision: revision, after: lastOf(entries).key };
  }
}

/** How many entries like these take as many bytes as a page should have. */
function entriesThatFit(entries: readonly Entry[]): number {
  let bytes = 0;
  for (const { key, value } of entries) bytes += Buffer.byteLength(key) + Buffer.byteLength(value);
  return Math.max(1, Math.floor((entries.length * PAGE_BYTES_AIM) / bytes));
}

function lastOf(entries: readonly Entry[]): Entry {
  const last = entries.at(-1);
  invariant(last !== undefined, 'the store sent an empty page and said that more follows');
  return last;
}

const TOO_LARGE_ALONE = 'the store called an answer of one entry too large';
