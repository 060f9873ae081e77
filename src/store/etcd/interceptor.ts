/** What of grpc-js lies below etcd3's clients, in the few words that are needed: its types ask for its own classes. */
import type { Etcd3 } from 'etcd3';

/** Options of one call of an etcd3 client. */
export type GrpcCallOptions = NonNullable<Parameters<Etcd3['kv']['range']>[1]>;

/** Headers of a call. */
interface RawMetadata {
  set(name: string, value: string): void;
}

/** A call on its way. */
export interface RawCall {
  start(metadata: RawMetadata, listener: unknown): void;
  cancelWithStatus(status: number, details: string): void;
}

/** Call options that show each call to `see` before it starts, also one that etcd3 sends again with a fresh token. */
export function seeing(see: (call: RawCall) => void): GrpcCallOptions {
  const interceptor = (options: unknown, next: (options: unknown) => RawCall): RawCall => {
    const call = next(options);
    see(call);
    return call;
  };
  return { interceptors: [interceptor] as unknown as NonNullable<GrpcCallOptions['interceptors']> };
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
