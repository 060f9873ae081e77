/**
 * What a handler throws to say more than that it failed. The errors carry a mark that every copy of this package knows, so
 * that a library may throw what another copy made.
 */
import type { FailOptions } from '../coordinator/api/api.ts';

const WISH = Symbol.for('leasehold.retry');

/**
 * An error for a handler to throw when its split cannot be worked on yet: it rests for `afterMs`, and nothing is held
 * against it.
 */
export function retryLater(
  reason: string,
  options: { readonly afterMs: number; readonly cause?: unknown },
): Error {
  return marked(reason, options.cause, { afterMs: options.afterMs });
}

/** An error for a handler to throw when its split can never be worked on: it is set aside at once, with this reason. */
export function neverRetry(reason: string, options: { readonly cause?: unknown } = {}): Error {
  return marked(reason, options.cause, { never: true });
}

/** What a thrown value says about trying again; nothing when it was made by neither. */
export function retryWishOf(thrown: unknown): FailOptions {
  try {
    if (typeof thrown !== 'object' || thrown === null || !(WISH in thrown)) return {};
    const { afterMs, never } = (thrown as { [WISH]: FailOptions })[WISH];
    if (never === true) return { never };
    return Number.isFinite(afterMs) ? { afterMs } : {};
  } catch {
    // Whatever is thrown is a failure, and no more than that.
    return {};
  }
}

function marked(reason: string, cause: unknown, wish: FailOptions): Error {
  const error = new Error(reason, cause === undefined ? {} : { cause });
  return Object.defineProperty(error, WISH, { value: Object.freeze(wish) });
}
