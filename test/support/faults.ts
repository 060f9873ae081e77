/**
 * Finds the transactions of the protocol (T1 to T14) in the calls of a client and in the history of a store, and checks
 * what must hold of every history.
 */
import type { AuditRecord } from '../../src/store/memory.ts';
import type { FaultyStore, Matcher, Rule, StoreCall } from '../../src/store/faults.ts';
import type { Txn, Write } from '../../src/store/port.ts';
import { historyViolations } from '../../src/testing/checks/history-checks.ts';
import type { WorldStore } from './world.ts';

/** One transaction of the protocol; `fail` includes the one at the cap, `announce` excludes the parting mark. */
export type TransactionName =
  | 'join'
  | 'announce'
  | 'part'
  | 'leave'
  | 'elect'
  | 'seed'
  | 'publish'
  | 'assign'
  | 'claim'
  | 'commit'
  | 'complete'
  | 'release'
  | 'dropLease'
  | 'fail'
  | 'mark'
  | 'quarantine'
  | 'verdict'
  | 'resign';

type Fields = Readonly<Record<string, unknown>>;

/** What one transaction writes: the kind of each key, and the record put there; null for a delete. */
type Written = ReadonlyMap<string, Fields | null>;

/** Matches the batches that carry a transaction; of one split, instance or record only when `id` is given. */
export function transaction(name: TransactionName, id?: string): Matcher {
  return (call) =>
    call.kind === 'transact' &&
    call.batch.txns.some((txn) => nameOf(writtenBy(txn)) === name && isOf(txn, id));
}

/** Matches readings of a key, or listings of a prefix; no watches. */
export function readsOf(keyOrPrefix: string): (call: StoreCall) => boolean {
  return (call) => {
    if (call.kind !== 'read') return false;
    const { range } = call;
    return 'prefix' in range ? range.prefix === keyOrPrefix : range.keys.includes(keyOrPrefix);
  };
}

/** Every landing of a transaction, oldest first, as the record of the key that it is named by. */
export function landings(store: WorldStore, name: TransactionName, id?: string): AuditRecord[] {
  return grouped(store).flatMap((records) => {
    const written = new Map(records.map((record) => [kindOf(record.key), fieldsOf(record.value)]));
    const isWanted = nameOf(written) === name && (id === undefined || idOf(records[0]!.key) === id);
    return isWanted ? [records.find(({ key }) => !key.includes('/leases/')) ?? records[0]!] : [];
  });
}

/** One way for a call to go wrong. */
interface Fault {
  readonly name: string;
  /** Calls that go wrong before one goes well. */
  readonly times: number;
  strike(client: FaultyStore, matcher: Matcher): readonly Rule[];
}

/** Longer than the operation timeout of the fleet, so that the caller has sent again when the answer comes. */
const LATE_ANSWER_MS = 2_150;

/** Every unknown outcome: what happened to the write, and what the writer heard of it. */
export const FAULTS: readonly Fault[] = [
  ...[1, 3].flatMap((times): Fault[] => [
    {
      name: times === 1 ? 'landed, answer lost' : 'landed, answers lost three times in a row',
      times,
      strike: (client, matcher) => [client.when(matcher).loseAfter({ times })],
    },
    {
      name: times === 1 ? 'never landed' : 'never landed, three times in a row',
      times,
      strike: (client, matcher) => [client.when(matcher).loseBefore({ times })],
    },
  ]),
  {
    name: 'answered only while the resend is on its way',
    times: 2,
    strike: (client, matcher) => [
      client.when(matcher).delayAnswer(LATE_ANSWER_MS, { times: 1 }),
      client.when(matcher).delayAnswer(500, { times: 1 }),
    ],
  },
  {
    name: 'landing late, before the resend',
    times: 1,
    strike: (client, matcher) => [client.when(matcher).lateLanding(50, { times: 1 })],
  },
  {
    name: 'landing late, after the resend',
    times: 1,
    strike: (client, matcher) => [client.when(matcher).lateLanding(300, { times: 1 })],
  },
  {
    name: 'landing late, after the resend was lost too',
    times: 2,
    strike: (client, matcher) => [
      client.when(matcher).lateLanding(250, { times: 1 }),
      client.when(matcher).loseBefore({ times: 1 }),
    ],
  },
];

/** How often rules have acted in all. */
export function hitsOf(rules: readonly Rule[]): number {
  return rules.reduce((sum, rule) => sum + rule.hits, 0);
}

/** What is wrong with the whole history of a store, whatever happened in it; empty when nothing is. */
export function violations(store: WorldStore): string[] {
  return historyViolations(
    store.history().map((record) => ({ ...record, isByHand: record.cause === 'hand' })),
  );
}

/** The records of one revision that belong to one transaction: those of one split, or of one other key. */
function grouped(store: WorldStore): AuditRecord[][] {
  const groups = new Map<string, AuditRecord[]>();
  for (const record of store.history()) {
    if (record.cause !== 'batch') continue;
    const subject = idOf(record.key) ?? 'job';
    const isSplit = ['specs', 'splits', 'leases', 'parked'].includes(kindOf(record.key));
    const part = isSplit || subject === 'job' ? subject : record.key;
    const name = `${record.cluster} ${record.revision} ${part}`;
    groups.set(name, [...(groups.get(name) ?? []), record]);
  }
  return [...groups.values()];
}

function nameOf(written: Written): TransactionName | null {
  const [kind = ''] = written.keys();
  if (written.has('leader')) return written.get('leader') === null ? 'resign' : 'elect';
  if (written.has('specs')) return 'seed';
  const split = written.get('splits');
  if (split !== undefined && split !== null) return splitWriteOf(split, written);
  const fields = written.get(kind) ?? null;
  switch (kind) {
    case 'plan':
      if (fields === null) return null;
      if (fields.verdict !== null) return 'verdict';
      return fields.generation === 0 ? 'join' : 'publish';
    case 'workers':
      if (fields === null) return 'leave';
      return fields.parting === true ? 'part' : 'announce';
    case 'assign':
      return 'assign';
    case 'leases':
      return fields === null ? 'dropLease' : 'mark';
    default:
      return null;
  }
}

function splitWriteOf(split: Fields, written: Written): TransactionName {
  const lease = written.get('leases');
  if (split.status === 'completed') return 'complete';
  if (split.status === 'quarantined') return lease === null ? 'fail' : 'quarantine';
  if (lease === undefined) return 'commit';
  if (lease !== null) return 'claim';
  const failure = split.lastFailure as { epoch: string } | null;
  return failure?.epoch === split.epoch ? 'fail' : 'release';
}

function writtenBy(txn: Txn): Written {
  return new Map(
    txn.writes.map((write) => [
      kindOf(keyOf(write)),
      'put' in write ? fieldsOf(write.value) : null,
    ]),
  );
}

function isOf(txn: Txn, id: string | undefined): boolean {
  return id === undefined || txn.writes.some((write) => idOf(keyOf(write)) === id);
}

function keyOf(write: Write): string {
  return 'put' in write ? write.put : write.delete;
}

/** The part of a key after the job: `splits`, `plan`. */
function kindOf(key: string): string {
  return key.split('/')[2] ?? key;
}

/** The part of a key after its kind: a split or an instance. */
function idOf(key: string): string | undefined {
  return key.split('/')[3];
}

/** A record as it is stored; empty for what is none, as in the probe. */
function fieldsOf(value: string | null): Fields | null {
  if (value === null) return null;
  try {
    return JSON.parse(value) as Fields;
  } catch {
    return {};
  }
}
