/**
 * What progressed in this process, and what failed in it: a failure counts only when another split has progressed here since
 * the one before it (R31).
 */
import type { SplitId } from '../../base/ids.ts';

/** Failures remembered; the oldest are forgotten first, and their splits look like new ones. */
const FAILURES_MAX = 10_000;

interface Sight {
  readonly split: SplitId;
  readonly atMs: number;
}

export class Witnesses {
  /** The last progress, and the last of any other split. */
  #last: Sight | null = null;
  #lastOther: Sight | null = null;
  readonly #failedAtMs = new Map<SplitId, number>();

  /** A commit with a raised watermark, or a complete, has landed. */
  progressed(split: SplitId, atMs: number): void {
    if (this.#last !== null && this.#last.split !== split) this.#lastOther = this.#last;
    this.#last = { split, atMs };
    this.#failedAtMs.delete(split);
  }

  /**
   * Notes a failure; true when it has a witness.
   *
   * @param sinceMs  Where to look from when the split has not failed here before.
   */
  failed(split: SplitId, sinceMs: number, atMs: number): boolean {
    const fromMs = this.#failedAtMs.get(split) ?? sinceMs;
    this.#failedAtMs.delete(split);
    this.#failedAtMs.set(split, atMs);
    if (this.#failedAtMs.size > FAILURES_MAX) {
      const [oldest] = this.#failedAtMs.keys();
      this.#failedAtMs.delete(oldest!);
    }
    const witness = this.#last?.split === split ? this.#lastOther : this.#last;
    return witness !== null && witness.atMs > fromMs;
  }
}
