/**
 * Renews sessions on one raw stream, which stays open between renewals.
 *
 * etcd answers a stream in the order it was asked, so answers are matched first in, first out, and what is unanswered is
 * given up together with the stream (R10). A renewal that is not answered in time replaces the stream: after it, no answer
 * could be matched. One that is not answered within two seconds has its connection suspected: it may still be answered, and
 * the next one goes elsewhere.
 */
import type { ILeaseKeepAliveRequest, ILeaseKeepAliveResponse } from 'etcd3';
import type { Clock, Timer } from '../../base/clock.ts';
import { LeaseholdError } from '../../base/errors.ts';
import type { SessionId } from '../../base/ids.ts';
import type { CallOptions, SessionGrant } from '../port.ts';
import { SILENCE_MS_MAX } from './caller.ts';
import type { Cluster, Mark } from './cluster.ts';
import type { CallHeaders, Connection, Connections } from './connections.ts';
import { RawStream } from './raw-stream.ts';
import { leaseOf } from './wire.ts';

export interface RenewalPorts {
  readonly connections: Connections;
  readonly cluster: Cluster;
  readonly clock: Clock;
  /** The headers of a new stream. */
  readonly prepare: (connection: Connection) => Promise<CallHeaders>;
}

/** A renewal that is not answered. */
interface Renewal {
  readonly id: SessionId;
  readonly mark: Mark;
  readonly timers: readonly Timer[];
  readonly resolve: (grant: SessionGrant) => void;
  readonly reject: (error: unknown) => void;
}

export class Renewals {
  readonly #ports: RenewalPorts;
  /** Where the next renewal goes, unless its connection is given up by then. */
  #line: RenewalLine | undefined;
  /** All that are not over. */
  readonly #lines = new Set<RenewalLine>();
  #isClosed = false;

  constructor(ports: RenewalPorts) {
    this.#ports = ports;
  }

  /**
   * @throws `E_LEASE_EXPIRED` when the session is gone; `E_STORE_UNREACHABLE` when nobody answered; `E_STORE_DENIED` when no
   * stream could be opened for it.
   */
  async renew(id: SessionId, { timeoutMs }: CallOptions): Promise<SessionGrant> {
    const lease = leaseOf(id);
    if (this.#isClosed) throw unreachable(id, 'the store is closed');
    this.#ports.cluster.assertOne();
    return this.#current().renew(id, lease, timeoutMs);
  }

  close(): void {
    this.#isClosed = true;
    for (const line of [...this.#lines]) line.end('was not answered before the store was closed');
  }

  #current(): RenewalLine {
    if (this.#line?.isOpen === true) return this.#line;
    this.#line?.endIfIdle();
    const line: RenewalLine = new RenewalLine(this.#ports, () => this.#lines.delete(line));
    this.#lines.add(line);
    this.#line = line;
    return line;
  }
}

/** One stream and what was asked on it. */
class RenewalLine {
  readonly #ports: RenewalPorts;
  readonly #onEnd: () => void;
  readonly #stream: RawStream<ILeaseKeepAliveRequest, ILeaseKeepAliveResponse>;
  /** In the order they were sent. */
  #pending: Renewal[] = [];

  constructor(ports: RenewalPorts, onEnd: () => void) {
    this.#ports = ports;
    this.#onEnd = onEnd;
    const connection = ports.connections.current();
    this.#stream = new RawStream({
      connection,
      prepare: () => ports.prepare(connection),
      open: (client, options) => client.leaseClient.leaseKeepAlive(options),
      onMessage: (answer) => {
        this.#onAnswer(answer);
      },
      onLost: (denial) => {
        this.#fail('was not answered: the stream ended', denial);
      },
    });
  }

  /** False once its connection is given up: what was asked before may still be answered. */
  get isOpen(): boolean {
    return !this.#stream.isOver && !this.#stream.connection.isRetired;
  }

  renew(id: SessionId, lease: string, timeoutMs: number): Promise<SessionGrant> {
    const { clock, cluster } = this.#ports;
    return new Promise((resolve, reject) => {
      const timeout = clock.setTimeout(() => {
        this.#fail(`was not answered within ${timeoutMs} ms`);
      }, timeoutMs);
      const silence = clock.setTimeout(() => {
        this.#suspect();
      }, SILENCE_MS_MAX);
      const timers = [timeout, silence];
      this.#pending.push({ id, mark: cluster.mark(), timers, resolve, reject });
      this.#stream.write({ ID: lease });
    });
  }

  endIfIdle(): void {
    if (this.#pending.length === 0) this.end('was given up');
  }

  /** Gives up what is unanswered. */
  end(why: string, denial?: LeaseholdError): void {
    this.#stream.close();
    this.#onEnd();
    for (const renewal of this.#pending.splice(0)) {
      this.#disarm(renewal);
      renewal.reject(denial ?? unreachable(renewal.id, why));
    }
  }

  #onAnswer({ ID, TTL, header }: ILeaseKeepAliveResponse): void {
    const renewal = this.#pending[0];
    if (renewal === undefined || renewal.id !== ID) {
      this.#fail(`was answered out of order, for session ${ID}`);
      return;
    }
    this.#pending.shift();
    this.#disarm(renewal);
    const { id, resolve, reject } = renewal;
    this.#judge(header, renewal).then(() => {
      if (Number(TTL) > 0) resolve({ ttlMs: Number(TTL) * 1000 });
      else reject(expired(id));
    }, reject);
    if (!this.isOpen) this.endIfIdle();
  }

  async #judge(header: ILeaseKeepAliveResponse['header'], { mark }: Renewal): Promise<void> {
    const { endpoint } = this.#stream.connection;
    // etcd fills this header before it renews: it may lag behind.
    await this.#ports.cluster.check({ header, endpoint, mark, isLinearizable: false });
  }

  /** The stream, and perhaps its endpoint, is no good. */
  #fail(why: string, denial?: LeaseholdError): void {
    this.#suspect();
    this.end(why, denial);
  }

  #suspect(): void {
    this.#ports.connections.suspect(this.#stream.connection);
  }

  #disarm({ timers }: Renewal): void {
    for (const timer of timers) this.#ports.clock.clearTimeout(timer);
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
