/** Picks calls of a store by what they do. */
import type { StoreCall } from '../../../src/store/faults.ts';

/** Batches with a transaction that does all of this. */
export function touches(what: {
  readonly puts?: readonly string[];
  readonly deletes?: readonly string[];
}): (call: StoreCall) => boolean {
  return (call) =>
    call.kind === 'transact' &&
    call.batch.txns.some(({ writes }) => {
      const puts = writes.flatMap((write) => ('put' in write ? [write.put] : []));
      const deletes = writes.flatMap((write) => ('delete' in write ? [write.delete] : []));
      return (
        (what.puts ?? []).every((key) => puts.some((put) => put.startsWith(key))) &&
        (what.deletes ?? []).every((key) => deletes.some((one) => one.startsWith(key)))
      );
    });
}

/** Batches under the guard of a term. */
export function isGuarded(call: StoreCall): boolean {
  return call.kind === 'transact' && call.batch.guard.length > 0;
}
