/** Proxies that the environment names: left alone unless they are asked for, and named where they are in the way. */
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { EtcdProxy } from '../../../src/store/etcd/index.ts';
import { etcdStore } from '../../../src/store/etcd/index.ts';
import { nameThroughProxy } from '../../../src/store/etcd/options/proxy.ts';
import { type EtcdServer, startEtcd } from '../support/server.ts';

const VARIABLES = ['grpc_proxy', 'https_proxy', 'http_proxy', 'no_grpc_proxy', 'no_proxy'];
const HELD = new Map(VARIABLES.map((name) => [name, process.env[name]]));

let etcd: EtcdServer;
let proxy: Server;
let proxyPort = 0;
let mayConnect = true;
let connections: string[] = [];

beforeAll(async () => {
  etcd = await startEtcd();
  proxy = createServer();
  proxy.on('connect', ({ url = '' }, socket) => {
    connections.push(url);
    if (!mayConnect) {
      socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
      return;
    }
    const [host, port] = url.split(':');
    const beyond = connect(Number(port), host);
    socket.write('HTTP/1.1 200 OK\r\n\r\n');
    socket.pipe(beyond).pipe(socket);
    socket.on('error', () => beyond.destroy());
    beyond.on('error', () => socket.destroy());
  });
  await new Promise<void>((resolve) => {
    proxy.listen(0, '127.0.0.1', resolve);
  });
  proxyPort = (proxy.address() as AddressInfo).port;
});
afterAll(async () => {
  proxy.closeAllConnections();
  proxy.close();
  await etcd.stop();
});
beforeEach(() => {
  for (const name of VARIABLES) delete process.env[name];
  connections = [];
  mayConnect = true;
});
afterEach(() => {
  for (const [name, value] of HELD) {
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  }
});

const address = (): string => `http://user:secret@127.0.0.1:${proxyPort}`;

/** Reads once; the error if there is one. */
async function readThrough(given?: EtcdProxy): Promise<unknown> {
  const store = etcdStore({
    endpoints: [etcd.endpoint],
    ...(given === undefined ? {} : { proxy: given }),
  });
  try {
    const page = await store.read({ prefix: 'none/' }, {}, { timeoutMs: 3_000 });
    return page.kind;
  } catch (error) {
    return error;
  } finally {
    await store.close();
  }
}

describe('proxies of the environment', () => {
  test.each(['grpc_proxy', 'https_proxy', 'http_proxy'])(
    'proxies of the environment - %s is left alone unless it is asked for',
    async (name) => {
      process.env[name] = address();
      expect(await readThrough()).toBe('page');
      expect(await readThrough('none')).toBe('page');
      expect(connections).toEqual([]);
    },
  );

  test('proxies of the environment - one that is asked for connects', async () => {
    process.env.http_proxy = address();
    expect(await readThrough('environment')).toBe('page');
    expect(connections).not.toEqual([]);
    expect(new Set(connections)).toEqual(new Set([`127.0.0.1:${etcd.port}`]));
  });

  test('proxies of the environment - one that is asked for is not used for what no_proxy excepts', async () => {
    process.env.http_proxy = address();
    process.env.no_proxy = '127.0.0.1,example.org';
    expect(await readThrough('environment')).toBe('page');
    expect(connections).toEqual([]);
  });

  test('proxies of the environment - one that refuses is named with its variable and the endpoint', async () => {
    mayConnect = false;
    process.env.http_proxy = address();
    const error = (await readThrough('environment')) as Error;
    expect(error).toMatchObject({ code: 'E_STORE_UNREACHABLE' });
    const place = `${etcd.endpoint} through the proxy 127.0.0.1:${proxyPort} of http_proxy`;
    expect(error.message).toContain(place);
    expect(error.message).not.toContain('secret');
  });

  test('the option - has two values', () => {
    const proxy = 'http://proxy:1' as EtcdProxy;
    expect(() => etcdStore({ endpoints: [etcd.endpoint], proxy })).toThrow(
      /proxy = "http:\/\/proxy:1": must be 'none' or 'environment'/,
    );
  });
});

describe('the name of a way', () => {
  const endpoint = 'http://etcd-0:2379';
  test.each([
    ['without a proxy', {}, endpoint],
    [
      'the first variable counts',
      { http_proxy: 'http://a:1', grpc_proxy: 'http://b' },
      `${endpoint} through the proxy b:80 of grpc_proxy`,
    ],
    ['what grpc-js cannot read', { http_proxy: 'a:1' }, endpoint],
    ['another kind of proxy', { http_proxy: 'socks5://a:1' }, endpoint],
    ['an exception', { http_proxy: 'http://a:1', no_proxy: 'x.org,etcd-0' }, endpoint],
    [
      'an exception for others',
      { http_proxy: 'http://a:1', no_grpc_proxy: 'x.org', no_proxy: 'etcd-0' },
      `${endpoint} through the proxy a:1 of http_proxy`,
    ],
  ])('the name of a way - %s', (_what, environment, name) => {
    expect(nameThroughProxy(endpoint, environment)).toBe(name);
  });
});
