/**
 * What the leader knows of every split: read once at its election, then kept by lease changes and by reading again what
 * may have moved unheard (R24). Commits are not followed.
 */
import { compareDecimals, type Epoch, type Revision } from '../../base/decimals.ts';
import type { InstanceId, Nonce, SplitId } from '../../base/ids.ts';
import type { Decoded } from '../../records/codec.ts';
import type { LeaseRecord, SplitRecord, SplitStatus } from '../../records/records.ts';
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
  failedEpoch: Epoch | null;
  modRevision: Revision;
  /** When this leader saw the lease go; null when it did not. */
  leaseGoneAtMs: number | null;
}

export class SplitIndex {
  readonly #splits = new Map<SplitId, IndexedSplit>();
  readonly #unreadable = new Set<SplitId>();
  /** Of those that can still run: who has an owner, and who has none. */
  readonly #owned = new Set<SplitId>();
  readonly #idle = new IdleSplits();
  readonly #quarantined = new Set<SplitId>();
  /** Rises with every change: tells whether a judgement would find something new. */
  version = 0;

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

  /** Splits that can still run and have no owner: at least the `count` heaviest, or all there are, in any order. */
  heaviestIdle(count: number): readonly IdleSplit[] {
    return this.#idle.heaviest(count);
  }

  get runnableCount(): number {
    return this.#owned.size + this.#idle.size;
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
    const split: IndexedSplit = {
      id,
      status,
      owner,
      nonce,
      epoch,
      attempts,
      weight,
      failedEpoch: record.lastFailure?.epoch ?? null,
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

  #drop(id: SplitId): void {
    this.#splits.delete(id);
    this.#owned.delete(id);
    this.#idle.remove(id);
    this.#quarantined.delete(id);
  }

  #sort({ id, status, owner, weight }: IndexedSplit): void {
    const isRunnable = status === 'runnable';
    if (isRunnable && owner !== null) this.#owned.add(id);
    else this.#owned.delete(id);
    if (isRunnable && owner === null) this.#idle.put(id, weight);
    else this.#idle.remove(id);
    if (status === 'quarantined') this.#quarantined.add(id);
    else this.#quarantined.delete(id);
  }
}
