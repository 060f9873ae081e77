/** Grants on their way to a loop that takes them by hand: at most as many as the worker may hold. */
import type { Grant, OpenGrant } from './grant.ts';

export class GrantQueue implements AsyncIterableIterator<Grant> {
  readonly #onLeft: () => void;
  readonly #queue: OpenGrant[] = [];
  readonly #readers: ((result: IteratorResult<Grant>) => void)[] = [];
  /** What the turn of the loop that runs now is about; null when turns overlap. */
  #turn: OpenGrant | null = null;
  #overlaps = false;
  #hasEnded = false;

  /** @param onLeft  Told when the loop was left: nobody takes anything any more. */
  constructor(onLeft: () => void) {
    this.#onLeft = onLeft;
  }

  push(grant: OpenGrant): void {
    if (this.#hasEnded) {
      void handBack(grant);
      return;
    }
    const reader = this.#readers.shift();
    if (reader === undefined) {
      this.#queue.push(grant);
      return;
    }
    if (!this.#overlaps) this.#turn = grant;
    reader({ done: false, value: grant });
  }

  /** A grant is asked back, or lost: when nobody has taken it yet, nobody gets it, and it is handed back at once. */
  takeBack(grant: OpenGrant): void {
    const at = this.#queue.indexOf(grant);
    if (at < 0) return;
    this.#queue.splice(at, 1);
    void handBack(grant);
  }

  /** The loop is over: what nobody has taken is handed back. */
  end(): void {
    this.#hasEnded = true;
    for (const grant of this.#queue.splice(0)) void handBack(grant);
    for (const reader of this.#readers.splice(0)) reader({ done: true, value: undefined });
  }

  next(): Promise<IteratorResult<Grant>> {
    this.#finishTurn();
    if (this.#hasEnded) return Promise.resolve({ done: true, value: undefined });
    const grant = this.#queue.shift();
    if (grant !== undefined) {
      if (!this.#overlaps) this.#turn = grant;
      return Promise.resolve({ done: false, value: grant });
    }
    return new Promise((resolve) => {
      // Several read at once: no call says that the turn of another is over.
      this.#overlaps ||= this.#readers.length > 0;
      this.#readers.push(resolve);
    });
  }

  return(): Promise<IteratorResult<Grant>> {
    this.#finishTurn();
    this.end();
    this.#onLeft();
    return Promise.resolve({ done: true, value: undefined });
  }

  throw(error: unknown): Promise<IteratorResult<Grant>> {
    void this.return();
    return Promise.reject(error);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** A turn that ends after its grant has worked on it to the end; one that is still open is worked on elsewhere. */
  #finishTurn(): void {
    const grant = this.#turn;
    this.#turn = null;
    if (grant?.hasEnded === true) void grant.finished();
  }
}

/** Nobody has begun with it. */
async function handBack(grant: OpenGrant): Promise<void> {
  if (!grant.hasEnded) void grant.release();
  await grant.finished();
}
