/**
 * A client of an etcd cluster as a store.
 *
 * Of etcd3 only the raw clients are used: its watchers lose events, its leases are believed in for too long, and its retries
 * send writes twice. What is built here in their place: connections.ts (which member), caller.ts (time and meaning of one
 * call), renewals.ts (sessions), watch-hub.ts (watches), cluster.ts (is it still the same store), survey.ts (is it one store).
 *
 * Needs etcd 3.4 or newer with its limits for transactions and requests at their defaults or above. Never compacts: that is
 * the server's task (`--auto-compaction-mode`).
 *
 * Tests: test/etcd/store.test.ts
 */
import { systemClock } from '../../base/clock.ts';
import type { Revision } from '../../base/decimals.ts';
import type { SessionId } from '../../base/ids.ts';
import { systemRandom } from '../../base/random.ts';
import { checkBatch } from '../batch.ts';
import type {
  Batch,
  BatchOutcome,
  CallOptions,
  Range,
  ReadOptions,
  ReadOutcome,
  SessionGrant,
  Store,
  WatchStream,
} from '../port.ts';
import { Caller } from './caller.ts';
import { isLeaseholdError } from '../../base/errors.ts';
import { Cluster } from './cluster.ts';
import { type CallHeaders, type Connection, Connections } from './connections.ts';
import { isPermissionDenied } from './failures.ts';
import { checkOptions, type EtcdStoreOptions } from './options.ts';
import { Reader } from './reader.ts';
import { Renewals } from './renewals.ts';
import { Sessions } from './sessions.ts';
import { Survey } from './survey.ts';
import { WatchHub } from './watch-hub.ts';
import { bytesOf, outcomeOf, wireOf } from './wire.ts';

/** A store in etcd. */
export interface EtcdStore extends Store {
  /** The id of the cluster that answered last; empty before the first answer. */
  readonly clusterId: string;
}

/**
 * A store in an etcd cluster. Connects when it is first used; `close()` frees everything, so that the process may end.
 *
 * @throws LeaseholdError `E_CONFIG_INVALID` that lists all violations.
 */
export function etcdStore(options: EtcdStoreOptions): EtcdStore {
  checkOptions(options);
  return new EtcdClient(options);
}

const TOKEN_MS_MAX = 2_000;
/** How long a member may take to say which cluster it belongs to: a reset is told so much later at most. */
const SURVEY_MS_MAX = 2_000;
/** Any key: it is read only to see whether the token is still good. */
const TOKEN_KEY = bytesOf('leasehold');

class EtcdClient implements EtcdStore {
  readonly name = 'etcd';
  /** etcd may know who asks. */
  readonly #hasUsers: boolean;
  readonly #connections: Connections;
  readonly #cluster: Cluster;
  readonly #survey: Survey;
  readonly #caller: Caller;
  readonly #reader: Reader;
  readonly #sessions: Sessions;
  readonly #renewals: Renewals;
  readonly #watches: WatchHub;

  constructor(options: EtcdStoreOptions) {
    const clock = options.clock ?? systemClock();
    const random = options.random ?? systemRandom();
    const connections = new Connections(options, clock);
    const cluster: Cluster = new Cluster({
      onKnown: (sighting) => {
        survey.start(sighting);
      },
      onReset: () => {
        this.#watches.reset();
      },
      onMixed: (error) => {
        this.#watches.refuse(error);
      },
      findRival: (sighting) => survey.findRival(sighting),
    });
    const survey = new Survey({
      endpoints: options.endpoints,
      clock,
      random,
      ask: (endpoint) => this.#clusterOf(endpoint),
      onOther: (sighting) => cluster.confirm(sighting),
    });
    const caller = new Caller(connections, cluster, clock);
    const reader = new Reader(caller, clock);
    const ports = { connections, cluster, clock, random, reader };
    const prepare = (connection: Connection) => this.#prepare(connection);
    this.#hasUsers = options.auth !== undefined || options.tls?.certFile !== undefined;
    this.#connections = connections;
    this.#cluster = cluster;
    this.#survey = survey;
    this.#caller = caller;
    this.#reader = reader;
    this.#sessions = new Sessions(caller, clock);
    this.#renewals = new Renewals({ ...ports, prepare });
    this.#watches = new WatchHub({ ...ports, prepare });
  }

  get clusterId(): string {
    return this.#cluster.id;
  }

  openSession(id: SessionId, ttlMs: number, options: CallOptions): Promise<SessionGrant> {
    return this.#sessions.open(id, ttlMs, options);
  }

  keepAlive(id: SessionId, options: CallOptions): Promise<SessionGrant> {
    return this.#renewals.renew(id, options);
  }

  closeSession(id: SessionId, options: CallOptions): Promise<void> {
    return this.#sessions.close(id, options);
  }

  read(range: Range, read: ReadOptions, options: CallOptions): Promise<ReadOutcome> {
    return this.#reader.read(range, read, options);
  }

  async transact(batch: Batch, { timeoutMs }: CallOptions): Promise<BatchOutcome> {
    checkBatch(batch);
    const request = wireOf(batch, this.#hasUsers);
    const answer = await this.#caller.write({
      name: 'transact',
      timeoutMs,
      isLinearizable: true,
      send: (client, options) => client.kv.txn(request, options),
      header: ({ header }) => header,
    });
    const outcome = outcomeOf(batch, answer);
    if (hasPut(batch, outcome)) this.#caller.noteRoom();
    return outcome;
  }

  watch(range: Range, fromRevision: Revision): WatchStream {
    return this.#watches.watch(range, fromRevision);
  }

  async close(): Promise<void> {
    this.#survey.stop();
    this.#watches.close();
    this.#renewals.close();
    this.#caller.close();
    this.#connections.close();
  }

  /** The cluster that a member belongs to; undefined when it does not say. */
  async #clusterOf(endpoint: string): Promise<string | undefined> {
    const connection = this.#connections.open(endpoint);
    try {
      const { header } = await this.#caller.readAt(connection, {
        name: 'status',
        timeoutMs: SURVEY_MS_MAX,
        isLinearizable: false,
        isAnonymous: true,
        send: (client, options) => client.maintenance.status(options),
        // Judged by whoever asked.
        header: () => null,
      });
      return header.cluster_id;
    } catch (error) {
      if (!isLeaseholdError(error)) throw error;
      return undefined;
    } finally {
      connection.retire();
    }
  }

  /**
   * The headers of a stream. Makes a call first, so that a token which has run out is renewed: what is refused on a stream
   * would not be.
   */
  async #prepare(connection: Connection): Promise<CallHeaders> {
    if (!this.#connections.usesTokens) return {};
    try {
      await this.#caller.readAt(connection, {
        name: 'renewToken',
        timeoutMs: TOKEN_MS_MAX,
        isLinearizable: false,
        send: (client, options) =>
          client.kv.range({ key: TOKEN_KEY, serializable: true, keys_only: true }, options),
        header: ({ header }) => header,
      });
    } catch (error) {
      // The user may not read this key: the token is good.
      if (!isPermissionDenied(error)) throw error;
    }
    return this.#connections.headers(connection);
  }
}

/** True when something was put: etcd has room. Deletes are carried out also when it is full. */
function hasPut({ txns }: Batch, outcome: BatchOutcome): boolean {
  if (outcome.kind !== 'tried') return false;
  return txns.some(
    ({ writes }, index) =>
      outcome.outcomes[index]?.kind === 'committed' && writes.some((write) => 'put' in write),
  );
}
