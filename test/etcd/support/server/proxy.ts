/**
 * A TCP proxy on loopback that stands between a client and a server and misbehaves as told.
 *
 * It passes bytes on and knows nothing of what they mean. Its port lies below those of outgoing connections, so that it can
 * stop listening and come back.
 */
import { once } from 'node:events';
import { createServer, connect } from 'node:net';
import type { Server, Socket } from 'node:net';
import { atEnd } from './cleanup.ts';
import { freePort, LOOPBACK } from './ports.ts';

/** Which way bytes go: `requests` from the client to the server, `answers` back. */
export type Direction = 'requests' | 'answers';

/** What a proxy has seen. */
export interface ProxyCounters {
  /** Connections accepted so far. */
  accepted: number;
  /** Connections broken on purpose. */
  dropped: number;
  /** Bytes passed on. */
  requestBytes: number;
  answerBytes: number;
  /** Bytes that went into a black hole. */
  swallowedBytes: number;
}

export interface Proxy {
  readonly endpoint: string;
  readonly port: number;
  readonly counters: Readonly<ProxyCounters>;
  /** Connections now open on the client's side. */
  readonly open: number;
  /** Breaks every connection and refuses new ones. */
  cut(): void;
  /** Breaks every connection; new ones are served as before. */
  drop(): void;
  /**
   * Swallows bytes, of connections that are open and of new ones, which are accepted. Given one direction, the other one
   * goes on: with `answers` a request is carried out and its sender hears nothing.
   */
  blackHole(direction?: Direction): void;
  /** Holds bytes back until `heal`, as a network that resends what it lost; new connections are accepted. */
  hold(): void;
  /** Delays every byte by this much in each direction. */
  slow(ms: number): void;
  /** Serves new connections from another server; those that are open are broken. */
  moveTo(target: ProxyTarget): void;
  /** Works again. Connections that lost bytes are broken, the others go on. */
  heal(): Promise<void>;
  /** Ends for good and leaves nothing open. */
  stop(): Promise<void>;
}

/** A port of loopback, or an endpoint there. */
export type ProxyTarget = number | string | { readonly port: number };

type Mode = 'pass' | 'cut' | 'hold' | 'swallow' | 'swallow-requests' | 'swallow-answers';

export async function startProxy(target: ProxyTarget): Promise<Proxy> {
  const proxy = new LoopbackProxy(await freePort(), target);
  await proxy.listen();
  return proxy;
}

class LoopbackProxy implements Proxy {
  readonly endpoint: string;
  readonly port: number;
  readonly counters: ProxyCounters = {
    accepted: 0,
    dropped: 0,
    requestBytes: 0,
    answerBytes: 0,
    swallowedBytes: 0,
  };
  readonly #links = new Set<Link>();
  readonly #forget: () => void;
  #target: number;
  #server: Server | null = null;
  #mode: Mode = 'pass';
  #delayMs = 0;

  constructor(port: number, target: ProxyTarget) {
    this.port = port;
    this.#target = portOf(target);
    const scheme = typeof target === 'string' && target.startsWith('https:') ? 'https' : 'http';
    this.endpoint = `${scheme}://${LOOPBACK}:${port}`;
    this.#forget = atEnd(() => this.stop());
  }

  get open(): number {
    return this.#links.size;
  }

  get delayMs(): number {
    return this.#delayMs;
  }

  get isHolding(): boolean {
    return this.#mode === 'hold';
  }

  /** Neither end hears anything of the other one. */
  get isSilent(): boolean {
    return this.#mode === 'hold' || this.#mode === 'swallow';
  }

  swallows(direction: Direction): boolean {
    return this.#mode === 'swallow' || this.#mode === `swallow-${direction}`;
  }

  async listen(): Promise<void> {
    const server = createServer({ allowHalfOpen: true }, (client) => {
      this.#accept(client);
    });
    this.#server = server;
    server.listen({ host: LOOPBACK, port: this.port, exclusive: true });
    await once(server, 'listening');
  }

  cut(): void {
    this.#mode = 'cut';
    this.#server?.close();
    this.#server = null;
    this.drop();
  }

  drop(): void {
    for (const link of this.#links) this.#break(link);
  }

  blackHole(direction?: Direction): void {
    this.#enter(direction === undefined ? 'swallow' : `swallow-${direction}`);
  }

  hold(): void {
    this.#enter('hold');
  }

  slow(ms: number): void {
    this.#delayMs = ms;
  }

  moveTo(target: ProxyTarget): void {
    this.#target = portOf(target);
    this.drop();
  }

  async heal(): Promise<void> {
    this.#mode = 'pass';
    this.#delayMs = 0;
    for (const link of this.#links) {
      if (link.isLost) this.#break(link);
      else link.goOn();
    }
    if (this.#server === null) await this.listen();
  }

  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = null;
    this.#mode = 'cut';
    const closed = server === null ? undefined : once(server, 'close');
    server?.close();
    for (const link of this.#links) link.destroy();
    await closed;
    this.#forget();
  }

  #enter(mode: Mode): void {
    if (this.#server === null) throw new Error('the proxy is cut: heal it first');
    this.#mode = mode;
    for (const link of this.#links) link.goOn();
  }

  #accept(client: Socket): void {
    this.counters.accepted += 1;
    if (this.#mode === 'cut') {
      client.resetAndDestroy();
      return;
    }
    const server = connect({ host: LOOPBACK, port: this.#target, allowHalfOpen: true });
    const link = new Link(this, client, server, () => {
      this.#links.delete(link);
    });
    this.#links.add(link);
  }

  #break(link: Link): void {
    this.counters.dropped += 1;
    link.destroy();
  }
}

/** One connection through a proxy. */
class Link {
  readonly #proxy: LoopbackProxy;
  readonly #client: Socket;
  readonly #server: Socket;
  readonly #lanes: readonly Lane[];
  /** An end died where the other one cannot hear of it yet. */
  #isBroken = false;

  constructor(proxy: LoopbackProxy, client: Socket, server: Socket, closed: () => void) {
    this.#proxy = proxy;
    this.#client = client;
    this.#server = server;
    this.#lanes = [
      new Lane(proxy, 'requests', client, server),
      new Lane(proxy, 'answers', server, client),
    ];
    for (const socket of [client, server]) {
      socket.setNoDelay(true);
      socket.on('error', () => {
        this.#onError();
      });
      socket.once('close', () => {
        if (client.closed && server.closed) closed();
      });
    }
  }

  /** True when it cannot go on as if nothing had been. */
  get isLost(): boolean {
    return this.#isBroken || this.#lanes.some((lane) => lane.hasLostBytes);
  }

  goOn(): void {
    for (const lane of this.#lanes) lane.goOn();
  }

  /** Breaks both ends at once, as a router that forgot the connection. */
  destroy(): void {
    for (const lane of this.#lanes) lane.end();
    for (const socket of [this.#client, this.#server]) {
      if (socket.destroyed) continue;
      // A reset of one that is being shut down fails, and leaves a handle that no process can end with.
      if (socket.writableEnded) socket.destroy();
      else socket.resetAndDestroy();
    }
  }

  #onError(): void {
    this.#isBroken = true;
    if (!this.#proxy.isSilent) this.destroy();
  }
}

/** One direction of a connection. */
class Lane {
  hasLostBytes = false;
  readonly #proxy: LoopbackProxy;
  readonly #direction: Direction;
  readonly #from: Socket;
  readonly #to: Socket;
  readonly #waiting: { readonly dueAtMs: number; readonly chunk: Buffer | null }[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(proxy: LoopbackProxy, direction: Direction, from: Socket, to: Socket) {
    this.#proxy = proxy;
    this.#direction = direction;
    this.#from = from;
    this.#to = to;
    from.on('data', (chunk: Buffer) => {
      this.#take(chunk);
    });
    from.on('end', () => {
      this.#take(null);
    });
    to.on('drain', () => {
      this.goOn();
    });
    this.goOn();
  }

  /** Acts on what the proxy is told now. */
  goOn(): void {
    if (this.#proxy.isHolding) {
      this.#from.pause();
      clearTimeout(this.#timer);
      this.#timer = undefined;
      return;
    }
    this.#pass();
    if (!this.#to.writableNeedDrain) this.#from.resume();
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#waiting.length = 0;
  }

  #take(chunk: Buffer | null): void {
    if (this.#proxy.swallows(this.#direction)) {
      this.#swallow(chunk);
      return;
    }
    this.#waiting.push({ dueAtMs: performance.now() + this.#proxy.delayMs, chunk });
    if (!this.#proxy.isHolding) this.#pass();
  }

  #swallow(chunk: Buffer | null): void {
    this.hasLostBytes = true;
    this.#proxy.counters.swallowedBytes += chunk?.length ?? 0;
  }

  #pass(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (;;) {
      const [first] = this.#waiting;
      if (first === undefined) return;
      const restMs = first.dueAtMs - performance.now();
      if (restMs > 0 && this.#proxy.delayMs > 0) {
        this.#timer = setTimeout(() => {
          this.#pass();
        }, restMs);
        return;
      }
      this.#waiting.shift();
      this.#deliver(first.chunk);
    }
  }

  #deliver(chunk: Buffer | null): void {
    if (this.#proxy.swallows(this.#direction)) {
      this.#swallow(chunk);
      return;
    }
    if (chunk === null) {
      this.#to.end();
      return;
    }
    const { counters } = this.#proxy;
    if (this.#direction === 'requests') counters.requestBytes += chunk.length;
    else counters.answerBytes += chunk.length;
    if (!this.#to.write(chunk)) this.#from.pause();
  }
}

function portOf(target: ProxyTarget): number {
  if (typeof target === 'number') return target;
  return typeof target === 'string' ? Number(new URL(target).port) : target.port;
}
