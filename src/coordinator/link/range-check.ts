/**
 * Compares what is known of a range with what is there, at the cost of what was written since it was last known to be right:
 * keys alone, and how many there are. Values are read where something differs.
 */
import { nextRevision, type Revision } from '../../base/decimals.ts';
import type { Change, Entry, Key, Range } from '../../store/port.ts';
import type { KnownKeys } from './known-keys.ts';
import type { StoreGate } from './store-gate.ts';

/** Once these are taken in, everything in the range is known as of `revision`. */
export interface Differences {
  readonly changes: readonly Change[];
  readonly revision: Revision;
}

/** A number of keys that does not agree may only be ahead of a delete that is still to be heard. */
const TRIES = 3;

/** Finds what is not known of `range`; everything in it was known at `since`. */
export async function findDifferences(
  gate: Pick<StoreGate, 'readEach' | 'readKeys'>,
  known: KnownKeys,
  range: Range,
  since: Revision,
): Promise<Differences> {
  for (let tries = 0; tries < TRIES; tries += 1) {
    const comparison = known.compare(range);
    try {
      const { entries, ...at } = await listKeys(gate, range, nextRevision(since));
      const keys = comparison.toRead({ entries, ...at });
      if (keys !== null) return { changes: await changesAt(gate, keys), revision: at.revision };
    } finally {
      comparison.end();
    }
  }
  const { entries, revision } = await listKeys(gate, range);
  const changes = known.changesOf(range, entries, revision);
  const deletes = changes.filter(({ entry }) => entry === null);
  const puts = changes.filter(({ entry }) => entry !== null).map(({ key }) => key);
  return { changes: [...deletes, ...(await changesAt(gate, puts))], revision };
}

async function listKeys(
  gate: Pick<StoreGate, 'readEach'>,
  range: Range,
  minModRevision?: Revision,
): Promise<{ entries: Entry[]; count: number; revision: Revision }> {
  const entries: Entry[] = [];
  const options = {
    keysOnly: true,
    ...(minModRevision === undefined ? {} : { minModRevision }),
    restarted: () => void entries.splice(0),
  };
  const at = await gate.readEach(range, options, (page) => void entries.push(...page));
  return { entries, ...at };
}

/** What these keys hold now. */
async function changesAt(
  gate: Pick<StoreGate, 'readKeys'>,
  keys: readonly Key[],
): Promise<Change[]> {
  if (keys.length === 0) return [];
  const { entries, revision } = await gate.readKeys(keys);
  return keys.map((key) => {
    const entry = entries.get(key) ?? null;
    return { key, modRevision: entry?.modRevision ?? revision, entry };
  });
}
