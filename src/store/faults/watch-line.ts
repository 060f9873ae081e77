/** One watch of a faulty client: cut and resumed, slow, repeating itself or frozen, but never with a gap. */
import type { Subscriber } from 'rxjs';
import { nextRevision, type Revision } from '../../base/decimals.ts';
import { endsWatch, type WatchEvent, type WatchStream } from '../port.ts';
import { denial } from './calls.ts';
import type { Link } from './link.ts';
import type { RuleBook, StoreCall } from './rules.ts';

/** What a watch needs from its client. */
export interface WatchLineOptions {
  readonly call: StoreCall & { readonly kind: 'watch' };
  readonly subscriber: Subscriber<WatchEvent>;
  readonly link: Link;
  readonly rules: RuleBook;
  readonly nowMs: () => number;
  /** Watches the store from a revision. */
  readonly connect: (fromRevision: Revision) => WatchStream;
  /** Names the store's cluster, where that is known: a watch that resumes on another one is reset (R8). */
  readonly clusterId: () => string | undefined;
}

/** An event on its way; one that is due waits for those before it. */
interface Delayed {
  readonly event: WatchEvent;
  readonly dueMs: number;
}

/** A watch that is open from its making until `close`. */
export class WatchLine {
  readonly #options: WatchLineOptions;
  readonly #clusterId: string | undefined;
  #next: Revision;
  #inner: { unsubscribe(): void } | undefined;
  /** Events on their way, in order. */
  #delayed: Delayed[] = [];
  #cancelRelease: () => void = () => undefined;
  /** Cuts that last. */
  #cuts = 0;
  #hasEnded = false;
  /** The client was told that it may not watch. */
  #isRefused = false;

  constructor(options: WatchLineOptions) {
    this.#options = options;
    this.#clusterId = options.clusterId();
    this.#next = options.call.fromRevision;
    this.resume();
  }

  /** The watch, as rules match it. */
  get call(): StoreCall {
    return this.#options.call;
  }

  /** Rules that deny have begun or ended. */
  judge(): void {
    if (this.#isDenied) this.disconnect();
    this.resume();
  }

  /** Connects to the store, as soon as the client can send, unless something is in the way. */
  resume(): void {
    this.#options.link.leave(() => this.#connect());
  }

  /** Loses the connection and what is on its way. */
  disconnect(): void {
    this.#inner?.unsubscribe();
    this.#inner = undefined;
    this.#cancelRelease();
    this.#delayed = [];
  }

  /** Loses the connection for `durationMs`. */
  cut(durationMs: number): void {
    this.disconnect();
    this.#cuts += 1;
    this.#options.link.after(durationMs, () => {
      this.#cuts -= 1;
      this.resume();
    });
  }

  /** Ends the watch; nothing more is delivered. */
  close(): void {
    this.#hasEnded = true;
    this.disconnect();
  }

  get #isDenied(): boolean {
    return this.#options.rules.denies(this.call);
  }

  /** True when it is not connected and nothing is in the way. */
  get #mayConnect(): boolean {
    const { requestLoss, answerLoss } = this.#options.link;
    const isBlocked = requestLoss !== undefined || answerLoss !== undefined || this.#cuts > 0;
    return !this.#hasEnded && this.#inner === undefined && !isBlocked;
  }

  #connect(): void {
    if (!this.#mayConnect) return;
    // What it is told then never comes within a call of the client.
    if (this.#isDenied || this.#isRefused) queueMicrotask(() => this.#ask());
    else this.#open();
  }

  /** Asks whether it may watch. */
  #ask(): void {
    if (!this.#mayConnect) return;
    if (!this.#isDenied) {
      this.#open();
    } else if (!this.#isRefused) {
      this.#isRefused = true;
      this.#release({ kind: 'refused', error: denial(this.call) });
    }
  }

  #open(): void {
    const { connect, clusterId } = this.#options;
    if (clusterId() !== this.#clusterId) {
      this.#release({ kind: 'reset' });
      return;
    }
    if (this.#isRefused) {
      this.#isRefused = false;
      this.#release({ kind: 'accepted' });
    }
    // Whoever was told may have ended it.
    if (!this.#mayConnect) return;
    this.#inner = connect(this.#next).subscribe({ next: (event) => this.#receive(event) });
  }

  #receive(event: WatchEvent): void {
    const { rules, nowMs, link, call } = this.#options;
    const fault = rules.forEvent(call);
    const delayMs = fault?.kind === 'delayEvents' ? rules.draw(fault.span) : 0;
    if (this.#delayed.length === 0 && delayMs === 0) {
      this.#release(event);
    } else {
      this.#delayed.push({ event, dueMs: nowMs() + delayMs });
      if (this.#delayed.length === 1) this.#releaseDue();
    }
    if (fault?.kind === 'duplicateEvents') {
      link.after(rules.draw(fault.span), () => link.arrive(() => this.#deliver(event)));
    }
  }

  #releaseDue(): void {
    const { link, nowMs } = this.#options;
    for (;;) {
      const first = this.#delayed[0];
      if (first === undefined) return;
      const leftMs = first.dueMs - nowMs();
      if (leftMs > 0) {
        this.#cancelRelease = link.after(leftMs, () => this.#releaseDue());
        return;
      }
      this.#delayed.shift();
      this.#release(first.event);
    }
  }

  /** The event reaches the client: a watch that resumes goes on after it. */
  #release(event: WatchEvent): void {
    if (event.kind === 'changes') this.#next = nextRevision(event.revision);
    if (endsWatch(event)) this.#hasEnded = true;
    this.#options.link.arrive(() => this.#deliver(event));
  }

  #deliver(event: WatchEvent): void {
    const { subscriber } = this.#options;
    subscriber.next(event);
    if (endsWatch(event)) subscriber.complete();
  }
}
