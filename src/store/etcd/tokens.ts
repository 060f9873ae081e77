/**
 * The token that calls carry where etcd has users: one for all connections, because etcd knows it on all members, and
 * because a log-in costs a member a tenth of a second of work. It is fetched when it is first needed, and again when etcd
 * refuses it: with growing pauses while it refuses new ones too, as a member does that lags behind the one which gave them.
 * etcd3 could do so too, but would send a refused call again without end.
 */
import { type Etcd3, EtcdPermissionDeniedError } from 'etcd3';
import type { Clock } from '../../base/clock.ts';
import { LeaseholdError, messageOf } from '../../base/errors.ts';
import { isRevisionOld } from './failures.ts';
import { isTokenRefused, taming, withHeaders } from './interceptor.ts';
import type { EtcdAuthOptions } from './options.ts';

/** A log-in at a busy member may take its time; the calls that wait for it have times of their own. */
const LOG_IN_MS_MAX = 10_000;
/** How long no token is fetched after a new one was refused. */
const REFUSED_MS_MIN = 50;
const REFUSED_MS_MAX = 5_000;

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
  /** How many tokens in a row were refused without ever being taken. */
  #refusals = 0;
  #hasBeenTaken = false;
  #restsUntilMs = -Infinity;

  constructor(auth: EtcdAuthOptions, clock: Clock) {
    this.#auth = auth;
    this.#clock = clock;
  }

  /**
   * @throws `E_STORE_DENIED` when there is no password; `E_STORE_UNREACHABLE` while no token is fetched, because the last ones
   * were refused; whatever etcd says to the password.
   */
  async get(connection: Connection): Promise<string> {
    if (this.#token !== undefined) return this.#token;
    if (this.#isResting) {
      throw new LeaseholdError(
        'E_STORE_UNREACHABLE',
        'etcd refused a token that it had just given',
      );
    }
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
    try {
      return await this.#try(connection, send);
    } catch (thrown) {
      if (!isTokenRefused(thrown) || this.#isResting) throw thrown;
    }
    return this.#try(connection, send);
  }

  async #try<Answer>(
    connection: Connection,
    send: (token: string) => Promise<Answer>,
  ): Promise<Answer> {
    const token = await this.get(connection);
    try {
      const answer = await send(token);
      this.#taken(token);
      return answer;
    } catch (thrown) {
      if (isTokenRefused(thrown)) this.#refused(token);
      else if (isRevisionOld(thrown)) this.#drop(token);
      else if (thrown instanceof EtcdPermissionDeniedError) this.#taken(token);
      throw thrown;
    }
  }

  get #isResting(): boolean {
    return this.#clock.nowMs() < this.#restsUntilMs;
  }

  #taken(token: string): void {
    if (token !== this.#token) return;
    this.#hasBeenTaken = true;
    this.#refusals = 0;
  }

  #refused(token: string): void {
    if (!this.#drop(token) || this.#hasBeenTaken) return;
    const restMs = Math.min(REFUSED_MS_MAX, REFUSED_MS_MIN * 2 ** this.#refusals);
    this.#refusals += 1;
    this.#restsUntilMs = this.#clock.nowMs() + restMs;
  }

  /** False when another call has fetched a new one already. */
  #drop(token: string): boolean {
    if (token !== this.#token) return false;
    this.#token = undefined;
    return true;
  }

  async #logIn({ client }: Connection): Promise<string> {
    const name = this.#auth.username;
    const password = passwordOf(this.#auth);
    const { token } = await client.auth.authenticate(
      { name, password },
      { ...withHeaders({}, taming), deadline: this.#clock.wallMs() + LOG_IN_MS_MAX },
    );
    this.#token = token;
    this.#hasBeenTaken = false;
    return token;
  }
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
