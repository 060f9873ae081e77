/**
 * What the leader knows of every split: read once at its election, then kept by lease changes and by reading again what
 * may have moved unheard (R24). Commits are not followed.
 */
import type { Clock } from '../../base/clock.ts';
import { compareDecimals, type Epoch, type Revision } from '../../base/decimals.ts';
import type { InstanceId, Nonce, SplitId } from '../../base/ids.ts';
import type { Decoded } from '../../records/codec.ts';
import type {
  FailingRecord,
  LeaseRecord,
  SplitRecord,
  SplitStatus,
  SuspicionRecord,
  TenureRecord,
} from '../../records/records.ts';
import {
  hasJustFailed,
  isRefusedForGood,
  restEndsAtMs,
  restOf,
} from '../../protocol/faults/failures.ts';
import { RestingSplits } from '../../protocol/faults/resting-splits.ts';
import { isSuspect, suspicionAfterDeath } from '../../protocol/faults/suspicion.ts';
import { type IdleSplit, IdleSplits } from '../../protocol/idle-splits.ts';

/** The part of a split's record that a leader decides on; watermarks and states stay in the store. */
export interface IndexedSplit {
  readonly id: SplitId;
  status: SplitStatus;
  owner: InstanceId | null;
  nonce: Nonce | null;
  epoch: Epoch;
  attempts: number;
  readonly weight: number;
  /** Of the last failure, once nobody has claimed since. */
  readonly failedEpoch: Epoch | null;
  readonly failing: FailingRecord | null;
  suspicion: SuspicionRecord | null;
  readonly tenure: TenureRecord | null;
  /** Its handler does not want it tried again: the leader sets it aside. */
  readonly isRefusedForGood: boolean;
  /** When its rest ends, or ended; 0 when it has none. */
  restEndsAtMs: number;
  modRevision: Revision;
  /** When this leader saw the lease go; null when it did not. */
  leaseGoneAtMs: number | null;
}

export class SplitIndex {
  readonly #clock: Pick<Clock, 'nowMs' | 'wallMs'>;
  readonly #leaseMs: number;
  readonly #splits = new Map<SplitId, IndexedSplit>();
  readonly #unreadable = new Set<SplitId>();
  /** Of those that can still run: who has an owner, and who has none. */
  readonly #owned = new Set<SplitId>();
  readonly #idle = new IdleSplits();
  readonly #resting = new RestingSplits();
  readonly #suspects = new Set<SplitId>();
  readonly #failing = new Set<SplitId>();
  readonly #refusedForGood = new Set<SplitId>();
  readonly #quarantined = new Set<SplitId>();
  /** Rises with every change: tells whether a judgement would find something new. */
  version = 0;
  completedCount = 0;

  constructor(clock: Pick<Clock, 'nowMs' | 'wallMs'>, leaseDurationMs: number) {
    this.#clock = clock;
    this.#leaseMs = leaseDurationMs;
  }

  get size(): number {
    return this.#splits.size + this.#unreadable.size;
  }

  has(split: SplitId): boolean {
    return this.#splits.has(split) || this.#unreadable.has(split);
  }

  get(split: SplitId): IndexedSplit | undefined {
    return this.#splits.get(split);
  }

  /** Splits that can still run and have an owner, by their lease or else their record. */
  *owned(): IterableIterator<IndexedSplit> {
    for (const split of this.#owned) yield this.#splits.get(split)!;
  }

  /** Splits that were set aside. */
  quarantined(): Iterable<SplitId> {
    return this.#quarantined;
  }

  /** Splits that are set aside as soon as that can be written. */
  refusedForGood(): Iterable<SplitId> {
    return this.#refusedForGood;
  }

  /** Splits that can still run and are known to fail. */
  get failingCount(): number {
    return this.#failing.size;
  }

  /** For how long the one of them that has failed least has. */
  failingLeastMs(): number {
    let leastMs = Infinity;
    for (const id of this.#failing) {
      leastMs = Math.min(leastMs, this.#splits.get(id)!.failing!.forMs);
    }
    return leastMs;
  }

  /** Splits that rest. */
  get restingCount(): number {
    return this.#resting.size;
  }

  /** At most `count` of them, in any order. */
  someResting(count: number): readonly SplitId[] {
    return this.#resting.some(count);
  }

  /** True when the split can run, has no owner, and waits for nothing but a place. */
  isIdle(split: SplitId): boolean {
    return this.#idle.has(split);
  }

  /** True while nobody may claim the split (R40). */
  isResting({ id }: { readonly id: SplitId }): boolean {
    return this.#resting.has(id);
  }

  /** Whose rest has ended may be named again; tells when the next one ends, null when none rests. */
  wake(): number | null {
    for (const id of this.#resting.ended(this.#clock.nowMs())) this.#sort(this.#splits.get(id)!);
    return this.#resting.nextEndMs;
  }

  /** Splits that have no owner and are tried apart from others (R48). */
  *suspects(): IterableIterator<IndexedSplit> {
    for (const id of this.#suspects) yield this.#splits.get(id)!;
  }

  /** Splits that can still run, have no owner, and wait for nothing but a place: how many. */
  get idleCount(): number {
    return this.#idle.size;
  }

  /** The same: at least the `count` heaviest, or all there are, in any order. */
  heaviestIdle(count: number): readonly IdleSplit[] {
    return this.#idle.heaviest(count);
  }

  get runnableCount(): number {
    return this.#owned.size + this.#idle.size + this.#resting.size + this.#suspects.size;
  }

  /** Takes a record in as read from the store; false when a newer one is known. */
  put(id: SplitId, decoded: Decoded<SplitRecord>, modRevision: Revision): boolean {
    if (decoded.kind !== 'record' || decoded.record.status === 'unknown') {
      this.#drop(id);
      this.#unreadable.add(id);
      this.version += 1;
      return true;
    }
    return this.set(id, decoded.record, modRevision);
  }

  /** Takes a record in; false when a newer one is known. */
  set(id: SplitId, record: SplitRecord, modRevision: Revision): boolean {
    const known = this.#splits.get(id);
    if (known !== undefined && compareDecimals(modRevision, known.modRevision) < 0) return false;
    this.#unreadable.delete(id);
    const { status, owner, nonce, epoch, attempts, weight } = record;
    const { failing, suspicion, tenure } = record;
    if (known?.status === 'completed') this.completedCount -= 1;
    if (status === 'completed') this.completedCount += 1;
    const split: IndexedSplit = {
      id,
      status,
      owner,
      nonce,
      epoch,
      attempts,
      weight,
      failedEpoch: hasJustFailed(record) ? epoch : null,
      failing,
      suspicion,
      tenure,
      isRefusedForGood: isRefusedForGood(record),
      restEndsAtMs: this.#restEndOf(record, known),
      modRevision,
      leaseGoneAtMs: known?.leaseGoneAtMs ?? null,
    };
    this.#splits.set(id, split);
    this.#sort(split);
    this.version += 1;
    return true;
  }

  /** A lease shows who owns the split, and in which epoch, without a reading of its record. */
  leased(id: SplitId, lease: LeaseRecord): void {
    const known = this.#splits.get(id);
    if (known === undefined || compareDecimals(lease.epoch, known.epoch) < 0) return;
    const isTakeover = known.owner !== null && lease.epoch !== known.epoch;
    if (isTakeover && known.nonce !== lease.nonce) {
      known.suspicion = suspicionAfterDeath(known, this.#leaseMs);
    }
    known.restEndsAtMs = 0;
    known.owner = lease.owner;
    known.nonce = lease.nonce;
    known.epoch = lease.epoch;
    known.leaseGoneAtMs = null;
    this.#sort(known);
    this.version += 1;
  }

  unleased(id: SplitId, nowMs: number): void {
    const known = this.#splits.get(id);
    if (known !== undefined) known.leaseGoneAtMs = nowMs;
    this.version += 1;
  }

  /** The record is gone from the store. */
  remove(id: SplitId): void {
    this.#drop(id);
    this.#unreadable.delete(id);
    this.version += 1;
  }

  /** Forgets everything. */
  clear(): void {
    for (const id of [...this.#splits.keys()]) this.#drop(id);
    this.#unreadable.clear();
    this.version += 1;
  }

  /** A rest that is known goes on as it was; another one counts from when its beginning was seen. */
  #restEndOf(record: SplitRecord, known: IndexedSplit | undefined): number {
    const rest = restOf(record);
    if (rest === null) return 0;
    if (known?.epoch === record.epoch && known.restEndsAtMs > 0) return known.restEndsAtMs;
    const leaseGoneAtMs = known?.leaseGoneAtMs ?? null;
    const nowMs = this.#clock.nowMs();
    return restEndsAtMs(rest, { leaseGoneAtMs, nowMs, wallMs: this.#clock.wallMs() });
  }

  #drop(id: SplitId): void {
    if (this.#splits.get(id)?.status === 'completed') this.completedCount -= 1;
    this.#splits.delete(id);
    this.#resting.remove(id);
    this.#suspects.delete(id);
    this.#failing.delete(id);
    this.#refusedForGood.delete(id);
    this.#owned.delete(id);
    this.#idle.remove(id);
    this.#quarantined.delete(id);
  }

  #sort(split: IndexedSplit): void {
    const { id, status, owner, weight, restEndsAtMs: endsAtMs } = split;
    const isRunnable = status === 'runnable';
    if (isRunnable && owner !== null) this.#owned.add(id);
    else this.#owned.delete(id);
    const isFree = isRunnable && owner === null;
    const rests = isFree && endsAtMs > this.#clock.nowMs();
    const waitsForTrial = isFree && !rests && isSuspect(split.suspicion);
    if (waitsForTrial) this.#suspects.add(id);
    else this.#suspects.delete(id);
    if (rests) this.#resting.put(id, endsAtMs);
    else this.#resting.remove(id);
    // Behind those that have waited for their first turn, and in the order in which the rests ended.
    if (isFree && !rests && !waitsForTrial)
      this.#idle.put(id, weight, Math.ceil(Math.max(0, endsAtMs)));
    else this.#idle.remove(id);
    if (isRunnable && split.failing !== null) this.#failing.add(id);
    else this.#failing.delete(id);
    if (isFree && split.isRefusedForGood) this.#refusedForGood.add(id);
    else this.#refusedForGood.delete(id);
    if (status === 'quarantined') this.#quarantined.add(id);
    else this.#quarantined.delete(id);
  }
}
