/** Reads pages of keys. */
import type { ICompare, IRangeResponse, ITxnResponse } from 'etcd3';
import { ABSENT, compareDecimals, type Revision, revisionOf } from '../../base/decimals.ts';
import { invariant } from '../../base/errors.ts';
import type { Clock } from '../../base/clock.ts';
import {
  ANSWER_BYTES_MAX,
  type CallOptions,
  type Entry,
  type Key,
  type Range,
  type ReadOptions,
  type ReadOutcome,
} from '../port.ts';
import type { Caller } from './caller.ts';
import type { Header } from './cluster.ts';
import { isOutOfHistory } from './failures.ts';
import { isTooLarge } from './interceptor.ts';
import {
  bytesOf,
  compareOf,
  entryOf,
  type Span,
  sortedKeys,
  spanOf,
  spanOfPrefix,
} from './wire.ts';

const PAGE_ENTRIES_MAX = 1_000;
/** Most operations that etcd takes in one transaction. */
const READS_MAX = 128;

/** What was found, or why nothing was: the history that it was asked from is gone, or it is too much for one answer. */
type Page<Answer> = Answer | 'compacted' | 'tooLarge';

interface Request {
  readonly limit: number;
  readonly atRevision: Revision | undefined;
  readonly minModRevision: Revision | undefined;
  readonly known: ReadonlyMap<Key, Revision> | undefined;
  readonly after: Key | undefined;
  readonly keysOnly: boolean;
  /** The page may have one entry only, which is never refused for its size. */
  readonly isSingle: boolean;
  readonly timeoutMs: number;
}

/** What of the names of a request was read. */
interface Found {
  readonly entries: Entry[];
  more: boolean;
  count: number;
  bytes: number;
  revision: Revision | undefined;
}

export class Reader {
  readonly #caller: Caller;
  readonly #clock: Clock;

  constructor(caller: Caller, clock: Clock) {
    this.#caller = caller;
    this.#clock = clock;
  }

  async read(range: Range, read: ReadOptions, options: CallOptions): Promise<ReadOutcome> {
    const { atRevision, minModRevision, known, after } = read;
    const { limit = PAGE_ENTRIES_MAX, keysOnly = false } = read;
    invariant(
      Number.isInteger(limit) && limit >= 1 && limit <= PAGE_ENTRIES_MAX,
      `a page of ${limit} entries: 1 to ${PAGE_ENTRIES_MAX}`,
    );
    invariant(
      atRevision === undefined || Number(atRevision) >= 1,
      `revision ${atRevision}: revisions of a store start at 1`,
    );
    const isSingle = limit === 1 || ('keys' in range && range.keys.length === 1);
    const how = { limit, atRevision, minModRevision, known, after, keysOnly, isSingle };
    const request = { ...how, timeoutMs: options.timeoutMs };
    return 'prefix' in range
      ? this.#readPrefix(range.prefix, request)
      : this.#readKeys(range.keys, request);
  }

  /** The newest revision, from a linearizable read within `range`: its caller may be allowed to read nothing else. */
  async newest(range: Range, options: CallOptions): Promise<Revision> {
    const page = await this.#range(spanOf(range), {
      limit: 1,
      atRevision: undefined,
      minModRevision: undefined,
      known: undefined,
      after: undefined,
      keysOnly: true,
      isSingle: true,
      timeoutMs: options.timeoutMs,
    });
    invariant(typeof page !== 'string', 'one entry of the present is never too large or gone');
    return revisionOf(page.header.revision);
  }

  async #readPrefix(prefix: string, request: Request): Promise<ReadOutcome> {
    const endMs = this.#clock.nowMs() + request.timeoutMs;
    const page = await this.#range(spanOfPrefix(prefix, request.after), request);
    if (page === 'tooLarge') return { kind: 'tooLarge' };
    if (page === 'compacted') return this.#compacted({ prefix }, endMs);
    return {
      kind: 'page',
      entries: page.kvs.map(entryOf),
      more: page.more,
      count: Number(page.count),
      revision: request.atRevision ?? revisionOf(page.header.revision),
    };
  }

  /**
   * Asks for as many names at a time as may still be needed, so that no more is sent than fits the page. What is behind the
   * last entry is only counted.
   */
  async #readKeys(keys: readonly Key[], request: Request): Promise<ReadOutcome> {
    const endMs = this.#clock.nowMs() + request.timeoutMs;
    const { after, limit } = request;
    const all = sortedKeys(keys);
    const start = after === undefined ? 0 : all.findIndex((key) => isAfter(key, after));
    const names = start === -1 ? [] : all.slice(start);
    const found: Found = {
      entries: [],
      more: false,
      count: 0,
      bytes: 0,
      revision: request.atRevision,
    };
    // Without any name left one is asked for all the same, and left out: the revision may be out of history.
    const isEmpty = names.length === 0;
    let position = 0;
    do {
      const isFull = found.entries.length === limit;
      const size = isFull ? READS_MAX : Math.min(READS_MAX, limit - found.entries.length);
      const part = isEmpty ? all.slice(0, 1) : names.slice(position, position + size);
      const timeoutMs = Math.max(1, endMs - this.#clock.nowMs());
      const keysOnly = request.keysOnly || isFull || isEmpty;
      const how = { ...request, atRevision: found.revision, keysOnly, timeoutMs };
      const isOfNow = request.known !== undefined && request.atRevision === undefined;
      const mayBeKnown = isOfNow && !isFull && !isEmpty;
      const same = mayBeKnown ? await this.#areKnown(part, how) : null;
      if (same !== null) {
        found.revision ??= same;
        found.count += part.filter((key) => request.known!.get(key) !== ABSENT).length;
        position += size;
        continue;
      }
      const page = await this.#gets(part, how);
      if (page === 'compacted') return this.#compacted({ keys }, endMs);
      if (page === 'tooLarge') return { kind: 'tooLarge' };
      found.revision ??= revisionOf(page.header.revision);
      if (!isEmpty) addTo(found, page, { isFull, known: request.known });
      if (found.bytes > ANSWER_BYTES_MAX && found.entries.length > 1) return { kind: 'tooLarge' };
      position += size;
    } while (position < names.length);
    const { entries, more, count, revision } = found;
    return { kind: 'page', entries, more, count, revision };
  }

  /** Where a reader may start over: the newest revision. */
  async #compacted(range: Range, endMs: number): Promise<ReadOutcome> {
    const timeoutMs = Math.max(1, endMs - this.#clock.nowMs());
    return { kind: 'compacted', revision: await this.newest(range, { timeoutMs }) };
  }

  #range(span: Span, request: Request) {
    const { limit, isSingle, timeoutMs } = request;
    return this.#caller.read<Page<IRangeResponse>>({
      name: 'read',
      timeoutMs,
      isLinearizable: true,
      isBounded: !isSingle,
      send: (client, options) =>
        client.kv.range({ ...span, limit, ...wireOf(request) }, options).catch(pageOf),
      header: headerOf,
    });
  }

  /**
   * Asks with compares alone whether all keys are as they are known: the revision at which they are, or null. What is now as it
   * was written before a revision was so at that one.
   */
  async #areKnown(keys: readonly Key[], request: Request): Promise<Revision | null> {
    const compare: ICompare[] = [];
    for (const key of keys) {
      const equals = request.known?.get(key);
      if (equals === undefined || isBehind(equals, request.atRevision)) return null;
      compare.push(compareOf({ key, target: 'modRevision', equals }, bytesOf));
    }
    // Without any read etcd would answer from a member that may lag.
    const failure = [{ request_range: { key: bytesOf(keys[0]!), keys_only: true } }];
    const answer = await this.#caller.read<ITxnResponse>({
      name: 'read',
      timeoutMs: request.timeoutMs,
      isLinearizable: true,
      isBounded: false,
      send: (client, options) => client.kv.txn({ compare, success: [], failure }, options),
      header: headerOf,
    });
    return answer.succeeded ? (request.atRevision ?? revisionOf(answer.header.revision)) : null;
  }

  /** Reads keys by name at one revision. */
  #gets(keys: readonly Key[], request: Request) {
    const success = keys.map((key) => ({
      request_range: { key: bytesOf(key), ...wireOf(request) },
    }));
    return this.#caller.read<Page<ITxnResponse>>({
      name: 'read',
      timeoutMs: request.timeoutMs,
      isLinearizable: true,
      isBounded: !request.isSingle,
      send: (client, options) =>
        client.kv.txn({ compare: [], success, failure: [] }, options).catch(pageOf),
      header: headerOf,
    });
  }
}

/** Adds what was found under some names; when the page is full, only that there is more. */
function addTo(
  found: Found,
  page: ITxnResponse,
  { isFull, known }: { readonly isFull: boolean; readonly known: Request['known'] },
): void {
  for (const { response_range: answer } of page.responses) {
    found.count += Number(answer.count);
    const kvs =
      known === undefined ? answer.kvs : answer.kvs.filter((kv) => isNews(entryOf(kv), known));
    if (isFull) {
      found.more ||= kvs.length > 0;
      continue;
    }
    for (const kv of kvs) {
      found.bytes += kv.key.length + kv.value.length;
      found.entries.push(entryOf(kv));
    }
  }
}

/** True for what was written after the revision that is read at. */
function isBehind(written: Revision, atRevision: Revision | undefined): boolean {
  return atRevision !== undefined && compareDecimals(written, atRevision) > 0;
}

function isNews({ key, modRevision }: Entry, known: ReadonlyMap<Key, Revision>): boolean {
  return known.get(key) !== modRevision;
}

function wireOf({ atRevision, minModRevision, keysOnly }: Request) {
  return {
    keys_only: keysOnly,
    ...(atRevision === undefined ? {} : { revision: atRevision }),
    ...(minModRevision === undefined ? {} : { min_mod_revision: minModRevision }),
  };
}

function headerOf<Answer extends { header: Header }>(page: Page<Answer>): Header | null {
  return typeof page === 'string' ? null : page.header;
}

/** What a failed read says about the page; other failures are thrown again. */
function pageOf(thrown: unknown): 'compacted' | 'tooLarge' {
  if (isTooLarge(thrown)) return 'tooLarge';
  if (isOutOfHistory(thrown)) return 'compacted';
  throw thrown;
}

function isAfter(key: Key, after: Key): boolean {
  return Buffer.compare(bytesOf(key), bytesOf(after)) > 0;
}
