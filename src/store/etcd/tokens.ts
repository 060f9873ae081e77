/**
 * The token that calls carry where etcd has users: one for all connections, because etcd knows it on all members, and
 * because a log-in costs a member a tenth of a second of work. It is fetched when it is first needed, and again when etcd
 * refuses it. etcd3 could do so too, but would send a refused call again without end.
 */
import type { Etcd3 } from 'etcd3';
import type { Clock } from '../../base/clock.ts';
import { LeaseholdError, messageOf } from '../../base/errors.ts';
import { isRevisionOld } from './failures.ts';
import { isTokenRefused, taming, withHeaders } from './interceptor.ts';
import type { EtcdAuthOptions } from './options.ts';

/** A log-in at a busy member may take its time; the calls that wait for it have times of their own. */
const LOG_IN_MS_MAX = 10_000;

/** A connection to log in on. */
interface Connection {
  readonly client: Pick<Etcd3, 'auth'>;
}

export class Tokens {
  readonly #auth: EtcdAuthOptions;
  readonly #clock: Clock;
  #token: string | undefined;
  /** Log-ins on their way: a hung member holds up only those who wait at its own connection. */
  readonly #logIns = new Map<Connection, Promise<string>>();

  constructor(auth: EtcdAuthOptions, clock: Clock) {
    this.#auth = auth;
    this.#clock = clock;
  }

  /** @throws `E_STORE_DENIED` when there is no password; whatever etcd says to it. */
  async get(connection: Connection): Promise<string> {
    if (this.#token !== undefined) return this.#token;
    let logIn = this.#logIns.get(connection);
    if (logIn === undefined) {
      logIn = this.#logIn(connection).finally(() => this.#logIns.delete(connection));
      this.#logIns.set(connection, logIn);
    }
    return logIn;
  }

  /** Sends with a token; once more with a new one if etcd refuses the first, which it does before anything else. */
  async send<Answer>(
    connection: Connection,
    send: (token: string) => Promise<Answer>,
  ): Promise<Answer> {
    const token = await this.get(connection);
    try {
      return await send(token);
    } catch (thrown) {
      if (isOutdated(thrown)) this.#drop(token);
      if (!isTokenRefused(thrown)) throw thrown;
    }
    return send(await this.get(connection));
  }

  /** Another call may have fetched a new one already. */
  #drop(token: string): void {
    if (token === this.#token) this.#token = undefined;
  }

  async #logIn({ client }: Connection): Promise<string> {
    const name = this.#auth.username;
    const password = passwordOf(this.#auth);
    const { token } = await client.auth.authenticate(
      { name, password },
      { ...withHeaders({}, taming), deadline: this.#clock.wallMs() + LOG_IN_MS_MAX },
    );
    this.#token = token;
    return token;
  }
}

/** A token whose user, or what the user may, has changed meanwhile. */
function isOutdated(thrown: unknown): boolean {
  return isTokenRefused(thrown) || isRevisionOld(thrown);
}

function passwordOf({ password }: EtcdAuthOptions): string {
  if (typeof password === 'string') return password;
  let given: unknown;
  try {
    given = password();
  } catch (thrown) {
    throw new LeaseholdError('E_STORE_DENIED', `auth.password() failed: ${messageOf(thrown)}`, {
      cause: thrown,
    });
  }
  if (typeof given === 'string' && given !== '') return given;
  // A promise that nobody waits for must not end the process.
  if (given instanceof Promise) given.catch(() => undefined);
  throw new LeaseholdError(
    'E_STORE_DENIED',
    `auth.password() returned ${given === '' ? 'an empty string' : typeof given}, not a password`,
  );
}
