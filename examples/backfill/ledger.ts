/**
 * What the store knows of the splits, and nothing else: it neither asks a worker nor believes one.
 *
 * So the totals are those that were committed, whatever became of the workers that committed them.
 */
import { Tally } from './tally.ts';

/** The part of a split's record that is read here; records are JSON. */
export interface SplitRecord {
  /** Rises with every owner; decimal. */
  readonly epoch: string;
  readonly status: 'runnable' | 'completed' | 'quarantined';
  readonly owner: string | null;
  /** The process that claimed this epoch. */
  readonly nonce: string | null;
  /** Decimal. */
  readonly watermark: string | null;
  /** Base64. */
  readonly state: string | null;
  /** Who wrote the record. */
  readonly by: { readonly instance: string; readonly nonce: string };
}

interface Followed {
  record: SplitRecord;
  /** Whoever had it last. */
  lastOwner: string | null;
}

interface Wait {
  readonly orphans: Set<string>;
  readonly onTakeover: () => void;
}

export class Ledger {
  readonly #splits = new Map<string, Followed>();
  readonly #completedBy = new Map<string, number>();
  #waits: Wait[] = [];
  /** Changes of owner after a split's first claim. */
  moved = 0;
  /** Splits that are completed. */
  completed = 0;

  /** A split's record was written. */
  see(splitId: string, record: SplitRecord): void {
    const before = this.#splits.get(splitId);
    const ownerBefore = before?.lastOwner ?? null;
    const lastOwner = record.owner ?? ownerBefore;
    const hasMoved = ownerBefore !== null && lastOwner !== ownerBefore;
    this.#splits.set(splitId, { record, lastOwner });
    if (hasMoved) this.moved += 1;
    if (record.status === 'completed' && before?.record.status !== 'completed') {
      const by = lastOwner ?? '';
      this.#completedBy.set(by, this.completedBy(by) + 1);
      this.completed += 1;
    }
    if (hasMoved || record.status !== 'runnable') this.#settle(splitId);
  }

  /** The newest epoch of a split; `0` before its first claim. */
  epochOf(splitId: string): string {
    return this.#splits.get(splitId)?.record.epoch ?? '0';
  }

  /** Splits that `instanceId` owns now. */
  ownedBy(instanceId: string): string[] {
    const owned = [...this.#splits].filter(([, { record }]) => record.owner === instanceId);
    return owned.map(([splitId]) => splitId);
  }

  /** Splits that `instanceId` has completed. */
  completedBy(instanceId: string): number {
    return this.#completedBy.get(instanceId) ?? 0;
  }

  /**
   * Waits for the splits that `instanceId` owns now to have another owner, or an end.
   *
   * @param onTakeover  Called when the last of them has.
   * @returns How many there are.
   */
  awaitTakeover(instanceId: string, onTakeover: () => void): number {
    const owned = this.ownedBy(instanceId);
    if (owned.length > 0) this.#waits.push({ orphans: new Set(owned), onTakeover });
    return owned.length;
  }

  /** The committed results of all completed splits, added up. */
  total(): Tally {
    const total = new Tally();
    for (const { record } of this.#splits.values()) {
      const { status, state } = record;
      if (status === 'completed' && state !== null) {
        total.merge(Tally.decode(Buffer.from(state, 'base64')));
      }
    }
    return total;
  }

  #settle(splitId: string): void {
    const over = this.#waits.filter(({ orphans }) => orphans.delete(splitId) && orphans.size === 0);
    this.#waits = this.#waits.filter((wait) => !over.includes(wait));
    for (const { onTakeover } of over) onTakeover();
  }
}
