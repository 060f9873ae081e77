/**
 * What the store knows of the splits, and nothing else: it neither asks a worker nor believes one.
 *
 * So the totals are those that were committed, whatever became of the workers that committed them.
 */
import type { MemoryStore } from '../../src/index.ts';
import { Tally } from './tally.ts';

/** The part of a split's record that is read here; records are JSON. */
interface SplitRecord {
  readonly status: 'runnable' | 'completed' | 'quarantined';
  readonly owner: string | null;
  /** Base64. */
  readonly state: string | null;
}

interface Followed {
  record: SplitRecord;
  /** Whoever had it last. */
  lastOwner: string | null;
}

export class Ledger {
  readonly #store: MemoryStore;
  readonly #prefix: string;
  readonly #splits = new Map<string, Followed>();
  readonly #completedBy = new Map<string, number>();
  readonly #subscription: { unsubscribe(): void };
  #orphans = new Set<string>();
  #onTakeover: () => void = () => undefined;
  /** Changes of owner after a split's first claim. */
  moved = 0;

  /** Follows the splits of a job from its beginning. */
  constructor(store: MemoryStore, job: string) {
    this.#store = store;
    this.#prefix = `leasehold/${job}/splits/`;
    const watch = store.watch({ prefix: this.#prefix }, store.revision);
    this.#subscription = watch.subscribe({
      next: (event) => {
        if (event.kind !== 'changes') return;
        for (const { key, entry } of event.changes) {
          if (entry !== null) this.#changed(key, JSON.parse(entry.value) as SplitRecord);
        }
      },
    });
  }

  /** Splits that `instanceId` has completed. */
  completedBy(instanceId: string): number {
    return this.#completedBy.get(instanceId) ?? 0;
  }

  /**
   * Waits for the splits that `instanceId` owns now to have another owner.
   *
   * @param onTakeover  Called when the last of them has.
   * @returns How many there are.
   */
  awaitTakeover(instanceId: string, onTakeover: () => void): number {
    const owned = this.#store
      .dump(this.#prefix)
      .filter(({ value }) => (JSON.parse(value) as SplitRecord).owner === instanceId);
    this.#orphans = new Set(owned.map(({ key }) => key));
    this.#onTakeover = onTakeover;
    return this.#orphans.size;
  }

  /** The committed results of all completed splits, added up. */
  total(): Tally {
    const total = new Tally();
    for (const { value } of this.#store.dump(this.#prefix)) {
      const { status, state } = JSON.parse(value) as SplitRecord;
      if (status === 'completed' && state !== null) {
        total.merge(Tally.decode(Buffer.from(state, 'base64')));
      }
    }
    return total;
  }

  close(): void {
    this.#subscription.unsubscribe();
  }

  #changed(key: string, record: SplitRecord): void {
    const before = this.#splits.get(key);
    const ownerBefore = before?.lastOwner ?? null;
    const lastOwner = record.owner ?? ownerBefore;
    const hasMoved = ownerBefore !== null && lastOwner !== ownerBefore;
    this.#splits.set(key, { record, lastOwner });
    if (hasMoved) this.moved += 1;
    if (record.status === 'completed' && before?.record.status !== 'completed') {
      const by = lastOwner ?? '';
      this.#completedBy.set(by, this.completedBy(by) + 1);
    }
    if (hasMoved && this.#orphans.delete(key) && this.#orphans.size === 0) this.#onTakeover();
  }
}
