/** One watch of a faulty client: cut and resumed, slow, repeating itself or frozen, but never with a gap. */
import type { Subscriber } from 'rxjs';
import { nextRevision, type Revision } from '../../base/decimals.ts';
import type { WatchEvent, WatchStream } from '../port.ts';
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

  #connect(): void {
    const { link, connect, clusterId } = this.#options;
    const isBlocked =
      link.requestLoss !== undefined || link.answerLoss !== undefined || this.#cuts > 0;
    if (this.#hasEnded || this.#inner !== undefined || isBlocked) return;
    if (clusterId() !== this.#clusterId) {
      this.#release({ kind: 'reset' });
      return;
    }
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
    else this.#hasEnded = true;
    this.#options.link.arrive(() => this.#deliver(event));
  }

  #deliver(event: WatchEvent): void {
    const { subscriber } = this.#options;
    subscriber.next(event);
    if (event.kind !== 'changes') subscriber.complete();
  }
}
