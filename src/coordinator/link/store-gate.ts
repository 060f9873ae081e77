/**
 * The only door to the store: every call is bounded in time, none is made after the worker has stopped, and whatever is
 * still unanswered then is given up (R17).
 *
 * A write that is not answered in time has an unknown outcome; a read that is not answered was in vain. An answer that
 * comes later is ignored: the same write will be sent again, and its answer decides (R1).
 */
import type { Clock, Timer } from '../../base/clock.ts';
import type { Revision } from '../../base/decimals.ts';
import { LeaseholdError } from '../../base/errors.ts';
import type { SessionId } from '../../base/ids.ts';
import type {
  Batch,
  BatchOutcome,
  Entry,
  Range,
  ReadOptions,
  ReadOutcome,
  SessionGrant,
  Store,
  WatchStream,
} from '../../store/port.ts';

import { readAll, type Snapshot } from '../../store/read-all.ts';

type CallKind = 'read' | 'write';

/** A call that nobody has answered. */
interface Wait {
  readonly reject: (error: LeaseholdError) => void;
  timer: Timer | undefined;
}

export class StoreGate {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #opTimeoutMs: number;
  readonly #waits = new Set<Wait>();
  #isClosed = false;

  constructor(store: Store, clock: Clock, opTimeoutMs: number) {
    this.#store = store;
    this.#clock = clock;
    this.#opTimeoutMs = opTimeoutMs;
  }

  /** Calls that nobody has answered. */
  get inFlight(): number {
    return this.#waits.size;
  }

  transact(batch: Batch): Promise<BatchOutcome> {
    return this.#bounded('write', 'transact', this.#opTimeoutMs, (options) =>
      this.#store.transact(batch, options),
    );
  }

  read(range: Range, read: ReadOptions = {}): Promise<ReadOutcome> {
    return this.#bounded('read', 'read', this.#opTimeoutMs, (options) =>
      this.#store.read(range, read, options),
    );
  }

  /** Reads a whole range at one revision, page by page; each page is bounded on its own. */
  readAll(
    range: Range,
    options: { pageEntriesMax?: number; keysOnly?: boolean } = {},
  ): Promise<Snapshot> {
    const reader = { read: (of: Range, read: ReadOptions) => this.read(of, read) };
    return readAll(reader, range, { ...options, timeoutMs: this.#opTimeoutMs });
  }

  /** Reads some keys by name, at one revision. */
  async readKeys(
    keys: readonly string[],
  ): Promise<{ entries: Map<string, Entry>; revision: Revision }> {
    const page = await this.read({ keys });
    const entries = page.kind === 'page' ? page.entries : [];
    return {
      entries: new Map(entries.map((entry) => [entry.key, entry])),
      revision: page.revision,
    };
  }

  openSession(id: SessionId, ttlMs: number): Promise<SessionGrant> {
    return this.#bounded('write', 'openSession', this.#opTimeoutMs, (options) =>
      this.#store.openSession(id, ttlMs, options),
    );
  }

  keepAlive(id: SessionId, timeoutMs: number): Promise<SessionGrant> {
    return this.#bounded('write', 'keepAlive', Math.min(timeoutMs, this.#opTimeoutMs), (options) =>
      this.#store.keepAlive(id, options),
    );
  }

  closeSession(id: SessionId): Promise<void> {
    return this.#bounded('write', 'closeSession', this.#opTimeoutMs, (options) =>
      this.#store.closeSession(id, options),
    );
  }

  watch(range: Range, fromRevision: Revision): WatchStream {
    return this.#store.watch(range, fromRevision);
  }

  /** Gives up every unanswered call and refuses new ones. */
  close(): void {
    this.#isClosed = true;
    for (const wait of [...this.#waits]) if (this.#end(wait)) wait.reject(stopped());
  }

  #bounded<T>(
    kind: CallKind,
    name: string,
    timeoutMs: number,
    call: (options: { timeoutMs: number }) => Promise<T>,
  ): Promise<T> {
    if (this.#isClosed) return Promise.reject(stopped());
    return new Promise<T>((resolve, reject) => {
      const wait: Wait = { reject, timer: undefined };
      wait.timer = this.#clock.setTimeout(() => {
        if (this.#end(wait)) reject(unanswered(kind, name, timeoutMs));
      }, timeoutMs);
      this.#waits.add(wait);
      call({ timeoutMs }).then(
        (value) => {
          if (this.#end(wait)) resolve(value);
        },
        (error: unknown) => {
          if (this.#end(wait)) reject(error);
        },
      );
    });
  }

  /** Ends a wait; false when it had ended: what comes then is ignored. */
  #end(wait: Wait): boolean {
    if (!this.#waits.delete(wait)) return false;
    if (wait.timer !== undefined) this.#clock.clearTimeout(wait.timer);
    return true;
  }
}

function stopped(): LeaseholdError {
  return new LeaseholdError('E_STOPPED', 'the worker has stopped; the store is asked nothing more');
}

function unanswered(kind: CallKind, name: string, timeoutMs: number): LeaseholdError {
  return kind === 'write'
    ? new LeaseholdError('E_OUTCOME_UNKNOWN', `${name} was not answered within ${timeoutMs} ms`)
    : new LeaseholdError('E_STORE_UNREACHABLE', `${name} was not answered within ${timeoutMs} ms`);
}
