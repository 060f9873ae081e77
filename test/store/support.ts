/** Small words for store tests: batches, recorded watches, expected errors. */
import { expect } from '@jest/globals';
import type { Revision } from '../../src/base/decimals.ts';
import { type ErrorCode, isLeaseholdError } from '../../src/base/errors.ts';
import { hash32 } from '../../src/base/hash.ts';
import type { SessionId } from '../../src/base/ids.ts';
import { type Random, seededRandom } from '../../src/base/random.ts';
import { virtualClock } from '../../src/base/virtual-clock.ts';
import { faultyStore, type FaultyStoreOptions } from '../../src/store/faults.ts';
import { memoryStore } from '../../src/store/memory.ts';
import type {
  Batch,
  BatchOutcome,
  Change,
  Compare,
  Entry,
  Key,
  Range,
  ReadOptions,
  ReadOutcome,
  Store,
  Txn,
  TxnOutcome,
  WatchEvent,
  Write,
  WatchStream,
} from '../../src/store/port.ts';

export const CALL = { timeoutMs: 1000 };

export function session(name: string): SessionId {
  return name as SessionId;
}

/** A session id as every store takes it, always the same for one name. */
export function sessionNamed(name: string): SessionId {
  const half = (seed: number): bigint => BigInt(hash32(seed, name));
  return session(String(((half(1) << 30n) ^ half(2)) | 1n));
}

export function put(key: Key, value: string, under: SessionId | null = null): Write {
  return { put: key, value, session: under };
}

function txn(parts: Partial<Txn>): Txn {
  return { compares: [], writes: [], onConflict: [], ...parts };
}

export function batch(txns: readonly Partial<Txn>[], guard: readonly Compare[] = []): Batch {
  return { guard, txns: txns.map(txn) };
}

/** A compare that never holds: no store reaches this revision in a test. */
export function neverHolds(key: Key): Compare {
  return { key, target: 'modRevision', equals: '987654321987' as Revision };
}

/** Tries a batch whose guard holds. */
export async function tryTxns(
  store: Store,
  txns: readonly Partial<Txn>[],
  guard: readonly Compare[] = [],
): Promise<BatchOutcome & { kind: 'tried' }> {
  const outcome = await store.transact(batch(txns, guard), CALL);
  if (outcome.kind !== 'tried') throw new Error('the guard failed');
  return outcome;
}

/** Tries one transaction. */
export async function tryTxn(
  store: Store,
  parts: Partial<Txn>,
  guard: readonly Compare[] = [],
): Promise<TxnOutcome> {
  return (await tryTxns(store, [parts], guard)).outcomes[0]!;
}

/** Writes without conditions and returns the revision. */
export async function write(store: Store, ...writes: readonly Write[]): Promise<Revision> {
  const outcome = await tryTxn(store, { writes });
  expect(outcome.kind).toBe('committed');
  return outcome.revision;
}

/** Reads one page that must be there. */
export async function readPage(
  store: Store,
  range: Range,
  read: ReadOptions = {},
): Promise<ReadOutcome & { kind: 'page' }> {
  const outcome = await store.read(range, read, CALL);
  if (outcome.kind !== 'page') throw new Error(`no page: ${JSON.stringify(outcome)}`);
  return outcome;
}

/** What one key holds; null when it is absent. */
export async function readOne(
  store: Store,
  key: Key,
  atRevision?: Revision,
): Promise<Entry | null> {
  const page = await readPage(
    store,
    { keys: [key] },
    atRevision === undefined ? {} : { atRevision },
  );
  return page.entries[0] ?? null;
}

/** The newest revision. */
export async function newest(store: Store): Promise<Revision> {
  return (await readPage(store, { keys: ['none'] })).revision;
}

/** Expects a `LeaseholdError` of this code. */
export async function expectCode(promise: Promise<unknown>, code: ErrorCode): Promise<void> {
  const error = await promise.then(
    () => 'no error',
    (reason: unknown) => reason,
  );
  expect(isLeaseholdError(error) ? error.code : error).toBe(code);
}

/** A watch that keeps all it was told. */
export interface Recording {
  readonly events: readonly WatchEvent[];
  readonly isComplete: boolean;
  readonly changes: readonly Change[];
  stop(): void;
}

export function record(watch: WatchStream): Recording {
  const events: WatchEvent[] = [];
  let isComplete = false;
  const subscription = watch.subscribe({
    next: (event) => events.push(event),
    complete: () => (isComplete = true),
  });
  return {
    events,
    get isComplete() {
      return isComplete;
    },
    get changes() {
      return events.flatMap((event) => (event.kind === 'changes' ? event.changes : []));
    },
    stop: () => subscription.unsubscribe(),
  };
}

/** A server in memory, a faulty client of it, and the clock they share. */
export function clientOf({ seed = 1, ...options }: ClientOptions = {}) {
  const clock = virtualClock();
  const server = memoryStore({ clock });
  const make = (random: Random) => faultyStore(server, { clock, random, ...options });
  return {
    clock,
    server,
    client: make(seededRandom(seed)),
    another: () => make(seededRandom(seed + 1)),
  };
}

interface ClientOptions extends Partial<Omit<FaultyStoreOptions, 'clock' | 'random'>> {
  readonly seed?: number;
}
