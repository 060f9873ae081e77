/** The etcd store where etcd speaks TLS, asks for certificates or passwords, and where these change. */
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { ABSENT, nextRevision } from '../../../src/base/decimals.ts';
import { isLeaseholdError } from '../../../src/base/errors.ts';
import { type EtcdStore, etcdStore, type EtcdStoreOptions } from '../../../src/store/etcd/index.ts';
import type { Compare } from '../../../src/store/port.ts';
import {
  batch,
  CALL,
  expectCode,
  newest,
  put,
  readOne,
  readPage,
  type Recording,
  record,
  sessionNamed,
  write,
} from '../../store/support.ts';
import { patiently } from '../../support/patience.js';
import { until } from '../support/eventually.ts';
import { type CertificateAuthority, createCertificates } from '../support/server/certificates.ts';
import { endOfPrefix } from '../support/server/gateway.ts';
import { startProxy } from '../support/server/proxy.ts';
import { type EtcdServer, startEtcd } from '../support/server.ts';

const stores: EtcdStore[] = [];

afterEach(async () => {
  for (const store of stores.splice(0)) await store.close();
});

function client(options: EtcdStoreOptions): EtcdStore {
  const store = etcdStore(options);
  stores.push(store);
  return store;
}

/** Uses every kind of call and stream. */
async function useAll(store: EtcdStore, prefix: string): Promise<void> {
  const mine = sessionNamed(prefix);
  await store.openSession(mine, 5_000, CALL);
  const watch = record(store.watch({ prefix }, nextRevision(await revisionIn(store, prefix))));
  await write(store, put(`${prefix}a`, '1', mine));
  expect(await store.keepAlive(mine, CALL)).toEqual({ ttlMs: 5_000 });
  expect(await readOne(store, `${prefix}a`)).toMatchObject({ session: mine });
  await store.closeSession(mine, CALL);
  await until(() => watch.changes.length === 2);
  watch.stop();
}

async function revisionIn(store: EtcdStore, prefix: string) {
  return (await readPage(store, { prefix }, { limit: 1 })).revision;
}

describe('options', () => {
  test('etcd store - all violations are told at once, and no password', () => {
    const refused = (options: unknown): unknown => {
      try {
        etcdStore(options as EtcdStoreOptions);
        return null;
      } catch (error) {
        return error;
      }
    };
    const error = refused({
      endpoints: ['http://a:1', 'https://b:2', 'http://a:1', 'localhost:2379', 'http://c', 5],
      tls: { caFile: '/nowhere/ca.pem', certFile: import.meta.filename, file: 'x' },
      auth: { username: '', password: 'secret', token: 'secret' },
      timeout: 5,
    });
    expect(isLeaseholdError(error) && error.code).toBe('E_CONFIG_INVALID');
    const { violations } = (error as { details: { violations: { option: string }[] } }).details;
    expect(violations.map(({ option }) => option)).toEqual([
      'timeout',
      'endpoints[2]',
      'endpoints[3]',
      'endpoints[4]',
      'endpoints[5]',
      'endpoints',
      'tls.file',
      'tls.caFile',
      'tls.keyFile',
      'tls',
      'auth.token',
      'auth.username',
    ]);
    expect(JSON.stringify([error, String(error)])).not.toContain('secret');
    for (const options of [null, {}, { endpoints: [] }, { endpoints: 'http://a:1' }]) {
      expect(refused(options)).toMatchObject({ code: 'E_CONFIG_INVALID' });
    }
    const notPem = { endpoints: ['https://a:1'], tls: { caFile: import.meta.filename } };
    expect(String(refused(notPem))).toContain('tls');
    for (const endpoint of ['http://a:1/', 'http://u:p@a:1', 'http://a:1/x', 'ftp://a:1']) {
      expect(refused({ endpoints: [endpoint] })).toMatchObject({ code: 'E_CONFIG_INVALID' });
    }
    const auth = { username: 'worker', password: 5 };
    expect(String(refused({ endpoints: ['http://a:1'], auth }))).toContain('auth.password');
    const given = { username: 'worker', password: () => 'secret' };
    expect(refused({ endpoints: ['http://a:1'], auth: given })).toBeNull();
    expect(refused({ endpoints: ['http://[::1]:2379', 'http://etcd-0.etcd:2379'] })).toBeNull();
  });
});

describe('TLS', () => {
  let authority: CertificateAuthority;
  let stranger: CertificateAuthority;
  let server: EtcdServer;

  beforeAll(async () => {
    [authority, stranger] = await Promise.all([createCertificates(), createCertificates()]);
    server = await startEtcd({ tls: await authority.tls({ requireClientCertificate: true }) });
  });
  afterAll(() => server.stop());

  test('etcd store - with certificates of the right authority everything works', async () => {
    const mine = await authority.client('worker');
    const store = client({
      endpoints: [server.endpoint],
      tls: { caFile: authority.caFile, certFile: mine.certFile, keyFile: mine.keyFile },
    });
    await useAll(store, 'tls/');
  });

  test('etcd store - wrong certificates are fatal at the first call, with what to check', async () => {
    const mine = await authority.client('worker');
    const foreign = await stranger.client('worker');
    const tls = { caFile: authority.caFile, certFile: mine.certFile, keyFile: mine.keyFile };
    const wrong: EtcdStoreOptions[] = [
      { endpoints: [server.endpoint], tls: { ...tls, caFile: stranger.caFile } },
      { endpoints: [server.endpoint] },
    ];
    for (const options of wrong) {
      const error = await readOne(client(options), 'a').catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: 'E_STORE_DENIED', kind: 'fatal' });
      expect(String(error)).toContain('tls.caFile');
    }
    // These end like any broken connection; what exactly went wrong only the server knows.
    const refused: EtcdStoreOptions[] = [
      {
        endpoints: [server.endpoint],
        tls: { ...tls, certFile: foreign.certFile, keyFile: foreign.keyFile },
      },
      { endpoints: [server.endpoint], tls: { caFile: authority.caFile } },
      { endpoints: [server.endpoint.replace('https', 'http')] },
    ];
    for (const options of refused) {
      const error = await readOne(client(options), 'a').catch((thrown: unknown) => thrown);
      expect(isLeaseholdError(error) && error.code).toMatch(/E_STORE_(UNREACHABLE|DENIED)/);
    }
  });

  test('etcd store - certificates that were replaced are read again for the next connection', async () => {
    const first = await authority.client('worker', 3);
    const proxy = await startProxy(server.endpoint);
    const store = client({
      endpoints: [proxy.endpoint],
      tls: { caFile: authority.caFile, certFile: first.certFile, keyFile: first.keyFile },
    });
    const watch = record(store.watch({ prefix: 'renewed/' }, nextRevision(await newest(store))));
    await write(store, put('renewed/a', '1'));
    await until(() => watch.events.length === 1);
    // It runs out; connections that are open go on.
    await sleep(3_200);
    await write(store, put('renewed/b', '1'));
    proxy.drop();
    await sleep(300);
    const late = store.read({ keys: ['renewed/b'] }, {}, CALL);
    const error = await late.catch((thrown: unknown) => thrown);
    // It has answered before: no reason to stop the process.
    expect(isLeaseholdError(error) && error.code).toBe('E_STORE_UNREACHABLE');

    // One file after the other: in between they do not fit together.
    const key = await readFile(first.keyFile);
    const renewed = await authority.client('worker');
    await writeFile(first.keyFile, await readFile(renewed.keyFile));
    await expectCode(readOne(store, 'renewed/b'), 'E_STORE_UNREACHABLE');
    expect(key.equals(await readFile(first.keyFile))).toBe(false);
    await writeFile(first.certFile, await readFile(renewed.certFile));
    expect((await readOne(store, 'renewed/b'))?.value).toBe('1');
    await until(() => watch.events.length === 2);
    await write(store, put('renewed/c', '1'));
    await until(() => watch.events.length === 3);
    watch.stop();
    await proxy.stop();
  });

  test('etcd store - a file that is not there, or no certificate, is refused when the store is made', async () => {
    const broken = path.join(authority.directory, 'broken.pem');
    await writeFile(broken, 'no certificate');
    for (const caFile of [broken, path.join(authority.directory, 'none.pem')]) {
      const options = { endpoints: [server.endpoint], tls: { caFile } };
      expect(() => etcdStore(options)).toThrow('tls');
    }
  });
});

describe('users', () => {
  let server: EtcdServer;
  const TOKEN_TTL_SECONDS = 1;

  beforeAll(async () => {
    server = await startEtcd({
      auth: {
        rootPassword: 'root',
        tokenTtlSeconds: TOKEN_TTL_SECONDS,
        users: [{ name: 'worker', password: 'secret', prefix: 'mine/' }],
      },
    });
  });
  afterAll(() => server.stop());

  const as = (username: string, password: string): EtcdStore =>
    client({ endpoints: [server.endpoint], auth: { username, password } });

  test('etcd store - a user works with the keys it may use, and with no other', async () => {
    const store = as('worker', 'secret');
    await useAll(store, 'mine/');
    await expectCode(readOne(store, 'other/a'), 'E_STORE_DENIED');
    await expectCode(write(store, put('mine/a', '1'), put('other/a', '1')), 'E_STORE_DENIED');
    expect(await readOne(store, 'mine/a')).toBeNull();
  });

  test('etcd store - a wrong password, an unknown user and none at all are refused for good', async () => {
    for (const store of [
      as('worker', 'wrong'),
      as('nobody', 'secret'),
      client({ endpoints: [server.endpoint] }),
    ]) {
      await expectCode(readOne(store, 'mine/a'), 'E_STORE_DENIED');
      await expectCode(write(store, put('mine/a', '1')), 'E_STORE_DENIED');
    }
  });

  test('etcd store - when its token has run out, calls, renewals and watches go on', async () => {
    const proxy = await startProxy(server);
    const store = client({
      endpoints: [proxy.endpoint],
      auth: { username: 'worker', password: 'secret' },
    });
    const mine = sessionNamed('token');
    await store.openSession(mine, 20_000, CALL);
    const from = nextRevision(await revisionIn(store, 'mine/'));
    const first = record(store.watch({ prefix: 'mine/' }, from));
    await write(store, put('mine/a', '1', mine));
    await until(() => first.events.length === 1);
    const outlive = (): Promise<void> => sleep((TOKEN_TTL_SECONDS + 1.2) * 1_000);
    // By another client: a call of this one would fetch a new token.
    const putElsewhere = async (name: string): Promise<void> => {
      await server.gateway.logIn('root', 'root');
      await server.gateway.put(name, '1');
    };

    await outlive();
    // The line still carries the old token: it must be opened anew for a second watch.
    const second = record(store.watch({ prefix: 'mine/b' }, from));
    await putElsewhere('mine/b1');
    await until(() => second.events.length === 1 && first.events.length === 2);

    await outlive();
    proxy.drop();
    await putElsewhere('mine/b2');
    await until(() => second.events.length === 2 && first.events.length === 3);
    expect(await store.keepAlive(mine, CALL)).toEqual({ ttlMs: 20_000 });

    await outlive();
    expect(await store.keepAlive(mine, CALL)).toEqual({ ttlMs: 20_000 });
    await write(store, put('mine/b3', '1'));
    await until(() => second.events.length === 3 && first.events.length === 4);
    first.stop();
    second.stop();
    await store.closeSession(mine, CALL);
    await proxy.stop();
  });

  /** Changes users and roles by hand. */
  const byRoot = async (method: string, request: Readonly<Record<string, unknown>>) => {
    await server.gateway.logIn('root', 'root');
    await server.gateway.call(`auth/${method}`, request);
  };
  const kindsOf = ({ events }: Recording): string =>
    events.map((event) => (event.kind === 'refused' ? event.error.code : event.kind)).join(' ');
  /** Reads until it is allowed again. */
  const untilAllowed = async (store: EtcdStore, key = 'mine/a'): Promise<void> => {
    const endMs = performance.now() + 8_000;
    for (;;) {
      const answer = await readOne(store, key).catch((error: unknown) => error);
      if (!isLeaseholdError(answer)) return;
      if (performance.now() > endMs) throw answer;
      await sleep(50);
    }
  };

  test('etcd store - a watch that is not permitted is refused, once, and does not disturb others', async () => {
    const store = as('worker', 'secret');
    const from = nextRevision(await revisionIn(store, 'mine/'));
    const denied = record(store.watch({ prefix: 'other/' }, from));
    const allowed = record(store.watch({ prefix: 'mine/' }, from));
    for (let index = 0; index < 20; index += 1) {
      await write(store, put(`mine/${index}`, '1'));
      await sleep(100);
    }
    await until(() => allowed.events.length === 20);
    expect(kindsOf(denied)).toBe('E_STORE_DENIED');
    expect(denied.isComplete).toBe(false);

    await byRoot('role/grant', { name: 'worker-keys', perm: { permType: 'READ', ...OTHER } });
    await server.gateway.put('other/a', '1');
    // It is asked for again at least each ten seconds.
    await until(() => denied.events.length === 3, patiently(12_000));
    expect(kindsOf(denied)).toBe('E_STORE_DENIED accepted changes');
    await byRoot('role/revoke', { role: 'worker-keys', ...OTHER });
    denied.stop();
    allowed.stop();
  });

  test('etcd store - a batch is denied like a single write: nothing of it is written', async () => {
    const store = as('worker', 'secret');
    const guard: Compare = { key: 'mine/guard', target: 'createRevision', equals: ABSENT };
    for (const key of ['other/b', 'mine/b']) {
      const txns = [{ writes: [put('mine/c', '1')] }, { writes: [put(key, '1')] }];
      for (const guards of [[], [guard]]) {
        const sent = store.transact(batch(txns, guards), CALL);
        if (key.startsWith('other/')) await expectCode(sent, 'E_STORE_DENIED');
        else expect(await sent).toMatchObject({ kind: 'tried' });
      }
    }
    expect(await server.gateway.get('other/b')).toBeNull();
    expect(await server.gateway.get('mine/b')).toMatchObject({ version: 2n });
    await write(store, put('mine/guard', '1'));
    const late = store.transact(batch([{ writes: [put('mine/d', '1')] }], [guard]), CALL);
    expect(await late).toMatchObject({ kind: 'guardFailed' });
  });

  test('etcd store - a permission that is taken away and given back denies calls meanwhile, and nothing after', async () => {
    const store = as('worker', 'secret');
    const from = nextRevision(await revisionIn(store, 'mine/'));
    const before = record(store.watch({ prefix: 'mine/' }, from));
    await write(store, put('mine/a', '1'));
    await until(() => before.events.length === 1);

    await byRoot('role/revoke', { role: 'worker-keys', ...MINE });
    await expectCode(readOne(store, 'mine/a'), 'E_STORE_DENIED');
    await expectCode(write(store, put('mine/a', '2')), 'E_STORE_DENIED');
    const during = record(store.watch({ prefix: 'mine/' }, from));
    await until(() => during.events.length === 1);
    await server.gateway.put('mine/b', '1');
    await byRoot('role/grant', { name: 'worker-keys', perm: { permType: 'READWRITE', ...MINE } });
    expect((await readOne(store, 'mine/a'))?.value).toBe('1');
    await write(store, put('mine/a', '3'));
    await until(() => during.changes.length === 3 && before.changes.length === 3);
    expect(kindsOf(during)).toBe('E_STORE_DENIED accepted changes changes changes');
    // etcd asks only when a watch begins.
    expect(kindsOf(before)).toBe('changes changes changes');
    before.stop();
    during.stop();
  });

  test('etcd store - a password that was changed and put back, or a user deleted and made again, heals by itself', async () => {
    const proxy = await startProxy(server);
    const store = client({
      endpoints: [proxy.endpoint],
      auth: { username: 'worker', password: 'secret' },
    });
    const mine = sessionNamed('healing');
    await store.openSession(mine, 60_000, CALL);
    await store.keepAlive(mine, CALL);
    const from = nextRevision(await revisionIn(store, 'mine/'));
    const watch = record(store.watch({ prefix: 'mine/' }, from));
    await write(store, put('mine/a', '1'));
    await until(() => watch.events.length === 1);
    const outages = [
      [
        () => byRoot('user/changepw', { name: 'worker', password: 'another' }),
        () => byRoot('user/changepw', { name: 'worker', password: 'secret' }),
      ],
      [
        () => byRoot('user/delete', { name: 'worker' }),
        async () => {
          await byRoot('user/add', { name: 'worker', password: 'secret' });
          await byRoot('user/grant', { user: 'worker', role: 'worker-keys' });
        },
      ],
    ] as const;
    for (const [begin, end] of outages) {
      const { length } = watch.events;
      await begin();
      for (let times = 0; times < 2; times += 1) {
        await expectCode(readOne(store, 'mine/a'), 'E_STORE_DENIED');
        await expectCode(write(store, put('mine/a', '2')), 'E_STORE_DENIED');
      }
      // Streams that are open go on until they break.
      proxy.drop();
      await until(() => watch.events.length === length + 1);
      await expectCode(store.keepAlive(mine, CALL), 'E_STORE_DENIED');
      await server.gateway.put('mine/b', '1');

      await end();
      await untilAllowed(store);
      expect(await store.keepAlive(mine, CALL)).toEqual({ ttlMs: 60_000 });
      await write(store, put('mine/a', '3'));
      await until(() => watch.events.length === length + 4, 15_000);
      expect(kindsOf({ ...watch, events: watch.events.slice(length) })).toBe(
        'E_STORE_DENIED accepted changes changes',
      );
    }
    watch.stop();
    await store.closeSession(mine, CALL);
    await proxy.stop();
  });

  test('etcd store - a password may be given by a function, which is asked again for each log-in', async () => {
    let password = (): string => 'secret';
    let asked = 0;
    const give = (): string => {
      asked += 1;
      return password();
    };
    const store = client({
      endpoints: [server.endpoint],
      auth: { username: 'worker', password: give },
    });
    await useAll(store, 'mine/');
    expect(asked).toBe(1);

    await byRoot('user/changepw', { name: 'worker', password: 'new' });
    password = () => 'new';
    await useAll(store, 'mine/');
    await write(store, put('mine/a', '1'));
    expect(asked).toBe(2);

    await byRoot('user/changepw', { name: 'worker', password: 'newer' });
    const broken: (() => unknown)[] = [
      () => {
        throw new Error('the vault is sealed');
      },
      () => '',
      () => undefined,
      () => Promise.reject(new Error('too late')),
    ];
    for (const give of broken) {
      password = give as () => string;
      const error = await readOne(store, 'mine/a').catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: 'E_STORE_DENIED', kind: 'fatal' });
      expect(String(error)).toContain('auth.password()');
      expect(JSON.stringify([error, String(error)])).not.toContain('newer');
      // Nothing was sent.
      await expectCode(write(store, put('mine/a', '2')), 'E_STORE_DENIED');
    }
    password = () => 'newer';
    expect((await readOne(store, 'mine/a'))?.value).toBe('1');
    await byRoot('user/changepw', { name: 'worker', password: 'secret' });
  });

  test('etcd store - many calls at once log in once', async () => {
    const { logIns } = await countingLogIns(async (store) => {
      const calls = Array.from({ length: 20 }, (_, index) => readOne(store, `mine/${index}`));
      await Promise.all(calls);
      await useAll(store, 'mine/');
    });
    expect(logIns).toBe(1);
  });

  /** Runs `work` with a client of its own and counts how often it asked for its password. */
  async function countingLogIns(work: (store: EtcdStore) => Promise<void>) {
    let logIns = 0;
    const password = (): string => {
      logIns += 1;
      return 'secret';
    };
    const auth = { username: 'worker', password };
    await work(client({ endpoints: [server.endpoint], auth }));
    return { logIns };
  }
});

const spanOf = (prefix: string) => ({
  key: Buffer.from(prefix).toString('base64'),
  range_end: endOfPrefix(prefix),
});
const MINE = spanOf('mine/');
const OTHER = spanOf('other/');
