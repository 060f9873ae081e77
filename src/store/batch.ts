/** What a batch must be before a store tries it, and how its compares are judged. */
import { ABSENT } from '../base/decimals.ts';
import { invariant } from '../base/errors.ts';
import {
  type Batch,
  BATCH_BYTES_MAX,
  BATCH_OPERATIONS_MAX,
  type Compare,
  type Entry,
  type Key,
  type Txn,
  type Write,
} from './port.ts';

/** Most keys read when a compare fails (port). */
const ON_CONFLICT_KEYS_MAX = 4;

/** The key of a write. */
export function keyOf(write: Write): Key {
  return 'put' in write ? write.put : write.delete;
}

/** What a batch takes of what etcd allows (R6). */
export class BatchSize {
  readonly #guardCount: number;
  #txnCount = 0;
  #innerMax = 0;
  #bytes = 0;

  constructor(guard: readonly Compare[]) {
    this.#guardCount = guard.length;
    for (const { key } of guard) this.#bytes += Buffer.byteLength(key);
  }

  /** Operations as etcd counts them: the outer count plus the largest inner count. */
  get operations(): number {
    return Math.max(this.#guardCount, this.#txnCount) + this.#innerMax;
  }

  /** Bytes of all keys and values, in UTF-8. */
  get bytes(): number {
    return this.#bytes;
  }

  /** True when nothing more fits, however small. */
  get isFull(): boolean {
    return this.#txnCount + Math.max(1, this.#innerMax) >= BATCH_OPERATIONS_MAX;
  }

  add(txn: Txn): void {
    this.#grow(innerCountOf(txn), bytesOf(txn));
  }

  /** Adds a transaction unless the batch would be too large with it; the first one goes whatever its size. */
  addIfFits(txn: Txn): boolean {
    const innerCount = innerCountOf(txn);
    const bytes = bytesOf(txn);
    const outerCount = Math.max(this.#guardCount, this.#txnCount + 1);
    const fits =
      outerCount + Math.max(this.#innerMax, innerCount) <= BATCH_OPERATIONS_MAX &&
      this.#bytes + bytes <= BATCH_BYTES_MAX;
    if (!fits && this.#txnCount > 0) return false;
    this.#grow(innerCount, bytes);
    return true;
  }

  #grow(innerCount: number, bytes: number): void {
    this.#txnCount += 1;
    this.#innerMax = Math.max(this.#innerMax, innerCount);
    this.#bytes += bytes;
  }
}

function innerCountOf({ compares, writes, onConflict }: Txn): number {
  return Math.max(compares.length, writes.length, onConflict.length);
}

function bytesOf({ compares, writes, onConflict }: Txn): number {
  let bytes = 0;
  for (const { key } of compares) bytes += Buffer.byteLength(key);
  for (const key of onConflict) bytes += Buffer.byteLength(key);
  for (const write of writes) {
    bytes += Buffer.byteLength(keyOf(write));
    if ('put' in write) bytes += Buffer.byteLength(write.value);
  }
  return bytes;
}

/**
 * Refuses a batch that breaks the port's rules whatever the store holds (R5, R6).
 *
 * Stricter than etcd in one point: a key deleted twice is refused as well.
 *
 * @throws {InvariantViolation} The caller is part of this library, so a bad batch is a bug of ours.
 */
export function checkBatch(batch: Batch): void {
  const size = new BatchSize(batch.guard);
  for (const txn of batch.txns) size.add(txn);
  const { operations, bytes } = size;
  invariant(
    operations <= BATCH_OPERATIONS_MAX,
    `a batch of ${operations} operations: at most ${BATCH_OPERATIONS_MAX} (R6)`,
  );
  invariant(bytes <= BATCH_BYTES_MAX, `a batch of ${bytes} bytes: at most ${BATCH_BYTES_MAX} (R6)`);
  const written = new Set<Key>();
  for (const txn of batch.txns) {
    invariant(
      txn.onConflict.length <= ON_CONFLICT_KEYS_MAX,
      `a transaction that reads ${txn.onConflict.length} keys on conflict: at most ${ON_CONFLICT_KEYS_MAX}`,
    );
    for (const write of txn.writes) {
      const key = keyOf(write);
      invariant(key.length > 0, 'a write to an empty key');
      invariant(!written.has(key), `key ${key} is written twice in one batch (R5)`);
      written.add(key);
    }
  }
}

/** True when `compare` holds for what its key holds; an absent key has revisions `'0'` and no session. */
export function holds(compare: Compare, entry: Entry | null): boolean {
  if (compare.target === 'session') return (entry?.session ?? null) === compare.equals;
  return (entry?.[compare.target] ?? ABSENT) === compare.equals;
}
