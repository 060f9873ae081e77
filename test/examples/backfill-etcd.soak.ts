import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { Audit } from '../../examples/backfill/audit.ts';
import { Ledger, type SplitRecord } from '../../examples/backfill/ledger.ts';
import { Gate } from '../../examples/backfill/processes/gate.ts';
import type { WorkerHandle } from '../../examples/backfill/processes/worker-handle.ts';
import { readSettings } from '../../examples/backfill/settings.ts';
import { type EtcdServer, startEtcd } from '../etcd/support/server.ts';
import { patiently } from '../support/patience.js';

const root = path.resolve(import.meta.dirname, '../..');
/** The faults cost a few leases each, in real time; the rest is what a busy host may take. */
const TIMEOUT_MS = 120_000;

interface Run {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

interface Running {
  readonly process: ChildProcess;
  readonly ended: Promise<Run>;
}

/** The program, with a directory for temporary files that is its own. */
function backfill(args: readonly string[], env: NodeJS.ProcessEnv = {}): Running {
  const command = ['--import', 'tsx', 'examples/backfill/main.ts', ...args];
  const child = spawn(process.execPath, command, {
    cwd: root,
    env: { ...process.env, TMPDIR: temporary, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const ended = new Promise<Run>((resolve) => {
    child.on('close', (code, signal) => {
      resolve({ code, signal, stdout, stderr });
    });
  });
  const running = { process: child, ended };
  programs.push(running);
  return running;
}

/** A program that a failed test has left. */
const programs: Running[] = [];
afterEach(async () => {
  for (const { process: program, ended } of programs.splice(0)) {
    program.kill('SIGKILL');
    await ended;
  }
});

interface Report {
  verdict: string;
  verified: boolean;
  files: number;
  bytes: number;
  lines: number;
  splits: number;
  moved: number;
  replayedFiles: number;
  takeoverMs: number | null;
  workers: { instanceId: string; splits: number; files: number; bytes: number; left: string }[];
}

let home = '';
let temporary = '';
let tree = '';
/** One that others use as well. */
let shared: EtcdServer;

/** Processes that know the directory of this test by their arguments or their environment. */
function processesLeft(): string[] {
  const list = execFileSync('ps', ['axeww', '-o', 'stat=,args='], { maxBuffer: 1e8 }).toString();
  return list.split('\n').filter((line) => line.includes(home));
}

/** What tsx keeps between runs is its own. */
async function filesLeft(): Promise<string[]> {
  return (await readdir(temporary)).filter((name) => !name.startsWith('tsx-'));
}

/** Waits until `holds` says true. */
async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  const deadlineMs = performance.now() + patiently(TIMEOUT_MS / 2);
  while (!(await holds()) && performance.now() < deadlineMs) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function expectNothingLeft(): Promise<void> {
  expect(processesLeft().map((line) => line.slice(0, 120))).toEqual([]);
  expect(await filesLeft()).toEqual([]);
}

beforeAll(async () => {
  shared = await startEtcd();
  home = await mkdtemp(path.join(tmpdir(), 'backfill-etcd-test-'));
  temporary = path.join(home, 'tmp');
  tree = path.join(home, 'tree');
  await mkdir(temporary);
  for (let index = 0; index < 60; index += 1) {
    const directory = path.join(tree, `part-${index % 7}`);
    await mkdir(directory, { recursive: true });
    await writeFile(path.join(directory, `file-${index}.txt`), 'line\n'.repeat(index));
  }
}, TIMEOUT_MS);
afterAll(async () => {
  await shared.stop();
  await rm(home, { recursive: true, force: true });
});

describe('backfill over processes', () => {
  test(
    'a small tree - two processes killed and one stopped, every file counts once, nothing is left',
    async () => {
      const run = await backfill([tree, '--with-etcd', '--processes', '3', '--json']).ended;
      await expectNothingLeft();
      expect(run).toMatchObject({ code: 0, stderr: '' });
      expect(run.stdout.trimEnd().split('\n')).toHaveLength(1);
      const report = JSON.parse(run.stdout) as Report;
      const lines = (60 * 59) / 2;
      expect(report).toEqual({
        verdict: 'complete',
        verified: true,
        files: 60,
        bytes: 5 * lines,
        lines,
        splits: expect.any(Number),
        moved: expect.any(Number),
        replayedFiles: expect.any(Number),
        takeoverMs: expect.any(Number),
        workers: [1, 2, 3, 4, 5].map((number) => ({
          instanceId: `worker-${number}`,
          splits: expect.any(Number),
          files: expect.any(Number),
          bytes: expect.any(Number),
          left: expect.any(String),
        })),
      });
      const left = report.workers.map((worker) => worker.left).sort();
      const stopped = 'stopped for 3 leases, finished';
      expect(left).toEqual(['finished', 'finished', 'killed', 'leader killed', stopped]);
      const splits = report.workers.reduce((sum, worker) => sum + worker.splits, 0);
      expect(splits).toBe(report.splits);
      // Each of the three had at least one split in hand that moved.
      expect(report.moved).toBeGreaterThanOrEqual(3);
      expect(report.replayedFiles).toBeGreaterThanOrEqual(1);
      // The delay alone is a second; before the lease has run out nobody may take over.
      expect(report.takeoverMs).toBeGreaterThan(2_000);
    },
    TIMEOUT_MS,
  );

  test(
    'a job on an etcd that others use - leaves it as it was, and tells of the stale commits',
    async () => {
      await shared.gateway.put('leasehold/other/plan', 'of others');
      const one = path.join(home, 'one');
      await mkdir(one);
      await writeFile(path.join(one, 'a.md'), 'one\ntwo');
      const run = await backfill([one, '--etcd', shared.endpoint, '--processes', '2']).ended;
      await expectNothingLeft();
      expect(run).toMatchObject({ code: 0, stderr: '' });
      expect((await shared.gateway.list('leasehold/')).map(({ key }) => key)).toEqual([
        'leasehold/other/plan',
      ]);
      expect(run.stdout).toContain('1 file, 7 B, 2 lines, in 1 split: complete');
      expect(run.stdout).toMatch(
        /worker-\d .* stopped for 3 leases at .* with 1 split in hand.*, finished/,
      );
      expect(run.stdout).toContain('had moved: 1 refused, 0 written');
      expect(run.stdout).toMatch(
        /history +\d+ writes of splits, .*: none by a process that had lost/,
      );
      expect(run.stdout).toContain('verified   a plain single pass finds the same');
    },
    TIMEOUT_MS,
  );

  test(
    'Ctrl-C midway - ends all processes, leaves no key behind and says so by the exit code',
    async () => {
      const { process: program, ended } = backfill([tree, '--etcd', shared.endpoint, '--json']);
      const keysOfJob = (): Promise<unknown[]> => shared.gateway.list('leasehold/backfill-');
      // A spec and a record for each split.
      const isPlanned = async (): Promise<boolean> => (await keysOfJob()).length > 120;
      await Promise.race([until(isPlanned), ended]);
      // A terminal and a shell may both send one.
      program.kill('SIGINT');
      program.kill('SIGINT');
      expect(await ended).toMatchObject({
        code: 130,
        stdout: '',
        stderr: 'backfill failed: ended by SIGINT\n',
      });
      await expectNothingLeft();
      expect(await keysOfJob()).toEqual([]);
    },
    TIMEOUT_MS,
  );

  test(
    'a program killed while one of its processes is stopped - leaves no process and no directory',
    async () => {
      const { process: program, ended } = backfill([tree, '--with-etcd', '--processes', '2']);
      const isStopped = (): boolean => processesLeft().some((line) => line.startsWith('T'));
      await Promise.race([until(isStopped), ended]);
      expect(await filesLeft()).toHaveLength(1);
      program.kill('SIGKILL');
      expect((await ended).signal).toBe('SIGKILL');
      await until(async () => processesLeft().length + (await filesLeft()).length === 0);
      await expectNothingLeft();
    },
    TIMEOUT_MS,
  );

  test('no etcd on this machine - is said with the command that installs it', async () => {
    const run = await backfill([tree, '--with-etcd'], { LEASEHOLD_ETCD: '/no/such/etcd' }).ended;
    await expectNothingLeft();
    expect(run).toMatchObject({ code: 1, stdout: '' });
    expect(run.stderr).toBe(
      "backfill failed: cannot run /no/such/etcd (ENOENT): install it, on Debian with 'apt-get " +
        "install etcd-server', or name it in LEASEHOLD_ETCD\n",
    );
  });

  test('an etcd that is not there - is said with its address', async () => {
    const run = await backfill([tree, '--etcd', 'http://127.0.0.1:1']).ended;
    await expectNothingLeft();
    expect(run).toMatchObject({ code: 1, stdout: '' });
    expect(run.stderr).toMatch(/^backfill failed: .*127\.0\.0\.1:1/);
  });

  test.each([
    ['two etcds', ['--with-etcd', '--etcd', 'http://a:1'], 'exclude each other'],
    ['processes that cannot meet', ['--processes', '3'], 'needs --etcd or --with-etcd'],
    ['one process', ['--with-etcd', '--processes', '1'], 'a whole number from 2 to 16'],
    ['workers beside processes', ['--with-etcd', '--workers', '3'], 'say --processes'],
    ['keys kept nowhere', ['--with-etcd', '--keep'], '--keep needs --etcd'],
    ['no URL', ['--etcd', 'localhost:2379'], "must be a URL such as http://127.0.0.1:2379, got '"],
  ])('bad usage: %s - is refused with a message and code 2', (_what, args, message) => {
    expect(readSettings(args)).toContain(message);
  });
});

describe('backfill audit', () => {
  const at = (epoch: number, change: Partial<SplitRecord> = {}): SplitRecord => {
    const nonce = epoch === 0 ? null : `process-${epoch}`;
    const by = { instance: `worker-${epoch}`, nonce: nonce ?? 'leader' };
    const owner = epoch === 0 ? null : by.instance;
    const open = { epoch: String(epoch), status: 'runnable', owner, nonce } as const;
    return { ...open, watermark: null, state: null, by, ...change };
  };
  const done = { status: 'completed', owner: null } as const;

  function violationsOf(records: readonly (SplitRecord | null)[]): string[] {
    const audit = new Audit();
    for (const record of records) audit.see('a', record);
    expect(audit.writes).toBe(records.length);
    return audit.violations;
  }

  test('a life of a split - with a takeover, a release and an end is in order', () => {
    const [three, five] = [{ watermark: '3' }, { watermark: '5' }];
    const released = at(2, { ...five, owner: null });
    const ended = at(3, { ...five, ...done });
    const records = [at(0), at(1), at(1, three), at(2, three), released, at(3, five), ended];
    expect(violationsOf(records)).toEqual([]);
  });

  test.each([
    ['a commit under an older epoch', [at(0), at(1), at(2), at(1, { watermark: '9' })]],
    ['an end under an older epoch', [at(0), at(1), at(2), at(1, done)]],
    ['a commit by a process that did not claim', [at(0), at(1), at(1, { by: at(2).by })]],
    ['a second owner of an epoch', [at(0), at(1), at(1, { nonce: 'x', by: at(2).by })]],
    ['a commit after a release', [at(0), at(1), at(1, { owner: null }), at(1)]],
    ['a write after the end', [at(0), at(1), at(1, done), at(2)]],
    ['a watermark that falls', [at(0), at(1, { watermark: '5' }), at(2, { watermark: '4' })]],
    ['an epoch left out', [at(0), at(1), at(3)]],
    ['a history without its beginning', [at(1)]],
    ['a deleted split', [at(0), null]],
  ])('%s - is named', (_what, records) => {
    expect(violationsOf(records)).toHaveLength(1);
  });
});

describe('backfill gate', () => {
  interface Scene {
    readonly gate: Gate;
    readonly said: string[];
    readonly worker: (name: string) => WorkerHandle;
    readonly write: (splitId: string, epoch: string, ended?: 'completed' | 'released') => void;
  }
  function scene(): Scene {
    const ledger = new Ledger();
    const gate = new Gate(ledger);
    const said: string[] = [];
    const worker = (name: string): WorkerHandle => {
      const say = ({ splitId, epoch }: { splitId: string; epoch: string }): void => {
        said.push(`${name} ${splitId} ${epoch}`);
      };
      return { say } as unknown as WorkerHandle;
    };
    const write: Scene['write'] = (splitId, epoch, ended) => {
      const status = ended === 'completed' ? 'completed' : 'runnable';
      const owner = ended === undefined ? `owner-${epoch}` : null;
      const by = { instance: 'x', nonce: 'x' };
      const record = {
        epoch,
        status,
        owner,
        nonce: 'x',
        watermark: null,
        state: null,
        by,
      } as const;
      ledger.see(splitId, record);
      gate.see(splitId, record);
    };
    return { gate, said, worker, write };
  }

  test('a limit - lets so many end, and each leave counts until it is used or lost', () => {
    const { gate, said, worker, write } = scene();
    const [a, b] = [worker('a'), worker('b')];
    for (const split of ['1', '2', '3', '4']) write(split, '1');
    gate.ask(a, '1', '1');
    gate.ask(b, '2', '1');
    gate.ask(b, '3', '1');
    expect(said).toEqual([]);
    gate.openTo(1);
    expect(said).toEqual(['a 1 1']);
    write('1', '1', 'completed');
    expect(said).toHaveLength(1);
    gate.openTo(2);
    expect(said).toEqual(['a 1 1', 'b 2 1']);
    expect([gate.askedBy(a), gate.askedBy(b)]).toEqual([0, 1]);
    // Its leave is lost with the split, so another one may end.
    write('2', '2');
    expect(said).toEqual(['a 1 1', 'b 2 1', 'b 3 1']);
  });

  test('a worker that lost a split, or gave it back - asks for it no more', () => {
    const { gate, said, worker, write } = scene();
    const a = worker('a');
    write('1', '1');
    gate.ask(a, '1', '1');
    write('1', '2');
    expect(gate.askedBy(a)).toBe(0);
    gate.ask(a, '1', '1');
    expect(gate.askedBy(a)).toBe(0);
    // It may be heard before its own claim is seen.
    gate.ask(a, '2', '2');
    write('2', '1', 'released');
    write('2', '2');
    expect(gate.askedBy(a)).toBe(1);
    write('2', '2', 'released');
    gate.openTo(9);
    expect(said).toEqual([]);
  });

  test('a worker to be stopped - may end what it asks for, whatever the limit', () => {
    const { gate, said, worker } = scene();
    const [a, b] = [worker('a'), worker('b')];
    gate.ask(a, '1', '1');
    gate.ask(b, '2', '1');
    gate.openFor(a);
    expect(said).toEqual(['a 1 1']);
  });
});
