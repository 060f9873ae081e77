/**
 * Revisions and epochs: unsigned integers of any size, carried as decimal strings so that they survive JSON, charts and
 * etcd's 64-bit counters without losing a digit.
 */

declare const revisionBrand: unique symbol;
declare const epochBrand: unique symbol;

/** A version of the store, or of one key in it: a decimal string without leading zeros. `'0'` means "absent". */
export type Revision = string & { readonly [revisionBrand]: true };

/** The fencing token of one split: a decimal string without leading zeros; rises at each change of owner. */
export type Epoch = string & { readonly [epochBrand]: true };

const DECIMAL = /^(0|[1-9][0-9]{0,38})$/;

/** True when `text` is a decimal without sign, leading zeros or more than 39 digits. */
export function isDecimal(text: unknown): text is string {
  return typeof text === 'string' && DECIMAL.test(text);
}

/** Below zero when `a < b`, zero when equal, above when `a > b`. Both must be decimals. */
export function compareDecimals(a: string, b: string): number {
  if (a.length !== b.length) return a.length - b.length;
  return a < b ? -1 : a > b ? 1 : 0;
}

/** The successor of a decimal. */
function successor(text: string): string {
  return text.length < 16 ? String(Number(text) + 1) : String(BigInt(text) + 1n);
}

/** The revision of an absent key: compares against it mean "must not exist". */
export const ABSENT = '0' as Revision;

/** The epoch of a split that nobody ever owned. */
export const NEVER_OWNED = '0' as Epoch;

/** Reads a revision; the caller has it from a store. */
export function revisionOf(value: string | number | bigint): Revision {
  return String(value) as Revision;
}

/** Reads an epoch; the caller has it from a record. */
export function epochOf(value: string | number | bigint): Epoch {
  return String(value) as Epoch;
}

/** The revision after `revision`. */
export function nextRevision(revision: Revision): Revision {
  return successor(revision) as Revision;
}

/** The epoch of the next owner. */
export function nextEpoch(epoch: Epoch): Epoch {
  return successor(epoch) as Epoch;
}

/** The larger of two revisions. */
export function maxRevision(a: Revision, b: Revision): Revision {
  return compareDecimals(a, b) >= 0 ? a : b;
}
