/**
 * Calls to the store, each bounded in time on the worker's clock; none is made after the worker has stopped, and whatever is
 * still unanswered then is given up (R17).
 */
import type { Clock, Timer } from '../../base/clock.ts';
import { LeaseholdError } from '../../base/errors.ts';

/** What a call is, for who counts what fails. */
export interface Call {
  readonly kind: 'read' | 'write';
  readonly name: string;
  readonly timeoutMs: number;
  /** Which calls it stands for: those of one kind fail and heal together. Null for what nobody repeats. */
  readonly path: (() => CallPath) | null;
}

/** One kind of call. */
export interface CallPath {
  /** The call and what it is about: `read leases/`. */
  readonly name: string;
  /** A write that only a leader makes: where it is refused, that is the leadership's business. */
  readonly isLeaders: boolean;
}

/** Hears what becomes of every call. */
export interface OutcomeListener {
  /** Nothing fails at present: what works is no news. */
  readonly isQuiet: boolean;
  worked(path: CallPath): void;
  failed(path: CallPath, error: unknown): void;
}

/** A call that nobody has answered. */
interface Wait {
  readonly reject: (error: LeaseholdError) => void;
  timer: Timer | undefined;
}

export class BoundedCalls {
  readonly #clock: Clock;
  readonly #waits = new Set<Wait>();
  #outcomes: OutcomeListener | null = null;
  #isClosed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls that nobody has answered. */
  get inFlight(): number {
    return this.#waits.size;
  }

  /** Tells `outcomes` of every call from now on. */
  tell(outcomes: OutcomeListener): void {
    this.#outcomes = outcomes;
  }

  /** Makes a call, and stops waiting for it in time. */
  make<T>(call: Call, send: (options: { timeoutMs: number }) => Promise<T>): Promise<T> {
    if (this.#isClosed) return Promise.reject(stopped());
    const { timeoutMs } = call;
    return new Promise<T>((resolve, reject) => {
      const fail = (error: unknown): void => {
        if (!this.#end(wait)) return;
        if (call.path !== null) this.#outcomes?.failed(call.path(), error);
        reject(error);
      };
      const wait: Wait = { reject, timer: undefined };
      wait.timer = this.#clock.setTimeout(() => {
        fail(unanswered(call));
      }, timeoutMs);
      this.#waits.add(wait);
      send({ timeoutMs }).then((value) => {
        if (!this.#end(wait)) return;
        if (this.#outcomes?.isQuiet === false && call.path !== null) {
          this.#outcomes.worked(call.path());
        }
        resolve(value);
      }, fail);
    });
  }

  /** Gives up every unanswered call and refuses new ones. */
  close(): void {
    this.#isClosed = true;
    for (const wait of [...this.#waits]) if (this.#end(wait)) wait.reject(stopped());
  }

  /** Ends a wait; false when it had ended: what comes then is ignored. */
  #end(wait: Wait): boolean {
    if (!this.#waits.delete(wait)) return false;
    if (wait.timer !== undefined) this.#clock.clearTimeout(wait.timer);
    return true;
  }
}

function stopped(): LeaseholdError {
  return new LeaseholdError('E_STOPPED', 'the worker has stopped; the store is asked nothing more');
}

function unanswered({ kind, name, timeoutMs }: Call): LeaseholdError {
  return kind === 'write'
    ? new LeaseholdError('E_OUTCOME_UNKNOWN', `${name} was not answered within ${timeoutMs} ms`)
    : new LeaseholdError('E_STORE_UNREACHABLE', `${name} was not answered within ${timeoutMs} ms`);
}
