/** What the documents say, checked: programs run, tables are fresh, commands and links exist. */
import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from '@jest/globals';
import { withOptions } from '../scripts/readme-options.ts';

const root = path.resolve(import.meta.dirname, '..');
const read = (file: string): string => readFileSync(path.join(root, file), 'utf8');
const readme = read('README.md');
const RUN_TIMEOUT_MS = 60_000;

/** The code blocks of a document in one language, in order. */
function blocks(text: string, language: string): string[] {
  const fences = text.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms'));
  return [...fences].map(([, code]) => code!);
}

/** Scripts that a text tells the reader to run with npm. */
function npmCommands(text: string): string[] {
  const calls = text.matchAll(/\bnpm (run )?(?:--[\w-]+ )*([a-z][\w:-]*)/g);
  return [...calls].map(([, run, name]) => `${run ?? ''}${name}`);
}

/** Targets of the links and pictures of a document that stay inside the project. */
function relativeLinks(text: string): string[] {
  return [...text.matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, target]) => target!)
    .filter((target) => !/^[a-z]+:/.test(target));
}

/** GitHub's anchors of the headings of a document. */
function anchors(text: string): string[] {
  return [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading]) =>
    heading!
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

function brokenLinks(file: string, text: string): string[] {
  return relativeLinks(text).filter((link) => {
    const [target = '', anchor] = link.split('#');
    const at = target === '' ? file : path.posix.join(path.posix.dirname(file), target);
    if (!existsSync(path.join(root, at))) return true;
    return anchor !== undefined && !anchors(at === file ? text : read(at)).includes(anchor);
  });
}

describe('README', () => {
  test('README - shows the embedding program as it is in the examples', () => {
    const program = read('examples/embedding/main.ts').replace(
      "'../../src/index.ts'",
      "'leasehold'",
    );
    expect(blocks(readme, 'ts')[0]).toBe(program);
    expect(program.trimEnd().split('\n').length).toBeLessThanOrEqual(25);
  });

  test(
    'README - shows what the embedding program prints',
    async () => {
      const command = ['--import', 'tsx', 'examples/embedding/main.ts'];
      const { stdout, stderr } = await promisify(execFile)(process.execPath, command, {
        cwd: root,
      });
      const sorted = (text: string): string[] => text.trimEnd().split('\n').sort();
      expect(sorted(stdout)).toEqual(sorted(blocks(readme, 'text')[0]!));
      expect(stderr).toBe('');
    },
    RUN_TIMEOUT_MS,
  );

  test('README - has a table of options that is up to date (npm run docs)', async () => {
    expect(readme).toContain('| `leaseDurationMs`');
    expect(await withOptions(readme)).toBe(readme);
    const stale = readme.replace('| `leaseDurationMs`', '| `leaseMs`');
    expect(await withOptions(stale)).toBe(readme);
  });

  test('README - names only npm commands that exist', () => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
    const known = new Set([
      'ci',
      'start',
      'test',
      ...Object.keys(scripts).map((name) => `run ${name}`),
    ]);
    const named = npmCommands(readme);
    expect(named).toEqual(expect.arrayContaining(['ci', 'start', 'test', 'run check']));
    expect(named.filter((name) => !known.has(name))).toEqual([]);
    expect(npmCommands('`npm run --silent nosuch -- a` and npm stop')).toEqual([
      'run nosuch',
      'stop',
    ]);
  });

  test('README - can be read in one sitting', () => {
    expect(readme.trimEnd().split('\n').length).toBeLessThanOrEqual(250);
  });
});

describe('documents', () => {
  test.each(['README.md', 'machines/README.md', 'src/protocol/INVARIANTS.md'])(
    '%s - links only to what exists',
    (file) => {
      expect(brokenLinks(file, read(file))).toEqual([]);
    },
  );

  test('documents - a broken link or anchor is noticed', () => {
    const text = '# A b\n[a](no/such.md) [b](#a-b) [c](#nowhere) [d](LICENSE) [e](https://a.b)';
    expect(brokenLinks('README.md', text)).toEqual(['no/such.md', '#nowhere']);
  });
});
