/** What the documents say, checked: programs run, tables are fresh; commands, links and the tests they name exist. */
import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from '@jest/globals';
import { errorsPage, TESTS_MAX, TESTS_MIN, withOptions, withTests } from './tools/docs.ts';
import { ERROR_CODES } from '../src/base/errors.ts';
import { promisedTests } from './support/reporter.js';
import { testsNamed, testTitles, titlesIn } from './support/titles.ts';

const root = path.resolve(import.meta.dirname, '..');
const read = (file: string): string => readFileSync(path.join(root, file), 'utf8');
const readme = read('README.md');

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

  test('README - shows what the embedding program prints', async () => {
    const command = ['--import', 'tsx', 'examples/embedding/main.ts'];
    const { stdout, stderr } = await promisify(execFile)(process.execPath, command, {
      cwd: root,
    });
    const sorted = (text: string): string[] => text.trimEnd().split('\n').sort();
    expect(sorted(stdout)).toEqual(sorted(blocks(readme, 'text')[0]!));
    expect(stderr).toBe('');
  });

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
    expect(readme.trimEnd().split('\n').length).toBeLessThanOrEqual(300);
  });
});

/** The rules of a document in the order in which they stand, each with the tests it names. */
function rulesOf(text: string): { rule: string; tests: string[] }[] {
  return text
    .split(/^(?=\*\*R\d)/gm)
    .filter((part) => part.startsWith('**R'))
    .map((part) => {
      const [, tests = ''] = /^Tests: (.*?)^\s*$/ms.exec(part) ?? [];
      return {
        rule: /R\d+/.exec(part)![0],
        tests: [...tests.matchAll(/`([^`]+)`/g)].map(([, name]) => name!),
      };
    });
}

describe('tests that documents name', () => {
  const titles = testTitles();
  /** Names that fit no test, or more than one. */
  const unclear = (names: readonly string[]): string[] =>
    names.filter((name) => testsNamed(name, titles).length !== 1);

  test('rules - R1 to R47 are there once, in order, and each names two to six tests', () => {
    const rules = rulesOf(read('src/protocol/INVARIANTS.md'));
    expect(rules.map(({ rule }) => rule)).toEqual(
      Array.from({ length: 47 }, (_, index) => `R${index + 1}`),
    );
    for (const { rule, tests } of rules) {
      const isEnough = tests.length >= TESTS_MIN && tests.length <= TESTS_MAX;
      expect([rule, isEnough]).toEqual([rule, true]);
    }
  });

  test('rules - name the tests that cite them, and are up to date (npm run docs)', async () => {
    const rules = read('src/protocol/INVARIANTS.md');
    expect(await withTests(rules, titles)).toBe(rules);
    const stale = rules.replaceAll(/^Tests: `[^`]+`,\n/gm, 'Tests: ');
    expect(await withTests(stale, titles)).toBe(rules);
  });

  test('rules - take one test of each file first, whole fleets before parts, and say where it is not clear which', async () => {
    const known = [
      titlesIn('base/a.test.ts', "test('part (R1)', F); test('other part (R2, R1)', F);"),
      titlesIn(
        'scenarios/b.test.ts',
        "test('one (R1)', F); test('$what (R1)', F); test('no (R11)', F);",
      ),
      titlesIn('scenarios/c.test.ts', "describe('c', () => { test('one (R1)', F); });"),
    ].flat();
    const rule = '**R1. A.** b\n';
    expect(await withTests(`# A\n\n${rule}\n## C\n`, known)).toBe(
      `# A\n\n${rule}\nTests: \`one (R1)\`,\n\`c one (R1)\`,\n\`part (R1)\`,\n\`other part (R2, R1)\`.\n\n## C\n`,
    );
  });

  test('rules - each test that they name is one test', () => {
    const named = rulesOf(read('src/protocol/INVARIANTS.md')).flatMap(({ tests }) => tests);
    expect(unclear(named)).toEqual([]);
  });

  test('scenarios - each row names one test, and that is one test', () => {
    const promised = promisedTests(read('test/SCENARIOS.md'));
    expect(promised.untitled).toEqual([]);
    expect(promised.titles.length).toBeGreaterThan(200);
    expect(new Set(promised.titles).size).toBe(promised.titles.length);
    expect(unclear(promised.titles)).toEqual([]);
  });

  test('a name - fits a test by its title, with what surrounds it, and as one of many', () => {
    const source = `
      describe('a', () => { test('b - (c)', () => 0); });
      describe.each(D)('%s', () => { test.each(E)('$name - f', () => 0); });
      test.each([1])('100 - %i', () => 0);
      test(\`g - \${x} h\`, () => 0);
      test.each(K)('%s', () => 0);`;
    const known = titlesIn('t.ts', source);
    expect(known).toHaveLength(4);
    const fits = (name: string): number[] =>
      testsNamed(name, known).map((title) => known.indexOf(title));
    const right = ['b - (c)', 'a b - (c)', 'x y - f', 'y - f', '100 - 7', 'g - 1 h'];
    expect(right.map(fits)).toEqual([[0], [0], [1], [1], [2], [3]]);
    const wrong = ['b - c', 'x b - (c)', 'b - (c) d', ' - f', '100 - ', 'g - h'];
    expect(wrong.flatMap(fits)).toEqual([]);
  });

  test('a document - that names a test too few or a rule twice is noticed', () => {
    const text = '**R1. A.** b\n\nTests: `c`,\n`d`.\n\n**R1. E.** `f`\n\n## G `h`\n';
    expect(rulesOf(text)).toEqual([
      { rule: 'R1', tests: ['c', 'd'] },
      { rule: 'R1', tests: [] },
    ]);
    expect(unclear(['no such test', 'README - can be read in one sitting'])).toEqual([
      'no such test',
    ]);
  });
});

describe('errors', () => {
  test('errors - the page is up to date (npm run docs)', async () => {
    expect(read('src/base/ERRORS.md')).toBe(await errorsPage());
  });

  test('errors - each code is expected by a test', () => {
    const sources = readdirSync(path.join(root, 'test'), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts'))
      .map((file) => read(path.join('test', file)))
      .join('\n');
    const unnamed = Object.keys(ERROR_CODES).filter((code) => !sources.includes(code));
    expect(unnamed).toEqual([]);
  });
});

describe('documents', () => {
  test.each([
    'README.md',
    'machines/README.md',
    'src/README.md',
    'src/adr/README.md',
    'src/base/ERRORS.md',
    'src/protocol/INVARIANTS.md',
    'src/records/README.md',
    'test/README.md',
    'test/SCENARIOS.md',
  ])('%s - links only to what exists', (file) => {
    expect(brokenLinks(file, read(file))).toEqual([]);
  });

  test('documents - a broken link or anchor is noticed', () => {
    const text = '# A b\n[a](no/such.md) [b](#a-b) [c](#nowhere) [d](LICENSE) [e](https://a.b)';
    expect(brokenLinks('README.md', text)).toEqual(['no/such.md', '#nowhere']);
  });
});
