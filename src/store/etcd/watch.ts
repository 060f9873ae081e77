/** One watch of the port: what it was told so far, and what of etcd's answers is news to it. */
import type { IEvent } from 'etcd3';
import type { Subscriber } from 'rxjs';
import { compareDecimals, nextRevision, type Revision, revisionOf } from '../../base/decimals.ts';
import type { ErrorCode, LeaseholdError } from '../../base/errors.ts';
import { type Change, inRange, type Range, type WatchEvent } from '../port.ts';
import { entryOf, type Span, spanOf } from './wire.ts';

export class Watch {
  readonly range: Range;
  readonly span: Span;
  readonly #subscriber: Subscriber<WatchEvent>;
  readonly #isWanted: (change: Change) => boolean;
  /** The id on the present line; undefined while none was asked for there. */
  id: string | undefined;
  /** etcd was asked from the revision before `next` on, so that a compaction at `next` itself shows. */
  hasMargin = false;
  /** How often in a row etcd refused to create it. */
  refusals = 0;
  /** Why it is refused, as the subscriber was told; undefined while it is not. */
  #refusal: ErrorCode | undefined;
  /** The first revision that was not delivered. */
  #next: Revision;
  /** Events of an answer that comes in pieces. */
  #pieces: IEvent[] = [];

  constructor(range: Range, fromRevision: Revision, subscriber: Subscriber<WatchEvent>) {
    this.range = range;
    this.span = spanOf(range);
    this.#next = fromRevision;
    this.#subscriber = subscriber;
    const keys = 'keys' in range && range.keys.length > 8 ? new Set(range.keys) : undefined;
    this.#isWanted = ({ key }) => (keys === undefined ? inRange(range, key) : keys.has(key));
  }

  get next(): Revision {
    return this.#next;
  }

  get isOpen(): boolean {
    return !this.#subscriber.closed;
  }

  /** Forgets what belongs to a line that is gone. */
  unplug(): void {
    this.id = undefined;
    this.hasMargin = false;
    this.#pieces = [];
  }

  /** Takes one answer; `hasMore` when its last revision goes on in the next one. */
  receive(events: readonly IEvent[], hasMore: boolean): void {
    if (this.#pieces.length > 0 || hasMore) {
      for (const event of events) this.#pieces.push(event);
      if (hasMore) return;
      this.#deliver(this.#pieces.splice(0));
      return;
    }
    this.#deliver(events);
  }

  /** Tells that it is not allowed, once for each reason. */
  refuse(error: LeaseholdError): void {
    if (this.#refusal === error.code) return;
    this.#refusal = error.code;
    this.#subscriber.next({ kind: 'refused', error });
  }

  /** etcd has created it: tells that it is allowed again, if need be. */
  accept(): void {
    this.refusals = 0;
    if (this.#refusal === undefined) return;
    this.#refusal = undefined;
    this.#subscriber.next({ kind: 'accepted' });
  }

  end(event: WatchEvent): void {
    this.#subscriber.next(event);
    this.#subscriber.complete();
  }

  /** etcd sends revisions in order and each one whole; within one, the port wants keys in order. */
  #deliver(events: readonly IEvent[]): void {
    let start = 0;
    while (start < events.length && this.isOpen) {
      const revision = revisionOf(events[start]!.kv.mod_revision);
      let end = start + 1;
      while (events[end]?.kv.mod_revision === revision) end += 1;
      const same = events.slice(start, end);
      start = end;
      // Delivered before the line was lost, or asked for as a margin.
      if (compareDecimals(revision, this.#next) < 0) continue;
      this.#next = nextRevision(revision);
      const changes = changesOf(same).filter(this.#isWanted);
      if (changes.length > 0) this.#subscriber.next({ kind: 'changes', revision, changes });
    }
  }
}

function changesOf(events: readonly IEvent[]): Change[] {
  const inOrder =
    events.length === 1
      ? events
      : events.toSorted(({ kv: a }, { kv: b }) => Buffer.compare(a.key, b.key));
  return inOrder.map(({ type, kv }) => ({
    key: kv.key.toString('utf8'),
    modRevision: revisionOf(kv.mod_revision),
    entry: type === 'Delete' ? null : entryOf(kv),
  }));
}
