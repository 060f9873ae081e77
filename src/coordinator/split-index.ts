/**
 * What the leader knows of every split: read once at its election, then kept by lease changes and by reading again what
 * may have moved unheard (R24). Commits are not followed.
 */
import { compareDecimals, type Epoch, type Revision } from '../base/decimals.ts';
import type { InstanceId, Nonce, SplitId } from '../base/ids.ts';
import type { Decoded } from '../records/codec.ts';
import type { LeaseRecord, SplitRecord, SplitStatus } from '../records/records.ts';
import type { Entry } from '../store/port.ts';

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
  readonly #runnable = new Set<SplitId>();
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

  /** Splits that can still run. */
  *runnable(): IterableIterator<IndexedSplit> {
    for (const split of this.#runnable) yield this.#splits.get(split)!;
  }

  get runnableCount(): number {
    return this.#runnable.size;
  }

  /** Takes a record in as read from the store; false when a newer one is known. */
  put(id: SplitId, entry: Entry, decoded: Decoded<SplitRecord>): boolean {
    if (decoded.kind !== 'record' || decoded.record.status === 'unknown') {
      this.#drop(id);
      this.#unreadable.add(id);
      this.version += 1;
      return true;
    }
    return this.set(id, decoded.record, entry.modRevision);
  }

  /** Takes a record in; false when a newer one is known. */
  set(id: SplitId, record: SplitRecord, modRevision: Revision): boolean {
    const known = this.#splits.get(id);
    if (known !== undefined && compareDecimals(modRevision, known.modRevision) < 0) return false;
    this.#unreadable.delete(id);
    const { status, owner, nonce, epoch, attempts, weight } = record;
    this.#splits.set(id, {
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
    });
    if (status === 'runnable') this.#runnable.add(id);
    else this.#runnable.delete(id);
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

  #drop(id: SplitId): void {
    this.#splits.delete(id);
    this.#runnable.delete(id);
  }
}
