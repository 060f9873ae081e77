/**
 * Follows one range of the store: reads it at a revision, watches from the next one, and reads again after compaction,
 * failure or when asked. Everything arrives as messages.
 */
import { type Observable, Subject } from 'rxjs';
import type { Clock, Timer } from '../../base/clock.ts';
import { nextRevision, type Revision } from '../../base/decimals.ts';
import type { Change, Entry, Range, WatchEvent } from '../../store/port.ts';
import type { Message } from '../loop/mailbox.ts';
import type { StoreGate } from './store-gate.ts';

/** What a follower of a range is told. */
export interface RangeListener {
  /** The whole range at one revision. */
  onListing(entries: readonly Entry[], revision: Revision): void;
  onChanges(changes: readonly Change[]): void;
  /** The store is another one (R8). */
  onReset(): void;
}

const RETRY_MS = 200;
const RETRY_MS_MAX = 2_000;

export class RangeWatcher {
  readonly range: Range;
  readonly #gate: StoreGate;
  readonly #clock: Clock;
  readonly #listener: RangeListener;
  readonly #messages = new Subject<Message>();
  #subscription: { unsubscribe(): void } | undefined;
  #retry: Timer | undefined;
  #failures = 0;
  /** Tells a listing in flight that it was overtaken. */
  #round = 0;
  #isClosed = false;

  constructor(range: Range, gate: StoreGate, clock: Clock, listener: RangeListener) {
    this.range = range;
    this.#gate = gate;
    this.#clock = clock;
    this.#listener = listener;
  }

  /** What happens in the range, as messages for the mailbox. */
  get messages(): Observable<Message> {
    return this.#messages;
  }

  /** Lists the range and watches it from there. */
  start(): void {
    if (this.#isClosed) return;
    this.#stopWatching();
    this.#round += 1;
    const round = this.#round;
    this.#list().then(
      (listing) => {
        this.#post(round, () => {
          this.#failures = 0;
          this.#listener.onListing(listing.entries, listing.revision);
          this.#watch(round, nextRevision(listing.revision));
        });
      },
      () => {
        this.#post(round, () => {
          this.#failures += 1;
          const pauseMs = Math.min(RETRY_MS_MAX, RETRY_MS * 2 ** Math.min(10, this.#failures - 1));
          this.#retry = this.#clock.setTimeout(() => {
            this.start();
          }, pauseMs);
        });
      },
    );
  }

  /** Lists the range once more beside the running watch: the backstop for lost events. */
  relist(): void {
    if (this.#isClosed || this.#subscription === undefined) return;
    const round = this.#round;
    this.#list().then(
      (listing) => {
        this.#post(round, () => {
          this.#listener.onListing(listing.entries, listing.revision);
        });
      },
      // The next reconcile lists again.
      () => undefined,
    );
  }

  close(): void {
    this.#isClosed = true;
    this.#stopWatching();
    this.#messages.complete();
  }

  #list(): Promise<{ entries: readonly Entry[]; revision: Revision }> {
    return this.#gate.readAll(this.range);
  }

  #watch(round: number, fromRevision: Revision): void {
    this.#subscription = this.#gate.watch(this.range, fromRevision).subscribe({
      next: (event) => {
        this.#post(round, () => {
          this.#onEvent(event);
        });
      },
    });
  }

  #onEvent(event: WatchEvent): void {
    switch (event.kind) {
      case 'changes':
        this.#listener.onChanges(event.changes);
        break;
      case 'compacted':
        this.start();
        break;
      case 'reset':
        this.#listener.onReset();
        break;
    }
  }

  #post(round: number, message: Message): void {
    if (this.#isClosed) return;
    this.#messages.next(() => {
      if (!this.#isClosed && round === this.#round) message();
    });
  }

  #stopWatching(): void {
    this.#subscription?.unsubscribe();
    this.#subscription = undefined;
    if (this.#retry !== undefined) this.#clock.clearTimeout(this.#retry);
    this.#retry = undefined;
  }
}
