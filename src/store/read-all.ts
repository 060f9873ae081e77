/** Reads a whole range, however large, as it was at one revision. Tests: test/store/read-all.test.ts */
import type { Revision } from '../base/decimals.ts';
import { invariant, LeaseholdError } from '../base/errors.ts';
import type { CallOptions, Entry, Range, ReadOptions, Store } from './port.ts';

/** How to read a whole range. */
export interface ReadAllOptions extends CallOptions {
  /** Entries per page, 1..1000; 1000 when absent. */
  readonly pageEntriesMax?: number;
  /** Leave values out. */
  readonly keysOnly?: boolean;
  /** How often to start over when history was compacted away between two pages; 8 when absent. */
  readonly restartsMax?: number;
}

/** Everything in a range, ordered by key, as of `revision`. */
export interface Snapshot {
  readonly entries: readonly Entry[];
  readonly revision: Revision;
}

/**
 * Reads all pages of `range` at the revision of the first one.
 *
 * When that revision is compacted away meanwhile, everything read so far is dropped and the reading starts over at a newer
 * revision. `timeoutMs` bounds each page, not the whole.
 *
 * @throws `E_STORE_UNREACHABLE` when `restartsMax` restarts were not enough; whatever `read` rejects with.
 */
export async function readAll(
  store: Pick<Store, 'read'>,
  range: Range,
  options: ReadAllOptions,
): Promise<Snapshot> {
  const restartsMax = options.restartsMax ?? 8;
  for (let restarts = 0; restarts <= restartsMax; restarts += 1) {
    const snapshot = await readOnce(store, range, options);
    if (snapshot !== undefined) return snapshot;
  }
  throw new LeaseholdError(
    'E_STORE_UNREACHABLE',
    `history was compacted away while reading, ${restartsMax + 1} times in a row: compact less often, or read less`,
    { details: { range, restartsMax } },
  );
}

/** Reads all pages at one revision; undefined when it was compacted away in between. */
async function readOnce(
  store: Pick<Store, 'read'>,
  range: Range,
  options: ReadAllOptions,
): Promise<Snapshot | undefined> {
  const entries: Entry[] = [];
  let read: ReadOptions = {
    limit: options.pageEntriesMax ?? 1000,
    keysOnly: options.keysOnly ?? false,
  };
  for (;;) {
    const outcome = await store.read(range, read, { timeoutMs: options.timeoutMs });
    if (outcome.kind === 'compacted') return undefined;
    entries.push(...outcome.entries);
    const { revision } = outcome;
    if (!outcome.more) return { entries, revision };
    const last = outcome.entries.at(-1);
    invariant(last !== undefined, 'the store sent an empty page and said that more follows');
    read = { ...read, atRevision: revision, after: last.key };
  }
}
