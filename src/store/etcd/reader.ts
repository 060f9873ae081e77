/** Reads pages of keys. */
import type { IRangeResponse, ITxnResponse } from 'etcd3';
import { type Revision, revisionOf } from '../../base/decimals.ts';
import { invariant } from '../../base/errors.ts';
import type { Clock } from '../../base/clock.ts';
import type { CallOptions, Entry, Key, Range, ReadOptions, ReadOutcome } from '../port.ts';
import type { Caller } from './caller.ts';
import { isOutOfHistory } from './failures.ts';
import { bytesOf, entryOf, type Span, sortedKeys, spanOf, spanOfPrefix } from './wire.ts';

const PAGE_ENTRIES_MAX = 1_000;
/** Most operations that etcd takes in one transaction. */
const READS_MAX = 128;

/** Some entries, or null when the history they were asked from is gone. */
type Page<Answer> = Answer | null;

interface Request {
  readonly limit: number;
  readonly atRevision: Revision | undefined;
  readonly after: Key | undefined;
  readonly keysOnly: boolean;
  readonly timeoutMs: number;
}

export class Reader {
  readonly #caller: Caller;
  readonly #clock: Clock;

  constructor(caller: Caller, clock: Clock) {
    this.#caller = caller;
    this.#clock = clock;
  }

  async read(range: Range, read: ReadOptions, options: CallOptions): Promise<ReadOutcome> {
    const { atRevision, limit = PAGE_ENTRIES_MAX, after, keysOnly = false } = read;
    invariant(
      Number.isInteger(limit) && limit >= 1 && limit <= PAGE_ENTRIES_MAX,
      `a page of ${limit} entries: 1 to ${PAGE_ENTRIES_MAX}`,
    );
    invariant(
      atRevision === undefined || Number(atRevision) >= 1,
      `revision ${atRevision}: revisions of a store start at 1`,
    );
    const request = { limit, atRevision, after, keysOnly, timeoutMs: options.timeoutMs };
    return 'prefix' in range
      ? this.#readPrefix(range.prefix, request)
      : this.#readKeys(range.keys, request);
  }

  /** The newest revision, from a linearizable read within `range`: its caller may be allowed to read nothing else. */
  async newest(range: Range, options: CallOptions): Promise<Revision> {
    const page = await this.#range(spanOf(range), {
      limit: 1,
      atRevision: undefined,
      after: undefined,
      keysOnly: true,
      timeoutMs: options.timeoutMs,
    });
    invariant(page !== null, 'the present is no history');
    return revisionOf(page.header.revision);
  }

  async #readPrefix(prefix: string, request: Request): Promise<ReadOutcome> {
    const endMs = this.#clock.nowMs() + request.timeoutMs;
    const page = await this.#range(spanOfPrefix(prefix, request.after), request);
    if (page === null) return this.#compacted({ prefix }, endMs);
    return {
      kind: 'page',
      entries: page.kvs.map(entryOf),
      more: page.more,
      revision: request.atRevision ?? revisionOf(page.header.revision),
    };
  }

  async #readKeys(keys: readonly Key[], request: Request): Promise<ReadOutcome> {
    const endMs = this.#clock.nowMs() + request.timeoutMs;
    const { after, limit } = request;
    const all = sortedKeys(keys);
    const start = after === undefined ? 0 : all.findIndex((key) => isAfter(key, after));
    const names = start === -1 ? [] : all.slice(start);
    const entries: Entry[] = [];
    let revision = request.atRevision;
    let position = 0;
    // Without any name left one is asked for all the same, and left out: the revision may be out of history.
    const isEmpty = names.length === 0;
    // One more than fits tells that more follow.
    do {
      const part = isEmpty ? all.slice(0, 1) : names.slice(position, position + READS_MAX);
      const timeoutMs = Math.max(1, endMs - this.#clock.nowMs());
      const page = await this.#gets(part, { ...request, atRevision: revision, timeoutMs });
      if (page === null) return this.#compacted({ keys }, endMs);
      revision ??= revisionOf(page.header.revision);
      for (const { response_range: found } of isEmpty ? [] : page.responses)
        entries.push(...found.kvs.map(entryOf));
      position += READS_MAX;
    } while (position < names.length && entries.length <= limit);
    const more = entries.length > limit;
    return { kind: 'page', entries: entries.slice(0, limit), more, revision };
  }

  /** Where a reader may start over: the newest revision. */
  async #compacted(range: Range, endMs: number): Promise<ReadOutcome> {
    const timeoutMs = Math.max(1, endMs - this.#clock.nowMs());
    return { kind: 'compacted', revision: await this.newest(range, { timeoutMs }) };
  }

  #range(span: Span, { limit, atRevision, keysOnly, timeoutMs }: Request) {
    return this.#caller.read<Page<IRangeResponse>>({
      name: 'read',
      timeoutMs,
      isLinearizable: true,
      send: (client, options) =>
        client.kv
          .range({ ...span, limit, keys_only: keysOnly, ...revisionIn(atRevision) }, options)
          .catch(nullIfCompacted),
      header: (answer) => answer?.header ?? null,
    });
  }

  /** Reads keys by name at one revision. */
  #gets(keys: readonly Key[], { atRevision, keysOnly, timeoutMs }: Request) {
    const success = keys.map((key) => ({
      request_range: { key: bytesOf(key), keys_only: keysOnly, ...revisionIn(atRevision) },
    }));
    return this.#caller.read<Page<ITxnResponse>>({
      name: 'read',
      timeoutMs,
      isLinearizable: true,
      send: (client, options) =>
        client.kv.txn({ compare: [], success, failure: [] }, options).catch(nullIfCompacted),
      header: (answer) => answer?.header ?? null,
    });
  }
}

function revisionIn(revision: Revision | undefined): { revision?: string } {
  return revision === undefined ? {} : { revision };
}

function nullIfCompacted(thrown: unknown): null {
  if (isOutOfHistory(thrown)) return null;
  throw thrown;
}

function isAfter(key: Key, after: Key): boolean {
  return Buffer.compare(bytesOf(key), bytesOf(after)) > 0;
}
