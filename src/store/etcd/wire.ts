/** The port's words in etcd's: keys are bytes, numbers of 64 bits are decimal strings, a session is a lease. */
import type { ICompare, IKeyValue, IRequestOp, ITxnResponse } from 'etcd3';
import { type Revision, revisionOf } from '../../base/decimals.ts';
import { invariant } from '../../base/errors.ts';
import type { SessionId } from '../../base/ids.ts';
import { keyOf } from '../batch.ts';
import type {
  Batch,
  BatchOutcome,
  Compare,
  Entry,
  Key,
  Range,
  Txn,
  TxnOutcome,
  Write,
} from '../port.ts';

/** The lease of a durable key. */
const NO_LEASE = '0';
const LEASE_MAX = 2n ** 63n - 1n;

/** A span of keys: from `key` to before `range_end`; one key when that is absent. */
export interface Span {
  readonly key: Buffer;
  readonly range_end?: Buffer;
}

/** The lease behind a session. */
export function leaseOf(session: SessionId): string {
  const isLease = /^[1-9][0-9]{0,18}$/.test(session) && BigInt(session) <= LEASE_MAX;
  invariant(isLease, `session ${session}: a session is a decimal from 1 to 2^63-1`);
  return session;
}

export function bytesOf(key: Key): Buffer {
  return Buffer.from(key, 'utf8');
}

/** Everything that starts with `prefix`, and comes after `after` if given. */
export function spanOfPrefix(prefix: string, after?: Key): Span {
  // etcd takes an empty key for none; no key is before one NUL.
  const start = prefix === '' ? NUL : bytesOf(prefix);
  const next = after === undefined ? start : keyAfter(after);
  return {
    key: Buffer.compare(next, start) > 0 ? next : start,
    range_end: endOfPrefix(prefix),
  };
}

/** The smallest span that holds a range; what else is in it must be left out. */
export function spanOf(range: Range): Span {
  if ('prefix' in range) return spanOfPrefix(range.prefix);
  const keys = sortedKeys(range.keys);
  const first = keys[0];
  const last = keys.at(-1);
  invariant(first !== undefined && last !== undefined, 'a range of no keys');
  return first === last
    ? { key: bytesOf(first) }
    : { key: bytesOf(first), range_end: keyAfter(last) };
}

/** Each key once, in the order of their bytes. */
export function sortedKeys(keys: readonly Key[]): Key[] {
  return [...new Set(keys)].sort((a, b) => Buffer.compare(bytesOf(a), bytesOf(b)));
}

const NUL = Buffer.from([0]);

function keyAfter(key: Key): Buffer {
  return Buffer.concat([bytesOf(key), NUL]);
}

/** The key after every key that starts with `prefix`; for the empty prefix, etcd's word for "no end". */
function endOfPrefix(prefix: string): Buffer {
  if (prefix === '') return NUL;
  const end = bytesOf(prefix);
  // A byte of UTF-8 is never 255, so the last one can rise.
  end[end.length - 1]! += 1;
  return end;
}

export function entryOf(found: IKeyValue): Entry {
  return {
    key: found.key.toString('utf8'),
    value: found.value.toString('utf8'),
    createRevision: revisionOf(found.create_revision),
    modRevision: revisionOf(found.mod_revision),
    session: found.lease === NO_LEASE ? null : (found.lease as SessionId),
  };
}

/** A batch as one transaction of etcd. */
export interface WireBatch {
  readonly compare: ICompare[];
  readonly success: IRequestOp[];
  readonly failure: IRequestOp[];
}

/**
 * A batch of one transaction without a guard goes flat; otherwise each is nested in the branch that the guard opens, and
 * so is answered by itself.
 *
 * @param hasUsers  etcd 3.4 lets every user do what is nested: where there are users, what the batch writes is named in its
 *   other branch, which etcd looks at. Nobody reads what is found there.
 */
export function wireOf({ guard, txns }: Batch, hasUsers: boolean): WireBatch {
  const [only] = txns;
  if (isFlat(guard, txns)) return wireOfTxn(only!);
  return {
    compare: guard.map((compare) => compareOf(compare, bytesOf)),
    success: txns.map((txn) => ({ request_txn: wireOfTxn(txn) })),
    failure: hasUsers ? txns.flatMap(firstWritten) : [],
  };
}

/** One key each, so that no branch has more operations than the other. */
function firstWritten({ writes: [write] }: Txn): IRequestOp[] {
  if (write === undefined) return [];
  return [{ request_range: { key: bytesOf(keyOf(write)), keys_only: true } }];
}

function isFlat(guard: readonly Compare[], txns: readonly Txn[]): boolean {
  return txns.length === 1 && guard.length === 0;
}

function wireOfTxn({ compares, writes, onConflict, conflictKeysOnly = false }: Txn): WireBatch {
  const bytes = rememberingBytes();
  return {
    compare: compares.map((compare) => compareOf(compare, bytes)),
    success: writes.map((write) => requestOf(write, bytes)),
    failure: onConflict.map((key) => ({
      request_range: { key: bytes(key), keys_only: conflictKeysOnly },
    })),
  };
}

/** {@link bytesOf} that knows the last key: a transaction mostly compares, writes and reads the same one. */
function rememberingBytes(): (key: Key) => Buffer {
  let last: Key | undefined;
  let lastBytes: Buffer = NUL;
  return (key) => {
    if (key !== last) {
      lastBytes = bytesOf(key);
      last = key;
    }
    return lastBytes;
  };
}

/** A compare as etcd takes it; `bytes` makes those of its key. */
export function compareOf(compare: Compare, bytes: (key: Key) => Buffer): ICompare {
  const key = bytes(compare.key);
  switch (compare.target) {
    case 'createRevision':
      return { key, result: 'Equal', target: 'Create', create_revision: compare.equals };
    case 'modRevision':
      return { key, result: 'Equal', target: 'Mod', mod_revision: compare.equals };
    case 'session': {
      const lease = compare.equals === null ? NO_LEASE : leaseOf(compare.equals);
      return { key, result: 'Equal', target: 'Lease', lease };
    }
  }
}

function requestOf(write: Write, bytes: (key: Key) => Buffer): IRequestOp {
  if (!('put' in write)) return { request_delete_range: { key: bytes(write.delete) } };
  const put = { key: bytes(write.put), value: Buffer.from(write.value, 'utf8') };
  return {
    request_put: write.session === null ? put : { ...put, lease: leaseOf(write.session) },
  };
}

/** What etcd answered to {@link wireOf}. */
export function outcomeOf({ guard, txns }: Batch, answer: ITxnResponse): BatchOutcome {
  const revision = revisionOf(answer.header.revision);
  if (isFlat(guard, txns)) {
    return { kind: 'tried', outcomes: [txnOutcomeOf(answer, revision)], revision };
  }
  if (!answer.succeeded) return { kind: 'guardFailed', revision };
  const outcomes = answer.responses.map(({ response_txn: nested }) =>
    txnOutcomeOf(nested, revision),
  );
  return { kind: 'tried', outcomes, revision };
}

/** The answer to one transaction of a batch that was tried at `revision`. */
function txnOutcomeOf(
  { succeeded, responses }: Pick<ITxnResponse, 'succeeded' | 'responses'>,
  revision: Revision,
): TxnOutcome {
  if (succeeded) return { kind: 'committed', revision };
  const found = responses.map(({ response_range: { kvs } }) => {
    const [entry] = kvs;
    return entry === undefined ? null : entryOf(entry);
  });
  return { kind: 'conflict', found, revision };
}
