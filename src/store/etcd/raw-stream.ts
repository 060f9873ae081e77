/**
 * One raw gRPC stream of an etcd3 client: opened, written to, and over once.
 *
 * etcd3's own watchers and leases are not used: they lose events at reconnects, believe in dead leases and throw where
 * nobody can catch. Here a stream only carries messages; its owner decides what its end means.
 */
import type { LeaseholdError } from '../../base/errors.ts';
import type { Connection, CallHeaders } from './connections.ts';
import { denialOf } from './failures.ts';
import { type GrpcCallOptions, withHeaders } from './interceptor.ts';

/** What etcd3 opens. */
export interface Duplex<Request, Response> {
  on(event: 'data', listener: (response: Response) => void): unknown;
  on(event: 'end', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  write(request: Request): void;
  cancel(): void;
}

export interface RawStreamOptions<Request, Response> {
  readonly connection: Connection;
  /** Runs before the stream is opened: the headers that it will carry. Where tokens are used, one that is good. */
  readonly prepare: () => Promise<CallHeaders>;
  readonly open: (
    client: Connection['client'],
    options: GrpcCallOptions,
  ) => Promise<Duplex<Request, Response>>;
  readonly onMessage: (response: Response) => void;
  /** The stream is over, and not by `close`: because this client is denied it, or for any other reason. Called once. */
  readonly onLost: (denial: LeaseholdError | undefined) => void;
}

/** Lets a member that has lost its quorum end the stream, instead of keeping it open in silence. */
const REQUIRE_LEADER = { hasleader: 'true' };

export class RawStream<Request, Response> {
  readonly connection: Connection;
  readonly #options: RawStreamOptions<Request, Response>;
  readonly #release: () => void;
  #duplex: Duplex<Request, Response> | undefined;
  /** Written before the stream was open. */
  #early: Request[] = [];
  #isOver = false;

  /** Opens at once. */
  constructor(options: RawStreamOptions<Request, Response>) {
    this.#options = options;
    this.connection = options.connection;
    this.#release = options.connection.use();
    this.#open().catch((error: unknown) => {
      this.#lose(error);
    });
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  write(request: Request): void {
    if (this.#isOver) return;
    if (this.#duplex === undefined) this.#early.push(request);
    else this.#duplex.write(request);
  }

  /** Ends the stream; nothing is heard of it any more. */
  close(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#early = [];
    this.#duplex?.cancel();
    this.#release();
  }

  async #open(): Promise<void> {
    const { connection, prepare, open, onMessage } = this.#options;
    const headers = { ...(await prepare()), ...REQUIRE_LEADER };
    if (this.#isOver) return;
    const options = withHeaders(headers, () => undefined);
    const duplex = await open(connection.client, options);
    // A cancelled stream reports an error as well; without this listener it would end the process.
    duplex.on('error', (error) => {
      this.#lose(error);
    });
    duplex.on('end', () => {
      this.#lose(undefined);
    });
    if (this.#isOver) {
      duplex.cancel();
      return;
    }
    duplex.on('data', (response) => {
      if (!this.#isOver) onMessage(response);
    });
    this.#duplex = duplex;
    for (const request of this.#early.splice(0)) duplex.write(request);
  }

  #lose(error: unknown): void {
    if (this.#isOver) return;
    this.close();
    this.#options.onLost(denialOf(error, this.connection.endpoint));
  }
}
