/**
 * What must hold of every history of a store, whatever happened in it: checked on the list of all versions of all keys,
 * and on nothing else.
 */
import type { Decoded, RecordBase, Stamp } from '../../src/records/codec.ts';
import {
  assignmentCodec,
  leaderCodec,
  type LeaderRecord,
  leaseCodec,
  parkedCodec,
  planCodec,
  type PlanRecord,
  presenceCodec,
  specCodec,
  splitCodec,
  type SplitRecord,
} from '../../src/records/records.ts';

/** One version of a key. */
export interface HistoryEntry {
  /** Revisions of two clusters are not comparable. */
  readonly cluster: string;
  readonly key: string;
  /** Null for a delete. */
  readonly value: string | null;
  /** Decimal. */
  readonly revision: string;
  /** The session it hangs on. */
  readonly session: string | null;
  /** Written by a test and not by the system: known from here on, but not checked. */
  readonly isByHand?: boolean;
}

const CODECS: Readonly<Record<string, { decode(text: string): Decoded<RecordBase> }>> = {
  plan: planCodec,
  specs: specCodec,
  splits: splitCodec,
  assign: assignmentCodec,
  parked: parkedCodec,
  leader: leaderCodec,
  workers: presenceCodec,
  leases: leaseCodec,
};

const EPHEMERAL: ReadonlySet<string> = new Set(['leases', 'workers', 'leader']);

/** Never deleted: what is planned stays planned, and what is done stays done. */
const PERMANENT: ReadonlySet<string> = new Set(['specs', 'splits']);

/** A record as it was read, with who wrote it. */
interface Written {
  readonly record: RecordBase;
  readonly stamp: Stamp;
}

/** Everything that is wrong with a history, oldest first; empty when nothing is. */
export function historyViolations(history: Iterable<HistoryEntry>): string[] {
  const checker = new HistoryChecker();
  for (const entries of byRevision(history)) checker.read(entries);
  return checker.found;
}

/** The writes of one revision happened at once. */
function* byRevision(history: Iterable<HistoryEntry>): Iterable<HistoryEntry[]> {
  let group: HistoryEntry[] = [];
  for (const entry of history) {
    const [first] = group;
    if (first?.revision !== entry.revision || first.cluster !== entry.cluster) {
      if (group.length > 0) yield group;
      group = [];
    }
    group.push(entry);
  }
  if (group.length > 0) yield group;
}

class HistoryChecker {
  readonly found: string[] = [];
  /** The newest readable record of each key. */
  readonly #now = new Map<string, Written>();
  readonly #stamps = new Set<string>();
  readonly #owners = new Map<string, string>();
  readonly #leaders = new Map<string, string>();

  read(entries: readonly HistoryEntry[]): void {
    const before = new Map(entries.map((entry) => [nameOf(entry), this.#now.get(nameOf(entry))]));
    // First all of them are taken in: an election writes its leader key and its plan at once.
    const written = entries.map((entry) => this.#take(entry));
    entries.forEach((entry, index) => {
      const after = written[index];
      if (entry.isByHand === true) return;
      if (entry.value === null && PERMANENT.has(kindOf(entry.key))) {
        this.found.push(`${entry.cluster} ${entry.key} @${entry.revision}: deleted`);
      }
      if (after === undefined) return;
      for (const problem of this.#problems(entry, before.get(nameOf(entry)), after)) {
        this.found.push(`${entry.cluster} ${entry.key} @${entry.revision}: ${problem}`);
      }
    });
  }

  #take(entry: HistoryEntry): Written | undefined {
    const name = nameOf(entry);
    this.#now.delete(name);
    const codec = CODECS[kindOf(entry.key)];
    if (entry.value === null || codec === undefined) return undefined;
    const decoded = codec.decode(entry.value);
    if (decoded.kind !== 'record') return undefined;
    const written = { record: decoded.record, stamp: decoded.stamp };
    this.#now.set(name, written);
    return written;
  }

  *#problems(entry: HistoryEntry, before: Written | undefined, after: Written): Iterable<string> {
    const kind = kindOf(entry.key);
    const stamp = `${nameOf(entry)} ${JSON.stringify(after.stamp)}`;
    if (this.#stamps.has(stamp)) yield 'the same write landed twice';
    this.#stamps.add(stamp);
    if (EPHEMERAL.has(kind) !== (entry.session !== null)) yield 'on the wrong session';
    switch (kind) {
      case 'splits':
        yield* this.#splitProblems(entry, before, after);
        return;
      case 'leases':
        if (this.#splitOf(entry)?.status === 'completed') yield 'leased after its completion';
        return;
      case 'specs':
      case 'assign':
        yield* this.#leaderProblems(entry, after);
        return;
      case 'plan':
        yield* this.#planProblems(entry, before, after);
        return;
      default:
    }
  }

  *#splitProblems(
    entry: HistoryEntry,
    before: Written | undefined,
    after: Written,
  ): Iterable<string> {
    const record = after.record as SplitRecord;
    if (before !== undefined) {
      yield* splitChanges(before.record as SplitRecord, record);
      const isOfNeither = !isOwner(before, after.stamp) && !isOwner(after, after.stamp);
      const isRequeue = (before.record as SplitRecord).status === 'quarantined';
      // A leader quarantines what a dead owner left (T12).
      if (isOfNeither && !isRequeue) yield* this.#leaderProblems(entry, after);
    }
    if (record.owner === null) return;
    const epoch = `${nameOf(entry)} ${record.epoch}`;
    const owner = JSON.stringify([record.owner, record.nonce]);
    if ((this.#owners.get(epoch) ?? owner) !== owner) yield 'two owners in one epoch';
    this.#owners.set(epoch, owner);
  }

  *#planProblems(
    entry: HistoryEntry,
    before: Written | undefined,
    after: Written,
  ): Iterable<string> {
    const plan = after.record as PlanRecord;
    // The first worker there makes the plan (T1), at generation 0; nobody leads yet.
    if (plan.generation === 0) return;
    const previous = before?.record as PlanRecord | undefined;
    if (previous !== undefined) {
      if (plan.generation < previous.generation) yield 'the generation fell';
      if (plan.requeues < previous.requeues) yield 'a requeue was forgotten';
      // An operator requeues (T15).
      if (plan.requeues > previous.requeues && plan.generation === previous.generation) return;
    }
    yield* this.#leaderProblems(entry, after);
  }

  /** Only who leads writes this, and one process leads in a generation. */
  *#leaderProblems(entry: HistoryEntry, after: Written): Iterable<string> {
    const root = entry.key.split('/').slice(0, 2).join('/');
    const { instance, nonce } = after.stamp;
    const leader = this.#now.get(`${entry.cluster} ${root}/leader`)?.record as
      LeaderRecord | undefined;
    if (leader?.owner !== instance || leader.nonce !== nonce) {
      yield `written by ${instance}, who does not lead`;
      return;
    }
    const { generation } = after.record as { generation?: number };
    if (generation !== undefined && generation !== leader.generation) {
      yield `written for generation ${generation} in generation ${leader.generation}`;
    }
    const name = `${entry.cluster} ${root} ${leader.generation}`;
    const writer = JSON.stringify([instance, nonce]);
    if ((this.#leaders.get(name) ?? writer) !== writer) yield 'two leaders in one generation';
    this.#leaders.set(name, writer);
  }

  #splitOf(entry: HistoryEntry): SplitRecord | undefined {
    const key = entry.key.replace('/leases/', '/splits/');
    return this.#now.get(`${entry.cluster} ${key}`)?.record as SplitRecord | undefined;
  }
}

function* splitChanges(before: SplitRecord, after: SplitRecord): Iterable<string> {
  const rise = BigInt(after.epoch) - BigInt(before.epoch);
  if (rise < 0n || rise > 1n) yield `the epoch went by ${rise}`;
  const isNewOwner =
    after.owner !== null && (after.owner !== before.owner || after.nonce !== before.nonce);
  if (isNewOwner && rise === 0n) yield 'a new owner in an old epoch';
  const isLower =
    before.watermark !== null &&
    (after.watermark === null || BigInt(after.watermark) < BigInt(before.watermark));
  if (isLower) yield 'the watermark fell';
  if (before.status === 'completed') yield 'written after its completion';
}

function isOwner(written: Written, stamp: Stamp): boolean {
  const { owner, nonce } = written.record as SplitRecord;
  return owner === stamp.instance && nonce === stamp.nonce;
}

function nameOf(entry: HistoryEntry): string {
  return `${entry.cluster} ${entry.key}`;
}

/** The part of a key after the job: `splits`, `plan`. */
function kindOf(key: string): string {
  return key.split('/')[2] ?? key;
}
