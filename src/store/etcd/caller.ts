/**
 * Calls that have one answer: bounded in time, judged, and never repeated if they write (R1).
 *
 * A call waits as long as its caller does. A connection that is silent for two seconds is suspected meanwhile, so that new
 * calls go elsewhere; a read is then tried there as well, and its first answer counts: what is slow may still arrive, and
 * a hung member does not eat all of the time.
 */
import type { Clock, Timer } from '../../base/clock.ts';
import { LeaseholdError } from '../../base/errors.ts';
import type { Cluster, Header } from './cluster.ts';
import type { CallHeaders, Connection, Connections } from './connections.ts';
import { type FailedCall, failureOf, isFull } from './failures.ts';
import { type GrpcCallOptions, type RawCall, taming, withHeaders } from './interceptor.ts';

/** A call as its maker sees it. */
export interface Call<Answer> {
  /** For messages: `transact`. */
  readonly name: string;
  readonly timeoutMs: number;
  /** The answer is at least as new as everything answered before the call was sent. */
  readonly isLinearizable: boolean;
  /** Its answer is refused when it is larger than a page may be. */
  readonly isBounded?: boolean;
  /** It is sent without a token, where there are any. */
  readonly isAnonymous?: boolean;
  /** Sends it, exactly once. */
  send(client: Connection['client'], options: GrpcCallOptions): Promise<Answer>;
  /** Where the answer says who gave it; null when it does not. */
  header(answer: Answer): Header | null;
}

/** A connection that was asked and says nothing for so long is suspected. */
export const SILENCE_MS_MAX = 2_000;
/** Longest time for what this client asks by itself. */
const OWN_CALL_MS_MAX = 2_000;
const DEADLINE_SLACK_MS = 500;
/** With less time left, a read is not tried again. */
const TRY_MS_MIN = 10;

/** One sending of a call. */
interface Try {
  readonly kind: FailedCall['kind'];
  readonly timeoutMs: number;
  /** How long nothing need be heard from the connection before it is suspected. */
  readonly silenceMs: number;
  /** It is silent, and the try goes on. */
  readonly onSilent: () => void;
}

const CANCELLED = 1;

export class Caller {
  readonly #connections: Connections;
  readonly #cluster: Cluster;
  readonly #clock: Clock;
  /** Gives up the tries that are not answered. */
  readonly #pending = new Set<() => void>();
  #hasAnswered = false;
  #isKnownFull = false;
  #isClosed = false;

  constructor(connections: Connections, cluster: Cluster, clock: Clock) {
    this.#connections = connections;
    this.#cluster = cluster;
    this.#clock = clock;
  }

  /** Sends a write once, at the present endpoint. */
  async write<Answer>(call: Call<Answer>): Promise<Answer> {
    return this.#try(call, this.#connection(), patient('write', call.timeoutMs));
  }

  /**
   * Sends a read until it is answered, at most once more than there are endpoints. The next try begins when the one before
   * fails, or when its connection is silent for two seconds or half of the time that is left; those before go on.
   */
  read<Answer>(call: Call<Answer>): Promise<Answer> {
    const endMs = this.#clock.nowMs() + call.timeoutMs;
    let triesLeft = this.#connections.endpointCount;
    let triesUnderWay = 0;
    let isOver = false;
    return new Promise<Answer>((resolve, reject) => {
      const fail = (error: unknown): void => {
        isOver = true;
        reject(error);
      };
      const next = (): void => {
        // A blocked event loop lets the time run out between two tries.
        const timeoutMs = Math.max(1, endMs - this.#clock.nowMs());
        let isFollowed = triesLeft === 0 || timeoutMs / 2 < TRY_MS_MIN;
        const silenceMs = isFollowed ? SILENCE_MS_MAX : Math.min(SILENCE_MS_MAX, timeoutMs / 2);
        const follow = (): void => {
          if (isFollowed || isOver || this.#isClosed) return;
          isFollowed = true;
          triesLeft -= 1;
          next();
        };
        const connection = this.#connections.current();
        triesUnderWay += 1;
        this.#try(call, connection, { kind: 'read', timeoutMs, silenceMs, onSilent: follow }).then(
          (answer) => {
            isOver = true;
            resolve(answer);
          },
          (error: unknown) => {
            triesUnderWay -= 1;
            // What was no fault of the connection would be answered the same again.
            if (!connection.isRetired) fail(error);
            follow();
            if (triesUnderWay === 0) fail(error);
          },
        );
      };
      if (this.#isClosed) fail(closed());
      else next();
    });
  }

  /** Reads at one connection, whether or not it is the present one. */
  readAt<Answer>(connection: Connection, call: Call<Answer>): Promise<Answer> {
    return this.#try(call, connection, patient('read', call.timeoutMs));
  }

  /** Something was written: there is room again. */
  noteRoom(): void {
    this.#isKnownFull = false;
  }

  /** Gives up everything that is not answered. */
  close(): void {
    this.#isClosed = true;
    for (const giveUp of [...this.#pending]) giveUp();
  }

  #connection(): Connection {
    if (this.#isClosed) throw closed();
    return this.#connections.current();
  }

  async #try<Answer>(call: Call<Answer>, connection: Connection, one: Try): Promise<Answer> {
    const release = connection.use();
    const mark = this.#cluster.mark();
    const wasFull = this.#isKnownFull;
    const sentMs = this.#clock.nowMs();
    const listening = this.#onceSilent(connection, one.silenceMs, () => {
      this.#connections.suspect(connection);
      one.onSilent();
    });
    const sending = new Sending(call, connection);
    const judge = async (answer: Answer): Promise<Answer> => {
      const { isLinearizable } = call;
      const { endpoint } = connection;
      this.#hasAnswered = true;
      if (isLinearizable) connection.heardMs = this.#clock.nowMs();
      await this.#cluster.check({ header: call.header(answer), endpoint, mark, isLinearizable });
      return answer;
    };
    try {
      this.#cluster.assertOne();
      return await this.#bounded(sending, one, judge);
    } catch (thrown) {
      const { name } = call;
      const { endpoint } = connection;
      const hasAnswered = this.#hasAnswered;
      // What waited for a token in vain was not sent.
      const kind = sending.isSent ? one.kind : 'read';
      const failure = failureOf(thrown, { kind, name, endpoint, hasAnswered, wasFull });
      const isSilent = thrown instanceof Unanswered && connection.heardMs <= sentMs;
      if (failure.isSuspect || isSilent) this.#connections.suspect(connection);
      if (isFull(thrown) && !wasFull) void this.#confirmFull(connection);
      throw failure.error;
    } finally {
      listening.end();
      release();
    }
  }

  /**
   * Runs `onSilent` once nothing was heard from `connection` for so long. Other calls that are answered meanwhile count: one
   * large or lost answer is no reason to leave a member that works. Only linearizable ones do, because a member that is cut
   * off from the others answers the rest.
   */
  #onceSilent(connection: Connection, silenceMs: number, onSilent: () => void): { end(): void } {
    const startMs = this.#clock.nowMs();
    const look = (): void => {
      const leftMs = Math.max(startMs, connection.heardMs) + silenceMs - this.#clock.nowMs();
      if (leftMs > 0) timer = this.#clock.setTimeout(look, leftMs);
      else onSilent();
    };
    let timer = this.#clock.setTimeout(look, silenceMs);
    return {
      end: () => {
        this.#clock.clearTimeout(timer);
      },
    };
  }

  /** Sends one try and stops waiting in time, whatever etcd3 and grpc-js wait for. */
  #bounded<Answer>(
    sending: Sending<Answer>,
    { kind, timeoutMs }: Try,
    judge: (answer: Answer) => Promise<Answer>,
  ): Promise<Answer> {
    return new Promise<Answer>((resolve, reject) => {
      const end = (): void => {
        this.#pending.delete(giveUp);
        this.#clock.clearTimeout(timer);
      };
      const giveUp = (): void => {
        end();
        sending.giveUp();
        const why = this.#isClosed ? 'before the store was closed' : `within ${timeoutMs} ms`;
        const message = `${sending.name} was not answered ${why}`;
        reject(new Unanswered(sending.isSent ? kind : 'read', message));
      };
      const timer: Timer = this.#clock.setTimeout(giveUp, timeoutMs);
      this.#pending.add(giveUp);
      // For grpc-js and the server, on the wall clock as they want it: late enough to leave the last word to the timer.
      const deadline = this.#clock.wallMs() + timeoutMs + DEADLINE_SLACK_MS;
      sending.start(this.#connections, deadline).then(judge).finally(end).then(resolve, reject);
    });
  }

  /** Asks whether etcd has stopped taking writes: then what it refuses for want of space from now on is not written. */
  async #confirmFull(connection: Connection): Promise<void> {
    const call: Call<{ alarms: readonly { alarm: unknown }[] }> = {
      name: 'alarm',
      timeoutMs: OWN_CALL_MS_MAX,
      isLinearizable: false,
      send: (client, options) => client.maintenance.alarm({ action: 'Get' }, options),
      header: () => null,
    };
    try {
      const { alarms } = await this.readAt(connection, call);
      if (alarms.some(({ alarm }) => alarm === 'Nospace')) this.#isKnownFull = true;
    } catch {
      // Asked again after the next refusal.
    }
  }
}

/** One call on its way over one connection. */
class Sending<Answer> {
  isSent = false;
  readonly #call: Call<Answer>;
  readonly #connection: Connection;
  readonly #raw: RawCall[] = [];
  #isGivenUp = false;

  constructor(call: Call<Answer>, connection: Connection) {
    this.#call = call;
    this.#connection = connection;
  }

  /** For messages. */
  get name(): string {
    return `${this.#call.name} at ${this.#connection.endpoint}`;
  }

  start(connections: Connections, deadline: number): Promise<Answer> {
    const send = async (headers: CallHeaders): Promise<Answer> => {
      // Whoever waits for it has been told already.
      if (this.#isGivenUp) throw closed();
      this.isSent = true;
      const options = withHeaders(headers, (raw) => {
        this.#raw.push(raw);
        taming(raw);
      });
      const { isBounded = false } = this.#call;
      const client = isBounded ? this.#connection.pages : this.#connection.client;
      return this.#call.send(client, { ...options, deadline });
    };
    return this.#call.isAnonymous === true
      ? send({})
      : connections.withToken(this.#connection, send);
  }

  giveUp(): void {
    this.#isGivenUp = true;
    for (const raw of this.#raw) raw.cancelWithStatus(CANCELLED, 'given up');
  }
}

/** A try that nobody answered in time. */
class Unanswered extends LeaseholdError {
  constructor(kind: FailedCall['kind'], message: string) {
    super(kind === 'write' ? 'E_OUTCOME_UNKNOWN' : 'E_STORE_UNREACHABLE', message);
  }
}

function patient(kind: Try['kind'], timeoutMs: number): Try {
  return { kind, timeoutMs, silenceMs: SILENCE_MS_MAX, onSilent: () => undefined };
}

function closed(): LeaseholdError {
  return new LeaseholdError('E_STORE_UNREACHABLE', 'the store is closed');
}
