/** Reads a history version by version, and knows what every key holds meanwhile. */
import type { Decoded, RecordBase, Stamp } from '../../records/codec.ts';
import {
  assignmentCodec,
  leaderCodec,
  leaseCodec,
  parkedCodec,
  planCodec,
  presenceCodec,
  specCodec,
  splitCodec,
} from '../../records/records.ts';

/** One version of a key. */
export interface HistoryEntry {
  /** Revisions of two clusters are not comparable. */
  readonly cluster: string;
  readonly key: string;
  /** Null for a delete. */
  readonly value: string | null;
  /** Decimal. */
  readonly revision: string;
  /** The session it hangs on. */
  readonly session: string | null;
  /** Written by a test and not by the system: known from here on, but not checked. */
  readonly isByHand?: boolean;
}

const CODECS: Readonly<Record<string, { decode(text: string): Decoded<RecordBase> }>> = {
  plan: planCodec,
  specs: specCodec,
  splits: splitCodec,
  assign: assignmentCodec,
  parked: parkedCodec,
  leader: leaderCodec,
  workers: presenceCodec,
  leases: leaseCodec,
};

/** A record as it was read, with who wrote it and what it hangs on. */
export interface Written {
  readonly record: RecordBase;
  readonly stamp: Stamp;
  readonly session: string | null;
}

/** One version of a key, read. */
export interface Version {
  readonly entry: HistoryEntry;
  /** `<cluster> <prefix>/<job>/`: where the keys of its job begin. */
  readonly root: string;
  /** The part of the key after the job: `splits`, `plan`. */
  readonly kind: string;
  /** The part after the kind: a split or an instance; empty when there is none. */
  readonly id: string;
  /** What the key held before; undefined when it was absent or unreadable. */
  readonly before: Written | undefined;
  /** What it holds now; undefined likewise. */
  readonly after: Written | undefined;
  /** The value is a record: not one that the checks cannot read. */
  readonly isReadable: boolean;
}

/** A version, with when and why it was written. */
export interface TimedVersion extends Version {
  readonly cause: string;
  /** On the store's clock. */
  readonly atMs: number;
}

/** The newest record of each key. */
export class KeyStates {
  readonly #now = new Map<string, Written>();

  /** What a key holds; `name` is the root of its job and the rest of it. */
  get(name: string): Written | undefined {
    return this.#now.get(name);
  }

  /** Takes the versions of one revision in, all of them before any is looked at: they happened at once. */
  take(entries: readonly HistoryEntry[]): Version[] {
    return entries.map((entry) => this.#take(entry));
  }

  #take(entry: HistoryEntry): Version {
    const [prefix = '', job = '', kind = entry.key, id = ''] = entry.key.split('/');
    const root = `${entry.cluster} ${prefix}/${job}/`;
    const name = `${entry.cluster} ${entry.key}`;
    const before = this.#now.get(name);
    const after = read(kind, entry);
    if (after === undefined) this.#now.delete(name);
    else this.#now.set(name, after);
    const isReadable = entry.value === null || after !== undefined || !(kind in CODECS);
    return { entry, root, kind, id, before, after, isReadable };
  }
}

/** The writes of one revision happened at once. */
export function* byRevision<Entry extends HistoryEntry>(
  history: Iterable<Entry>,
): Generator<Entry[], void, undefined> {
  let group: Entry[] = [];
  for (const entry of history) {
    const [first] = group;
    if (first?.revision !== entry.revision || first.cluster !== entry.cluster) {
      if (group.length > 0) yield group;
      group = [];
    }
    group.push(entry);
  }
  if (group.length > 0) yield group;
}

function read(kind: string, { value, session }: HistoryEntry): Written | undefined {
  if (value === null || !Object.hasOwn(CODECS, kind)) return undefined;
  const decoded = CODECS[kind]!.decode(value);
  if (decoded.kind !== 'record') return undefined;
  return { record: decoded.record, stamp: decoded.stamp, session };
}
