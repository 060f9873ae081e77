/**
 * Renews sessions on one raw stream, which stays open between renewals.
 *
 * etcd answers a stream in the order it was asked, so answers are matched first in, first out, and what is unanswered is
 * given up together with the stream (R10). A renewal that is not answered in time replaces the stream: after it, no answer
 * could be matched.
 */
import type { ILeaseKeepAliveRequest, ILeaseKeepAliveResponse } from 'etcd3';
import type { Clock, Timer } from '../../base/clock.ts';
import { LeaseholdError } from '../../base/errors.ts';
import type { SessionId } from '../../base/ids.ts';
import type { CallOptions, SessionGrant } from '../port.ts';
import type { Cluster, Mark } from './cluster.ts';
import type { Connection, Connections } from './connections.ts';
import { RawStream } from './raw-stream.ts';
import { leaseOf } from './wire.ts';

export interface RenewalPorts {
  readonly connections: Connections;
  readonly cluster: Cluster;
  readonly clock: Clock;
  /** Renews the token of a connection, where there is one. */
  readonly renewToken: (connection: Connection) => Promise<void>;
}

type RenewalStream = RawStream<ILeaseKeepAliveRequest, ILeaseKeepAliveResponse>;

/** A renewal that is not answered. */
interface Renewal {
  readonly id: SessionId;
  readonly mark: Mark;
  readonly timer: Timer;
  readonly resolve: (grant: SessionGrant) => void;
  readonly reject: (error: LeaseholdError) => void;
}

export class Renewals {
  readonly #ports: RenewalPorts;
  #stream: RenewalStream | undefined;
  /** In the order they were sent. */
  #pending: Renewal[] = [];
  #isClosed = false;

  constructor(ports: RenewalPorts) {
    this.#ports = ports;
  }

  /** @throws `E_LEASE_EXPIRED` when the session is gone; `E_STORE_UNREACHABLE` when nobody answered. */
  renew(id: SessionId, { timeoutMs }: CallOptions): Promise<SessionGrant> {
    return new Promise((resolve, reject) => {
      const lease = leaseOf(id);
      if (this.#isClosed) {
        reject(unreachable(id, 'the store is closed'));
        return;
      }
      const timer = this.#ports.clock.setTimeout(() => {
        this.#fail(`was not answered within ${timeoutMs} ms`);
      }, timeoutMs);
      const mark = this.#ports.cluster.mark();
      this.#pending.push({ id, mark, timer, resolve, reject });
      this.#open().write({ ID: lease });
    });
  }

  close(): void {
    this.#isClosed = true;
    this.#giveUp('was not answered before the store was closed');
  }

  #open(): RenewalStream {
    const current = this.#stream;
    // The endpoint was given up meanwhile; what is in flight may still be answered there.
    const isStale = current?.connection.isRetired === true && this.#pending.length === 1;
    if (current !== undefined && !isStale) return current;
    current?.close();
    const connection = this.#ports.connections.current();
    const stream: RenewalStream = new RawStream({
      connection,
      prepare: () => this.#ports.renewToken(connection),
      open: (client, options) => client.leaseClient.leaseKeepAlive(options),
      onMessage: (answer) => {
        this.#onAnswer(answer);
      },
      onLost: () => {
        this.#fail('was not answered: the stream ended');
      },
    });
    this.#stream = stream;
    return stream;
  }

  #onAnswer({ ID, TTL, header }: ILeaseKeepAliveResponse): void {
    const renewal = this.#pending.shift();
    if (renewal?.id !== ID) {
      if (renewal !== undefined) this.#pending.unshift(renewal);
      this.#fail(`was answered out of order, for session ${ID}`);
      return;
    }
    const { id, timer, mark, resolve, reject } = renewal;
    this.#ports.clock.clearTimeout(timer);
    // etcd fills this header before it renews: it may lag behind.
    this.#ports.cluster.check(header, mark, false);
    if (Number(TTL) > 0) resolve({ ttlMs: Number(TTL) * 1000 });
    else reject(expired(id));
  }

  /** The stream, and perhaps its endpoint, is no good. */
  #fail(why: string): void {
    if (this.#stream !== undefined) this.#ports.connections.suspect(this.#stream.connection);
    this.#giveUp(why);
  }

  #giveUp(why: string): void {
    this.#stream?.close();
    this.#stream = undefined;
    for (const { id, timer, reject } of this.#pending.splice(0)) {
      this.#ports.clock.clearTimeout(timer);
      reject(unreachable(id, why));
    }
  }
}

function unreachable(id: SessionId, why: string): LeaseholdError {
  return new LeaseholdError('E_STORE_UNREACHABLE', `the renewal of session ${id} ${why}`, {
    details: { session: id },
  });
}

function expired(id: SessionId): LeaseholdError {
  return new LeaseholdError('E_LEASE_EXPIRED', `session ${id} is gone`, {
    details: { session: id },
  });
}
