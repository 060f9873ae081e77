/** The tools of the etcd tests do what their names say; a test on them proves nothing otherwise. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { findEtcd } from '../support/server/binary.ts';
import { createCertificates } from '../support/server/certificates.ts';
import type { CertificateAuthority } from '../support/server/certificates.ts';
import { startCluster } from '../support/server/cluster.ts';
import { Gateway } from '../support/server/gateway.ts';
import { startProxy } from '../support/server/proxy.ts';
import type { Proxy } from '../support/server/proxy.ts';
import { startEtcd } from '../support/server.ts';
import type { EtcdServer } from '../support/server.ts';

/** Longer than loopback ever takes to answer here. */
const NEVER_MS = 300;

describe('server', () => {
  let server: EtcdServer;
  beforeAll(async () => {
    server = await startEtcd();
  });
  afterAll(() => server.stop());

  test('server - grants a lease of two seconds, and not less', async () => {
    const { id, ttlSeconds } = await server.gateway.grant(1);
    expect(ttlSeconds).toBe(2);
    await server.gateway.put('on-lease', 'x', id);
    expect(await server.gateway.get('on-lease')).toMatchObject({ lease: id });
    await server.gateway.revoke(id);
    expect(await server.gateway.get('on-lease')).toBeNull();
  });

  test('server - killed and started again has its port, its data and another process', async () => {
    const { endpoint, pid } = server;
    const { clusterId } = await server.gateway.status();
    await server.gateway.put('kept', 'value');
    await server.kill();
    expect(server.isRunning).toBe(false);
    expect(isAlive(pid)).toBe(false);
    await expect(server.gateway.get('kept')).rejects.toThrow('ECONNREFUSED');
    await server.restart();
    expect(server.endpoint).toBe(endpoint);
    expect(server.pid).not.toBe(pid);
    expect(await server.gateway.get('kept')).toMatchObject({ value: 'value', version: 1n });
    expect(await server.gateway.status()).toMatchObject({ clusterId });
  });

  test('server - paused answers nothing, and goes on where it was', async () => {
    server.pause();
    await expect(server.gateway.call('kv/range', { key: 'AA==' }, NEVER_MS)).rejects.toThrow(
      'no answer',
    );
    server.resume();
    await expect(server.gateway.get('kept')).resolves.not.toBeNull();
  });

  test('server - restored from a snapshot goes back in time under the same cluster id', async () => {
    await server.gateway.put('restored', 'before');
    const before = await server.gateway.position();
    const snapshot = await server.snapshot();
    await server.gateway.put('restored', 'after');
    await server.restartFrom(snapshot);
    expect(await server.gateway.position()).toEqual(before);
    expect(await server.gateway.get('restored')).toMatchObject({ value: 'before' });
  });

  test('server - started again without data is another cluster at its first revision', async () => {
    const { clusterId } = await server.gateway.status();
    await server.restartEmpty();
    const position = await server.gateway.position();
    expect(position.revision).toBe(1n);
    expect(position.clusterId).not.toBe(clusterId);
  });

  test('server - with a small quota refuses to write, and keeps what it has', async () => {
    const small = await startEtcd({ quotaBytes: 1024 * 1024 });
    const fill = async (): Promise<void> => {
      // etcd notices only each 100 ms how large it is.
      for (let part = 0; part < 500; part += 1) {
        await small.gateway.put(`part-${part}`, 'x'.repeat(100_000));
      }
    };
    await expect(fill()).rejects.toThrow('database space exceeded');
    expect(await small.gateway.get('part-0')).not.toBeNull();
    await small.stop();
  });

  test('server - stopped leaves no process and no files', async () => {
    const short = await startEtcd();
    const { pid, dataDir } = short;
    expect(existsSync(dataDir)).toBe(true);
    await short.stop();
    expect(isAlive(pid)).toBe(false);
    expect(existsSync(path.dirname(dataDir))).toBe(false);
    await expect(short.restart()).rejects.toThrow('stopped for good');
  });

  test('server - that cannot start says why', async () => {
    const start = startEtcd({ extraArgs: ['--no-such-flag'] });
    await expect(start).rejects.toThrow('no-such-flag');
    const twice = startEtcd({ port: server.port });
    await expect(twice).rejects.toThrow('address already in use');
  });

  test('server - of LEASEHOLD_ETCD goes before the one on PATH; a wrong name is reported', async () => {
    const { LEASEHOLD_ETCD: named, PATH: usual } = process.env;
    const onPath = await findEtcd();
    try {
      delete process.env.LEASEHOLD_ETCD;
      process.env.PATH = path.dirname(onPath);
      expect(await findEtcd()).toBe(path.join(path.dirname(onPath), 'etcd'));
      process.env.LEASEHOLD_ETCD = process.execPath;
      expect(await findEtcd()).toBe(process.execPath);
      process.env.LEASEHOLD_ETCD = path.join(import.meta.dirname, 'none');
      await expect(findEtcd()).rejects.toThrow(/LEASEHOLD_ETCD names no program: .*none/);
    } finally {
      process.env.PATH = usual;
      if (named === undefined) delete process.env.LEASEHOLD_ETCD;
      else process.env.LEASEHOLD_ETCD = named;
    }
  });

  test('server - ends with the process that started it, also when that one is killed', async () => {
    const program = `
      import { startEtcd } from ${JSON.stringify(path.join(import.meta.dirname, '../support/server.ts'))};
      const { pid, dataDir } = await startEtcd();
      console.log(JSON.stringify({ pid, dataDir }));
      setInterval(() => undefined, 1000);`;
    const starter = spawn(
      process.execPath,
      ['--import', 'tsx', '--input-type=module', '-e', program],
      {
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    );
    const [line] = (await once(starter.stdout, 'data')) as [Buffer];
    const { pid, dataDir } = JSON.parse(line.toString()) as { pid: number; dataDir: string };
    expect(isAlive(pid)).toBe(true);
    starter.kill('SIGKILL');
    await until(() => !isAlive(pid) && !existsSync(path.dirname(dataDir)));
  });
});

describe('proxy', () => {
  let echo: Echo;
  let proxy: Proxy;
  beforeAll(async () => {
    echo = await startEcho('');
    proxy = await startProxy(echo.port);
  });
  afterAll(async () => {
    await proxy.stop();
    await echo.stop();
  });

  test('proxy - passes bytes both ways and counts them', async () => {
    const client = await dial(proxy.port);
    expect(await client.ask('hello')).toBe('hello');
    expect(proxy.counters).toMatchObject({ accepted: 1, requestBytes: 5, answerBytes: 5 });
    client.socket.end();
    await until(() => proxy.open === 0);
  });

  test('proxy - cut breaks what is open and refuses what is new, until it heals on its port', async () => {
    const client = await dial(proxy.port);
    await client.ask('one');
    proxy.cut();
    await client.closed;
    await expect(dial(proxy.port)).rejects.toThrow('ECONNREFUSED');
    await proxy.heal();
    expect(await (await dial(proxy.port)).ask('two')).toBe('two');
    proxy.drop();
    await until(() => proxy.open === 0);
  });

  test('proxy - dropped connections can be opened again at once', async () => {
    const client = await dial(proxy.port);
    await client.ask('one');
    proxy.drop();
    await client.closed;
    const next = await dial(proxy.port);
    expect(await next.ask('two')).toBe('two');
    next.socket.destroy();
  });

  test('proxy - a black hole swallows, also of new connections, and heals by breaking them', async () => {
    const before = await dial(proxy.port);
    await before.ask('one');
    proxy.blackHole();
    const within = await dial(proxy.port);
    expect(await before.ask('lost')).toBeNull();
    expect(await within.ask('lost')).toBeNull();
    expect(proxy.counters.swallowedBytes).toBe(8);
    expect(before.isClosed || within.isClosed).toBe(false);
    await proxy.heal();
    await Promise.all([before.closed, within.closed]);
    const after = await dial(proxy.port);
    expect(await after.ask('two')).toBe('two');
    after.socket.destroy();
  });

  test('proxy - a server that dies in a black hole is not noticed before it heals', async () => {
    const short = await startEcho('');
    const way = await startProxy(short.port);
    const client = await dial(way.port);
    await client.ask('one');
    way.blackHole();
    await short.stop();
    expect(await client.ask('lost')).toBeNull();
    expect(client.isClosed).toBe(false);
    await way.heal();
    await client.closed;
    await way.stop();
  });

  test('proxy - held bytes arrive when it heals, on the same connection', async () => {
    const client = await dial(proxy.port);
    await client.ask('one');
    proxy.hold();
    expect(await client.ask('late')).toBeNull();
    const answer = once(client.socket, 'data');
    await proxy.heal();
    expect(String(await answer)).toBe('late');
    client.socket.destroy();
  });

  test('proxy - slow delays each direction, in order', async () => {
    const client = await dial(proxy.port);
    proxy.slow(60);
    const startedAtMs = performance.now();
    client.socket.write('a');
    await sleep(10);
    client.socket.write('b');
    let text = '';
    for await (const chunk of client.socket) if ((text += String(chunk)).length === 2) break;
    expect(text).toBe('ab');
    expect(performance.now() - startedAtMs).toBeGreaterThanOrEqual(120);
    await proxy.heal();
  });

  test('proxy - moved serves from another server, and breaks what is open', async () => {
    const other = await startEcho('other ');
    const client = await dial(proxy.port);
    await client.ask('one');
    proxy.moveTo(other);
    await client.closed;
    const next = await dial(proxy.port);
    expect(await next.ask('two')).toBe('other two');
    proxy.moveTo(echo);
    await other.stop();
  });

  test('proxy - stopped leaves nothing open, whatever it was doing', async () => {
    const modes = [
      (short: Proxy) => short.slow(5_000),
      (short: Proxy) => short.hold(),
      (short: Proxy) => short.blackHole(),
    ];
    for (const enter of modes) {
      const short = await startProxy(echo.port);
      const client = await dial(short.port);
      enter(short);
      client.socket.write('x');
      await sleep(20);
      await short.stop();
      await client.closed;
      await until(() => short.open === 0);
      await expect(dial(short.port)).rejects.toThrow('ECONNREFUSED');
    }
    expect(echo.open).toBe(0);
  });

  test('proxy - that swallows the answer leaves a write that landed, of which its writer knows nothing', async () => {
    const server = await startEtcd();
    const way = await startProxy(server.endpoint);
    const through = new Gateway(way.endpoint);
    await through.put('key', 'one');
    way.blackHole('answers');
    await expect(through.call('kv/put', { key: 'a2V5', value: 'dHdv' }, NEVER_MS)).rejects.toThrow(
      'no answer',
    );
    expect(await server.gateway.get('key')).toMatchObject({ value: 'two', version: 2n });
    await way.stop();
    await server.stop();
  });
});

describe('cluster', () => {
  test('cluster - three members agree on a leader, and on another one when that one is killed or stopped', async () => {
    const cluster = await startCluster({ size: 3 });
    const first = await cluster.leader();
    await first.gateway.put('key', 'one');
    await first.kill();
    const second = await cluster.leader();
    expect(second).not.toBe(first);
    await second.gateway.put('key', 'two');
    await first.restart();
    expect(await first.gateway.get('key')).toMatchObject({ value: 'two' });

    second.pause();
    await expect(second.gateway.position(NEVER_MS)).rejects.toThrow('no answer');
    const third = await cluster.leader();
    expect(third).not.toBe(second);
    second.resume();

    const [one, two] = await cluster.followers();
    await Promise.all([one!.kill(), two!.kill()]);
    const last = cluster.members.find(({ isRunning }) => isRunning)!;
    await expect(last.gateway.position(NEVER_MS)).rejects.toThrow();
    await cluster.restartAll();
    expect(await last.gateway.get('key')).toMatchObject({ value: 'two' });
    const pids = cluster.members.map(({ pid }) => pid);
    await cluster.stop();
    expect(pids.some(isAlive)).toBe(false);
  });
});

describe('certificates', () => {
  let authority: CertificateAuthority;
  beforeAll(async () => {
    authority = await createCertificates();
  });
  afterAll(() => authority.stop());

  test('certificates - a server that wants one refuses clients without, of another authority, and expired ones', async () => {
    const other = await createCertificates();
    const [short, long, foreign] = await Promise.all([
      authority.client('short', 2),
      authority.client('long'),
      other.client('long'),
    ]);
    const issuedAtMs = performance.now();
    const server = await startEtcd({
      tls: await authority.tls({ requireClientCertificate: true }),
    });
    const { ca } = authority;
    expect(server.endpoint).toMatch(/^https:/);
    const ask = async (shown: object, trusted = ca): Promise<unknown> =>
      new Gateway(server.endpoint, { ca: trusted, ...shown }).put('key', 'value');

    await expect(ask(await long.read())).resolves.toBeDefined();
    await expect(ask({})).rejects.toThrow();
    await expect(ask(await foreign.read())).rejects.toThrow();
    await expect(ask(await long.read(), other.ca)).rejects.toThrow('certificate');

    await sleep(Math.max(0, 3_000 - (performance.now() - issuedAtMs)));
    await expect(ask(await short.read())).rejects.toThrow();
    const before = await short.read();
    await short.renew();
    expect(await short.read()).not.toEqual(before);
    await expect(ask(await short.read())).resolves.toBeDefined();
    await server.stop();
    await other.stop();
  });

  test('users - may touch the keys of their prefix alone; a token that ran out is renewed', async () => {
    const server = await startEtcd({
      tls: await authority.tls(),
      auth: {
        rootPassword: 'secret',
        users: [{ name: 'worker', password: 'word', prefix: 'jobs/' }],
        tokenTtlSeconds: 1,
      },
    });
    const worker = new Gateway(server.endpoint, { ca: authority.ca });
    await expect(worker.put('jobs/one', 'x')).rejects.toThrow('user name is empty');
    await expect(worker.logIn('worker', 'wrong')).rejects.toThrow('authentication failed');
    await worker.logIn('worker', 'word');
    await worker.put('jobs/one', 'x');
    await expect(worker.put('other/one', 'x')).rejects.toThrow('permission denied');
    await sleep(2_200);
    await worker.put('jobs/one', 'y');
    await server.restart();
    expect(await server.gateway.get('jobs/one')).toMatchObject({ value: 'y' });
    await server.stop();
  });
});

interface Echo {
  readonly port: number;
  readonly open: number;
  stop(): Promise<void>;
}

async function startEcho(prefix: string): Promise<Echo> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => sockets.delete(socket));
    socket.on('data', (chunk) => socket.write(prefix + chunk.toString()));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    get open() {
      return sockets.size;
    },
    async stop() {
      const closed = once(server, 'close');
      server.close();
      for (const socket of sockets) socket.resetAndDestroy();
      await closed;
    },
  };
}

interface Client {
  readonly socket: Socket;
  readonly isClosed: boolean;
  readonly closed: Promise<unknown>;
  /** The next bytes that come back; null when none do. */
  ask(text: string): Promise<string | null>;
}

async function dial(port: number): Promise<Client> {
  const socket = connect(port, '127.0.0.1');
  const closed = new Promise((resolve) => socket.once('close', resolve));
  await once(socket, 'connect');
  socket.on('error', () => undefined);
  return {
    socket,
    closed,
    get isClosed() {
      return socket.closed;
    },
    ask(text) {
      socket.write(text);
      return new Promise((resolve) => {
        const timer = setTimeout(() => {
          socket.off('data', answer);
          resolve(null);
        }, NEVER_MS);
        const answer = (chunk: Buffer): void => {
          clearTimeout(timer);
          resolve(chunk.toString());
        };
        socket.once('data', answer);
      });
    },
  };
}

async function until(condition: () => boolean): Promise<void> {
  const deadline = performance.now() + 10_000;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`never: ${condition.toString()}`);
    await sleep(20);
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
