/**
 * One client of a store whose connection goes wrong on demand: calls are lost, late, refused or land late, watches are cut,
 * denied, slow or repeat themselves, the client is partitioned or frozen. Every fault is one that the port allows, unless its
 * docstring says otherwise.
 *
 * Give each worker of a simulation a client of its own over one shared store. All timers run on `clock`, which is the time
 * of the network, not of the worker. Tests: test/store/faults.test.ts
 */
import { Observable } from 'rxjs';
import type { Clock } from '../base/clock.ts';
import type { Random } from '../base/random.ts';
import { Calls, type LoggedCall, type OpenEntry } from './faults/calls.ts';
import { Link, type PartitionOptions } from './faults/link.ts';
import {
  type CallKind,
  type Matcher,
  matches,
  RuleBook,
  type RuleBuilder,
  type Span,
  type StoreCall,
} from './faults/rules.ts';
import { WatchLine } from './faults/watch-line.ts';
import type { CallOptions, Store, WatchEvent } from './port.ts';

export type { LoggedCall } from './faults/calls.ts';
export type { PartitionOptions } from './faults/link.ts';
export {
  type CallKind,
  looksAt,
  type LossOptions,
  type Matcher,
  type Rule,
  type RuleBuilder,
  type RuleOptions,
  type Span,
  STORE_FAILURES,
  type StoreCall,
  type StoreFailure,
  writesTo,
} from './faults/rules.ts';

/** How a faulty client is made. */
export interface FaultyStoreOptions {
  readonly clock: Clock;
  /** Draws random spans and chances. */
  readonly random: Random;
  /**
   * The client itself ends a call that has no answer after its `timeoutMs`, with the error of a lost call. When absent the
   * caller's own deadline has to.
   */
  readonly enforceTimeouts?: boolean;
  /** What each way of a call takes on which no fault acts; nothing when absent. */
  readonly latency?: Span;
  /** Calls kept in `log`; the oldest go first. 1,000 when absent. */
  readonly logMax?: number;
}

/** A store whose connection goes wrong on demand. */
export interface FaultyStore extends Store {
  /** Starts a rule for the calls, or the events of watches, that match. The first rule that applies acts, alone. */
  when(matcher: Matcher): RuleBuilder;
  /** Ends all rules. */
  clearRules(): void;
  /** Loses what passes until `heal`. Watches that lose events are cut, and resume then without a gap. */
  partition(options?: PartitionOptions): void;
  /** Ends the partition. */
  heal(): void;
  /** Stops all input and output: calls neither leave nor answer, watch events wait. Calls on their way still land. */
  freeze(): void;
  /** Ends the freeze: what has arrived is delivered in order, then what waited is sent. */
  thaw(): void;
  /** Cuts the open watches that match for a while; then they resume without a gap. */
  cutWatches(durationMs: number, matcher?: Matcher): void;
  /** Calls that have no answer yet; one that is lost silently never gets any. */
  readonly inFlight: number;
  /** Watches now open, cut ones included. */
  readonly openWatches: number;
  /** The last calls, oldest first. */
  readonly log: readonly LoggedCall[];
  /** Calls made so far. */
  readonly counts: Readonly<Record<CallKind, number>>;
  /** How often each kind of fault has struck a call or an event so far: by the name of its rule, or `partition`. */
  readonly struck: Readonly<Record<string, number>>;
}

/**
 * A client of `inner` without faults yet.
 *
 * `close()` closes the client only, never `inner`: open calls end with the error of a lost call (a frozen client just
 * forgets them), watches fall silent, late landings no longer land.
 */
export function faultyStore(
  inner: Store & { readonly clusterId?: string },
  options: FaultyStoreOptions,
): FaultyStore {
  return new FaultyClient(inner, options);
}

class FaultyClient implements FaultyStore {
  readonly name: string;
  readonly #inner: Store & { readonly clusterId?: string };
  readonly #options: FaultyStoreOptions;
  readonly #rules: RuleBook;
  readonly #link: Link;
  readonly #calls: Calls;
  readonly #watches = new Set<WatchLine>();
  readonly #log: OpenEntry[] = [];
  readonly #counts: Record<CallKind, number> = {
    openSession: 0,
    keepAlive: 0,
    closeSession: 0,
    read: 0,
    transact: 0,
    watch: 0,
  };
  #sequence = 0;

  constructor(inner: Store, options: FaultyStoreOptions) {
    this.name = inner.name;
    this.#inner = inner;
    this.#options = options;
    this.#rules = new RuleBook(options.random, () => {
      for (const line of this.#watches) line.judge();
    });
    this.#link = new Link(options.clock);
    this.#calls = new Calls(this.#link, this.#rules, {
      enforcesTimeouts: options.enforceTimeouts ?? false,
      latency: options.latency ?? 0,
    });
  }

  openSession: Store['openSession'] = (id, ttlMs, options) =>
    this.#make({ kind: 'openSession', id, ttlMs }, options, () =>
      this.#inner.openSession(id, ttlMs, options),
    );

  keepAlive: Store['keepAlive'] = (id, options) =>
    this.#make({ kind: 'keepAlive', id }, options, () => this.#inner.keepAlive(id, options));

  closeSession: Store['closeSession'] = (id, options) =>
    this.#make({ kind: 'closeSession', id }, options, () => this.#inner.closeSession(id, options));

  read: Store['read'] = (range, read, options) =>
    this.#make({ kind: 'read', range, read }, options, (entriesMax = Infinity) => {
      const limit = Math.min(entriesMax, read.limit ?? Infinity);
      return this.#inner.read(range, limit === Infinity ? read : { ...read, limit }, options);
    });

  transact: Store['transact'] = (batch, options) =>
    this.#make({ kind: 'transact', batch }, options, () => this.#inner.transact(batch, options));

  watch: Store['watch'] = (range, fromRevision) =>
    new Observable<WatchEvent>((subscriber) => {
      const call = { kind: 'watch', range, fromRevision } as const;
      this.#record(call);
      if (this.#link.isClosed) return undefined;
      const line = new WatchLine({
        call,
        subscriber,
        link: this.#link,
        rules: this.#rules,
        nowMs: () => this.#options.clock.nowMs(),
        connect: (from) => this.#inner.watch(range, from),
        clusterId: () => this.#inner.clusterId,
      });
      this.#watches.add(line);
      return () => {
        line.close();
        this.#watches.delete(line);
      };
    });

  async close(): Promise<void> {
    this.#link.close();
    this.#calls.abandon();
    for (const line of this.#watches) line.close();
    this.#watches.clear();
  }

  when(matcher: Matcher): RuleBuilder {
    return this.#rules.when(matcher);
  }

  clearRules(): void {
    this.#rules.clear();
  }

  partition(options: PartitionOptions = {}): void {
    this.#link.partition(options);
    if (this.#link.answerLoss === undefined) return;
    for (const line of this.#watches) line.disconnect();
  }

  heal(): void {
    this.#link.heal();
    for (const line of this.#watches) line.resume();
  }

  freeze(): void {
    this.#link.freeze();
  }

  thaw(): void {
    this.#link.thaw();
  }

  cutWatches(durationMs: number, matcher: Matcher = 'any'): void {
    for (const line of this.#watches) if (matches(matcher, line.call)) line.cut(durationMs);
  }

  get inFlight(): number {
    return this.#calls.inFlight;
  }

  get openWatches(): number {
    return this.#watches.size;
  }

  get log(): readonly LoggedCall[] {
    return this.#log;
  }

  get counts(): Readonly<Record<CallKind, number>> {
    return { ...this.#counts };
  }

  get struck(): Readonly<Record<string, number>> {
    return { ...this.#rules.struck };
  }

  #make<Answer>(
    call: StoreCall,
    { timeoutMs }: CallOptions,
    send: (entriesMax?: number) => Promise<Answer>,
  ): Promise<Answer> {
    return this.#calls.make({ entry: this.#record(call), timeoutMs, send });
  }

  #record(call: StoreCall): OpenEntry {
    this.#sequence += 1;
    this.#counts[call.kind] += 1;
    const entry: OpenEntry = {
      sequence: this.#sequence,
      atMs: this.#options.clock.nowMs(),
      call,
      fault: undefined,
      answer: 'pending',
    };
    this.#log.push(entry);
    if (this.#log.length > (this.#options.logMax ?? 1000)) this.#log.shift();
    return entry;
  }
}
