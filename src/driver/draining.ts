/** Whether a split is asked back, as a value, a promise and a signal. */
import { type Answer, quietAnswer } from '../base/answer.ts';
import type { RevokeReason } from '../coordinator/api/api.ts';

/** Whether the split is asked back; a request may be withdrawn again. */
export interface Draining {
  /** True while the split is asked back: finish what was started, commit, and return. */
  readonly requested: boolean;
  /** Why; null while it is not asked back. */
  readonly reason: RevokeReason | null;
  /**
   * Fires when the split is asked back, and when the grant ends. A request that was withdrawn is followed by a new signal: read it where
   * it is needed. What is told by a signal forgets it when it is done, so this is what loops wait with.
   */
  readonly signal: AbortSignal;
  /**
   * Resolves when the split is asked back, at once if it is; also when the grant ends. The same promise until then: who races it in a
   * loop adds a reaction with each turn, as with any promise that is pending for long; `signal` costs nothing.
   */
  whenRequested(): Promise<void>;
}

export class DrainingState implements Draining {
  #reason: RevokeReason | null = null;
  #isOver = false;
  #answer: Answer<void> | null = null;
  #controller: AbortController | null = null;

  get requested(): boolean {
    return this.#reason !== null;
  }

  get reason(): RevokeReason | null {
    return this.#reason;
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#isTold) this.#controller.abort();
    return this.#controller.signal;
  }

  whenRequested(): Promise<void> {
    if (this.#isTold) return Promise.resolve();
    this.#answer ??= quietAnswer();
    return this.#answer.promise;
  }

  /** The split is asked back. */
  request(reason: RevokeReason): void {
    this.#reason = reason;
    this.#tell();
  }

  /** The request was withdrawn; whoever waits from now on waits for the next one. */
  withdraw(): void {
    this.#reason = null;
    if (!this.#isOver) this.#controller = null;
  }

  /** The grant has ended: nobody waits any longer. */
  end(): void {
    this.#isOver = true;
    this.#tell();
  }

  get #isTold(): boolean {
    return this.#isOver || this.#reason !== null;
  }

  #tell(): void {
    this.#answer?.resolve();
    this.#answer = null;
    this.#controller?.abort();
  }
}
