/** One stream of events, and what it forgets while nobody reads it (see `EventStream`). */
import type { CoordinationEvent, OwnershipEvent } from '../api/api.ts';
import type { EventStream } from '../api/events.ts';

const INFORMATIONAL_MAX = 1_000;
/** Ownership events that may wait before what is overtaken goes. */
const UNREAD_MIN = 1_000;
/** More than four events of each split that a worker may hold. */
const OWNERSHIP_MAX = 16_384;

export class QueuedStream implements EventStream {
  #queue: CoordinationEvent[] = [];
  readonly #onEnd: () => void;
  #informational = 0;
  /** How many ownership events may wait until the queue is gone through again. */
  #compactAt = UNREAD_MIN;
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
    if (!isOwnership(event)) {
      if (this.#informational >= INFORMATIONAL_MAX) {
        this.dropped += 1;
        return;
      }
      this.#informational += 1;
    }
    this.#queue.push(event);
    if (this.#queue.length - this.#informational > this.#compactAt) this.#compact();
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
      if (!isOwnership(event)) this.#informational -= 1;
      return Promise.resolve({ done: false, value: event });
    }
    this.#compactAt = UNREAD_MIN;
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

  #compact(): void {
    const before = this.#queue.length;
    this.#queue = withoutOvertaken(this.#queue);
    const excess = this.#queue.length - this.#informational - OWNERSHIP_MAX;
    if (excess > 0) {
      let left = excess;
      this.#queue = this.#queue.filter((event) => !isOwnership(event) || (left -= 1) < 0);
    }
    this.dropped += before - this.#queue.length;
    const size = this.#queue.length - this.#informational;
    this.#compactAt = Math.min(OWNERSHIP_MAX, Math.max(UNREAD_MIN, 2 * size));
  }
}

function isOwnership(event: CoordinationEvent): event is OwnershipEvent {
  switch (event.type) {
    case 'gained':
    case 'revokeRequested':
    case 'revokeCancelled':
    case 'lost':
    case 'verdict':
      return true;
    default:
      return false;
  }
}

/**
 * Events without what later ones of the same split have overtaken. Of its newest tenancy stay the gain and the newest request, or the loss
 * alone: that is what whoever heard of an earlier one still has to know.
 */
function withoutOvertaken(queue: readonly CoordinationEvent[]): CoordinationEvent[] {
  const overtaken = new Set<string>();
  const kept: CoordinationEvent[] = [];
  const epochs = new Map<string, string>();
  for (const event of queue.toReversed()) {
    if (!isOwnership(event)) {
      kept.push(event);
      continue;
    }
    const names = namesOf(event);
    const split =
      'splitId' in event ? event.splitId : event.type === 'gained' ? event.split.id : '';
    const epoch = event.type === 'verdict' ? '' : event.epoch;
    const isOfNewest = (epochs.get(split) ?? epoch) === epoch;
    epochs.set(split, epochs.get(split) ?? epoch);
    if (!isOfNewest || overtaken.has(names.self)) continue;
    for (const name of names.overtakes) overtaken.add(name);
    kept.push(event);
  }
  return kept.reverse();
}

/** The kind of thing that an event says of its split, and the kinds that are no news any more before it. */
function namesOf(event: OwnershipEvent): { self: string; overtakes: readonly string[] } {
  switch (event.type) {
    case 'verdict':
      return { self: 'verdict', overtakes: ['verdict'] };
    case 'gained':
      return { self: `gained ${event.split.id}`, overtakes: [] };
    case 'lost': {
      const { splitId } = event;
      return { self: `lost ${splitId}`, overtakes: [`gained ${splitId}`, `asked ${splitId}`] };
    }
    case 'revokeRequested':
    case 'revokeCancelled':
      return { self: `asked ${event.splitId}`, overtakes: [`asked ${event.splitId}`] };
  }
}
