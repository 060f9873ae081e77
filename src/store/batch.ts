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
  type Write,
} from './port.ts';

/** Most keys read when a compare fails (port). */
const ON_CONFLICT_KEYS_MAX = 4;

/** The key of a write. */
export function keyOf(write: Write): Key {
  return 'put' in write ? write.put : write.delete;
}

/** Operations of a batch as etcd counts them: the outer count plus the largest inner count (R6). */
function operationsOf(batch: Batch): number {
  const inner = batch.txns.map((txn) =>
    Math.max(txn.compares.length, txn.writes.length, txn.onConflict.length),
  );
  return Math.max(batch.guard.length, batch.txns.length) + Math.max(0, ...inner);
}

/** Bytes of all keys and values of a batch, in UTF-8. */
export function bytesOf(batch: Batch): number {
  let bytes = 0;
  for (const { key } of batch.guard) bytes += Buffer.byteLength(key);
  for (const txn of batch.txns) {
    for (const { key } of txn.compares) bytes += Buffer.byteLength(key);
    for (const key of txn.onConflict) bytes += Buffer.byteLength(key);
    for (const write of txn.writes) {
      bytes += Buffer.byteLength(keyOf(write));
      if ('put' in write) bytes += Buffer.byteLength(write.value);
    }
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
  const operations = operationsOf(batch);
  invariant(
    operations <= BATCH_OPERATIONS_MAX,
    `a batch of ${operations} operations: at most ${BATCH_OPERATIONS_MAX} (R6)`,
  );
  const bytes = bytesOf(batch);
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
