/**
 * Tenancies of this process that ended without clearing the owner in their record, and whether taking the split again
 * costs an attempt (R31).
 *
 * Up to two per split: a claim that was given up may land yet, one epoch above the tenancy before it. The record tells
 * which of the two it was.
 */
import { type Epoch, nextEpoch } from '../../base/decimals.ts';
import type { SplitId } from '../../base/ids.ts';

interface UnclearedEnd {
  readonly epoch: Epoch;
  waives: boolean;
}

export class UnclearedEnds {
  readonly #bySplit = new Map<SplitId, readonly UnclearedEnd[]>();

  note(split: SplitId, epoch: Epoch, waives: boolean): void {
    const before = this.#of(split).filter((end) => nextEpoch(end.epoch) === epoch);
    this.#bySplit.set(split, [...before, { epoch, waives }]);
  }

  has(split: SplitId, epoch: Epoch): boolean {
    return this.#of(split).some((end) => end.epoch === epoch);
  }

  /** True when a claim on a record of this epoch, written by this process, costs no attempt. */
  waives(split: SplitId, epoch: Epoch): boolean {
    return this.#of(split).some((end) => end.epoch === epoch && end.waives);
  }

  /** The handler was to blame after all. */
  blame(split: SplitId): void {
    for (const end of this.#of(split)) end.waives = false;
  }

  /** The record was cleared. */
  forget(split: SplitId): void {
    this.#bySplit.delete(split);
  }

  #of(split: SplitId): readonly UnclearedEnd[] {
    return this.#bySplit.get(split) ?? [];
  }
}
