/**
 * One raw gRPC stream of an etcd3 client: opened, written to, and over once.
 *
 * etcd3's own watchers and leases are not used: they lose events at reconnects, believe in dead leases and throw where
 * nobody can catch. Here a stream only carries messages; its owner decides what its end means.
 */
import type { Connection } from './connections.ts';
import { type GrpcCallOptions, type RawCall, seeing } from './interceptor.ts';

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
  /** Runs before the stream is opened; where tokens are used, it renews the one the stream will carry. */
  readonly prepare: () => Promise<void>;
  readonly open: (
    client: Connection['client'],
    options: GrpcCallOptions,
  ) => Promise<Duplex<Request, Response>>;
  readonly onMessage: (response: Response) => void;
  /** The stream is over, and not by `close`. Called once. */
  readonly onLost: () => void;
}

/** Lets a member that has lost its quorum end the stream, instead of keeping it open in silence. */
function requireLeader(call: RawCall): void {
  const start = call.start.bind(call);
  call.start = (metadata, listener) => {
    metadata.set('hasleader', 'true');
    start(metadata, listener);
  };
}

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
    this.#open().catch(() => {
      this.#lose();
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
    await prepare();
    if (this.#isOver) return;
    const duplex = await open(connection.client, seeing(requireLeader));
    // A cancelled stream reports an error as well; without this listener it would end the process.
    duplex.on('error', () => {
      this.#lose();
    });
    duplex.on('end', () => {
      this.#lose();
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

  #lose(): void {
    if (this.#isOver) return;
    this.close();
    this.#options.onLost();
  }
}
