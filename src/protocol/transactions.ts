/**
 * The transactions of the protocol as data: what each compares and what it writes, as in the table of INVARIANTS.md.
 *
 * Values come encoded, with the stamp of the write. Whether and when one is sent is decided elsewhere; what is compared here
 * is all that fences it.
 */
import { ABSENT, type Revision } from '../base/decimals.ts';
import type { SessionId, SplitId } from '../base/ids.ts';
import type { Stamp } from '../records/codec.ts';
import type { JobKeys } from '../records/keys.ts';
import { parkedCodec, type SplitRecord, splitCodec } from '../records/records.ts';
import type { Compare, Key, Txn, Write } from '../store/port.ts';
import { parkedRecordFor } from './tenancy-records.ts';

const isAbsent = (key: Key): Compare => ({ key, target: 'createRevision', equals: ABSENT });
const isAt = (key: Key, equals: Revision): Compare => ({ key, target: 'modRevision', equals });
/** Revisions repeat after a restore and sessions never do: what hangs on one names its session too (R47). */
const hangsOn = (key: Key, equals: SessionId | null): Compare => ({
  key,
  target: 'session',
  equals,
});
const durable = (put: Key, value: string): Write => ({ put, value, session: null });

/** "I lead": the outer compares of everything that a leader writes (R19). */
export function leadsCompares(
  { leader }: JobKeys,
  where: { readonly createRevision: Revision; readonly session: SessionId | null },
): Compare[] {
  const { createRevision, session } = where;
  return [
    { key: leader, target: 'createRevision', equals: createRevision },
    hangsOn(leader, session),
  ];
}

/** T1, join: makes the plan where there is none and nobody leads. */
export function joinTxn({ plan, leader }: JobKeys, value: string): Txn {
  return {
    compares: [isAbsent(plan), isAbsent(leader)],
    writes: [durable(plan, value)],
    onConflict: [],
  };
}

/** T2, announce. */
export function announceTxn(
  key: Key,
  value: string,
  where: { readonly equals: Revision; readonly session: SessionId },
): Txn {
  return {
    compares: [isAt(key, where.equals)],
    writes: [{ put: key, value, session: where.session }],
    onConflict: [key],
  };
}

/** Takes a presence back that is still as it was announced last. */
export function leaveTxn(key: Key, announcedAt: Revision): Txn {
  return { compares: [isAt(key, announcedAt)], writes: [{ delete: key }], onConflict: [] };
}

/** T3, elect: the leader key and the raised generation. */
export function electTxn(
  { leader, plan }: JobKeys,
  values: { readonly leader: string; readonly plan: string },
  where: { readonly planRevision: Revision; readonly session: SessionId },
): Txn {
  return {
    compares: [isAbsent(leader), isAt(plan, where.planRevision)],
    writes: [
      { put: leader, value: values.leader, session: where.session },
      durable(plan, values.plan),
    ],
    onConflict: [leader, plan],
  };
}

/** T4, seed. */
export function seedTxn(
  keys: JobKeys,
  id: SplitId,
  values: { readonly spec: string; readonly split: string },
): Txn {
  const spec = keys.spec(id);
  const split = keys.split(id);
  return {
    compares: [isAbsent(spec), isAbsent(split)],
    writes: [durable(spec, values.spec), durable(split, values.split)],
    onConflict: [spec, split],
    conflictKeysOnly: true,
  };
}

/** T5, T6 and T13: one durable key is written, or deleted, if it is still at `equals` and the keys of `absent` are not there. */
export function putTxn(
  key: Key,
  value: string | null,
  { equals, absent = [] }: { readonly equals: Revision; readonly absent?: readonly Key[] },
): Txn {
  return {
    compares: [isAt(key, equals), ...absent.map(isAbsent)],
    writes: [value === null ? { delete: key } : durable(key, value)],
    onConflict: [key, ...absent],
  };
}

/** A lease as it was seen. */
export interface SeenLease {
  readonly modRevision: Revision;
  readonly session: SessionId | null;
}

const isLease = (key: Key, { modRevision, session }: SeenLease): Compare[] => [
  isAt(key, modRevision),
  hangsOn(key, session),
];

/** T7, claim: the lease is absent, or the one of an earlier session of the claimant at the revision seen (R12). */
export function claimTxn(
  keys: JobKeys,
  id: SplitId,
  values: { readonly split: string; readonly lease: string },
  where: {
    readonly revision: Revision;
    readonly replaces: SeenLease | null;
    readonly session: SessionId;
  },
): Txn {
  const split = keys.split(id);
  const lease = keys.lease(id);
  const { replaces } = where;
  const leaseCompares = replaces === null ? [isAbsent(lease)] : isLease(lease, replaces);
  return {
    compares: [isAt(split, where.revision), ...leaseCompares],
    writes: [
      durable(split, values.split),
      { put: lease, value: values.lease, session: where.session },
    ],
    onConflict: [split, lease],
  };
}

/**
 * T8 to T10: a commit, or an ending, which takes the lease along. The lease must still hang on the session of the tenancy.
 */
export function progressTxn(
  keys: Pick<JobKeys, 'lease' | 'parked'>,
  where: {
    readonly split: SplitId;
    readonly key: Key;
    readonly revision: Revision;
    readonly session: SessionId;
  },
  sent: { readonly record: SplitRecord; readonly stamp: Stamp; readonly ends: boolean },
): Txn {
  const { split, key, revision, session } = where;
  const { record, stamp } = sent;
  const lease = keys.lease(split);
  const writes: Write[] = [durable(key, splitCodec.encode(record, stamp))];
  if (sent.ends) {
    writes.push({ delete: lease });
    if (record.status === 'quarantined') {
      writes.push(durable(keys.parked(split), parkedCodec.encode(parkedRecordFor(record), stamp)));
    }
  }
  const compares = [isAt(key, revision), hangsOn(lease, session)];
  return { compares, writes, onConflict: [key, lease] };
}

/** T9 and T9b: drops a lease that no tenancy holds, with its record where that is the worker's own. */
export function orphanTxn(
  keys: JobKeys,
  id: SplitId,
  seen: SeenLease,
  released: { readonly value: string; readonly revision: Revision } | null,
): Txn {
  const split = keys.split(id);
  const lease = keys.lease(id);
  const compares = isLease(lease, seen);
  const writes: Write[] = [{ delete: lease }];
  if (released !== null) {
    compares.unshift(isAt(split, released.revision));
    writes.unshift(durable(split, released.value));
  }
  return { compares, writes, onConflict: [] };
}

/** T11, mark (R32). */
export function markTxn(
  key: Key,
  value: string,
  where: { readonly equals: Revision; readonly session: SessionId },
): Txn {
  return {
    compares: [isAt(key, where.equals), hangsOn(key, where.session)],
    writes: [{ put: key, value, session: where.session }],
    onConflict: [],
  };
}

/** T12, set aside. */
export function setAsideTxn(
  keys: JobKeys,
  id: SplitId,
  values: { readonly split: string; readonly parked: string },
  revision: Revision,
): Txn {
  const split = keys.split(id);
  return {
    compares: [isAt(split, revision), isAbsent(keys.lease(id))],
    writes: [durable(split, values.split), durable(keys.parked(id), values.parked)],
    onConflict: [],
  };
}

/** T14, resign. */
export function resignTxn(keys: JobKeys, held: Parameters<typeof leadsCompares>[1]): Txn {
  return {
    compares: leadsCompares(keys, held),
    writes: [{ delete: keys.leader }],
    onConflict: [],
  };
}

/** T15, requeue. */
export function requeueTxn(
  keys: JobKeys,
  id: SplitId,
  values: { readonly split: string; readonly plan: string },
  where: { readonly revision: Revision; readonly planRevision: Revision },
): Txn {
  const split = keys.split(id);
  const { plan } = keys;
  return {
    compares: [isAt(split, where.revision), isAt(plan, where.planRevision)],
    writes: [durable(split, values.split), durable(plan, values.plan), { delete: keys.parked(id) }],
    onConflict: [split, plan],
  };
}
