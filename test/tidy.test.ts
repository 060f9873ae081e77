/**
 * The house rules that no kept tool checks: nothing of the machine the code was written on, folders that a person can look
 * through, rooms that are explained. Who may import whom, circles, sizes and ambient globals are checked by
 * dependency-cruiser (test/tools) and eslint; the last block shows that both fail for the mistakes they are there for.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { cruise, type ICruiseResult } from 'dependency-cruiser';
import { ESLint } from 'eslint';
import { brokenPromises, promisedTests, titlesOnEtcd } from './support/reporter.js';
import cruiserConfig from './tools/dependency-cruiser.config.js';
import { ROOMS } from './tools/rooms.js';

const root = path.resolve(import.meta.dirname, '..');

interface SourceFile {
  readonly path: string;
  readonly text: string;
}

const FOREIGN: readonly (readonly [RegExp, string])[] = [
  [/(?<![\w.-])\/(work|root|home)\//, 'a path of one machine'],
  [/registry\.(npmjs|yarnpkg)\.|npm\.pkg\.github\.|^\s*registry\s*=/m, 'a package registry'],
  [/"resolved"\s*:\s*"\w+:/, 'the address of a package'],
];

function foreignErrors(file: SourceFile): string[] {
  return FOREIGN.flatMap(([pattern, what]) => {
    const match = pattern.exec(file.text);
    if (match === null) return [];
    const line = file.text.slice(0, match.index).split('\n').length;
    return [`${file.path}:${line}: names ${what}: ${match[0].trim()}`];
  });
}

/** Tracked files, and those that would be with the next `git add`. */
function projectFiles(): SourceFile[] {
  const list = ['-c', 'safe.directory=*', 'ls-files', '-z', '-co', '--exclude-standard'];
  return execFileSync('git', list, { cwd: root, encoding: 'utf8' })
    .split('\0')
    .filter((file) => file !== '' && existsSync(path.join(root, file)))
    .map((file) => ({ path: file, text: readFileSync(path.join(root, file), 'utf8') }));
}

const FILES_MAX = 20;

/** Folders that hold more files than a person looks through. */
function crowdedFolders(paths: readonly string[]): string[] {
  const counts = new Map<string, number>();
  for (const file of paths) {
    const folder = path.posix.dirname(file);
    counts.set(folder, (counts.get(folder) ?? 0) + 1);
  }
  return [...counts]
    .filter(([, count]) => count > FILES_MAX)
    .map(([folder, count]) => `${folder}: ${count} files, more than ${FILES_MAX}: make rooms`);
}

const files = projectFiles();

describe('tidy', () => {
  test('no file names a path of one machine or a package registry', () => {
    expect(files.flatMap(foreignErrors)).toEqual([]);
  });

  test('no folder holds more than twenty files', () => {
    expect(crowdedFolders(files.map((file) => file.path))).toEqual([]);
  });

  test('the top level holds what tools and readers look for there, and nothing else', () => {
    const top = new Set(files.map((file) => file.path.split('/')[0]));
    expect([...top].sort()).toEqual([
      '.ci',
      '.gitignore',
      '.npmrc',
      '.prettierignore',
      'LICENSE',
      'README.md',
      'eslint.config.js',
      'examples',
      'machines',
      'package-lock.json',
      'package.json',
      'src',
      'test',
      'tsconfig.json',
    ]);
  });

  test('every room of the source is explained, in the table that the import rules are made from', () => {
    const table = readFileSync(path.join(root, 'src/README.md'), 'utf8');
    const rows = new Map(
      [...table.matchAll(/^\| \[([^\]]+)\]\([^)]+\) +\| [^|]+ \| ([^|]+) \|$/gm)].map(
        ([, room, allowed]) => [room!.replace('../', ''), allowed!.trim()] as const,
      ),
    );
    const rooms = Object.entries(ROOMS).filter(([room]) => room !== 'index');
    expect(Object.fromEntries(rows)).toEqual(
      Object.fromEntries(rooms.map(([room, allowed]) => [room, allowed.join(', ') || 'nothing'])),
    );
  });
});

/** What the import rules say of a small tree; every file that is imported and not given is there and empty. */
async function importErrors(given: Readonly<Record<string, string>>): Promise<string[]> {
  const folder = mkdtempSync(path.join(tmpdir(), 'leasehold-tidy-'));
  try {
    const empty = [...Object.keys(ROOMS).filter((room) => room !== 'index')].map((room) =>
      room.startsWith('machines') ? `${room}/b.ts` : `src/${room}/b.ts`,
    );
    const all = { ...Object.fromEntries([...empty, 'test/b.ts'].map((at) => [at, ''])), ...given };
    for (const [at, text] of Object.entries(all)) {
      mkdirSync(path.join(folder, path.dirname(at)), { recursive: true });
      writeFileSync(path.join(folder, at), text);
    }
    const { output } = await cruise(['src', 'machines'], {
      ...cruiserConfig.options,
      ruleSet: cruiserConfig,
      validate: true,
      baseDir: folder,
    });
    return (output as ICruiseResult).summary.violations
      .filter(({ from }) => from in given)
      .map(({ rule, from, to }) => `${rule.name}: ${from} -> ${to}`);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

describe('tidy sees', () => {
  const file = (at: string, text: string): SourceFile => ({ path: at, text });

  test.each([
    ['a record that uses a decision', { 'src/records/a.ts': "import '../protocol/b.ts';" }],
    ['a base that reads files', { 'src/base/a.ts': "import 'node:fs';" }],
    [
      'a store that loads a chart later',
      { 'src/store/a.ts': "await import('../../machines/b.ts');" },
    ],
    ['a store that knows etcd', { 'src/store/a.ts': "import type { B } from './etcd/b.ts';" }],
    ['a loop above itself', { 'src/coordinator/loop/a.ts': "import '../link/b.ts';" }],
    ['two rooms side by side', { 'src/coordinator/holding/a.ts': "import '../leading/b.ts';" }],
    ['a room that knows the whole', { 'src/coordinator/link/a.ts': "import '../b.ts';" }],
    ['a source that uses the test kit', { 'src/driver/a.ts': "import '../testing/b.ts';" }],
    [
      'a source that uses a test',
      { 'src/base/a.ts': "export type A = import('../../test/b.ts').B;" },
    ],
    ['a file that is not there', { 'src/base/a.ts': "import './gone.ts';" }],
    [
      'a circle of types',
      {
        'src/base/a.ts': "import type { B } from './b.ts';",
        'src/base/b.ts': "import type { A } from './a.ts';",
      },
    ],
  ])('%s', async (_what, sources) => {
    expect(await importErrors(sources)).toHaveLength(1);
  });

  test('that a room may use what lies below it', async () => {
    const text =
      "import '../../base/b.ts'; import '../loop/b.ts'; import '../../../machines/b.ts';";
    expect(await importErrors({ 'src/coordinator/link/a.ts': text })).toEqual([]);
  });

  test.each([
    ['an ambient clock', 'src/records/keys.ts', 'export const a = Date.now();'],
    ['a bare timer', 'machines/charts.ts', 'setTimeout(() => undefined, 1);'],
    ['a console', 'src/store/batch.ts', "console.log('a');"],
    [
      'a protocol that waits',
      'src/protocol/attempts.ts',
      'export async function a(): Promise<void> {}',
    ],
    ['a protocol that throws', 'src/protocol/attempts.ts', "throw new Error('a');"],
    ['a bare export list', 'src/records/keys.ts', "export * from './ids.ts';"],
    ['code in an entry', 'src/index.ts', 'export const a = 1;'],
    [
      'a focused test',
      'test/base/ids.test.ts',
      "import { test } from '@jest/globals';\ntest.only('a', () => undefined);",
    ],
    ['a note to oneself', 'src/base/hash.ts', ['// FIX', 'ME: later'].join('')],
    ['a file that is too long', 'src/base/hash.ts', '// a line\n'.repeat(401)],
  ])('%s', async (_what, filePath, text) => {
    const [result] = await new ESLint({ cwd: root }).lintText(`${text}\n`, { filePath });
    expect(result!.errorCount).toBeGreaterThan(0);
  });

  test('a folder with one file too many', () => {
    const paths = Array.from({ length: 21 }, (_, index) => `src/a/${index}.ts`);
    expect(crowdedFolders(paths.slice(1))).toEqual([]);
    expect(crowdedFolders(paths)).toHaveLength(1);
  });

  test('a path of one machine and a package registry', () => {
    const text = ['see ', 'home', 'me', 'a\n  "resolved"'].join('/').concat(': "https:x"');
    expect(foreignErrors(file('README.md', text))).toHaveLength(2);
    expect(foreignErrors(file('README.md', 'https://example.com/home/a'))).toEqual([]);
  });

  test('a scenario whose test did not pass, and a row that names none', () => {
    const table = '| what | test |\n| --- | :-: |\n| a \\| b | `a – works` |\n| c | later |\n';
    expect(promisedTests(table)).toEqual({ titles: ['a – works'], untitled: ['| c | later |'] });
    expect(brokenPromises(table, new Set(['a – works']))).toHaveLength(1);
    expect(brokenPromises(table, new Set())).toHaveLength(2);
  });

  test('a scenario for both stores that did not run on etcd: the first of each heading in a short run', () => {
    const head = '| what | stores | test |\n| --- | --- | --- |\n';
    const one = `## one\n\n${head}| a | memory | \`a\` |\n| b | both | \`b\` |\n| c | both | \`c\` |\n`;
    const two = `## two\n\n${head}| d | both | \`d\` |\n`;
    expect(titlesOnEtcd(one + two, false)).toEqual(['b', 'c', 'd']);
    expect(titlesOnEtcd(one + two, true)).toEqual(['b', 'd']);
  });
});
