/**
 * Calls that have one answer: bounded in time, judged, and never repeated if they write (R1).
 *
 * A read may be tried at several endpoints; half of the time that is left goes to each try but the last, so that a hung
 * member does not eat all of it.
 */
import type { Clock, Timer } from '../../base/clock.ts';
import { LeaseholdError } from '../../base/errors.ts';
import type { Cluster, Header } from './cluster.ts';
import type { Connection, Connections } from './connections.ts';
import { type FailedCall, failureOf, isFull } from './failures.ts';
import { type GrpcCallOptions, type RawCall, seeing } from './interceptor.ts';

/** A call as its maker sees it. */
export interface Call<Answer> {
  /** For messages: `transact`. */
  readonly name: string;
  readonly timeoutMs: number;
  /** The answer is at least as new as everything answered before the call was sent. */
  readonly isLinearizable: boolean;
  /** Sends it, exactly once. */
  send(client: Connection['client'], options: GrpcCallOptions): Promise<Answer>;
  /** Where the answer says who gave it; null when it does not. */
  header(answer: Answer): Header | null;
}

/** Longest time for one try of a call: a hung member is given up after it, however patient the caller is. */
const ATTEMPT_MS_MAX = 2_000;
/** With less time left, a read is not tried again. */
const ATTEMPT_MS_MIN = 10;

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
    return this.#attempt('write', call, this.#connection(), call.timeoutMs);
  }

  /** Sends a read until it is answered, at most once more than there are endpoints. */
  async read<Answer>(call: Call<Answer>): Promise<Answer> {
    const endMs = this.#clock.nowMs() + call.timeoutMs;
    for (let triesLeft = this.#connections.endpointCount; ; triesLeft -= 1) {
      // A blocked event loop lets the time run out between two tries.
      const leftMs = Math.max(1, endMs - this.#clock.nowMs());
      const isLast = triesLeft === 0 || leftMs / 2 < ATTEMPT_MS_MIN;
      const connection = this.#connection();
      try {
        return await this.#attempt('read', call, connection, isLast ? leftMs : leftMs / 2);
      } catch (error) {
        // What was no fault of the connection would be answered the same again.
        if (isLast || this.#isClosed || !connection.isRetired) throw error;
      }
    }
  }

  /** Reads at one connection, whether or not it is the present one. */
  readAt<Answer>(connection: Connection, call: Call<Answer>): Promise<Answer> {
    return this.#attempt('read', call, connection, call.timeoutMs);
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

  async #attempt<Answer>(
    kind: FailedCall['kind'],
    call: Call<Answer>,
    connection: Connection,
    timeoutMs: number,
  ): Promise<Answer> {
    const release = connection.use();
    const mark = this.#cluster.mark();
    const wasFull = this.#isKnownFull;
    try {
      const answer = await this.#bounded(
        kind,
        call,
        connection,
        Math.min(timeoutMs, ATTEMPT_MS_MAX),
      );
      this.#hasAnswered = true;
      this.#cluster.check(call.header(answer), mark, call.isLinearizable);
      return answer;
    } catch (thrown) {
      const { name } = call;
      const { endpoint } = connection;
      const hasAnswered = this.#hasAnswered;
      const failure = failureOf(thrown, { kind, name, endpoint, hasAnswered, wasFull });
      if (failure.isSuspect || failure.error instanceof Unanswered) {
        this.#connections.suspect(connection);
      }
      if (isFull(thrown) && !wasFull) void this.#confirmFull(connection);
      throw failure.error;
    } finally {
      release();
    }
  }

  /** Sends one try and stops waiting in time, whatever etcd3 and grpc-js wait for. */
  #bounded<Answer>(
    kind: FailedCall['kind'],
    call: Call<Answer>,
    { client, endpoint }: Connection,
    timeoutMs: number,
  ): Promise<Answer> {
    return new Promise<Answer>((resolve, reject) => {
      const sent: RawCall[] = [];
      const end = (): void => {
        this.#pending.delete(giveUp);
        this.#clock.clearTimeout(timer);
      };
      const giveUp = (): void => {
        end();
        for (const raw of sent) raw.cancelWithStatus(CANCELLED, 'given up');
        const why = this.#isClosed ? 'before the store was closed' : `within ${timeoutMs} ms`;
        reject(new Unanswered(kind, `${call.name} at ${endpoint} was not answered ${why}`));
      };
      const timer: Timer = this.#clock.setTimeout(giveUp, timeoutMs);
      this.#pending.add(giveUp);
      const options = { ...seeing((raw) => sent.push(raw)), deadline: this.#deadline(timeoutMs) };
      call.send(client, options).finally(end).then(resolve, reject);
    });
  }

  /** For grpc-js and the server, on the wall clock as they want it. */
  #deadline(timeoutMs: number): number {
    return this.#clock.wallMs() + timeoutMs;
  }

  /** Asks whether etcd has stopped taking writes: then what it refuses for want of space from now on is not written. */
  async #confirmFull(connection: Connection): Promise<void> {
    const call: Call<{ alarms: readonly { alarm: unknown }[] }> = {
      name: 'alarm',
      timeoutMs: ATTEMPT_MS_MAX,
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

/** A try that nobody answered in time. */
class Unanswered extends LeaseholdError {
  constructor(kind: FailedCall['kind'], message: string) {
    super(kind === 'write' ? 'E_OUTCOME_UNKNOWN' : 'E_STORE_UNREACHABLE', message);
  }
}

function closed(): LeaseholdError {
  return new LeaseholdError('E_STORE_UNREACHABLE', 'the store is closed');
}
