/**
 * Hands events to whoever embeds the worker: to listeners at once, and to streams, which may be read later.
 *
 * What a listener throws stops neither a chart in the middle of its step nor the process.
 */
import type { CoordinationEvent } from '../api/api.ts';
import type { EventListener, EventStream } from '../api/events.ts';
import { callOut } from './call-out.ts';
import { QueuedStream } from './event-stream.ts';

export class EventSink {
  readonly #listeners = new Set<EventListener>();
  readonly #streams = new Set<QueuedStream>();
  readonly #threw: (error: unknown) => void;
  #isClosed = false;
  /** How often a listener has thrown. */
  errors = 0;

  /** @param threw  Told of what a listener threw, or rejected with. */
  constructor(threw: (error: unknown) => void) {
    this.#threw = threw;
  }

  emit(event: CoordinationEvent): void {
    for (const listener of this.#listeners) {
      callOut(
        () => listener(event),
        (error) => {
          this.errors += 1;
          this.#threw(error);
        },
      );
    }
    for (const stream of this.#streams) stream.push(event);
  }

  /** Calls `listener` for each event, while it is handled. Returns how to stop. */
  listen(listener: EventListener): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  stream(): EventStream {
    const stream = new QueuedStream(() => {
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
