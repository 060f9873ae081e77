/**
 * The only door to the store: every call is bounded in time, and who counts what fails hears of each.
 *
 * A write that is not answered in time has an unknown outcome; a read that is not answered was in vain. An answer that
 * comes later is ignored: the same write will be sent again, and its answer decides (R1).
 */
import type { Clock } from '../../base/clock.ts';
import type { Revision } from '../../base/decimals.ts';
import type { SessionId } from '../../base/ids.ts';
import { keyOf } from '../../store/batch.ts';
import type {
  Batch,
  BatchOutcome,
  Entry,
  Key,
  Range,
  ReadOptions,
  ReadOutcome,
  SessionGrant,
  Store,
  WatchStream,
} from '../../store/port.ts';
import {
  readAll,
  readEach,
  type ReadEachOptions,
  type ReadEachResult,
  readKeysInParts,
  readPages,
  type ReadPagesOptions,
  type ReadKeysOptions,
  type ReadKeysResult,
  type Snapshot,
} from '../../store/read-all.ts';
import type { StoreAge } from './store-age.ts';
import { BoundedCalls, type Call, type CallPath, type OutcomeListener } from './bounded-calls.ts';

/** How the gate is used by one worker. */
export interface GateOptions {
  readonly opTimeoutMs: number;
  /** The root of the job's keys: calls are told apart by the kinds of keys they touch. */
  readonly root: string;
  /** Only who leads, or stands for it, writes this key. */
  readonly leaderKey: Key;
  /** Told how far the store is with each answer. */
  readonly age?: StoreAge;
}

/** How the pages of a range are got, and where they go. */
export interface PageHooks {
  readonly persist: (page: () => Promise<ReadOutcome>) => Promise<ReadOutcome>;
  readonly take: (entries: readonly Entry[]) => void | Promise<void>;
}

export class StoreGate {
  readonly #store: Store;
  readonly #options: GateOptions;
  readonly #calls: BoundedCalls;
  readonly #isLeaders: boolean;
  /** The last page in line. */
  #lastPage: Promise<unknown> = Promise.resolve();

  constructor(
    store: Store,
    clock: Clock,
    options: GateOptions,
    leader: { readonly calls: BoundedCalls } | null = null,
  ) {
    this.#store = store;
    this.#options = options;
    this.#calls = leader?.calls ?? new BoundedCalls(clock);
    this.#isLeaders = leader !== null;
  }

  /** The same door for what this worker does as leader, with a line of its own for listings. */
  forLeader(clock: Clock): StoreGate {
    return new StoreGate(this.#store, clock, this.#options, { calls: this.#calls });
  }

  /** Tells `outcomes` of every call from now on. */
  tell(outcomes: OutcomeListener): void {
    this.#calls.tell(outcomes);
  }

  /** Calls that nobody has answered. */
  get inFlight(): number {
    return this.#calls.inFlight;
  }

  /** A batch under a guard is a leader's, like the writes that make one and end one. */
  transact(batch: Batch): Promise<BatchOutcome> {
    const path = (): CallPath => {
      const keys = keysWritten(batch);
      const isLeaders = batch.guard.length > 0 || keys.includes(this.#options.leaderKey);
      return pathOf(`write ${this.#kindsOf(keys)}`, isLeaders);
    };
    return this.#make('write', { name: 'transact', path }, (options) =>
      this.#aged(this.#store.transact(batch, options)),
    );
  }

  read(range: Range, read: ReadOptions = {}): Promise<ReadOutcome> {
    const path = (): CallPath => this.#readPath(`read ${this.#kindsOf(keysIn(range))}`);
    return this.#make('read', { name: 'read', path }, (options) => {
      const answer = this.#store.read(range, read, options);
      // As of a revision of the past, it says nothing about the present.
      return read.atRevision === undefined ? this.#aged(answer) : answer;
    });
  }

  /** Reads a whole range at one revision; each page is bounded on its own. */
  readAll(range: Range): Promise<Snapshot> {
    return readAll(this.#lister(), range, this.#within({}));
  }

  /** Reads a whole range at one revision, and hands it on page by page; each is bounded on its own. */
  readEach(
    range: Range,
    options: Omit<ReadEachOptions, 'timeoutMs'>,
    take: (entries: readonly Entry[], revision: Revision) => void | Promise<void>,
  ): Promise<ReadEachResult> {
    return readEach(this.#lister(), range, this.#within(options), take);
  }

  /**
   * Reads a whole range at one revision, and hands it on page by page; `compacted` when that revision is gone. Each page is
   * got by `persist`, which may ask for it again.
   */
  readPages(
    range: Range,
    options: Omit<ReadPagesOptions, 'timeoutMs'>,
    { persist, take }: PageHooks,
  ): Promise<ReadEachResult | 'compacted'> {
    const lister = this.#lister();
    const within = this.#within(options);
    const reader: Pick<Store, 'read'> = {
      read: (of, read, call) => persist(() => lister.read(of, read, call)),
    };
    return readPages(reader, range, within, take);
  }

  /** Reads some keys by name, in as many parts as their values take; see {@link readKeysInParts} about revisions. */
  readKeys(
    keys: readonly Key[],
    options: Omit<ReadKeysOptions, 'timeoutMs'> = {},
  ): Promise<ReadKeysResult> {
    const reader = { read: (range: Range, read: ReadOptions) => this.read(range, read) };
    return readKeysInParts(reader, keys, this.#within(options));
  }

  /**
   * One page at a time, so that listings side by side take no more memory than one; its time counts from its turn. What is
   * asked for by name is small, and waits for nobody.
   */
  #lister(): Pick<Store, 'read'> {
    return {
      read: (range, read) => {
        if ('keys' in range) return this.read(range, read);
        const next = (): Promise<ReadOutcome> => this.read(range, read);
        const page = this.#lastPage.then(next, next);
        this.#lastPage = page;
        return page;
      },
    };
  }

  #within<T>(options: T): T & { timeoutMs: number } {
    return { ...options, timeoutMs: this.#options.opTimeoutMs };
  }

  openSession(id: SessionId, ttlMs: number): Promise<SessionGrant> {
    const path = (): CallPath => this.#path('open a session');
    return this.#make('write', { name: 'openSession', path }, (options) =>
      this.#store.openSession(id, ttlMs, options),
    );
  }

  keepAlive(id: SessionId, withinMs: number): Promise<SessionGrant> {
    const timeoutMs = Math.min(withinMs, this.#options.opTimeoutMs);
    const path = (): CallPath => this.#path('renew a session');
    return this.#make('write', { name: 'keepAlive', timeoutMs, path }, (options) =>
      this.#store.keepAlive(id, options),
    );
  }

  closeSession(id: SessionId): Promise<void> {
    return this.#make('write', { name: 'closeSession', path: null }, (options) =>
      this.#store.closeSession(id, options),
    );
  }

  watch(range: Range, fromRevision: Revision): WatchStream {
    return this.#store.watch(range, fromRevision);
  }

  /** Gives up every unanswered call and refuses new ones. */
  close(): void {
    this.#calls.close();
  }

  /** Looks whether an answer to a call that is made now may stand where it does. */
  async #aged<T extends BatchOutcome | ReadOutcome>(answer: Promise<T>): Promise<T> {
    const { age } = this.#options;
    const mark = age?.mark();
    const given = await answer;
    if (mark !== undefined && 'revision' in given) age!.answered(mark, given.revision);
    return given;
  }

  #make<T>(
    kind: Call['kind'],
    call: Omit<Call, 'kind' | 'timeoutMs'> & { readonly timeoutMs?: number },
    send: (options: { timeoutMs: number }) => Promise<T>,
  ): Promise<T> {
    return this.#calls.make({ kind, timeoutMs: this.#options.opTimeoutMs, ...call }, send);
  }

  #path(name: string): CallPath {
    return pathOf(name, this.#isLeaders);
  }

  /** Whoever may not read a part of the job has a role that lacks it, as leader or not (R45). */
  #readPath(name: string): CallPath {
    return { ...this.#path(name), isLeaders: false };
  }

  /** `plan+splits/`: the kinds of keys, each once. */
  #kindsOf(keys: readonly Key[]): string {
    const { root } = this.#options;
    const kinds = new Set<string>();
    for (const key of keys) {
      const name = key.startsWith(root) ? key.slice(root.length) : key;
      const slash = name.indexOf('/');
      kinds.add(slash < 0 ? name : name.slice(0, slash + 1));
    }
    return [...kinds].sort().join('+');
  }
}

function keysWritten({ txns }: Batch): Key[] {
  return txns.flatMap(({ writes }) => writes.map(keyOf));
}

function keysIn(range: Range): readonly Key[] {
  return 'prefix' in range ? [range.prefix] : range.keys;
}

function pathOf(name: string, isLeaders: boolean): CallPath {
  return { name: isLeaders ? `${name} as leader` : name, isLeaders };
}
