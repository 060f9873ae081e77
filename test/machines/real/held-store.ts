/**
 * A client of a store whose calls wait until the test says what becomes of them: the scripted outside world. Time does not
 * decide here; what is held stays held.
 */
import { type ErrorCode, LeaseholdError } from '../../../src/base/errors.ts';
import type { StoreCall } from '../../../src/store/faults.ts';
import type { Range, Store } from '../../../src/store/port.ts';

/** A call that waits. */
interface Waiting {
  readonly call: StoreCall;
  pass(): Promise<void>;
  /** It never reaches the store. */
  lose(error: LeaseholdError): void;
}

/** A kind of call that may be held. */
export class Gate {
  readonly #picks: (call: StoreCall) => boolean;
  readonly #waiting: Waiting[] = [];
  isShut = false;

  constructor(picks: (call: StoreCall) => boolean) {
    this.#picks = picks;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  holds(call: StoreCall): boolean {
    return this.isShut && this.#picks(call);
  }

  add(waiting: Waiting): void {
    this.#waiting.push(waiting);
  }

  /** Calls of this kind wait from now on. */
  shut(): void {
    this.isShut = true;
  }

  /** What waits goes on its way, in order; what comes later goes at once. */
  open(): void {
    this.isShut = false;
    this.pass();
  }

  /** What waits goes on its way; what comes later waits. */
  pass(): void {
    for (const waiting of this.#waiting.splice(0)) void waiting.pass();
  }

  /** The first that waits goes on its way. */
  passFirst(): void {
    void this.#waiting.shift()?.pass();
  }

  /** What waits is lost, and its caller told so. */
  lose(code: ErrorCode): void {
    for (const waiting of this.#waiting.splice(0)) {
      waiting.lose(new LeaseholdError(code, 'lost on its way'));
    }
  }
}

export class HeldStore implements Store {
  readonly name: string;
  readonly #inner: Store;
  readonly #gates: Gate[] = [];
  readonly #watches = new Set<{ readonly range: Range }>();

  constructor(inner: Store) {
    this.#inner = inner;
    this.name = inner.name;
  }

  /** A gate for the calls that `picks` says true of; open at first. */
  gate(picks: (call: StoreCall) => boolean): Gate {
    const gate = new Gate(picks);
    this.#gates.push(gate);
    return gate;
  }

  openSession: Store['openSession'] = (id, ttlMs, options) =>
    this.#make({ kind: 'openSession', id, ttlMs }, () =>
      this.#inner.openSession(id, ttlMs, options),
    );

  keepAlive: Store['keepAlive'] = (id, options) =>
    this.#make({ kind: 'keepAlive', id }, () => this.#inner.keepAlive(id, options));

  closeSession: Store['closeSession'] = (id, options) =>
    this.#make({ kind: 'closeSession', id }, () => this.#inner.closeSession(id, options));

  read: Store['read'] = (range, read, options) =>
    this.#make({ kind: 'read', range, read }, () => this.#inner.read(range, read, options));

  transact: Store['transact'] = (batch, options) =>
    this.#make({ kind: 'transact', batch }, () => this.#inner.transact(batch, options));

  watch: Store['watch'] = (range, fromRevision) => {
    const stream = this.#inner.watch(range, fromRevision);
    return {
      subscribe: (observer) => {
        const watch = { range };
        this.#watches.add(watch);
        const subscription = stream.subscribe(observer);
        return {
          unsubscribe: () => {
            this.#watches.delete(watch);
            subscription.unsubscribe();
          },
        };
      },
    };
  };

  /** How many watches of ranges that `picks` says true of are open. */
  watchesOf(picks: (range: Range) => boolean): number {
    return [...this.#watches].filter(({ range }) => picks(range)).length;
  }

  close(): Promise<void> {
    return this.#inner.close();
  }

  #make<Answer>(call: StoreCall, send: () => Promise<Answer>): Promise<Answer> {
    const gate = this.#gates.find((one) => one.holds(call));
    if (gate === undefined) return send();
    return new Promise((resolve, reject) => {
      gate.add({ call, pass: () => send().then(resolve, reject), lose: reject });
    });
  }
}
