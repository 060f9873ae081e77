/** What of grpc-js lies below etcd3's clients, in the few words that are needed: its types ask for its own classes. */
import type { Etcd3 } from 'etcd3';

/** Options of one call of an etcd3 client. */
export type GrpcCallOptions = NonNullable<Parameters<Etcd3['kv']['range']>[1]>;

/** Headers of a call. */
interface RawMetadata {
  set(name: string, value: string): void;
}

/** How a call ended. */
interface RawStatus {
  readonly code: number;
  readonly details: string;
}

interface RawListener {
  onReceiveMetadata(metadata: unknown): void;
  onReceiveMessage(message: unknown): void;
  onReceiveStatus(status: RawStatus): void;
}

/** A call on its way. */
export interface RawCall {
  start(metadata: RawMetadata, listener: RawListener): void;
  cancelWithStatus(status: number, details: string): void;
}

/** Call options that show each call to `see` before it starts. */
function seeing(see: (call: RawCall) => void): GrpcCallOptions {
  const interceptor = (options: unknown, next: (options: unknown) => RawCall): RawCall => {
    const call = next(options);
    see(call);
    return call;
  };
  return { interceptors: [interceptor] as unknown as NonNullable<GrpcCallOptions['interceptors']> };
}

/** Call options that set headers of each call, and show it to `see`, before it starts. */
export function withHeaders(
  headers: Readonly<Record<string, string>>,
  see: (call: RawCall) => void,
): GrpcCallOptions {
  return seeing((call) => {
    see(call);
    const start = call.start.bind(call);
    call.start = (metadata, listener) => {
      for (const [name, value] of Object.entries(headers)) metadata.set(name, value);
      start(metadata, listener);
    };
  });
}

/** What grpc-js says of an answer that is larger than its client takes. */
const TOO_LARGE = /received message larger than max/i;
const RESOURCE_EXHAUSTED = 8;
const FAILED_PRECONDITION = 9;
/** What etcd says of a token that has run out, or that it does not know. */
const TOKEN = /invalid auth token/;

/**
 * Calls by another name what etcd3 would act upon wrongly: an answer that is too large is no fault of the connection, below
 * which it would pull the channel away from other calls; a token that is refused it would send again without end.
 */
export function taming(call: RawCall): void {
  const start = call.start.bind(call);
  call.start = (metadata, listener) => {
    start(metadata, {
      onReceiveMetadata: (received) => listener.onReceiveMetadata(received),
      onReceiveMessage: (message) => listener.onReceiveMessage(message),
      onReceiveStatus: (status) => listener.onReceiveStatus(tamed(status)),
    });
  };
}

function tamed(status: RawStatus): RawStatus {
  const { code, details } = status;
  if (code === RESOURCE_EXHAUSTED && TOO_LARGE.test(details)) {
    return { ...status, code: FAILED_PRECONDITION };
  }
  return TOKEN.test(details)
    ? { ...status, details: details.replace(TOKEN, REFUSED_TOKEN) }
    : status;
}

const REFUSED_TOKEN = 'auth token refused';

/** What a call throws whose answer was too large. */
export function isTooLarge(thrown: unknown): boolean {
  return thrown instanceof Error && TOO_LARGE.test(thrown.message);
}

/** What a call throws whose token was refused: before anything else was done. */
export function isTokenRefused(thrown: unknown): boolean {
  return thrown instanceof Error && thrown.message.includes(REFUSED_TOKEN);
}

/** The way to one endpoint for one service of etcd. */
export interface RawChannel {
  getConnectivityState(tryToConnect: boolean): number;
  close(): void;
}

const SHUT_DOWN = 4;

export function isShutDown(channel: RawChannel): boolean {
  return channel.getConnectivityState(false) === SHUT_DOWN;
}

/** Channel options that show the channel of each call to `see`. */
export function seeingChannels(
  see: (channel: RawChannel) => void,
): Readonly<Record<string, unknown>> {
  return {
    callInvocationTransformer: <Properties extends { channel: RawChannel }>(call: Properties) => {
      see(call.channel);
      return call;
    },
  };
}
