/** A fleet of real workers on a real etcd: two in this process, one in a process that is killed in the midst of its work. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { compareDecimals, nextRevision } from '../../src/base/decimals.ts';
import type { SplitId } from '../../src/base/ids.ts';
import { createWorker, type Grant, type Worker } from '../../src/index.ts';
import { jobKeys } from '../../src/records/keys.ts';
import { splitCodec, type SplitRecord } from '../../src/records/records.ts';
import { type EtcdStore, etcdStore } from '../../src/store/etcd/index.ts';
import { readAll } from '../../src/store/read-all.ts';
import { newest, record } from '../store/support.ts';
import { finalPlan, ids } from '../support/fleet.ts';
import { type EtcdServer, startEtcd } from './support/server.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');
const JOB = 'job';
const PREFIX = 'fleet';
const LAST = 5n;
const SPLITS = ids(40);
const CONFIG = {
  leaseDurationMs: 3_000,
  opTimeoutMs: 1_000,
  rebalanceDelayMs: 0,
  drainDeadlineMs: 2_000,
  maxInFlight: 5,
};
const CALL = { timeoutMs: 2_000 };

let server: EtcdServer;
const stores: EtcdStore[] = [];
const workers: Worker[] = [];
let victim: ChildProcess | undefined;

beforeAll(async () => {
  server = await startEtcd();
});
afterEach(async () => {
  victim?.kill('SIGKILL');
  await Promise.all(workers.splice(0).map((worker) => worker.stop()));
  for (const store of stores.splice(0)) await store.close();
});
afterAll(() => server.stop());

function client(): EtcdStore {
  const store = etcdStore({ endpoints: [server.endpoint] });
  stores.push(store);
  return store;
}

function makeWorker(instanceId: string): Worker {
  const planner = finalPlan(SPLITS);
  const options = {
    job: JOB,
    prefix: PREFIX,
    store: client(),
    instanceId,
    planner,
    config: CONFIG,
  };
  const worker = createWorker(options);
  workers.push(worker);
  return worker;
}

/** Works in steps, each committed, from wherever the tenancy before left off; nobody finishes before `gate` opens. */
async function work(grant: Grant, gate: Promise<void>): Promise<void> {
  for (let next = (grant.progress?.watermark ?? 0n) + 1n; next <= LAST; next += 1n) {
    await sleep(20);
    await grant.commit({ watermark: next });
    await gate;
  }
  await grant.complete();
}

/** A worker in a process of its own, which never gets further than its first commits; resolves once it has made some. */
async function startVictim(): Promise<void> {
  const entry = (file: string): string => JSON.stringify(pathToFileURL(path.join(ROOT, file)).href);
  const program = `
    import { createWorker } from ${entry('src/index.ts')};
    import { etcdStore } from ${entry('src/store/etcd/index.ts')};
    import { finalPlan } from ${entry('test/support/fleet.ts')};
    const [endpoint, setup] = process.argv.slice(1);
    const { splits, ...options } = JSON.parse(setup);
    const store = etcdStore({ endpoints: [endpoint] });
    const worker = createWorker({ ...options, store, planner: finalPlan(splits) });
    await worker.run(async (grant) => {
      await grant.commit({ watermark: 1n });
      console.log(grant.split.id);
      await new Promise((resolve) => grant.lost.addEventListener('abort', resolve));
    });
  `;
  const setup = { job: JOB, prefix: PREFIX, instanceId: 'victim', config: CONFIG, splits: SPLITS };
  const args = ['--import', 'tsx', '--input-type=module', '-e', program];
  victim = spawn(process.execPath, [...args, server.endpoint, JSON.stringify(setup)], {
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const lines = createInterface({ input: victim.stdout! });
  let committed = 0;
  for await (const _ of lines) {
    committed += 1;
    if (committed === CONFIG.maxInFlight) return;
  }
  throw new Error('the victim ended by itself');
}

test('fleet - three workers on etcd complete forty splits, though one of them is killed', async () => {
  const recorder = client();
  const keys = jobKeys(PREFIX, JOB);
  const history = record(
    recorder.watch({ prefix: `${keys.root}splits/` }, nextRevision(await newest(recorder))),
  );
  let killedAtMs = 0;
  const gate = startVictim().then(async () => {
    victim!.kill('SIGKILL');
    await once(victim!, 'exit');
    killedAtMs = performance.now();
  });
  const [first, second] = [makeWorker('first'), makeWorker('second')];
  const handler = (grant: Grant): Promise<void> => work(grant, gate);
  const both = await Promise.all([first.run(handler), second.run(handler)]);
  const tookMs = performance.now() - killedAtMs;
  for (const verdict of both) {
    expect(verdict).toMatchObject({ kind: 'complete', completed: 40, quarantined: 0 });
  }
  // The victim's splits waited for its lease; after it, everything is quick.
  expect(tookMs).toBeLessThan(3 * CONFIG.leaseDurationMs);

  const { entries } = await readAll(recorder, { prefix: `${keys.root}splits/` }, CALL);
  const records = entries.map(({ value }) => read(value));
  expect(records).toHaveLength(40);
  for (const found of records) {
    expect(found).toMatchObject({ status: 'completed', watermark: String(LAST) });
  }
  const taken = history.changes.filter(({ entry }) => read(entry!.value).owner === 'victim');
  expect(new Set(taken.map((change) => change.key)).size).toBe(CONFIG.maxInFlight);

  for (const id of SPLITS as SplitId[]) {
    const lives = history.changes.filter((change) => change.key === keys.split(id));
    checkLives(lives.map(({ entry }) => read(entry!.value)));
  }
  history.stop();

  await Promise.all([first.stop(), second.stop()]);
  const left = await readAll(recorder, { prefix: keys.root }, CALL);
  const kinds = new Set(left.entries.map(({ key }) => key.slice(keys.root.length).split('/')[0]));
  for (const kind of ['leases', 'workers', 'leader']) expect(kinds).not.toContain(kind);
}, 60_000);

/** Epochs and watermarks never fall; an epoch has one owner. */
function checkLives(lives: readonly SplitRecord[]): void {
  const owners = new Map<string, string>();
  for (const [index, { epoch, owner, watermark }] of lives.entries()) {
    const before = lives[index - 1];
    expect(compareDecimals(epoch, before?.epoch ?? '0')).toBeGreaterThanOrEqual(0);
    expect(Number(watermark ?? 0)).toBeGreaterThanOrEqual(Number(before?.watermark ?? 0));
    if (owner === null) continue;
    expect(owners.get(epoch) ?? owner).toBe(owner);
    owners.set(epoch, owner);
  }
}

function read(value: string): SplitRecord {
  const decoded = splitCodec.decode(value);
  if (decoded.kind !== 'record') throw new Error(`unreadable: ${value}`);
  return decoded.record;
}
