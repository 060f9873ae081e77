/**
 * Which member of etcd is asked: one, as long as it answers; the next one as soon as it is suspected.
 *
 * Each connection is an etcd3 client of one endpoint. What etcd3 would do by itself is switched off, because it sends
 * writes again whose answer was lost, and picks a member at random for each call, so that a hung one costs a deadline every
 * few calls. Suspicion always leads to a new client, also of a lone endpoint: a TCP connection that never gets through its
 * first handshake is never given up by grpc-js, and credentials are fixed when a client is made.
 */
import { noop } from 'cockatiel';
import { Etcd3, type IOptions } from 'etcd3';
import type { Clock } from '../../base/clock.ts';
import { ANSWER_BYTES_MAX } from '../port.ts';
import { Certificates } from './certificates.ts';
import { isShutDown, type RawChannel, seeingChannels } from './interceptor.ts';
import type { EtcdStoreOptions } from './options.ts';
import { Tokens } from './tokens.ts';

/** Of a call. */
export type CallHeaders = Readonly<Record<string, string>>;

type EtcdCredentials = NonNullable<IOptions['credentials']>;

const GRPC_OPTIONS = {
  // Subchannels are otherwise shared by the whole process: a new client would inherit a stuck connection.
  'grpc.use_local_subchannel_pool': 1,
  // The default would lose the answer to a write that was carried out, and end a watch again and again.
  'grpc.max_receive_message_length': -1,
  'grpc.max_send_message_length': -1,
  // etcd refuses pings more often than each 5 s.
  'grpc.keepalive_time_ms': 10_000,
  'grpc.keepalive_timeout_ms': 3_000,
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 1_000,
  // A policy found in DNS could make grpc-js repeat writes.
  'grpc.service_config_disable_resolution': 1,
};

/** A client of one endpoint; closed once it is given up and nothing uses it any more. */
export class Connection {
  readonly endpoint: string;
  /** Takes answers of any size. */
  readonly client: Etcd3;
  readonly #options: IOptions;
  #pages: Etcd3 | undefined;
  /** Given up: what still runs on it may end, nothing new begins. */
  isRetired = false;
  /** When a linearizable call was last answered here, on the clock of the store. */
  heardMs = -Infinity;
  readonly #channels = new Set<RawChannel>();
  #users = 0;

  constructor(endpoint: string, options: Omit<IOptions, 'hosts'>) {
    this.endpoint = endpoint;
    this.#options = {
      ...options,
      hosts: endpoint,
      grpcOptions: { ...GRPC_OPTIONS, ...seeingChannels((channel) => this.#note(channel)) },
      faultHandling: { host: () => noop, global: noop },
    };
    this.client = new Etcd3(this.#options);
  }

  /** Refuses an answer above the limit for pages as soon as it begins to arrive; made when it is first used. */
  get pages(): Etcd3 {
    this.#pages ??= new Etcd3({
      ...this.#options,
      grpcOptions: {
        ...this.#options.grpcOptions,
        'grpc.max_receive_message_length': ANSWER_BYTES_MAX,
      },
    });
    return this.#pages;
  }

  /** Keeps the client open until the returned function is called, once. */
  use(): () => void {
    this.#users += 1;
    return () => {
      this.#users -= 1;
      this.#closeUnused();
    };
  }

  retire(): void {
    if (this.isRetired) return;
    this.isRetired = true;
    this.#closeUnused();
  }

  /** etcd3 makes a new channel after each failure; those it has closed are forgotten. */
  #note(channel: RawChannel): void {
    if (this.#channels.has(channel)) return;
    for (const known of this.#channels) if (isShutDown(known)) this.#channels.delete(known);
    this.#channels.add(channel);
  }

  #closeUnused(): void {
    if (!this.isRetired || this.#users > 0) return;
    // etcd3 would wait a second for those that are still connecting, and keep the process alive for it.
    for (const channel of this.#channels) channel.close();
    this.#channels.clear();
    this.client.close();
    this.#pages?.close();
  }
}

export class Connections {
  readonly #options: EtcdStoreOptions;
  readonly #tokens: Tokens | undefined;
  readonly #certificates: Certificates | undefined;
  #index = 0;
  #current: Connection | undefined;

  constructor(options: EtcdStoreOptions, clock: Clock) {
    this.#options = options;
    this.#tokens = options.auth === undefined ? undefined : new Tokens(options.auth, clock);
    this.#certificates = options.tls === undefined ? undefined : new Certificates(options.tls);
  }

  get endpointCount(): number {
    return this.#options.endpoints.length;
  }

  /** True when calls carry a token, which a stream cannot renew by itself. */
  get usesTokens(): boolean {
    return this.#options.auth !== undefined;
  }

  /** Sends with the headers that a call must carry; see `Tokens.send`. */
  async withToken<Answer>(
    connection: Connection,
    send: (headers: CallHeaders) => Promise<Answer>,
  ): Promise<Answer> {
    if (this.#tokens === undefined) return send({});
    return this.#tokens.send(connection, (token) => send({ token }));
  }

  /** The headers that a stream must carry. */
  async headers(connection: Connection): Promise<CallHeaders> {
    return this.#tokens === undefined ? {} : { token: await this.#tokens.get(connection) };
  }

  /** The connection to use now. */
  current(): Connection {
    this.#current ??= this.open(this.#options.endpoints[this.#index]!);
    return this.#current;
  }

  /** A connection besides the one in use; its maker retires it. */
  open(endpoint: string): Connection {
    const credentials = this.#certificates?.read();
    return new Connection(
      endpoint,
      // Typed as if an authority were needed; without one, those that Node knows are trusted.
      credentials === undefined ? {} : { credentials: credentials as EtcdCredentials },
    );
  }

  /** Something is wrong with `connection`: goes on to the next endpoint, unless that has happened already. */
  suspect(connection: Connection): void {
    if (connection !== this.#current) return;
    this.#current = undefined;
    this.#index = (this.#index + 1) % this.endpointCount;
    connection.retire();
  }

  close(): void {
    this.#current?.retire();
    this.#current = undefined;
  }
}
