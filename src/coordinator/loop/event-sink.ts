/**
 * Hands events to whoever embeds the worker.
 *
 * One listener takes ownership events at once (the driver); streams may be opened beside it. A stream keeps every
 * ownership event, which are bounded by the splits held, and at most `INFORMATIONAL_MAX` others: more are dropped and
 * counted.
 */
import type { CoordinationEvent } from '../api/api.ts';
import type { EventListener, EventStream } from '../api/events.ts';

const INFORMATIONAL_MAX = 1_000;

const OWNERSHIP = new Set<CoordinationEvent['type']>([
  'gained',
  'revokeRequested',
  'revokeCancelled',
  'lost',
  'verdict',
]);

export class EventSink {
  readonly #listeners = new Set<EventListener>();
  readonly #streams = new Set<Stream>();
  #isClosed = false;

  emit(event: CoordinationEvent): void {
    for (const listener of this.#listeners) {
      try {
        listener(event);
      } catch (error) {
        // A listener's bug must not stop a chart in the middle of its step; it crashes the process right after.
        queueMicrotask(() => {
          throw error;
        });
      }
    }
    for (const stream of this.#streams) stream.push(event);
  }

  /** Calls `listener` for each event, while it is handled; it must not throw. Returns how to stop. */
  listen(listener: EventListener): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  stream(): EventStream {
    const stream = new Stream(() => {
      this.#streams.delete(stream);
    });
    if (this.#isClosed) stream.end();
    else this.#streams.add(stream);
    return stream;
  }

  close(): void {
    this.#isClosed = true;
    for (const stream of [...this.#streams]) stream.end();
    this.#listeners.clear();
  }
}

class Stream implements EventStream {
  readonly #queue: CoordinationEvent[] = [];
  readonly #onEnd: () => void;
  #informational = 0;
  #reader: ((result: IteratorResult<CoordinationEvent>) => void) | undefined;
  #hasEnded = false;
  dropped = 0;

  constructor(onEnd: () => void) {
    this.#onEnd = onEnd;
  }

  push(event: CoordinationEvent): void {
    if (this.#hasEnded) return;
    const reader = this.#reader;
    if (reader !== undefined) {
      this.#reader = undefined;
      reader({ done: false, value: event });
      return;
    }
    if (!OWNERSHIP.has(event.type)) {
      if (this.#informational >= INFORMATIONAL_MAX) {
        this.dropped += 1;
        return;
      }
      this.#informational += 1;
    }
    this.#queue.push(event);
  }

  end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#onEnd();
    this.#reader?.({ done: true, value: undefined });
    this.#reader = undefined;
  }

  next(): Promise<IteratorResult<CoordinationEvent>> {
    const event = this.#queue.shift();
    if (event !== undefined) {
      if (!OWNERSHIP.has(event.type)) this.#informational -= 1;
      return Promise.resolve({ done: false, value: event });
    }
    if (this.#hasEnded) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve) => {
      // A second reader takes the place of the first, which ends.
      this.#reader?.({ done: true, value: undefined });
      this.#reader = resolve;
    });
  }

  return(): Promise<IteratorResult<CoordinationEvent>> {
    this.#queue.length = 0;
    this.end();
    return Promise.resolve({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}
