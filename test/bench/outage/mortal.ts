/** A process that can die on the spot: its clock stops, and nothing of it reaches the store any more. */
import type { Clock } from '../../../src/base/clock.ts';
import type { Store } from '../../../src/store/port.ts';

const never = <T>(): Promise<T> => new Promise(() => undefined);

/** What a process has of the world. What it has sent may still land after its death. */
export class Mortal {
  readonly clock: Clock;
  readonly store: Store;
  readonly #watches = new Set<{ unsubscribe(): void }>();
  #isDead = false;

  constructor(clock: Clock, store: Store) {
    this.clock = this.#mortalClock(clock);
    this.store = this.#mortalStore(store);
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  die(): void {
    this.#isDead = true;
    for (const watch of this.#watches) watch.unsubscribe();
    this.#watches.clear();
  }

  #mortalClock(clock: Clock): Clock {
    return {
      nowMs: () => clock.nowMs(),
      wallMs: () => clock.wallMs(),
      setTimeout: (callback, delayMs) =>
        clock.setTimeout(() => {
          if (!this.#isDead) callback();
        }, delayMs),
      clearTimeout: (timer) => {
        clock.clearTimeout(timer);
      },
    };
  }

  #mortalStore(store: Store): Store {
    const alive = async <T>(call: () => Promise<T>): Promise<T> => {
      if (this.#isDead) return never();
      const answer = await call();
      return this.#isDead ? never() : answer;
    };
    return {
      name: store.name,
      openSession: (...args) => alive(() => store.openSession(...args)),
      keepAlive: (...args) => alive(() => store.keepAlive(...args)),
      closeSession: (...args) => alive(() => store.closeSession(...args)),
      read: (...args) => alive(() => store.read(...args)),
      transact: (...args) => alive(() => store.transact(...args)),
      watch: (...args) => ({
        subscribe: (observer) => {
          if (this.#isDead) return { unsubscribe: () => undefined };
          const watch = store.watch(...args).subscribe(observer);
          this.#watches.add(watch);
          return {
            unsubscribe: () => {
              this.#watches.delete(watch);
              watch.unsubscribe();
            },
          };
        },
      }),
      close: () => Promise.resolve(),
    };
  }
}
