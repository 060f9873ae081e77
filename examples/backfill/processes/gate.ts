/**
 * Lets splits end up to a limit, so that the faults come midway whatever the size of the job: a fleet that is too fast
 * waits at its last uncommitted files, which is also the worst moment to be disturbed.
 */
import type { Ledger, SplitRecord } from '../ledger.ts';
import type { WorkerHandle } from './worker-handle.ts';

interface Asking {
  readonly worker: WorkerHandle;
  readonly epoch: string;
}

export class Gate {
  readonly #ledger: Ledger;
  #limit = 0;
  /** Splits that wait for leave to end. */
  readonly #asking = new Map<string, Asking>();
  /** Splits that have leave and have not ended: their epochs. */
  readonly #leaving = new Map<string, string>();

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
  }

  /** Lets splits end until so many are completed in all. */
  openTo(limit: number): void {
    this.#limit = limit;
    this.#letGo();
  }

  /** Lets all splits end that one worker asks for now, whatever the limit. */
  openFor(worker: WorkerHandle): void {
    for (const [splitId, asking] of this.#asking) {
      if (asking.worker === worker) this.#leave(splitId, asking);
    }
  }

  ask(worker: WorkerHandle, splitId: string, epoch: string): void {
    // What a process said before it lost the split may be heard after.
    if (BigInt(epoch) < BigInt(this.#ledger.epochOf(splitId))) return;
    this.#asking.set(splitId, { worker, epoch });
    this.#letGo();
  }

  /** Splits of a worker that wait here. */
  askedBy(worker: WorkerHandle): number {
    return [...this.#asking.values()].filter((asking) => asking.worker === worker).length;
  }

  /** A split was written: whoever asked under an older epoch, or has handed it back, asks no more. */
  see(splitId: string, { epoch, owner }: SplitRecord): void {
    const isOver = (asked: string | undefined): boolean =>
      asked !== undefined && (BigInt(asked) < BigInt(epoch) || (asked === epoch && owner === null));
    if (isOver(this.#asking.get(splitId)?.epoch)) this.#asking.delete(splitId);
    if (isOver(this.#leaving.get(splitId))) this.#leaving.delete(splitId);
    this.#letGo();
  }

  #letGo(): void {
    for (const [splitId, asking] of this.#asking) {
      if (this.#ledger.completed + this.#leaving.size >= this.#limit) return;
      this.#leave(splitId, asking);
    }
  }

  #leave(splitId: string, { worker, epoch }: Asking): void {
    this.#asking.delete(splitId);
    this.#leaving.set(splitId, epoch);
    worker.say({ type: 'end', splitId, epoch });
  }
}
