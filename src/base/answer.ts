/** Promises of what may be refused in the normal course of things. */

/** A promise, and how it is settled. */
export interface Answer<T> {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * A promise whose rejection nobody has to hear: to be refused is no fault of the process, and must not end it. Whoever awaits it is told
 * all the same.
 */
export function quietAnswer<T>(): Answer<T> {
  let resolve!: (value: T) => void;
  let settle!: (error: unknown) => void;
  const promise = new Promise<T>((resolved, rejected) => {
    resolve = resolved;
    settle = rejected;
  });
  const reject = (error: unknown): void => {
    promise.catch(ignore);
    settle(error);
  };
  return { promise, resolve, reject };
}

/** The same promise; its rejection nobody has to hear. */
export function quiet<T>(promise: Promise<T>): Promise<T> {
  promise.catch(ignore);
  return promise;
}

function ignore(): void {
  // Whoever wants to know has a promise of its own.
}
