/** Carries the calls of one faulty client to the store and their answers back. */
import { type ErrorCode, isLeaseholdError, LeaseholdError } from '../../base/errors.ts';
import type { Link } from './link.ts';
import type { CallFault, LossOptions, RuleBook, Span, StoreCall } from './rules.ts';

/** One call in the log of a client. */
export interface LoggedCall {
  /** Counts the calls of this client, from 1. */
  readonly sequence: number;
  /** When it was made, on the clock of the faults. */
  readonly atMs: number;
  readonly call: StoreCall;
  /** The rule that acted on it, or `partition`. */
  readonly fault: string | undefined;
  /** `answered`, the code of the error, or `pending`; watches stay `pending`. */
  readonly answer: string;
}

/** A log entry while its call is on its way. */
export type OpenEntry = { -readonly [Field in keyof LoggedCall]: LoggedCall[Field] };

/** How one call is sent. */
export interface Sending<Answer> {
  readonly entry: OpenEntry;
  readonly timeoutMs: number;
  /** Asks the store; may be called more than once. `entriesMax` shortens the pages of a read. */
  readonly send: (entriesMax?: number) => Promise<Answer>;
}

interface Flight {
  readonly entry: OpenEntry;
  readonly reject: (error: unknown) => void;
}

/** How calls go when nothing goes wrong. */
export interface CallsOptions {
  readonly enforcesTimeouts: boolean;
  /** What each way takes. */
  readonly latency: Span;
}

/** All calls of one client. A call ends once; what arrives for it later is dropped. */
export class Calls {
  readonly #link: Link;
  readonly #rules: RuleBook;
  readonly #options: CallsOptions;
  readonly #flights = new Set<Flight>();

  constructor(link: Link, rules: RuleBook, options: CallsOptions) {
    this.#link = link;
    this.#rules = rules;
    this.#options = options;
  }

  /** Calls that have no answer yet. */
  get inFlight(): number {
    return this.#flights.size;
  }

  /** Makes a call. */
  make<Answer>(sending: Sending<Answer>): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const { entry, timeoutMs } = sending;
      if (this.#link.isClosed) {
        const error = new LeaseholdError('E_STORE_UNREACHABLE', `${entry.call.kind} after close()`);
        entry.answer = error.code;
        reject(error);
        return;
      }
      const flight: Flight = { entry, reject };
      this.#flights.add(flight);
      let cancelDeadline = (): void => undefined;
      const trip = new Trip(sending, {
        link: this.#link,
        rules: this.#rules,
        latency: this.#options.latency,
        end: (answer, settle) => {
          if (!this.#flights.delete(flight)) return;
          cancelDeadline();
          entry.answer = answer;
          settle(resolve, reject);
        },
      });
      if (this.#options.enforcesTimeouts) {
        const expire = (): void => trip.fail(lossError(entry.call));
        cancelDeadline = this.#link.after(timeoutMs, expire);
      }
      this.#link.leave(() => trip.start());
    });
  }

  /** Ends all calls: with the error of a lost call, or, when the client is frozen and cannot hear it, without a word. */
  abandon(): void {
    for (const { entry, reject } of this.#flights) {
      if (this.#link.isFrozen) continue;
      const error = lossError(entry.call);
      entry.answer = error.code;
      reject(error);
    }
    this.#flights.clear();
  }
}

interface TripContext<Answer> {
  readonly link: Link;
  readonly rules: RuleBook;
  readonly latency: Span;
  /** Settles the call, unless it is settled. */
  readonly end: (
    answer: string,
    settle: (resolve: (answer: Answer) => void, reject: (error: unknown) => void) => void,
  ) => void;
}

/** The way of one call. */
class Trip<Answer> {
  readonly #sending: Sending<Answer>;
  readonly #context: TripContext<Answer>;

  constructor(sending: Sending<Answer>, context: TripContext<Answer>) {
    this.#sending = sending;
    this.#context = context;
  }

  /** Leaves the client: the moment that decides which rule acts. */
  start(): void {
    const { rules } = this.#context;
    const fault = rules.forCall(this.#sending.entry.call);
    this.#sending.entry.fault = fault?.kind;
    this.#follow(fault);
  }

  /** The client hears of an error. */
  fail(error: unknown): void {
    const answer = isLeaseholdError(error) ? error.code : 'crash';
    this.#context.link.arrive(() => {
      this.#context.end(answer, (_resolve, reject) => reject(error));
    });
  }

  #follow(fault: CallFault | undefined): void {
    const { link, rules, latency } = this.#context;
    const land = (): void => this.#reach(() => undefined);
    switch (fault?.kind) {
      case undefined:
        link.after(rules.draw(latency), () => this.#send(rules.draw(latency)));
        break;
      case 'delay':
        link.after(rules.draw(fault.span), () => this.#send(0));
        break;
      case 'delayAnswer':
        this.#send(rules.draw(fault.span));
        break;
      case 'loseBefore':
        this.#lose(fault.loss);
        break;
      case 'loseAfter':
        this.#reach(() => this.#lose(fault.loss));
        break;
      case 'lateLanding':
        this.#lose(fault.loss);
        link.after(rules.draw(fault.span), land);
        break;
      case 'duplicate':
        this.#send(0);
        link.after(rules.draw(fault.span), land);
        break;
      case 'refuse':
        this.fail(refusal(fault.error, this.#sending.entry.call));
        break;
      case 'deny':
        this.fail(denial(this.#sending.entry.call));
        break;
      case 'shortenPages':
        this.#send(0, fault.entriesMax);
        break;
    }
  }

  /** Sends the call and brings the answer back `delayMs` after it was given. */
  #send(delayMs: number, entriesMax?: number): void {
    const { link } = this.#context;
    this.#reach((result) => {
      link.after(delayMs, () => {
        if (link.answerLoss !== undefined) this.#losePartitioned(link.answerLoss);
        else this.#deliver(result);
      });
    }, entriesMax);
  }

  /** Lets the store apply the call, unless a partition is in the way. */
  #reach(answered: (result: PromiseSettledResult<Answer>) => void, entriesMax?: number): void {
    const { requestLoss } = this.#context.link;
    if (requestLoss !== undefined) {
      this.#losePartitioned(requestLoss);
      return;
    }
    void this.#sending.send(entriesMax).then(
      (value) => answered({ status: 'fulfilled', value }),
      (error: unknown) => {
        // Only what the store says can be lost on the way; a bug must be heard.
        if (isLeaseholdError(error)) answered({ status: 'rejected', reason: error });
        else this.fail(error);
      },
    );
  }

  #deliver(result: PromiseSettledResult<Answer>): void {
    if (result.status === 'rejected') {
      this.fail(result.reason);
      return;
    }
    this.#context.link.arrive(() => {
      this.#context.end('answered', (resolve) => resolve(result.value));
    });
  }

  #losePartitioned(loss: LossOptions): void {
    this.#sending.entry.fault ??= 'partition';
    this.#context.rules.count('partition');
    this.#lose(loss);
  }

  #lose({ silent = false, atTimeout = false }: LossOptions): void {
    if (silent) return;
    const error = lossError(this.#sending.entry.call);
    this.#context.link.after(atTimeout ? this.#sending.timeoutMs : 0, () => this.fail(error));
  }
}

/** What a caller hears when a call or its answer is lost: nothing is known of a write, and a read is just not there. */
function lossError(call: StoreCall): LeaseholdError {
  return call.kind === 'read'
    ? new LeaseholdError('E_STORE_UNREACHABLE', 'read: no answer')
    : new LeaseholdError('E_OUTCOME_UNKNOWN', `${call.kind}: sent, no answer; it may have landed`);
}

function refusal(error: ErrorCode | LeaseholdError, call: StoreCall): LeaseholdError {
  if (typeof error !== 'string') return error;
  return new LeaseholdError(error, `${call.kind} was refused; nothing was written`);
}

/** What a client hears that the store does not let do this. */
export function denial(call: StoreCall): LeaseholdError {
  return refusal('E_STORE_DENIED', call);
}
