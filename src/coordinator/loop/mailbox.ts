/**
 * The one queue of a worker: watch events, store answers, commands and timers become messages and are handled one at a
 * time, in the order of their arrival. No order is assumed across sources (R9).
 *
 * Decisions are not taken per message: they run once after the messages at hand have been handled.
 */
import { mergeAll, type Observable, Subject, type Subscription } from 'rxjs';

/** Something that happened; handling it never waits. */
export type Message = () => void;

export class Mailbox {
  readonly #posted = new Subject<Observable<Message>>();
  readonly #subscription: Subscription;
  readonly #decide: () => void;
  readonly #crash: (error: unknown) => void;
  readonly #queue: Message[] = [];
  #isHandling = false;
  #isDecisionDue = false;
  #isClosed = false;

  /**
   * @param decide  Runs after each burst of messages.
   * @param crash  Told of anything thrown while handling: a bug.
   */
  constructor(decide: () => void, crash: (error: unknown) => void) {
    this.#decide = decide;
    this.#crash = crash;
    this.#subscription = this.#posted.pipe(mergeAll()).subscribe((message) => {
      this.post(message);
    });
  }

  /** Merges a stream of messages in; it ends with the mailbox. */
  connect(messages: Observable<Message>): void {
    if (!this.#isClosed) this.#posted.next(messages);
  }

  /** Adds one message; it is handled now unless another one is being handled. Dropped once closed. */
  post(message: Message): void {
    this.postQuietly(message);
    this.requestDecision();
  }

  /** The same for what changes nothing that is decided on, such as a plain commit. */
  postQuietly(message: Message): void {
    if (this.#isClosed) return;
    this.#queue.push(message);
    if (this.#isHandling) return;
    this.#isHandling = true;
    try {
      // Messages posted while handling are handled in the same round; each of them answers something, so rounds end.
      for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
        this.#run(next);
      }
    } finally {
      this.#isHandling = false;
    }
  }

  /** Makes a decision due, once for all requests of this turn. */
  requestDecision(): void {
    if (this.#isDecisionDue || this.#isClosed) return;
    this.#isDecisionDue = true;
    queueMicrotask(() => {
      this.#isDecisionDue = false;
      // As a message: what is posted while deciding waits until the decision is taken.
      this.postQuietly(this.#decide);
    });
  }

  /** Drops everything: nothing is handled and nothing decided from here on. */
  close(): void {
    this.#isClosed = true;
    this.#queue.length = 0;
    this.#subscription.unsubscribe();
  }

  #run(message: Message): void {
    try {
      message();
    } catch (error) {
      this.#crash(error);
    }
  }
}
