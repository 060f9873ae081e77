/** Which calls and watches of a faulty client go wrong, and how. */
import type { Revision } from '../../base/decimals.ts';
import { type ErrorCode, invariant, type LeaseholdError } from '../../base/errors.ts';
import type { SessionId } from '../../base/ids.ts';
import type { Random } from '../../base/random.ts';
import type { Batch, Key, Range, ReadOptions } from '../port.ts';

/** One call of a client, as matchers and the log see it. */
export type StoreCall =
  | { readonly kind: 'openSession'; readonly id: SessionId; readonly ttlMs: number }
  | { readonly kind: 'keepAlive'; readonly id: SessionId }
  | { readonly kind: 'closeSession'; readonly id: SessionId }
  | { readonly kind: 'read'; readonly range: Range; readonly read: ReadOptions }
  | { readonly kind: 'transact'; readonly batch: Batch }
  | { readonly kind: 'watch'; readonly range: Range; readonly fromRevision: Revision };

/** The calls of a store. */
export type CallKind = StoreCall['kind'];

/** Which calls a rule is for: one kind, all of them, or those that a predicate picks. */
export type Matcher = CallKind | 'any' | ((call: StoreCall) => boolean);

/** Matches batches that write a key, whether their compares will hold or not. */
export function writesTo(matches: (key: Key) => boolean): Matcher {
  return (call) =>
    call.kind === 'transact' &&
    call.batch.txns.some(({ writes }) =>
      writes.some((write) => matches('put' in write ? write.put : write.delete)),
    );
}

/** Matches reads and watches of a range that names a key, or of a prefix, for which `matches` says true. */
export function looksAt(matches: (keyOrPrefix: string) => boolean): Matcher {
  return (call) => {
    if (call.kind !== 'read' && call.kind !== 'watch') return false;
    return 'prefix' in call.range ? matches(call.range.prefix) : call.range.keys.some(matches);
  };
}

/** A duration in milliseconds, or the least and the most of a random one. */
export type Span = number | readonly [msMin: number, msMax: number];

/** How often a rule acts. */
export interface RuleOptions {
  /** It acts on the first so many calls that match; on all when absent. */
  readonly times?: number;
  /** It acts on a matching call with this probability, 0..1; 1 when absent. */
  readonly chance?: number;
}

/** What the caller hears of a call that is lost. */
export interface LossOptions {
  /** Nothing, ever: the deadline of the caller has to handle it. */
  readonly silent?: boolean;
  /** The error, but only once the call's own `timeoutMs` has passed. At once when absent. */
  readonly atTimeout?: boolean;
}

/**
 * An error that a store may give: its code, and for an unknown outcome whether the write is carried out all the same. A read
 * has no outcome, and is unreachable then.
 */
export type StoreFailure = (typeof STORE_FAILURES)[number];

/** Every way in which a call may fail; not every one fits every call. */
export const STORE_FAILURES = [
  'E_STORE_UNREACHABLE',
  'E_OUTCOME_UNKNOWN',
  'E_OUTCOME_UNKNOWN, landed',
  'E_STORE_FULL',
  'E_LEASE_EXPIRED',
  'E_STORE_DENIED',
  'E_STORE_UNSUPPORTED',
  'E_CLUSTERS_MIXED',
] as const satisfies readonly (ErrorCode | `${ErrorCode}, landed`)[];

/** A rule that is in force. */
export interface Rule {
  /** How often it has acted. */
  readonly hits: number;
  /** Ends it; calls it has acted on stay as they are. */
  remove(): void;
}

/** What to do with the calls that match. A lost write answers `E_OUTCOME_UNKNOWN`, a lost read `E_STORE_UNREACHABLE`. */
export interface RuleBuilder {
  /** The call reaches the store later. */
  delay(span: Span, options?: RuleOptions): Rule;
  /** The call is applied at once, and its answer arrives later. */
  delayAnswer(span: Span, options?: RuleOptions): Rule;
  /** The call never reaches the store. */
  loseBefore(options?: RuleOptions & LossOptions): Rule;
  /** The call is applied, and its answer is lost. */
  loseAfter(options?: RuleOptions & LossOptions): Rule;
  /** The caller is told that the call was lost, and then the store applies it. */
  lateLanding(span: Span, options?: RuleOptions & LossOptions): Rule;
  /** The call reaches the store twice, the second time later; the caller gets the first answer. */
  duplicate(span: Span, options?: RuleOptions): Rule;
  /** The call certainly does nothing, and the caller gets this error. */
  refuse(error: ErrorCode | LeaseholdError, options?: RuleOptions): Rule;
  /** The call fails like this, at once. */
  fail(failure: StoreFailure, options?: RuleOptions): Rule;
  /**
   * The store does not know this client, or does not let it: calls certainly do nothing and answer `E_STORE_DENIED`; watches,
   * also those that are open, are `refused` until the rule ends, and go on without a gap then. `times` and `chance` are for
   * calls alone.
   */
  deny(options?: RuleOptions): Rule;
  /** Reads return at most this many entries a page, and say that more follow. */
  shortenPages(entriesMax: number, options?: RuleOptions): Rule;
  /** Events of watches arrive later, in order. */
  delayEvents(span: Span, options?: RuleOptions): Rule;
  /** Events of watches arrive once more, this much later. The port rules that out; R9 survives it. */
  duplicateEvents(span: Span, options?: RuleOptions): Rule;
}

/** What a rule does to a call. */
export type CallFault =
  | { readonly kind: 'delay' | 'delayAnswer' | 'duplicate'; readonly span: Span }
  | { readonly kind: 'loseBefore' | 'loseAfter'; readonly loss: LossOptions }
  | { readonly kind: 'lateLanding'; readonly span: Span; readonly loss: LossOptions }
  | { readonly kind: 'refuse'; readonly error: ErrorCode | LeaseholdError }
  | { readonly kind: 'deny' }
  | { readonly kind: 'shortenPages'; readonly entriesMax: number };

/** What a rule does to an event of a watch. */
export interface EventFault {
  readonly kind: 'delayEvents' | 'duplicateEvents';
  readonly span: Span;
}

interface ActiveRule<Fault> {
  readonly matches: (call: StoreCall) => boolean;
  readonly fault: Fault;
  readonly chance: number;
  times: number;
  hits: number;
}

/** The rules of one client. The first rule that matches and has its turn acts, alone. */
export class RuleBook {
  readonly #random: Random;
  readonly #callRules = new Set<ActiveRule<CallFault>>();
  readonly #eventRules = new Set<ActiveRule<EventFault>>();
  readonly #onDenials: () => void;
  /** How often each kind of fault has struck. */
  readonly struck: Record<string, number> = {};

  /** @param onDenials  Called when a rule that denies has begun or ended. */
  constructor(random: Random, onDenials: () => void) {
    this.#random = random;
    this.#onDenials = onDenials;
  }

  /** Starts a rule. */
  when(matcher: Matcher): RuleBuilder {
    const onCall = (fault: CallFault, options: RuleOptions = {}): Rule => {
      invariant(
        matcher !== 'watch',
        `${fault.kind} is for calls; a watch has rules for its events`,
      );
      return add(this.#callRules, matcher, fault, options);
    };
    const fail = (failure: StoreFailure, options?: RuleOptions): Rule => {
      if (failure === 'E_OUTCOME_UNKNOWN') return onCall({ kind: 'loseBefore', loss: {} }, options);
      if (failure === 'E_OUTCOME_UNKNOWN, landed') {
        return onCall({ kind: 'loseAfter', loss: {} }, options);
      }
      return onCall({ kind: 'refuse', error: failure }, options);
    };
    const onEvent = (fault: EventFault, options: RuleOptions = {}): Rule =>
      add(this.#eventRules, matcher, fault, options);
    return {
      delay: (span, options) => onCall({ kind: 'delay', span }, options),
      delayAnswer: (span, options) => onCall({ kind: 'delayAnswer', span }, options),
      loseBefore: (options = {}) => onCall({ kind: 'loseBefore', loss: options }, options),
      loseAfter: (options = {}) => onCall({ kind: 'loseAfter', loss: options }, options),
      lateLanding: (span, options = {}) =>
        onCall({ kind: 'lateLanding', span, loss: options }, options),
      duplicate: (span, options) => onCall({ kind: 'duplicate', span }, options),
      refuse: (error, options) => onCall({ kind: 'refuse', error }, options),
      fail,
      deny: (options) => this.#deny(matcher, options),
      shortenPages: (entriesMax, options) => onCall({ kind: 'shortenPages', entriesMax }, options),
      delayEvents: (span, options) => onEvent({ kind: 'delayEvents', span }, options),
      duplicateEvents: (span, options) => onEvent({ kind: 'duplicateEvents', span }, options),
    };
  }

  /** Ends all rules. */
  clear(): void {
    this.#callRules.clear();
    this.#eventRules.clear();
    this.#onDenials();
  }

  /** Counts a fault that struck. */
  count(kind: string): void {
    this.struck[kind] = (this.struck[kind] ?? 0) + 1;
  }

  /** What happens to a call; undefined when nothing does. */
  forCall(call: StoreCall): CallFault | undefined {
    return this.#pick(this.#callRules, call);
  }

  /** What happens to the next event of a watch; undefined when nothing does. */
  forEvent(watch: StoreCall): EventFault | undefined {
    return this.#pick(this.#eventRules, watch);
  }

  /** True while a rule denies a watch. */
  denies(watch: StoreCall): boolean {
    return [...this.#callRules].some(
      ({ fault, matches }) => fault.kind === 'deny' && matches(watch),
    );
  }

  /** A duration within a span. */
  draw(span: Span): number {
    if (typeof span === 'number') return span;
    const [msMin, msMax] = span;
    return msMin + this.#random.next() * (msMax - msMin);
  }

  #deny(matcher: Matcher, options: RuleOptions = {}): Rule {
    const rule = add<CallFault>(this.#callRules, matcher, { kind: 'deny' }, options);
    this.#onDenials();
    return {
      get hits() {
        return rule.hits;
      },
      remove: () => {
        rule.remove();
        this.#onDenials();
      },
    };
  }

  #pick<Fault extends { readonly kind: string }>(
    rules: Set<ActiveRule<Fault>>,
    call: StoreCall,
  ): Fault | undefined {
    for (const rule of rules) {
      if (!rule.matches(call)) continue;
      if (rule.chance < 1 && this.#random.next() >= rule.chance) continue;
      rule.hits += 1;
      this.count(rule.fault.kind);
      if (rule.hits === rule.times) {
        rules.delete(rule);
        // Not within the call that used it up.
        if (rule.fault.kind === 'deny') queueMicrotask(() => this.#onDenials());
      }
      return rule.fault;
    }
    return undefined;
  }
}

/** True when `matcher` picks `call`. */
export function matches(matcher: Matcher, call: StoreCall): boolean {
  return typeof matcher === 'function' ? matcher(call) : matcher === 'any' || matcher === call.kind;
}

function add<Fault>(
  rules: Set<ActiveRule<Fault>>,
  matcher: Matcher,
  fault: Fault,
  { times = Infinity, chance = 1 }: RuleOptions,
): Rule {
  invariant(times >= 1, 'a rule acts at least once');
  const rule = {
    matches: (call: StoreCall) => matches(matcher, call),
    fault,
    chance,
    times,
    hits: 0,
  };
  rules.add(rule);
  return {
    get hits() {
      return rule.hits;
    },
    remove: () => void rules.delete(rule),
  };
}
