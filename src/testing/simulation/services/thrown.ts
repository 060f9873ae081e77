/** What handlers throw: by accident or not, anything can be thrown. */

function withMessage(message: unknown): Error {
  return Object.assign(new Error('a message of another type'), { message });
}

/** By name, so that a scenario can say which. */
const THROWN = {
  error: () => new Error('the handler threw'),
  text: () => 'the handler threw a text',
  nothing: () => undefined,
  null: () => null,
  number: () => 42,
  symbol: () => Symbol('thrown'),
  plain: () => ({ reason: 'an object' }),
  listAsMessage: () => withMessage(['a list', { of: 'problems' }]),
  objectAsMessage: () => withMessage({ code: 7 }),
  numberAsMessage: () => withMessage(Number.NaN),
  throwingMessage: () =>
    Object.defineProperty(new Error('hidden'), 'message', {
      get: () => {
        throw new Error('the message cannot be read');
      },
    }),
  throwingText: () => ({
    toString: () => {
      throw new Error('it has no text');
    },
  }),
  noPrototype: () => Object.assign(Object.create(null) as object, { reason: 'bare' }),
  revoked: () => {
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    return proxy;
  },
  torn: () => new Error('half a character: \ud800, and \u0000 in the middle'),
  huge: () => new Error('x'.repeat(100_000)),
  circular: () => {
    const error = new Error('it is its own cause');
    error.cause = error;
    return error;
  },
  several: () => new AggregateError([new Error('one'), withMessage(2)], 'several at once'),
} as const satisfies Readonly<Record<string, () => unknown>>;

/** Which of them. */
export type Thrown = keyof typeof THROWN;

export const THROWN_NAMES = Object.keys(THROWN) as readonly Thrown[];

/** A new one. */
export function thrown(which: Thrown): unknown {
  return THROWN[which]();
}

/** Something to say of whatever was thrown, for who must say something. */
export function textOf(error: unknown): string {
  try {
    const { message } = error as Error;
    return typeof message === 'string' ? message : `a ${typeof error}`;
  } catch {
    return 'something that cannot be read';
  }
}
