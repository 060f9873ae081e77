/**
 * Every change of a job's records must be one of the transactions of the protocol (T1 to T15), whole and by who may:
 * checked on the history of a store, and on nothing else.
 */
import { compareDecimals, nextEpoch } from '../../base/decimals.ts';
import { compareWatermarks } from '../../protocol/tenancy-records.ts';
import type {
  AssignmentRecord,
  LeaderRecord,
  LeaseRecord,
  PlanRecord,
  PresenceRecord,
  SplitRecord,
} from '../../records/records.ts';
import type { KeyStates, Version, Written } from './key-states.ts';
import { VerdictRules } from './verdict-rules.ts';

/** What belongs to one split in one revision. */
interface SplitVersions {
  root: string;
  split?: Version;
  lease?: Version;
  parked?: Version;
}

/** A claim that landed, for who counts them. */
export interface Claim {
  readonly split: string;
  readonly epoch: string;
  /** The split was taken from an owner who had not given it back. */
  readonly isTakeover: boolean;
}

/** One pass over a history. */
export class TransactionChecker {
  readonly #states: KeyStates;
  readonly #maxAttempts: number;
  readonly #verdicts = new VerdictRules();
  /** The watermark at which the present tenancy of each split began. */
  readonly #starts = new Map<string, string | null>();
  /** Processes that know of their announcement in this store: they have claimed, or stood for election. */
  readonly #present = new Set<string>();
  /** Claims of the revision that was read last. */
  claims: Claim[] = [];

  /** @param maxAttempts  As in the configuration of all workers. */
  constructor(states: KeyStates, maxAttempts: number) {
    this.#states = states;
    this.#maxAttempts = maxAttempts;
  }

  /** What is wrong with the versions of one revision. */
  *read(versions: readonly Version[]): Generator<string, void, undefined> {
    this.claims = [];
    const splits = new Map<string, SplitVersions>();
    for (const version of versions) this.#verdicts.take(version);
    for (const version of versions) {
      const part = PARTS[version.kind];
      if (part !== undefined) {
        const name = `${version.root}${version.id}`;
        const group = splits.get(name) ?? { root: version.root };
        group[part] = version;
        splits.set(name, group);
        continue;
      }
      for (const problem of this.#problems(version)) yield at(version, problem);
    }
    for (const group of splits.values()) {
      const version = group.split ?? group.lease ?? group.parked!;
      for (const problem of this.#splitProblems(version, group)) yield at(version, problem);
    }
  }

  *#problems(version: Version): Iterable<string> {
    const { entry, kind, before, after, root } = version;
    if (entry.isByHand === true || after === undefined) return;
    switch (kind) {
      case 'workers':
        yield* this.#presenceProblems(version, after);
        return;
      case 'leader': {
        this.#present.add(`${root}${after.stamp.instance} ${after.stamp.nonce}`);
        if (before !== undefined) yield 'overwritten (R19)';
        const plan = this.#states.get(`${version.root}plan`)?.record as PlanRecord | undefined;
        const { generation } = after.record as LeaderRecord;
        if (plan?.generation !== generation) yield 'elected without raising the generation (R20)';
        return;
      }
      case 'assign': {
        const splits = JSON.stringify((after.record as AssignmentRecord).splits);
        const isSame =
          before !== undefined &&
          JSON.stringify((before.record as AssignmentRecord).splits) === splits;
        if (isSame) yield 'written again without a change (R25)';
        return;
      }
      case 'specs':
        if (before !== undefined) yield 'written again (R21)';
        return;
      case 'plan':
        yield* this.#verdicts.problems(version);
        return;
      default:
    }
  }

  *#presenceProblems({ id, before, root }: Version, { record, stamp }: Written): Iterable<string> {
    const presence = record as PresenceRecord;
    const previous = before?.record as PresenceRecord | undefined;
    if (stamp.instance !== id || stamp.nonce !== presence.nonce) yield 'written by somebody else';
    if (previous?.nonce === presence.nonce && previous.parting && !presence.parting) {
      yield 'comes back after its parting (R16)';
    }
    const overwrites = previous !== undefined && previous.nonce !== presence.nonce;
    if (overwrites && this.#present.has(`${root}${id} ${presence.nonce}`)) {
      yield 'a process that was there before overwrites another one (R14)';
    }
  }

  *#splitProblems(version: Version, group: SplitVersions): Iterable<string> {
    const { root, split, lease, parked } = group;
    const isByHand = [split, lease, parked].some((one) => one?.entry.isByHand === true);
    const isUnreadable = [split, lease, parked].some((one) => one?.isReadable === false);
    if (isByHand || isUnreadable) {
      this.#starts.delete(`${root}${version.id}`);
      return;
    }
    if (split?.after !== undefined) yield* this.#recordProblems(group, split, split.after);
    else if (lease?.after !== undefined) yield* markProblems(lease, lease.after);
    const record = this.#states.get(`${root}splits/${version.id}`)?.record as
      SplitRecord | undefined;
    const isParked = this.#states.get(`${root}parked/${version.id}`) !== undefined;
    if (record !== undefined && (record.status === 'quarantined') !== isParked) {
      yield `${record.status}, and ${isParked ? '' : 'not '}parked (R28)`;
    }
    const held = this.#states.get(`${root}leases/${version.id}`)?.record as LeaseRecord | undefined;
    if (held !== undefined && !isLeaseOf(held, record)) {
      yield `the lease of ${held.owner} at epoch ${held.epoch} stands on another tenancy`;
    }
  }

  *#recordProblems(group: SplitVersions, version: Version, after: Written): Iterable<string> {
    const record = after.record as SplitRecord;
    if (version.before === undefined) {
      const isRepair = this.#hasRequeue(version);
      if (record.owner !== null || record.attempts !== 0) yield 'seeded with an owner or attempts';
      if (record.epoch !== '0' && !isRepair) yield 'seeded at an epoch';
      return;
    }
    const change: SplitChange = {
      before: version.before.record as SplitRecord,
      after: record,
      by: after.stamp,
      leaseBefore: group.lease === undefined ? this.#leaseOf(group) : group.lease.before,
      leaseAfter: group.lease === undefined ? this.#leaseOf(group) : group.lease.after,
      start: this.#starts.get(`${group.root}${version.id}`),
    };
    const name = nameOfChange(change);
    switch (name) {
      case 'claim':
        this.#present.add(`${group.root}${record.owner} ${record.nonce}`);
        this.#starts.set(`${group.root}${version.id}`, record.watermark);
        this.claims.push({
          split: version.id,
          epoch: record.epoch,
          isTakeover: change.before.owner !== null && change.before.nonce !== record.nonce,
        });
        yield* claimProblems(change, this.#maxAttempts);
        return;
      case 'requeue':
        if (!this.#hasRequeue(version)) yield 'requeued without a word in the plan (R23)';
        return;
      case 'quarantine':
        yield* quarantineProblems(change, this.#maxAttempts);
        return;
      case 'fail':
        if (!isFreed(change)) yield 'failed, and its lease stays';
        if (record.attempts >= this.#maxAttempts) yield 'failed at the cap, and not quarantined';
        return;
      case 'commit':
      case 'complete':
      case 'release':
        yield* progressProblems(change, name);
        return;
      case null:
        yield `no transaction of the protocol: ${summary(change.before)} to ${summary(record)}`;
    }
  }

  #leaseOf({ root, split }: SplitVersions): Written | undefined {
    return this.#states.get(`${root}leases/${split!.id}`);
  }

  /** True when the plan counts one requeue more in the same revision; the revision of the plan is not at hand, its stamp is. */
  #hasRequeue(version: Version): boolean {
    const plan = this.#states.get(`${version.root}plan`);
    const { stamp } = version.after!;
    return plan?.stamp.nonce === stamp.nonce && plan.stamp.write === stamp.write;
  }
}

const PARTS: Readonly<Record<string, 'split' | 'lease' | 'parked'>> = {
  splits: 'split',
  leases: 'lease',
  parked: 'parked',
};

interface SplitChange {
  readonly before: SplitRecord;
  readonly after: SplitRecord;
  readonly by: { readonly instance: string; readonly nonce: string };
  readonly leaseBefore: Written | undefined;
  readonly leaseAfter: Written | undefined;
  /** Where the tenancy began; undefined when it is not known. */
  readonly start: string | null | undefined;
}

type ChangeName = 'claim' | 'commit' | 'complete' | 'release' | 'fail' | 'quarantine' | 'requeue';

function nameOfChange({ before, after }: SplitChange): ChangeName | null {
  const hasRisen = after.epoch === nextEpoch(before.epoch);
  if (before.status === 'quarantined') {
    const isClean = after.status === 'runnable' && after.owner === null && after.attempts === 0;
    return isClean && after.epoch === before.epoch ? 'requeue' : null;
  }
  if (before.status !== 'runnable') return null;
  if (hasRisen) {
    if (after.status === 'runnable' && after.owner !== null) return 'claim';
    return after.status === 'quarantined' && after.owner === null ? 'quarantine' : null;
  }
  if (after.epoch !== before.epoch || before.owner === null) return null;
  if (after.status === 'completed') return after.owner === null ? 'complete' : null;
  if (after.status !== 'runnable') return null;
  if (after.owner !== null) return after.owner === before.owner ? 'commit' : null;
  const isFailure = after.lastFailure?.epoch === after.epoch && after.attempts > 0;
  return isFailure ? 'fail' : 'release';
}

function* claimProblems(change: SplitChange, maxAttempts: number): Iterable<string> {
  const { before, after, by, leaseBefore, leaseAfter } = change;
  if (after.owner !== by.instance || after.nonce !== by.nonce) yield 'claimed for somebody else';
  if (compareWatermarks(before.watermark, after.watermark) !== 0 || before.state !== after.state) {
    yield 'a claim changed the progress';
  }
  const lease = leaseAfter?.record as LeaseRecord | undefined;
  if (!isLeaseOf(lease, after)) yield 'claimed without its lease (T7)';
  const previous = leaseBefore?.record as LeaseRecord | undefined;
  if (previous !== undefined && previous.owner !== after.owner) {
    yield `claimed under the lease of ${previous.owner} (T7)`;
  }
  if (previous !== undefined && leaseBefore?.session === leaseAfter?.session) {
    yield 'claimed again under the same session';
  }
  const consumes = previous !== undefined || before.owner !== null;
  const isSameProcess = before.nonce === after.nonce;
  const expected = before.attempts + (consumes ? 1 : 0);
  const isWaived = consumes && isSameProcess && after.attempts === before.attempts;
  if (after.attempts !== expected && !isWaived) {
    yield `a claim took the attempts from ${before.attempts} to ${after.attempts} (R31)`;
  }
  if (consumes && !isWaived && after.attempts >= maxAttempts) yield 'claimed at the cap (R28)';
}

function* quarantineProblems(change: SplitChange, maxAttempts: number): Iterable<string> {
  const { before, after, by, leaseBefore } = change;
  const isOwn = before.owner === by.instance && before.nonce === by.nonce;
  if (before.owner === null) yield 'quarantined though nobody owned it';
  if (!isOwn && leaseBefore !== undefined) yield 'quarantined under a lease (T12)';
  if (after.attempts !== before.attempts + 1) {
    yield `a quarantine took the attempts from ${before.attempts} to ${after.attempts} (R28)`;
  }
  if (after.attempts < maxAttempts) yield `quarantined after ${after.attempts} attempts (R28)`;
  if (!isFreed(change)) yield 'quarantined, and its lease stays';
}

function* progressProblems(change: SplitChange, name: ChangeName): Iterable<string> {
  const { before, after, start } = change;
  const hasRisen = start !== undefined && compareWatermarks(after.watermark, start) > 0;
  const expected = hasRisen ? 0 : before.attempts;
  if (start !== undefined && after.attempts !== expected) {
    yield `a ${name} took the attempts from ${before.attempts} to ${after.attempts} (R31)`;
  }
  if (name !== 'commit' && !isFreed(change)) yield `a ${name}, and its lease stays`;
}

function* markProblems({ before }: Version, { record, session, stamp }: Written): Iterable<string> {
  const lease = record as LeaseRecord;
  if (lease.owner !== stamp.instance || lease.nonce !== stamp.nonce) yield 'marked by another';
  if (before === undefined) {
    yield 'a lease without a claim';
    return;
  }
  const previous = before.record as LeaseRecord;
  if (before.session !== session) yield 'a mark moved the lease to another session (R32)';
  if (previous.nonce !== lease.nonce || previous.epoch !== lease.epoch) {
    yield 'a mark of another tenancy (R32)';
  }
}

function isFreed({ leaseAfter }: SplitChange): boolean {
  return leaseAfter === undefined;
}

function isLeaseOf(lease: LeaseRecord | undefined, record: SplitRecord | undefined): boolean {
  return (
    lease !== undefined &&
    record?.status === 'runnable' &&
    record.owner === lease.owner &&
    record.nonce === lease.nonce &&
    compareDecimals(record.epoch, lease.epoch) === 0
  );
}

function summary({ epoch, status, owner, attempts, watermark }: SplitRecord): string {
  return `(${epoch} ${status} ${owner} attempts ${attempts} at ${watermark})`;
}

function at({ entry }: Version, problem: string): string {
  return `${entry.cluster} ${entry.key} @${entry.revision}: ${problem}`;
}
