/** What one fleet has in an etcd, as a memory store shows it: read from the record, changed by hand past all clients. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Revision, revisionOf } from '../../../src/base/decimals.ts';
import type { SessionId } from '../../../src/base/ids.ts';
import type { AuditRecord, MemoryStats } from '../../../src/store/memory.ts';
import type {
  Batch,
  CallOptions,
  Entry,
  Key,
  Range,
  ReadOptions,
  Store,
} from '../../../src/store/port.ts';
import type { WorldStore } from '../../support/world.ts';
import type { Answered } from './fast-store.ts';
import type { HistoryRecorder, HeardEntry } from './history/history.ts';
import type { Gateway } from './server/gateway.ts';
import { patiently } from '../../support/patience.js';

/** Servers that hold one set of keys, and the record of all that was ever in it. */
export interface Place {
  readonly endpoints: readonly string[];
  readonly gateways: readonly Gateway[];
  readonly recorder: HistoryRecorder;
  /** Starts the store again without data, as another one. */
  restartEmpty(): Promise<void>;
}

export interface ViewOptions {
  readonly place: Place;
  /** Of the fleet's keys. */
  readonly prefix: string;
  readonly clock: { ofRealMs(realMs: number): number };
  connect(): Store & { readonly clusterId: string };
}

/** No answer waits longer for its record: the store may be another one by now. */
const RECORD_MS = 1_000;

export class EtcdView implements WorldStore {
  readonly name = 'etcd';
  readonly #options: ViewOptions;
  readonly #client: Store & { readonly clusterId: string };
  readonly #entries: HeardEntry[] = [];
  readonly #now = new Map<Key, HeardEntry>();
  /** Revisions that a transaction was answered with, and those written by hand, each with its cluster. */
  readonly #batches = new Set<string>();
  readonly #hands = new Set<string>();
  #read: number;
  /** Once a test has asked for them, they are looked at again with every step. */
  #sessions: readonly SessionId[] | null = null;

  constructor(options: ViewOptions) {
    this.#options = options;
    this.#client = options.connect();
    this.#read = options.place.recorder.entries.length;
  }

  get #gateway(): Gateway {
    return this.#options.place.gateways[0]!;
  }

  /** What is stored at a key now. */
  entry(key: Key): Entry | undefined {
    this.#take();
    const found = this.#now.get(key);
    return found === undefined ? undefined : entryOf(found);
  }

  get clusterId(): string {
    return this.#client.clusterId;
  }

  openSession(id: SessionId, ttlMs: number, options: CallOptions) {
    return this.#client.openSession(id, ttlMs, options);
  }

  keepAlive(id: SessionId, options: CallOptions) {
    return this.#client.keepAlive(id, options);
  }

  closeSession(id: SessionId, options: CallOptions) {
    return this.#client.closeSession(id, options);
  }

  read(range: Range, read: ReadOptions, options: CallOptions) {
    return this.#client.read(range, read, options);
  }

  transact(batch: Batch, options: CallOptions) {
    return this.#client.transact(batch, options);
  }

  watch(range: Range, fromRevision: Revision) {
    return this.#client.watch(range, fromRevision);
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  /** Of the last write to a key of the fleet. */
  get revision(): Revision {
    this.#take();
    return (this.#entries.at(-1)?.revision ?? '1') as Revision;
  }

  get liveSessions(): readonly SessionId[] {
    this.#sessions ??= [...new Set(this.dump().flatMap(({ session }) => session ?? []))];
    return this.#sessions;
  }

  get compactedRevision(): Revision {
    throw notCounted();
  }

  get stats(): MemoryStats {
    throw notCounted();
  }

  get openWatches(): number {
    throw notCounted();
  }

  dump(prefix = ''): readonly Entry[] {
    this.#take();
    return [...this.#now.values()]
      .filter(({ key }) => key.startsWith(prefix))
      .map(entryOf)
      .sort((a, b) => Buffer.compare(Buffer.from(a.key), Buffer.from(b.key)));
  }

  history(prefix = ''): readonly AuditRecord[] {
    this.#take();
    return this.#entries
      .filter(({ key }) => key.startsWith(prefix))
      .map((entry) => ({
        cluster: entry.cluster,
        revision: entry.revision as Revision,
        atMs: this.#options.clock.ofRealMs(entry.heardMs),
        cause: this.#causeOf(entry),
        key: entry.key,
        value: entry.value,
        session: entry.session as SessionId | null,
        replaced: null,
      }));
  }

  async put(key: Key, value: string, session: SessionId | null = null): Promise<Revision> {
    const lease = session === null ? undefined : BigInt(session);
    return this.#byHand(await this.#gateway.put(key, value, lease));
  }

  async remove(key: Key): Promise<Revision> {
    return this.#byHand(await this.#gateway.delete(key));
  }

  async expireSession(id: SessionId): Promise<void> {
    await this.#gateway.revoke(BigInt(id));
    await this.settle();
  }

  async compact(): Promise<void> {
    await this.#options.place.recorder.settled();
    await this.#gateway.compact((await this.#gateway.position()).revision);
  }

  async reset(): Promise<void> {
    const { recorder, restartEmpty } = this.#options.place;
    this.#take();
    const former = this.#entries.at(-1)?.cluster;
    await restartEmpty();
    await recorder.settled();
    this.#take();
    // The new one may hold nothing yet.
    for (const [key, entry] of this.#now) if (entry.cluster === former) this.#now.delete(key);
  }

  /** Waits until everything that has been answered by now shows here. */
  async settle(): Promise<void> {
    await this.#options.place.recorder.settled();
    await this.refresh();
  }

  /** Looks again at what is not in the record. */
  async refresh(): Promise<void> {
    if (this.#sessions !== null) this.#sessions = await this.#liveSessions();
  }

  /** Waits until an answer shows here; null for the end of a session. */
  async knows(answer: Answered | null): Promise<void> {
    if (answer === null) {
      await this.#options.place.recorder.settled();
      return;
    }
    if (answer.isWrite) this.#batches.add(answer.revision);
    await this.#recorded(BigInt(answer.revision));
  }

  async #recorded(revision: bigint): Promise<void> {
    const deadlineMs = performance.now() + patiently(RECORD_MS);
    const { entries } = this.#options.place.recorder;
    while (BigInt(entries.at(-1)?.revision ?? 1) < revision && performance.now() < deadlineMs) {
      await sleep(1);
    }
  }

  async #byHand(written: bigint): Promise<Revision> {
    const revision = revisionOf(written);
    this.#hands.add(revision);
    await this.#recorded(written);
    return revision;
  }

  async #liveSessions(): Promise<SessionId[]> {
    const { leases } = await this.#gateway.call('lease/leases', {});
    return ((leases as { ID: string }[] | undefined) ?? []).map(({ ID }) => ID as SessionId);
  }

  #causeOf({ value, revision }: HeardEntry): AuditRecord['cause'] {
    if (this.#hands.has(revision)) return 'hand';
    return value !== null || this.#batches.has(revision) ? 'batch' : 'sessionEnd';
  }

  #take(): void {
    const { place, prefix } = this.#options;
    const { entries } = place.recorder;
    for (; this.#read < entries.length; this.#read += 1) {
      const entry = entries[this.#read]!;
      if (!entry.key.startsWith(`${prefix}/`)) continue;
      this.#entries.push(entry);
      if (entry.value === null) this.#now.delete(entry.key);
      else this.#now.set(entry.key, entry);
    }
  }
}

function entryOf(entry: HeardEntry): Entry {
  return {
    key: entry.key,
    value: entry.value!,
    createRevision: revisionOf(entry.createRevision),
    modRevision: entry.revision as Revision,
    session: entry.session as SessionId | null,
  };
}

function notCounted(): Error {
  return new Error('only a memory store counts this');
}
