/** Draws the steps of a random history, aimed at what the stores hold. */
import { ABSENT, type Revision, revisionOf } from '../../../../src/base/decimals.ts';
import type { SessionId } from '../../../../src/base/ids.ts';
import { type Random, randomInteger } from '../../../../src/base/random.ts';
import type {
  Batch,
  Compare,
  Entry,
  Key,
  Range,
  ReadOptions,
  Txn,
  Write,
} from '../../../../src/store/port.ts';

/** One step; revisions count from the beginning of the history. */
export type Step =
  | { readonly do: 'transact'; readonly batch: Batch }
  | { readonly do: 'open'; readonly id: SessionId; readonly ttlMs: number }
  | { readonly do: 'keepAlive' | 'close'; readonly id: SessionId }
  | {
      readonly do: 'read';
      readonly range: Range;
      readonly read: ReadOptions;
      readonly isPaged: boolean;
    }
  | { readonly do: 'watch'; readonly range: Range; readonly from: number }
  | { readonly do: 'rewatch'; readonly index: number; readonly back: number }
  | { readonly do: 'unwatch'; readonly index: number }
  | { readonly do: 'drop' | 'cut' | 'heal' }
  | { readonly do: 'compact'; readonly revision: number };

/** What the steps are aimed at. */
export interface World {
  readonly entries: ReadonlyMap<Key, Entry>;
  readonly newest: number;
  /** The oldest revision to aim at; it may be compacted. */
  readonly oldest: number;
  readonly compacted: number;
  readonly watchCount: number;
  readonly isCut: boolean;
}

/** What most keys are called, under the prefix of the history. */
export const NAMES = [
  'a',
  'a/',
  'a/b',
  'a/b/c',
  'a0',
  'a~',
  'b',
  'b/1',
  'b/10',
  'b/2',
  'b/é',
  'c',
  '-',
  ' ',
];

/** Relative to the prefix of the history; every one holds a key that {@link NAMES} or a mark writes. */
export const RANGES: readonly Range[] = [
  { prefix: '' },
  { prefix: 'a' },
  { prefix: 'a/' },
  { prefix: 'b/1' },
  { keys: ['a'] },
  { keys: ['c', 'a/b', 'b/é'] },
  { keys: NAMES.slice(3, 12) },
];

const VALUES = ['', 'x', 'y', '{"schema":1}', 'naïve – ½', 'v'.repeat(300)];
const LONG_VALUE = 'w'.repeat(20_000);
const WATCHES_MAX = 10;
/** Most transactions in a batch that stays within the limits, with writes of at most 3 each. */
const LARGE_BATCH = 110;
const TOO_LARGE_BATCH = 128;

export function underPrefix(prefix: string, name: string): Key {
  return prefix + name;
}

type Draw = (world: World) => Step | undefined;

export class HistoryDrawer {
  readonly #random: Random;
  readonly #prefix: string;
  readonly #sessions: readonly SessionId[];
  readonly #draws: readonly (readonly [weight: number, draw: Draw])[];

  constructor(random: Random, prefix: string, sessions: readonly SessionId[]) {
    this.#random = random;
    this.#prefix = prefix;
    this.#sessions = sessions;
    this.#draws = [
      [100, (world) => ({ do: 'transact', batch: this.#batch(world) })],
      [3, (world) => ({ do: 'transact', batch: this.#largeBatch(world) })],
      [14, () => this.#open()],
      [6, () => ({ do: 'keepAlive', id: this.#session() })],
      [8, () => ({ do: 'close', id: this.#session() })],
      [40, (world) => this.#read(world)],
      [14, (world) => this.#watch(world)],
      [
        5,
        (world) =>
          this.#ofWatch(world, (index) => ({ do: 'rewatch', index, back: this.#below(4) })),
      ],
      [6, (world) => this.#ofWatch(world, (index) => ({ do: 'unwatch', index }))],
      [2, ({ isCut }) => (isCut ? undefined : { do: 'drop' })],
      [2, ({ isCut }) => (isCut ? undefined : { do: 'cut' })],
      [20, ({ isCut }) => (isCut ? { do: 'heal' } : undefined)],
      [4, (world) => this.#compaction(world)],
    ];
  }

  draw(world: World): Step {
    const total = this.#draws.reduce((sum, [weight]) => sum + weight, 0);
    for (;;) {
      let at = this.#below(total);
      const [, draw] = this.#draws.find(([weight]) => (at -= weight) < 0)!;
      const step = draw(world);
      if (step !== undefined) return step;
    }
  }

  #batch(world: World): Batch {
    const free = new Set(NAMES);
    const txns = this.#times(this.#pick([0, 1, 1, 1, 2, 2, 3, 5]), () => {
      const writes = this.#times(this.#below(4), () => this.#write(free)).filter(
        (write) => write !== undefined,
      );
      return this.#txn(world, writes);
    });
    return { guard: this.#chance(0.3) ? [this.#compare(world, 0.8)] : [], txns };
  }

  /** Many transactions of one write each, sometimes more than a batch may hold. */
  #largeBatch(world: World): Batch {
    const count = this.#chance(0.2) ? TOO_LARGE_BATCH : 1 + this.#below(LARGE_BATCH);
    const txns = this.#times(count, (index) => {
      const write = { put: this.#key(`many/${index}`), value: this.#pick(VALUES), session: null };
      return this.#txn(world, [write]);
    });
    return { guard: [], txns };
  }

  #txn(world: World, writes: readonly Write[]): Txn {
    return {
      compares: this.#times(this.#below(3), () => this.#compare(world, 0.7)),
      writes,
      onConflict: this.#times(this.#below(4), () => this.#key(this.#pick(NAMES))),
      ...(this.#chance(0.3) ? { conflictKeysOnly: this.#chance(0.8) } : {}),
    };
  }

  /** Mostly of a key that the batch does not write yet: another one has the whole batch refused. */
  #write(free: Set<string>): Write | undefined {
    const name = this.#chance(0.01) ? this.#pick(NAMES) : this.#pick([...free]);
    if (name === undefined) return undefined;
    free.delete(name);
    const key = this.#key(name);
    if (this.#chance(0.25)) return { delete: key };
    const value = this.#chance(0.01) ? LONG_VALUE : this.#pick(VALUES);
    return { put: key, value, session: this.#chance(0.3) ? this.#session() : null };
  }

  /** `truth` is how likely it is aimed at what holds now. */
  #compare({ entries, newest, oldest }: World, truth: number): Compare {
    const key = this.#key(this.#pick(NAMES));
    const entry = entries.get(key);
    const target = this.#pick(['createRevision', 'modRevision', 'session'] as const);
    const holds = this.#chance(truth);
    if (target === 'session') {
      const other = this.#chance(0.3) ? null : this.#session();
      return { key, target, equals: holds ? (entry?.session ?? null) : other };
    }
    const other = this.#chance(0.3) ? ABSENT : this.#between(oldest, newest + 2);
    return { key, target, equals: holds ? (entry?.[target] ?? ABSENT) : other };
  }

  /** The same session always asks for the same life: with another one etcd's least could not be told from the one granted. */
  #open(): Step {
    const id = this.#session();
    return { do: 'open', id, ttlMs: 600_000 + 1_000 * this.#sessions.indexOf(id) };
  }

  #read({ newest, oldest }: World): Step {
    const read: ReadOptions = {
      ...(this.#chance(0.6) ? { atRevision: this.#between(oldest, newest + 1) } : {}),
      ...(this.#chance(0.6) ? { limit: 1 + this.#below(5) } : {}),
      ...(this.#chance(0.3) ? { after: this.#key(this.#pick([...NAMES, '', '~'])) } : {}),
      ...(this.#chance(0.3) ? { keysOnly: true } : {}),
      ...(this.#chance(0.3) ? { minModRevision: this.#between(oldest, newest + 1) } : {}),
      ...(this.#chance(0.3) ? { known: this.#knowledge(oldest, newest) } : {}),
    };
    return { do: 'read', range: this.#range(), read, isPaged: this.#chance(0.5) };
  }

  #knowledge(oldest: number, newest: number): ReadonlyMap<Key, Revision> {
    const names = NAMES.filter(() => this.#chance(0.7));
    return new Map(
      names.map((name) => [
        this.#key(name),
        this.#chance(0.2) ? ABSENT : this.#between(oldest, newest + 1),
      ]),
    );
  }

  #watch({ newest, oldest, watchCount, isCut }: World): Step | undefined {
    if (watchCount >= WATCHES_MAX) return undefined;
    // From a revision that does not exist yet only while connected: by the time of a connection it may exist.
    const isFuture = !isCut && this.#chance(0.06);
    const from = isFuture ? newest + 2 + this.#below(3) : oldest + this.#below(newest + 2 - oldest);
    return { do: 'watch', range: this.#range(), from };
  }

  #ofWatch({ watchCount }: World, make: (index: number) => Step): Step | undefined {
    return watchCount === 0 ? undefined : make(this.#below(watchCount));
  }

  #compaction({ newest, compacted }: World): Step | undefined {
    const back = this.#below(12);
    const revision = newest - back;
    return revision > compacted ? { do: 'compact', revision } : undefined;
  }

  #range(): Range {
    const range = this.#pick(RANGES);
    return 'prefix' in range
      ? { prefix: this.#key(range.prefix) }
      : { keys: range.keys.map((name) => this.#key(name)) };
  }

  #key(name: string): Key {
    return underPrefix(this.#prefix, name);
  }

  #session(): SessionId {
    return this.#pick(this.#sessions);
  }

  #between(from: number, to: number): Revision {
    return revisionOf(from + this.#below(to - from + 1));
  }

  #times<T>(count: number, make: (index: number) => T): T[] {
    return Array.from({ length: count }, (_, index) => make(index));
  }

  #pick<T>(from: readonly T[]): T {
    return from[this.#below(from.length)]!;
  }

  #below(count: number): number {
    return randomInteger(this.#random, count);
  }

  #chance(probability: number): boolean {
    return this.#random.next() < probability;
  }
}
