/**
 * A client of a store whose writes can be held back: so a process can be stopped between the moment it decides to commit
 * and the moment the commit leaves, which is when a fence is needed most. They are sent, unchanged, when it goes on.
 */
import { isLeaseholdError, type Store } from '../../../src/index.ts';

type Batch = Parameters<Store['transact']>[0];
type CallOptions = Parameters<Store['transact']>[1];
type Outcome = Awaited<ReturnType<Store['transact']>>;
type Txn = Batch['txns'][number];

/** What the store answered to the commits that were held back. */
export interface Released {
  refused: number;
  written: number;
  /** Sent without an answer: only the store's history tells. */
  unanswered: number;
}

export class HeldWrites {
  /** The client to give to a worker. */
  readonly store: Store;
  readonly #inner: Store;
  readonly #onHeld: (commits: number) => void;
  #isHolding = false;
  #waiting: (() => Promise<void>)[] = [];
  #heldCommits = 0;
  readonly #released: Released = { refused: 0, written: 0, unanswered: 0 };

  /** @param onHeld  Told how many commits are held back, after each. */
  constructor(inner: Store, onHeld: (commits: number) => void) {
    this.#inner = inner;
    this.#onHeld = onHeld;
    this.store = {
      name: inner.name,
      openSession: (...call) => inner.openSession(...call),
      keepAlive: (...call) => inner.keepAlive(...call),
      closeSession: (...call) => inner.closeSession(...call),
      read: (...call) => inner.read(...call),
      watch: (...call) => inner.watch(...call),
      transact: (batch, options) =>
        this.#isHolding ? this.#hold(batch, options) : inner.transact(batch, options),
      close: () => inner.close(),
    };
  }

  /** Holds back what is written from now on. */
  hold(): void {
    this.#isHolding = true;
  }

  /** Sends what was held back; resolves when all of it is answered. */
  async release(): Promise<Released> {
    this.#isHolding = false;
    await Promise.all(this.#waiting.splice(0).map((send) => send()));
    return this.#released;
  }

  #hold(batch: Batch, options: CallOptions): Promise<Outcome> {
    this.#heldCommits += batch.txns.filter(isCommit).length;
    this.#onHeld(this.#heldCommits);
    return new Promise((resolve, reject) => {
      this.#waiting.push(() => {
        const answer = this.#inner.transact(batch, options);
        answer.then(resolve, reject);
        return this.#count(batch, answer);
      });
    });
  }

  async #count({ txns }: Batch, answer: Promise<Outcome>): Promise<void> {
    const commits = txns.filter(isCommit).length;
    try {
      const outcome = await answer;
      const outcomes = outcome.kind === 'tried' ? outcome.outcomes : [];
      const isWritten = (txn: Txn, at: number): boolean =>
        isCommit(txn) && outcomes[at]?.kind === 'committed';
      const written = txns.filter(isWritten).length;
      this.#released.written += written;
      this.#released.refused += commits - written;
    } catch (error) {
      // The worker hears of it too, and acts on it.
      if (!isLeaseholdError(error)) throw error;
      if (error.kind === 'indeterminate') this.#released.unanswered += commits;
      else this.#released.refused += commits;
    }
  }
}

/** Whether a split's record is written by its owner: what a claim writes hangs on a session too. */
function isCommit({ writes }: Txn): boolean {
  const puts = writes.filter((write) => 'put' in write);
  return (
    puts.some(({ put }) => put.includes('/splits/')) &&
    puts.every(({ session }) => session === null)
  );
}
