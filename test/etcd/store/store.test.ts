/** The etcd store against a real etcd: the contract of all stores, and what is etcd's own. */
import { execFile } from 'node:child_process';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { nextRevision, revisionOf } from '../../../src/base/decimals.ts';
import { InvariantViolation, isLeaseholdError } from '../../../src/base/errors.ts';
import type { SessionId } from '../../../src/base/ids.ts';
import { type EtcdStore, etcdStore } from '../../../src/store/etcd/index.ts';
import { readAll, readEach, readKeysInParts } from '../../../src/store/read-all.ts';
import { describeStoreContract } from '../../store/contract.ts';
import {
  batch,
  CALL,
  expectCode,
  newest,
  put,
  readOne,
  record,
  session,
  sessionNamed,
  tryTxns,
  write,
} from '../../store/support.ts';
import { patiently } from '../../support/patience.js';
import { startProxy } from '../support/server/proxy.ts';
import { type EtcdServer, startEtcd } from '../support/server.ts';

const run = promisify(execFile);

let server: EtcdServer;
let tests = 0;

beforeAll(async () => {
  server = await startEtcd();
});
afterAll(() => server.stop());

describeStoreContract('etcd store', async () => {
  tests += 1;
  const store = etcdStore({ endpoints: [server.endpoint] });
  const other = etcdStore({ endpoints: [server.endpoint] });
  return {
    store,
    other,
    prefix: `leasehold/test-${tests}/`,
    ttlMs: 2_000,
    expiryLagMsMax: 1_000,
    advance: (durationMs) => sleep(durationMs),
    compact: (revision) => server.gateway.compact(BigInt(revision)),
    dispose: async () => {
      await store.close();
      await other.close();
    },
  };
});

describe('etcd store', () => {
  let store: EtcdStore;
  const open: EtcdStore[] = [];
  const client = (endpoint = server.endpoint): EtcdStore => {
    const made = etcdStore({ endpoints: [endpoint] });
    open.push(made);
    return made;
  };
  const until = async (condition: () => boolean, withinMs = 5_000): Promise<void> => {
    const endMs = performance.now() + withinMs;
    while (!condition() && performance.now() < endMs) await sleep(5);
    if (!condition()) throw new Error(`never became true: ${String(condition)}`);
  };
  const key = (name: string): string => `own/${tests}/${name}`;

  beforeAll(() => {
    tests += 1;
  });
  afterEach(async () => {
    tests += 1;
    for (const made of open.splice(0)) await made.close();
  });

  describe('sessions', () => {
    test('etcd store - a lease below the least that etcd grants is refused, and nothing stays open', async () => {
      store = client();
      const mine = sessionNamed('short');
      const error: unknown = await store.openSession(mine, 1_000, CALL).catch((e: unknown) => e);
      expect(isLeaseholdError(error) && error.code).toBe('E_STORE_UNSUPPORTED');
      expect(error).toMatchObject({ details: { askedMs: 1_000, leastMs: 2_000 } });
      expect(String(error)).toContain('--election-timeout');
      await expectCode(store.keepAlive(mine, CALL), 'E_LEASE_EXPIRED');
    });

    test('etcd store - a TTL becomes whole seconds, rounded up', async () => {
      store = client();
      const mine = sessionNamed('rounded');
      expect(await store.openSession(mine, 2_001, CALL)).toEqual({ ttlMs: 3_000 });
      expect(await store.openSession(mine, 2_001, CALL)).toEqual({ ttlMs: 3_000 });
      expect(await store.keepAlive(mine, CALL)).toEqual({ ttlMs: 3_000 });
      await store.closeSession(mine, CALL);
    });

    test('etcd store - a session is the lease of that number', async () => {
      store = client();
      const mine = session('9223372036854775807');
      await store.openSession(mine, 5_000, CALL);
      await write(store, put(key('a'), '1', mine));
      expect((await server.gateway.get(key('a')))?.lease).toBe(9223372036854775807n);
      expect((await readOne(store, key('a')))?.session).toBe(mine);
      await store.closeSession(mine, CALL);

      for (const bad of ['0', '-1', '9223372036854775808', 'mine', '']) {
        const under = bad as SessionId;
        await expect(store.openSession(under, 5_000, CALL)).rejects.toThrow(InvariantViolation);
        await expect(store.keepAlive(under, CALL)).rejects.toThrow(InvariantViolation);
        const late = store.transact(batch([{ writes: [put(key('a'), '1', under)] }]), CALL);
        await expect(late).rejects.toThrow(InvariantViolation);
      }
    });

    test('etcd store - renewals of many sessions at once are each answered for their own', async () => {
      store = client();
      const ids = Array.from({ length: 20 }, (_, index) => sessionNamed(`renewed-${index}`));
      for (const [index, id] of ids.entries()) {
        await store.openSession(id, 2_000 + (index % 5) * 1_000, CALL);
      }
      await store.closeSession(ids[7]!, CALL);
      const answers = await Promise.all(
        ids.map((id) => store.keepAlive(id, CALL).catch((error: unknown) => error)),
      );
      for (const [index, answer] of answers.entries()) {
        if (index === 7) expect(answer).toMatchObject({ code: 'E_LEASE_EXPIRED' });
        else expect(answer).toEqual({ ttlMs: 2_000 + (index % 5) * 1_000 });
      }
      for (const id of ids) await store.closeSession(id, CALL);
    });
  });

  describe('sizes', () => {
    test('etcd store - a replay beyond 4 MiB arrives whole, and so does a range, in pages', async () => {
      store = client();
      const start = await newest(store);
      const large = (index: number): string => String(index).repeat(400_000);
      for (let index = 0; index < 9; index += 1) {
        // Two keys at one revision: more than one answer of etcd may hold.
        await write(
          store,
          put(key(`large/a${index}`), large(index)),
          put(key(`large/b${index}`), large(index)),
        );
      }
      const patient = { timeoutMs: 10_000 };
      const sizes: number[] = [];
      const result = await readEach(store, { prefix: key('large/') }, patient, (page) => {
        sizes.push(page.length);
        expect(page.every(({ value }) => value.length === 400_000)).toBe(true);
      });
      expect(result).toEqual({ revision: await newest(store), count: 18 });
      // The first page begins with what is too large, and the others have a mebibyte at most.
      expect(sizes[0]).toBeGreaterThan(2);
      expect(sizes.slice(1).every((size) => size <= 2)).toBe(true);
      expect(sizes.reduce((sum, size) => sum + size)).toBe(18);

      const replay = record(store.watch({ prefix: key('large/') }, nextRevision(start)));
      await until(() => replay.changes.length === 18);
      expect(replay.events).toHaveLength(9);
      expect(replay.changes.map(({ entry }) => entry?.value[0])).toEqual(
        Array.from('012345678').flatMap((digit) => [digit, digit]),
      );
      replay.stop();
    });

    test('etcd store - an answer that is too large is refused as it begins, and the connection is kept', async () => {
      const proxy = await startProxy(server);
      store = client(proxy.endpoint);
      for (let index = 0; index < 20; index += 1) {
        await write(store, put(key(`refused/${index}`), 'x'.repeat(1_000_000)));
      }
      const range = { prefix: key('refused/') };
      const patient = { timeoutMs: 10_000 };
      expect((await store.read(range, { limit: 2 }, patient)).kind).toBe('page');
      const { accepted, answerBytes } = proxy.counters;
      for (let times = 0; times < 5; times += 1) {
        const reads = [store.read(range, {}, patient), store.read(range, { limit: 2 }, patient)];
        const kinds = (await Promise.all(reads)).map(({ kind }) => kind);
        expect(kinds).toEqual(['tooLarge', 'page']);
      }
      expect(proxy.counters.accepted).toBe(accepted);
      // Five pages of two entries, and what was on its way of twenty.
      expect(proxy.counters.answerBytes - answerBytes).toBeLessThan(5 * 8_000_000);
      await proxy.stop();
    });

    test('etcd store - an entry that is larger than a page may be is read by itself', async () => {
      const roomy = await startEtcd({ extraArgs: ['--max-request-bytes', '10000000'] });
      const value = 'x'.repeat(5_000_000);
      await roomy.gateway.put('huge/a', value);
      await roomy.gateway.put('huge/b', value);
      store = client(roomy.endpoint);
      const patient = { timeoutMs: 10_000 };
      const all = await readAll(store, { prefix: 'huge/' }, patient);
      expect(all.entries.map((entry) => entry.value.length)).toEqual([5_000_000, 5_000_000]);
      const named = await readKeysInParts(store, ['huge/a', 'huge/b', 'huge/c'], patient);
      expect([...named.entries.values()].map((entry) => entry.key)).toEqual(['huge/a', 'huge/b']);
      const watch = record(store.watch({ prefix: 'huge/' }, revisionOf(2)));
      await until(() => watch.changes.length === 2);
      watch.stop();
      await roomy.stop();
    });

    test('etcd store - ten thousand keys are read by pages, while others write', async () => {
      store = client();
      const name = (index: number): string => key(`many/${String(index).padStart(5, '0')}`);
      for (let start = 0; start < 10_000; start += 127) {
        const size = Math.min(127, 10_000 - start);
        const txns = Array.from({ length: size }, (_, index) => ({
          writes: [put(name(start + index), String(start + index))],
        }));
        await tryTxns(store, txns);
      }
      const before = await newest(store);
      const reading = readAll(store, { prefix: key('many/') }, CALL);
      const writer = client();
      for (let index = 0; index < 50; index += 1) {
        await write(writer, put(name(9_000 + index), 'late'));
      }
      const all = await reading;
      const isOld = BigInt(all.revision) === BigInt(before);
      expect(all.entries).toHaveLength(10_000);
      expect(all.entries.map((entry) => entry.key)).toEqual(
        Array.from({ length: 10_000 }, (_, index) => name(index)),
      );
      if (isOld) expect(all.entries.some(({ value }) => value === 'late')).toBe(false);

      const some = Array.from({ length: 300 }, (_, index) => name(index * 33));
      const named = await readAll(store, { keys: some }, CALL);
      expect([...named.entries.values()].map((entry) => entry.key)).toEqual(some);
    });
  });

  describe('history', () => {
    test('etcd store - a read of a revision that is compacted, or to come, says from where to start over', async () => {
      store = client();
      const first = await write(store, put(key('a'), '1'));
      await write(store, put(key('a'), '2'));
      const last = await write(store, put(key('a'), '3'));
      await server.gateway.compact(BigInt(last));
      const range = { prefix: key('') };
      const compacted = { kind: 'compacted', revision: last };
      const future = revisionOf(BigInt(last) + 100n);
      for (const atRevision of [first, future]) {
        expect(await store.read(range, { atRevision }, CALL)).toEqual(compacted);
        expect(await store.read({ keys: [key('a')] }, { atRevision }, CALL)).toEqual(compacted);
      }
    });

    test('etcd store - a delete at the very revision that was compacted is not passed over in silence', async () => {
      store = client();
      await write(store, put(key('a'), '1'));
      const deleted = await write(store, { delete: key('a') });
      const last = await write(store, put(key('b'), '1'));
      await server.gateway.compact(BigInt(deleted));

      // This client knows the revision, another one learns of it only from the answer.
      for (const reader of [store, client()]) {
        const at = record(reader.watch({ prefix: key('') }, deleted));
        await until(() => at.isComplete);
        expect(at.events).toEqual([{ kind: 'compacted', revision: deleted }]);

        const after = record(reader.watch({ prefix: key('') }, last));
        await until(() => after.events.length > 0);
        expect(after.changes.map((change) => change.key)).toEqual([key('b')]);
        after.stop();
      }
    });

    test('etcd store - a watch of distant keys tells nothing of what lies between', async () => {
      store = client();
      const names = Array.from({ length: 12 }, (_, index) => key(`k/${index * 2 + 10}`));
      const watch = record(store.watch({ keys: names }, nextRevision(await newest(store))));
      const between = Array.from({ length: 25 }, (_, index) => put(key(`k/${index + 10}`), '1'));
      await write(store, ...between);
      await write(store, put(names[3]!, '2'));
      await until(() => watch.events.length === 2);
      expect(watch.changes.map((change) => change.key)).toEqual([...names, names[3]]);
      watch.stop();
    });
  });

  describe('a full database', () => {
    let small: EtcdServer;
    beforeAll(async () => {
      small = await startEtcd({ quotaBytes: 8 * 1024 * 1024 });
    });
    afterAll(() => small.stop());

    test('etcd store - when etcd is out of space writes are refused, and sessions, reads and deletes go on', async () => {
      store = client(small.endpoint);
      const mine = sessionNamed('full');
      await store.openSession(mine, 10_000, CALL);
      await write(store, put(key('mine'), '1', mine), put(key('free'), '1'));
      const codes: string[] = [];
      let accepted = 0;
      for (let index = 0; codes.at(-1) !== 'E_STORE_FULL' && index < 200; index += 1) {
        const filler = batch([{ writes: [put(key(`fill/${index}`), 'x'.repeat(500_000))] }]);
        await store.transact(filler, CALL).then(
          () => (accepted += 1),
          (error: unknown) => codes.push(isLeaseholdError(error) ? error.code : String(error)),
        );
        await sleep(5);
      }
      // Until etcd has raised its alarm, it may carry out what it refuses: nobody can know.
      expect([...new Set(codes)]).toEqual(['E_OUTCOME_UNKNOWN', 'E_STORE_FULL']);
      expect(accepted).toBeGreaterThan(2);

      expect(await store.keepAlive(mine, CALL)).toEqual({ ttlMs: 10_000 });
      expect(await readOne(store, key('mine'))).toMatchObject({ session: mine });
      await expectCode(store.openSession(sessionNamed('more'), 10_000, CALL), 'E_STORE_FULL');
      await write(store, { delete: key('free') });
      await expectCode(
        store.transact(batch([{ writes: [put(key('free'), '2')] }]), CALL),
        'E_STORE_FULL',
      );
      await store.closeSession(mine, CALL);
      expect(await readOne(store, key('mine'))).toBeNull();
    });
  });

  describe('closing', () => {
    test('etcd store - what is asked after close is refused, and a second close is no error', async () => {
      store = client();
      const mine = sessionNamed('closed');
      await store.openSession(mine, 5_000, CALL);
      const watch = record(store.watch({ prefix: key('') }, nextRevision(await newest(store))));
      await store.keepAlive(mine, CALL);
      const answers = [
        store.keepAlive(mine, CALL),
        store.read({ keys: ['a'] }, {}, CALL),
        store.transact(batch([{ writes: [put(key('a'), '1')] }]), CALL),
      ].map((answer) =>
        answer.then(
          () => 'answered',
          (error: unknown) => (isLeaseholdError(error) ? error.code : error),
        ),
      );
      await store.close();
      await store.close();
      expect(await Promise.all(answers)).toEqual([
        'E_STORE_UNREACHABLE',
        'E_STORE_UNREACHABLE',
        'E_OUTCOME_UNKNOWN',
      ]);
      await expectCode(store.keepAlive(mine, CALL), 'E_STORE_UNREACHABLE');
      await expectCode(store.openSession(mine, 5_000, CALL), 'E_STORE_UNREACHABLE');
      await expectCode(readOne(store, 'a'), 'E_STORE_UNREACHABLE');
      await expectCode(store.transact(batch([]), CALL), 'E_STORE_UNREACHABLE');
      record(store.watch({ prefix: key('') }, revisionOf(1)));
      await client().closeSession(mine, CALL);
      await sleep(50);
      expect([watch.events, watch.isComplete]).toEqual([[], false]);
    });

    test('etcd store - a process that has closed its stores ends by itself', async () => {
      const root = path.resolve(import.meta.dirname, '../../..');
      const entry = pathToFileURL(path.join(root, 'src/store/etcd/index.ts')).href;
      const program = `
        import { etcdStore } from ${JSON.stringify(entry)};
        const call = { timeoutMs: 5000 };
        for (const endpoints of [[process.argv[1]], ['http://127.0.0.1:1', process.argv[1]]]) {
          const store = etcdStore({ endpoints });
          await store.read({ keys: ['a'] }, {}, call);
          await store.openSession('4711', 5000, call);
          await store.keepAlive('4711', call);
          const watch = store.watch({ prefix: 'a' }, '2').subscribe({ next: () => undefined });
          store.watch({ prefix: 'b' }, '2').subscribe({ next: () => undefined });
          await new Promise((resolve) => setTimeout(resolve, 300));
          watch.unsubscribe();
          store.keepAlive('4711', call).catch(() => undefined);
          store.read({ prefix: '' }, {}, call).catch(() => undefined);
          await store.close();
        }
        const closedAtMs = performance.now();
        process.on('exit', () => console.log(performance.now() - closedAtMs));
      `;
      const args = ['--import', 'tsx', '--input-type=module', '-e', program, server.endpoint];
      const { stdout, stderr } = await run(process.execPath, args, {
        cwd: root,
        timeout: patiently(30_000),
      });
      expect(stderr).toBe('');
      expect(Number(stdout)).toBeGreaterThan(0);
      expect(Number(stdout)).toBeLessThan(patiently(1_000));
    });
  });
});
