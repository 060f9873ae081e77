/**
 * What the history of a mixed fleet shows: who led, who took over from whom, and whether every version can read what is
 * stored and keeps what it does not know. Reads the recorded history and the codecs of each version, and nothing else.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Codec, RecordBase, Stamp } from '../../../../src/records/codec.ts';
import type * as Keys from '../../../../src/records/keys.ts';
import type { SplitRecord } from '../../../../src/records/records.ts';
import type { RecordedEntry } from '../history/history.ts';
import type { Version } from './version.ts';

type Raw = Readonly<Record<string, unknown>> & { readonly by: Stamp };

/** Which codec reads a kind of key, by its name in `records.ts`; each version brings its own. */
const CODECS: Readonly<Record<string, string>> = {
  plan: 'planCodec',
  specs: 'specCodec',
  splits: 'splitCodec',
  assign: 'assignmentCodec',
  parked: 'parkedCodec',
  leader: 'leaderCodec',
  workers: 'presenceCodec',
  leases: 'leaseCodec',
};

/** Keys whose values are nobody’s but their writer’s. */
const PRIVATE: ReadonlySet<string> = new Set(['probe', 'control']);

/** Where another record may lie under the key of the last one: what tells the two apart. */
const IDENTITY: Readonly<Record<string, string>> = { workers: 'nonce', leases: 'epoch' };

/** How one version reads. */
interface Reader {
  readonly version: Version;
  readonly codecs: ReadonlyMap<string, Codec<RecordBase>>;
  knows(key: string): boolean;
}

/** One put of a record, and what its key held before. */
interface Put {
  readonly entry: RecordedEntry;
  readonly kind: string;
  /** The key’s part after its kind; empty when there is none. */
  readonly id: string;
  readonly raw: Raw;
  /** Undefined when the key was absent, or held another record. */
  readonly before: Raw | undefined;
}

/** One term of a leader. */
export interface Term {
  readonly generation: number;
  readonly instance: string;
  readonly version: string;
  /** The versions of the workers that it named work for. */
  readonly named: ReadonlySet<string>;
}

export class FleetHistory {
  readonly #readers: readonly Reader[];
  readonly #puts: readonly Put[];
  /** Of each process, by its nonce, as its presence says. */
  readonly #presences = new Map<string, { readonly host: string; readonly version: string }>();

  private constructor(readers: readonly Reader[], puts: readonly Put[]) {
    this.#readers = readers;
    this.#puts = puts;
    for (const { kind, raw } of puts) {
      if (kind !== 'workers') continue;
      const { nonce, host, version } = raw as unknown as Record<string, string>;
      this.#presences.set(nonce!, { host: host!, version: version! });
    }
  }

  static async of(
    entries: readonly RecordedEntry[],
    keys: Keys.JobKeys,
    versions: readonly Version[],
  ): Promise<FleetHistory> {
    return new FleetHistory(await Promise.all(versions.map((version) => readerOf(version, keys))), [
      ...putsOf(entries, keys.root),
    ]);
  }

  /** Presences that say another version than the package they came from. */
  misnamed(): string[] {
    return [...this.#presences.values()]
      .filter(({ host, version }) => this.#versionNamed(host)?.number !== version)
      .map(({ host, version }) => `a worker of ${host} says that it is ${version}`);
  }

  /** Values that a version cannot read, or reads as something else than was written. */
  unreadable(): string[] {
    return this.#puts.flatMap((put) =>
      this.#readers.flatMap(({ version, codecs, knows }) => {
        const where = `${put.entry.key} @${put.entry.revision} for ${version.name}`;
        const codec = codecs.get(put.kind);
        if (codec === undefined || !knows(put.entry.key)) return [`${where}: not a key`];
        const decoded = codec.decode(put.entry.value!);
        if (decoded.kind !== 'record') return [`${where}: ${decoded.reason}`];
        const record = decoded.record as Readonly<Record<string, unknown>>;
        return codec.fields
          .filter((field) => !isDeepStrictEqual(record[field], put.raw[field] ?? null))
          .map((field) => `${where}: ${field} reads as ${JSON.stringify(record[field])}`);
      }),
    );
  }

  /**
   * Rewrites that dropped or changed what their writer does not know of; and per version, in which kinds of record it kept
   * such fields, and how often.
   */
  rewrites(): { problems: string[]; kept: Record<string, Record<string, number>> } {
    const problems: string[] = [];
    const kept: Record<string, Record<string, number>> = {};
    for (const { entry, kind, raw, before } of this.#puts) {
      if (before === undefined) continue;
      const reader = this.#readers.find(({ version }) => version.name === this.#writerOf(raw));
      if (reader === undefined) {
        problems.push(`${entry.key} @${entry.revision}: written by nobody who was there`);
        continue;
      }
      const { version, codecs } = reader;
      const own = new Set(['by', 'schema', 'minReader', ...codecs.get(kind)!.fields]);
      const foreign = Object.keys(before).filter((field) => !own.has(field));
      const lost = foreign.filter((field) => !isDeepStrictEqual(before[field], raw[field]));
      // The numbers of a newer writer stay, too.
      for (const field of ['schema', 'minReader']) {
        if (Number(raw[field]) < Number(before[field])) lost.push(field);
      }
      if (lost.length > 0) {
        problems.push(`${entry.key} @${entry.revision}: ${version.name} lost ${lost.join(', ')}`);
      } else if (foreign.length > 0) {
        const counts = (kept[version.name] ??= {});
        counts[kind] = (counts[kind] ?? 0) + 1;
      }
    }
    return { problems, kept };
  }

  /** All terms, oldest first. */
  terms(): Term[] {
    const terms: (Term & { readonly named: Set<string> })[] = [];
    const hosts = new Map<string, string>();
    for (const { kind, id, raw } of this.#puts) {
      if (kind === 'workers') hosts.set(id, String(raw.host));
      if (kind === 'leader') {
        const { generation, owner } = raw as unknown as { generation: number; owner: string };
        const version = this.#writerOf(raw) ?? 'nobody';
        terms.push({ generation, instance: owner, version, named: new Set() });
      }
      const { splits } = raw as { splits?: readonly string[] };
      if (kind === 'assign' && splits!.length > 0) {
        const term = terms.find(({ generation }) => generation === raw.generation);
        term?.named.add(hosts.get(id) ?? 'nobody');
      }
    }
    return terms;
  }

  /** How often a split went from a process of one version to one of the other: `0.1.0 to now`. */
  handovers(): Record<string, number> {
    const counts: Record<string, number> = {};
    const last = new Map<string, Raw>();
    for (const { kind, id, raw } of this.#puts) {
      if (kind !== 'splits') continue;
      const before = last.get(id);
      last.set(id, raw);
      if (before === undefined || before.epoch === raw.epoch || before.nonce === null) continue;
      const [from, to] = [before, raw].map(({ nonce }) => this.#presences.get(String(nonce))?.host);
      if (from === to) continue;
      const name = `${from} to ${to}`;
      counts[name] = (counts[name] ?? 0) + 1;
    }
    return counts;
  }

  /** How many commits landed, by the version of their writer. */
  commits(): Record<string, number> {
    const counts: Record<string, number> = {};
    for (const { kind, raw, before } of this.#puts) {
      if (kind !== 'splits' || before === undefined || before.watermark === raw.watermark) continue;
      const version = this.#writerOf(raw) ?? 'nobody';
      counts[version] = (counts[version] ?? 0) + 1;
    }
    return counts;
  }

  /** What was stored for a split, oldest first. */
  ofSplit(split: string): SplitRecord[] {
    return this.#puts
      .filter(({ kind, id }) => kind === 'splits' && id === split)
      .map(({ raw }) => raw as unknown as SplitRecord);
  }

  #writerOf({ by }: Raw): string | undefined {
    return this.#presences.get(by.nonce)?.host;
  }

  #versionNamed(name: string): Version | undefined {
    return this.#readers.find(({ version }) => version.name === name)?.version;
  }
}

async function readerOf(version: Version, keys: Keys.JobKeys): Promise<Reader> {
  const { entry } = version;
  const codecs = (await import(entry.records)) as Record<string, Codec<RecordBase>>;
  const { parseKey } = (await import(entry.keys)) as typeof Keys;
  const known = Object.entries(CODECS).filter(([, name]) => Object.hasOwn(codecs, name));
  return {
    version,
    codecs: new Map(known.map(([kind, name]) => [kind, codecs[name]!])),
    knows: (key) => parseKey(keys, key).kind !== 'alien',
  };
}

function* putsOf(entries: readonly RecordedEntry[], root: string): Generator<Put, void, undefined> {
  const now = new Map<string, Raw>();
  for (const entry of entries) {
    const { key, value } = entry;
    if (!key.startsWith(root)) continue;
    const [kind = '', id = ''] = key.slice(root.length).split('/');
    if (PRIVATE.has(kind)) continue;
    const last = now.get(key);
    if (value === null) {
      now.delete(key);
      continue;
    }
    const raw = JSON.parse(value) as Raw;
    now.set(key, raw);
    const identity = IDENTITY[kind];
    const isSame = identity === undefined || last?.[identity] === raw[identity];
    yield { entry, kind, id, raw, before: isSame ? last : undefined };
  }
}
