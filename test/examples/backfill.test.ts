import { execFile } from 'node:child_process';
import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { ListedFile } from '../../examples/backfill/list-files.ts';
import { packSplits, pathsOf } from '../../examples/backfill/plan.ts';
import { differences } from '../../examples/backfill/report.ts';
import { extensionOf, Tally } from '../../examples/backfill/tally.ts';

const root = path.resolve(import.meta.dirname, '../..');
/** The program waits for a lease and a delay, in real time; the rest is what a busy host may take. */

interface Run {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function backfill(args: readonly string[], user?: number): Promise<Run> {
  const command = ['--import', 'tsx', 'examples/backfill/main.ts', ...args];
  const options = { cwd: root, ...(user === undefined ? {} : { uid: user }) };
  return new Promise((resolve) => {
    execFile(process.execPath, command, options, (error, stdout, stderr) => {
      const code = error === null ? 0 : Number(error.code);
      resolve({ code, stdout, stderr });
    });
  });
}

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

let trees = '';
const tree = (name: string): string => path.join(trees, name);

async function write(directory: string, files: Readonly<Record<string, string>>): Promise<void> {
  for (const [name, content] of Object.entries(files)) {
    const file = path.join(directory, name);
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, content);
  }
}

beforeAll(async () => {
  trees = await mkdtemp(path.join(tmpdir(), 'backfill-'));
  await chmod(trees, 0o755);
});
afterAll(() => rm(trees, { recursive: true, force: true }));

describe('backfill', () => {
  test('a small tree - the work of a crashed worker is taken over, and every file counts once', async () => {
    const files = Object.fromEntries(
      Array.from({ length: 60 }, (_, index) => [
        `part-${index % 7}/file-${index}.txt`,
        'line\n'.repeat(index),
      ]),
    );
    await write(tree('small'), files);
    const run = await backfill([tree('small'), '--workers', '2', '--json']);
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
      workers: ['worker-1', 'worker-2', 'worker-3'].map((instanceId) => ({
        instanceId,
        splits: expect.any(Number),
        files: expect.any(Number),
        bytes: expect.any(Number),
        left: expect.stringMatching(/^(finished|crashed)$/),
      })),
    });
    const sum = (of: 'splits' | 'files' | 'bytes'): number =>
      report.workers.reduce((total, worker) => total + worker[of], 0);
    expect(report.workers.filter(({ left }) => left === 'crashed')).toHaveLength(1);
    expect(report.workers.at(-1)!.left).toBe('finished');
    expect(sum('splits')).toBe(report.splits);
    expect(sum('files')).toBeGreaterThanOrEqual(report.files + report.replayedFiles);
    expect(sum('bytes')).toBeGreaterThanOrEqual(report.bytes);
    expect(report.moved).toBeGreaterThanOrEqual(1);
    expect(report.replayedFiles).toBeGreaterThanOrEqual(1);
    // The delay alone is a second; before the lease has run out nobody may take over.
    expect(report.takeoverMs).toBeGreaterThan(2_000);
  });

  test('odd names and files - are read as they are, links and special files are left out', async () => {
    await write(tree('odd'), {
      'new\nline.txt': 'a\nb',
      'ümläut.TXT': '\n',
      empty: '',
      ['__proto__']: 'x\n',
      'deep/er/.hidden': 'no end',
    });
    const invalid = Buffer.concat([Buffer.from(`${tree('odd')}/`), Buffer.from([0xff, 0xfe])]);
    await writeFile(invalid, 'bytes');
    await symlink('..', path.join(tree('odd'), 'deep/loop'));
    await symlink('missing', path.join(tree('odd'), 'dangling'));
    const run = await backfill([tree('odd'), '--json']);
    expect(run).toMatchObject({ code: 0, stderr: '' });
    const report = JSON.parse(run.stdout) as Report;
    expect(report).toMatchObject({ verified: true, files: 6, bytes: 17, lines: 6 });
  });

  test('an empty directory - is complete, and nothing crashes for want of work', async () => {
    await mkdir(tree('empty'));
    const run = await backfill([tree('empty'), '--workers', '1', '--json']);
    expect(run).toMatchObject({ code: 0, stderr: '' });
    expect(JSON.parse(run.stdout)).toEqual({
      verdict: 'complete',
      verified: true,
      files: 0,
      bytes: 0,
      lines: 0,
      splits: 0,
      moved: 0,
      replayedFiles: 0,
      takeoverMs: null,
      workers: [{ instanceId: 'worker-1', splits: 0, files: 0, bytes: 0, left: 'finished' }],
    });
  });

  test('one file and one worker - the newcomer does it again, and the report says so in words', async () => {
    await write(tree('one'), { 'a.md': 'one\ntwo' });
    const run = await backfill([tree('one'), '--workers', '1']);
    expect(run).toMatchObject({ code: 0, stderr: '' });
    expect(run.stdout).toContain('1 file, 7 B, 2 lines, in 1 split: complete');
    expect(run.stdout).toMatch(/worker-1 +0 +1 +7 B +crashed at .* with 1 split in hand/);
    expect(run.stdout).toMatch(/worker-2 +1 +1 +7 B +finished, joined at/);
    expect(run.stdout).toContain('replayed   1 file read again');
    expect(run.stdout).toContain('verified   a plain single pass finds the same');
  });

  test('an unreadable file - ends the job, and the message names it', async () => {
    await write(tree('closed'), { 'open.txt': 'a', 'secret.txt': 'b' });
    await chmod(path.join(tree('closed'), 'secret.txt'), 0);
    // Nothing is unreadable to root.
    const run = await backfill([tree('closed')], process.getuid?.() === 0 ? 65_534 : undefined);
    expect(run).toMatchObject({ code: 1, stdout: '' });
    expect(run.stderr).toBe(`backfill failed: cannot read ${tree('closed')}/secret.txt: EACCES\n`);
  });

  test.each([
    ['an unknown option', ['--wrokers', '3'], "Unknown option '--wrokers'"],
    ['no workers', ['--workers', '0'], "--workers must be a whole number from 1 to 64, got '0'"],
    ['half a worker', ['--workers', '1.5'], "got '1.5'"],
    ['two directories', ['.', '..'], 'one directory at most, got 2: . ..'],
    ['a missing directory', ['no/such'], `no such directory: ${path.join(root, 'no/such')}`],
    ['a file', ['package.json'], `not a directory: ${path.join(root, 'package.json')}`],
  ])('bad usage: %s - is refused with a message and code 2', async (_what, args, message) => {
    const run = await backfill(args);
    expect(run.stderr).toContain(message);
    expect(run).toMatchObject({ code: 2, stdout: '' });
    expect(run.stderr).toContain('usage: npm start');
  });

  test('help - goes to standard output', async () => {
    const run = await backfill(['--help']);
    expect(run).toMatchObject({ code: 0, stderr: '' });
    expect(run.stdout).toContain('usage: npm start');
  });
});

describe('backfill planner', () => {
  const files = (count: number, bytes: (index: number) => number, stem = 'f'): ListedFile[] =>
    Array.from({ length: count }, (_, index) => ({
      path: Buffer.from(`${stem}${index}`),
      bytes: bytes(index),
    }));
  const paths = (splits: ReturnType<typeof packSplits>): string[][] =>
    splits.map(({ descriptor }) => pathsOf(descriptor as Buffer).map(String));

  test('every file - is in one split, in order, and the same listing gives the same splits', () => {
    const listed = files(5_000, (index) => (index % 13) * 1_000);
    const splits = packSplits(listed);
    expect(paths(splits).flat()).toEqual(listed.map(({ path: at }) => String(at)));
    expect(new Set(splits.map(({ id }) => id)).size).toBe(splits.length);
    expect(packSplits(listed)).toEqual(splits);
    expect(splits.length).toBeLessThan(200);
  });

  test('an oversized file - has a split of its own, and its neighbours stay together', () => {
    const splits = packSplits(files(1_001, (index) => (index === 500 ? 1e9 : 0)));
    const alone = paths(splits).filter((split) => split.includes('f500'));
    expect(alone).toEqual([['f500']]);
    const around = paths(splits).find((split) => split.includes('f499'));
    expect(around).toContain('f501');
  });

  test('long names - keep every descriptor within 64 KiB', () => {
    const splits = packSplits(files(2_000, (index) => (index === 0 ? 1e12 : 1), 'n'.repeat(300)));
    const sizes = splits.map(({ descriptor }) => descriptor.length);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(64 * 1024);
    expect(Math.max(...sizes)).toBeGreaterThan(60 * 1024);
  });

  test('a file that grew - changes the id of its split', () => {
    const [before] = packSplits(files(1, () => 1));
    const [after] = packSplits(files(1, () => 2));
    expect(after!.id).not.toBe(before!.id);
  });
});

describe('backfill tally', () => {
  const facts = (content: number, lines = 1) => ({
    bytes: content,
    lines,
    hash: Buffer.from([content]),
  });
  const tallyOf = (...added: readonly [string, number][]): Tally => {
    const tally = new Tally();
    for (const [name, content] of added) tally.add(Buffer.from(name), facts(content));
    return tally;
  };

  test('merged parts - equal the whole, in any order and across an encoding', () => {
    const whole = tallyOf(['a.js', 1], ['b.js', 2], ['__proto__', 3]);
    const merged = new Tally();
    merged.merge(Tally.decode(tallyOf(['__proto__', 3]).encode()));
    merged.merge(Tally.decode(tallyOf(['b.js', 2], ['a.js', 1]).encode()));
    expect(differences(merged, whole)).toEqual([]);
    expect(merged.total).toEqual({ files: 3, bytes: 6, lines: 3 });
  });

  test.each([
    ['a missing file', tallyOf(['a', 1])],
    ['a file counted twice', tallyOf(['a', 1], ['b', 1], ['b', 1])],
    ['a renamed file', tallyOf(['a', 1], ['c', 1])],
    ['contents exchanged', tallyOf(['a', 2], ['b', 0])],
  ])('%s - shows as a difference', (_what, other) => {
    expect(differences(other, tallyOf(['a', 1], ['b', 1]))).not.toEqual([]);
  });

  test.each([
    ['a/b.TXT', '.txt'],
    ['a.b/c', 'none'],
    ['.profile', 'none'],
    ['a.', 'other'],
    ['a.w\u00f6rd', 'other'],
    ['archive.tar.gz', '.gz'],
  ])('the extension of %s - is %s', (name, extension) => {
    expect(extensionOf(Buffer.from(name))).toBe(extension);
  });
});
