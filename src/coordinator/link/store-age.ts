/**
 * How far the store has come, as this worker knows. Two things show that it went back in time, as one does that is restored
 * from a backup, also to a worker that was cut off meanwhile (R8): an answer that stands before what was known when its call
 * was made, and a key that was written earlier than what was known of it.
 */
import { ABSENT, compareDecimals, maxRevision, type Revision } from '../../base/decimals.ts';

/** What was known when a call was made. */
export interface AgeMark {
  readonly newest: Revision;
  readonly life: number;
}

export class StoreAge {
  readonly #tell: () => void;
  #newest: Revision = ABSENT;
  /** Counts the stores that were forgotten: what was asked of an earlier one shows nothing about this one. */
  #life = 0;
  #isTold = false;

  /** @param tell  The store went back; told once until {@link forget}. */
  constructor(tell: () => void) {
    this.#tell = tell;
  }

  /** A call is about to be made. */
  mark(): AgeMark {
    return { newest: this.#newest, life: this.#life };
  }

  /** The store answered a call as of `revision`. */
  answered({ newest, life }: AgeMark, revision: Revision): void {
    if (life !== this.#life) return;
    if (compareDecimals(revision, newest) < 0) this.wentBack();
    else this.saw(revision);
  }

  /** The store has come to `revision`. */
  saw(revision: Revision): void {
    this.#newest = maxRevision(this.#newest, revision);
  }

  wentBack(): void {
    if (this.#isTold) return;
    this.#isTold = true;
    this.#tell();
  }

  /** The store is another one: nothing is known of it yet. */
  forget(): void {
    this.#life += 1;
    this.#newest = ABSENT;
    this.#isTold = false;
  }
}
