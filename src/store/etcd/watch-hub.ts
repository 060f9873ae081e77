/**
 * All watches of a store, on one raw stream.
 *
 * One stream means one pulse, one reconnection and one token for all of them; a worker has less than ten watches, and each
 * takes its events in at once, so that none holds up another. A watch of several keys asks etcd for everything between the
 * first and the last one, because only one etcd watch tells a revision in one piece, and leaves out what was not asked for.
 *
 * A watch resumes after the last revision that was delivered to it, whatever etcd says about its own position: taking that
 * for the watch's loses events when a reconnection is interrupted.
 */
import type { IWatchResponse } from 'etcd3';
import { Observable } from 'rxjs';
import type { Clock, Timer } from '../../base/clock.ts';
import {
  ABSENT,
  compareDecimals,
  nextRevision,
  type Revision,
  revisionOf,
} from '../../base/decimals.ts';
import { invariant, type LeaseholdError } from '../../base/errors.ts';
import type { Random } from '../../base/random.ts';
import type { Range, WatchEvent, WatchStream } from '../port.ts';
import type { Cluster, Mark } from './cluster.ts';
import type { CallHeaders, Connection, Connections } from './connections.ts';
import { denied } from './failures.ts';
import type { Reader } from './reader.ts';
import { Watch } from './watch.ts';
import { WatchLine } from './watch-line.ts';

export interface WatchPorts {
  readonly connections: Connections;
  readonly cluster: Cluster;
  readonly reader: Reader;
  readonly clock: Clock;
  readonly random: Random;
  /** The headers of a new stream. */
  readonly prepare: (connection: Connection) => Promise<CallHeaders>;
}

const RETRY_MS_MIN = 50;
const RETRY_MS_MAX = 1_000;
/** What etcd refuses, for want of permission or of a user, is tried again ever more seldom: a log-in costs it some work. */
const REFUSED_MS_MIN = 500;
const REFUSED_MS_MAX = 10_000;
/** etcd refuses a watch whose line has a token that has run out. */
const TOKEN = /auth token|Unauthenticated/;
const VERIFY_MS_MAX = 2_000;

const NO_WATCH = '-1';
const NOT_COMPACTED = '0';

export class WatchHub {
  readonly #ports: WatchPorts;
  readonly #watches = new Set<Watch>();
  /** Watches by their id on the present line. */
  readonly #byId = new Map<string, Watch>();
  /** Ids asked for on the present line and not answered, in the order of asking. */
  #asked: string[] = [];
  #line: WatchLine | undefined;
  #mark: Mark;
  #retry: Timer | undefined;
  #failures = 0;
  #lastId = 0;
  /** All watches are refused for good. */
  #refusal: LeaseholdError | undefined;
  #isClosed = false;

  constructor(ports: WatchPorts) {
    this.#ports = ports;
    this.#mark = ports.cluster.mark();
  }

  watch(range: Range, fromRevision: Revision): WatchStream {
    invariant(
      compareDecimals(fromRevision, ABSENT) > 0,
      `revision ${fromRevision}: revisions of a store start at 1`,
    );
    return new Observable<WatchEvent>((subscriber) => {
      if (this.#isClosed) return undefined;
      const watch = new Watch(range, fromRevision, subscriber);
      this.#watches.add(watch);
      if (this.#refusal !== undefined) this.#refuse(watch, this.#refusal);
      else if (this.#line !== undefined) this.#create(watch);
      else if (this.#retry === undefined) this.#open();
      return () => {
        this.#remove(watch);
      };
    });
  }

  /** The store is another one: all watches end (R8). */
  reset(): void {
    this.#closeLine();
    this.#clearRetry();
    const watches = [...this.#watches];
    this.#watches.clear();
    for (const watch of watches) watch.end({ kind: 'reset' });
  }

  /** No watch is of use any more, now or later. */
  refuse(error: LeaseholdError): void {
    this.#refusal = error;
    this.#closeLine();
    this.#clearRetry();
    for (const watch of this.#watches) this.#refuse(watch, error);
  }

  close(): void {
    this.#isClosed = true;
    this.#watches.clear();
    this.#closeLine();
    this.#clearRetry();
  }

  #open(): void {
    const { connections, cluster, clock, prepare } = this.#ports;
    this.#mark = cluster.mark();
    const line: WatchLine = new WatchLine({
      connection: connections.current(),
      clock,
      prepare,
      onMessage: (response) => {
        if (line === this.#line) this.#onMessage(response);
      },
      onLost: (denial) => {
        if (line === this.#line) this.#onLost(line, denial);
      },
    });
    this.#line = line;
    for (const watch of this.#watches) this.#create(watch);
  }

  /** Never within the call that opens a watch, nor within that of another caller. */
  #refuse(watch: Watch, error: LeaseholdError): void {
    queueMicrotask(() => {
      if (this.#watches.has(watch)) watch.refuse(error);
    });
  }

  #onLost(line: WatchLine, denial?: LeaseholdError): void {
    this.#ports.connections.suspect(line.connection);
    this.#closeLine();
    this.#failures += 1;
    const [pauseMs, pauseMsMax] =
      denial === undefined ? [RETRY_MS_MIN, RETRY_MS_MAX] : [REFUSED_MS_MIN, REFUSED_MS_MAX];
    this.#after(rising(pauseMs, pauseMsMax, this.#failures), () => {
      this.#open();
    });
    if (denial !== undefined) for (const watch of this.#watches) this.#refuse(watch, denial);
  }

  /** Runs `next` after a pause, in place of what was to be run. */
  #after(pauseMs: number, next: () => void): void {
    this.#clearRetry();
    if (this.#watches.size === 0) return;
    const jitter = 0.5 + this.#ports.random.next() / 2;
    this.#retry = this.#ports.clock.setTimeout(() => {
      this.#retry = undefined;
      next();
    }, pauseMs * jitter);
  }

  #create(watch: Watch, withMargin = this.#isPast(watch.next)): void {
    // Ids are never used again on a line: an answer to the watch before would be taken for this one's.
    this.#lastId += 1;
    const id = String(this.#lastId);
    watch.id = id;
    watch.hasMargin = withMargin;
    this.#byId.set(id, watch);
    this.#asked.push(id);
    this.#line?.create(id, watch.span, withMargin ? before(watch.next) : watch.next);
  }

  /** True when something may have happened at `revision` already. */
  #isPast(revision: Revision): boolean {
    return compareDecimals(revision, this.#ports.cluster.revision) <= 0;
  }

  #cancel(watch: Watch): void {
    if (watch.id === undefined) return;
    this.#byId.delete(watch.id);
    this.#line?.cancel(watch.id);
    watch.unplug();
  }

  #remove(watch: Watch): void {
    if (!this.#watches.delete(watch)) return;
    this.#cancel(watch);
    if (this.#watches.size > 0) return;
    this.#closeLine();
    this.#clearRetry();
  }

  #onMessage(response: IWatchResponse): void {
    const { header } = response;
    const { endpoint } = this.#line!.connection;
    // A member that lags behind is no reset: see #onCreated.
    const isSame = this.#ports.cluster.check({
      header,
      endpoint,
      mark: this.#mark,
      isLinearizable: false,
    });
    if (isSame !== true) {
      if (isSame !== false) this.#await(isSame);
      return;
    }
    if (response.created) {
      this.#onCreated(response);
      return;
    }
    const watch = this.#byId.get(response.watch_id);
    // A pulse, or the rest of a watch that was ended.
    if (response.watch_id === NO_WATCH || watch === undefined) return;
    if (response.canceled) {
      this.#onCanceled(watch, response);
      return;
    }
    watch.receive(response.events, response.fragment);
  }

  /** Another cluster answers: nothing is to be heard of it until it is known whether that is a reset. */
  #await(verdict: Promise<boolean>): void {
    this.#closeLine();
    const goOn = (): void => {
      const isIdle = this.#line === undefined && this.#retry === undefined;
      if (isIdle && this.#watches.size > 0 && this.#refusal === undefined) this.#open();
    };
    verdict.then(goOn, goOn);
  }

  /** etcd answers creations in order; it does not repeat the id of one that it refuses. */
  #onCreated({ canceled, header, cancel_reason: reason }: IWatchResponse): void {
    const id = this.#asked.shift();
    const watch = id === undefined ? undefined : this.#byId.get(id);
    if (id === undefined || watch === undefined) return;
    if (canceled) {
      this.#byId.delete(id);
      watch.unplug();
      this.#onRefused(watch, reason);
      return;
    }
    this.#failures = 0;
    watch.accept();
    // Whoever was told may have ended it.
    if (watch.id !== id) return;
    const revision = revisionOf(header.revision);
    if (compareDecimals(nextRevision(revision), watch.next) < 0) {
      void this.#verify(watch, id);
    } else if (!watch.hasMargin && compareDecimals(revision, watch.next) >= 0) {
      // Of a delete at the very revision that was compacted etcd 3.4 keeps nothing, and says nothing.
      this.#cancel(watch);
      this.#create(watch, true);
    }
  }

  #onCanceled(watch: Watch, response: IWatchResponse): void {
    const { compact_revision: compacted, cancel_reason: reason } = response;
    if (watch.id !== undefined) this.#byId.delete(watch.id);
    watch.unplug();
    if (compacted === NOT_COMPACTED) {
      this.#onRefused(watch, reason);
      return;
    }
    watch.end({ kind: 'compacted', revision: revisionOf(compacted) });
  }

  /**
   * No right to watch, or no longer. It is asked for again; on a new line where a token may have run out, because a line
   * keeps the token that it was opened with. Only what is refused in spite of a good token is told.
   */
  #onRefused(watch: Watch, reason: string): void {
    const line = this.#line!;
    // Some versions of etcd do not say that it is the token.
    const isToken = this.#ports.connections.usesTokens && (TOKEN.test(reason) || !line.isYoung);
    watch.refusals += 1;
    const pauseMs =
      isToken && watch.refusals === 1
        ? RETRY_MS_MIN
        : rising(REFUSED_MS_MIN, REFUSED_MS_MAX, watch.refusals);
    if (this.#retry === undefined) {
      this.#after(pauseMs, () => {
        if (isToken) {
          this.#closeLine();
          this.#open();
          return;
        }
        for (const parked of this.#watches) if (parked.id === undefined) this.#create(parked);
      });
    }
    if (!isToken) watch.refuse(denied(reason, line.connection.endpoint));
  }

  /**
   * A watch starts beyond what this member knows. Either the member lags behind, and will tell everything in time, or the
   * store never was that far: then it would stay silent for ever.
   */
  async #verify(watch: Watch, id: string): Promise<void> {
    const line = this.#line;
    try {
      const newest = await this.#ports.reader.newest(watch.range, { timeoutMs: VERIFY_MS_MAX });
      const isCurrent = watch.isOpen && watch.id === id;
      if (isCurrent && compareDecimals(nextRevision(newest), watch.next) < 0) {
        watch.end({ kind: 'reset' });
      }
    } catch {
      if (line !== undefined && line === this.#line && watch.id === id) this.#onLost(line);
    }
  }

  #closeLine(): void {
    this.#line?.close();
    this.#line = undefined;
    this.#byId.clear();
    this.#asked = [];
    for (const watch of this.#watches) watch.unplug();
  }

  #clearRetry(): void {
    if (this.#retry !== undefined) this.#ports.clock.clearTimeout(this.#retry);
    this.#retry = undefined;
  }
}

function before(revision: Revision): Revision {
  return revisionOf(BigInt(revision) - 1n);
}

/** A pause that doubles with each time in a row. */
function rising(msMin: number, msMax: number, times: number): number {
  return Math.min(msMin * 2 ** Math.min(10, times - 1), msMax);
}
