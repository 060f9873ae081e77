/**
 * The house rules a machine can check: who may import whom, no cycles, nothing ambient, files a person can read, and
 * nothing of the machine the code was written on. Each rule is a pure function over files, so the last block can show
 * that it fails for the mistake it is there for.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from '@jest/globals';
import ts from 'typescript';
import { brokenPromises, promisedTests, titlesOnEtcd } from './support/reporter.js';

const root = path.resolve(import.meta.dirname, '..');

interface SourceFile {
  readonly path: string;
  readonly text: string;
}

interface Import {
  readonly from: string;
  readonly to: string;
  readonly line: number;
  /** Erased by the compiler, so it neither runs code nor closes a cycle. */
  readonly typeOnly: boolean;
}

interface Layer {
  readonly name: string;
  /** The longest matching prefix decides; one that ends in `.ts` is one file. */
  readonly at: string;
  /** Layers and packages whose values it may use. Its own files are always allowed; `node:*` is every builtin. */
  readonly values: readonly string[];
  /** Layers of which it may use the types only. */
  readonly types?: readonly string[];
}

const BELOW_DRIVER = ['base', 'records', 'protocol', 'machines', 'store', 'observe'];
const BELOW_TESTING = [...BELOW_DRIVER, 'coordinator', 'driver'];

/** Who may import whom. Direction: base <- records <- protocol <- machines <- coordinator <- driver. */
const LAYERS: readonly Layer[] = [
  { name: 'base', at: 'src/base/', values: ['node:perf_hooks', 'node:timers', 'node:crypto'] },
  { name: 'records', at: 'src/records/', values: ['base'] },
  { name: 'protocol', at: 'src/protocol/', values: ['base', 'records'] },
  { name: 'machines', at: 'machines/', values: ['xstate', 'base', 'records', 'protocol'] },
  {
    name: 'diagrams',
    at: 'machines/diagrams/',
    values: ['xstate', 'elkjs', 'node:*', 'base', 'machines'],
  },
  { name: 'store', at: 'src/store/', values: ['base', 'rxjs'] },
  {
    name: 'store/etcd',
    at: 'src/store/etcd/',
    // Certificates are read from files; cockatiel names the policy that switches etcd3's own retries off.
    values: ['store', 'base', 'rxjs', 'etcd3', 'cockatiel', 'node:fs', 'node:tls'],
  },
  { name: 'observe', at: 'src/observe/', values: ['base'], types: ['machines'] },
  { name: 'observe/adapters', at: 'src/observe/adapters/', values: ['observe', 'base'] },
  { name: 'coordinator', at: 'src/coordinator/', values: [...BELOW_DRIVER, 'xstate', 'rxjs'] },
  {
    name: 'driver',
    at: 'src/driver/',
    values: ['coordinator', 'base', 'observe'],
    types: ['records', 'protocol', 'store'],
  },
  { name: 'sink', at: 'src/sink/', values: ['base'] },
  {
    name: 'operator',
    at: 'src/operator/',
    values: ['base', 'records', 'protocol', 'machines', 'store', 'observe', 'node:*'],
  },
  { name: 'testing', at: 'src/testing/', values: [...BELOW_TESTING, 'operator', 'xstate', 'rxjs'] },
  {
    name: 'entry',
    at: 'src/index.ts',
    values: [...BELOW_TESTING, 'operator', 'store/etcd', 'observe/adapters', 'sink'],
  },
];

/** Package entries: they list what is public and hold no code. */
const ENTRIES = [
  'src/index.ts',
  'src/store/etcd/index.ts',
  'src/testing/index.ts',
  'machines/index.ts',
];

/** What reads the outside world without a port, and the port to use in its place. */
const AMBIENT: readonly (readonly [RegExp, string])[] = [
  [/\bDate\.now\(/, 'use clock.nowMs(), or clock.wallMs() for display'],
  [/\bMath\.random\(/, 'use the injected random'],
  [/\bconsole\./, 'use the injected logger'],
];
const AMBIENT_ALLOWED = /^(src\/base\/|src\/operator\/cli(\.ts$|\/)|machines\/diagrams\/)/;

/** Files above their limit, each with its own limit and the reason. Only tables of data belong here. */
const SIZE_EXCEPTIONS: Readonly<Record<string, { readonly limit: number; readonly why: string }>> =
  {};

function parse(file: SourceFile): ts.SourceFile {
  return ts.createSourceFile(file.path, file.text, ts.ScriptTarget.Latest, true);
}

function visit(node: ts.Node, look: (node: ts.Node) => void): void {
  look(node);
  ts.forEachChild(node, (child) => {
    visit(child, look);
  });
}

function lineOf(source: ts.SourceFile, node: ts.Node): number {
  return source.getLineAndCharacterOfPosition(node.getStart(source)).line + 1;
}

function isTypeOnlyImport(node: ts.ImportDeclaration): boolean {
  const clause = node.importClause;
  if (clause === undefined) return false;
  if (clause.phaseModifier === ts.SyntaxKind.TypeKeyword) return true;
  if (clause.name !== undefined || clause.namedBindings === undefined) return false;
  return (
    ts.isNamedImports(clause.namedBindings) &&
    clause.namedBindings.elements.length > 0 &&
    clause.namedBindings.elements.every((element) => element.isTypeOnly)
  );
}

function isTypeOnlyExport(node: ts.ExportDeclaration): boolean {
  if (node.isTypeOnly) return true;
  const clause = node.exportClause;
  return (
    clause !== undefined &&
    ts.isNamedExports(clause) &&
    clause.elements.length > 0 &&
    clause.elements.every((element) => element.isTypeOnly)
  );
}

/** Every import, re-export, dynamic import and import type; a relative one is resolved to a path from the root. */
function importsOf(file: SourceFile): Import[] {
  const source = parse(file);
  const found: Import[] = [];
  const add = (node: ts.Node, specifier: ts.Node | undefined, typeOnly: boolean): void => {
    if (specifier === undefined || !ts.isStringLiteralLike(specifier)) return;
    const to = specifier.text.startsWith('.')
      ? path.posix.join(path.posix.dirname(file.path), specifier.text)
      : specifier.text;
    found.push({ from: file.path, to, line: lineOf(source, node), typeOnly });
  };
  visit(source, (node) => {
    if (ts.isImportDeclaration(node)) {
      add(node, node.moduleSpecifier, isTypeOnlyImport(node));
    } else if (ts.isExportDeclaration(node)) {
      add(node, node.moduleSpecifier, isTypeOnlyExport(node));
    } else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) {
      add(node, node.argument.literal, true);
    } else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      add(node, node.arguments[0], false);
    }
  });
  return found;
}

function layerOf(file: string): Layer | undefined {
  return LAYERS.filter(({ at }) => file === at || (at.endsWith('/') && file.startsWith(at)))
    .toSorted((a, b) => b.at.length - a.at.length)
    .at(0);
}

/** The layer of a file, or the package of a bare specifier. */
function targetName(to: string): string {
  if (/^(src|machines|test|examples|bench|scripts)\//.test(to)) return layerOf(to)?.name ?? to;
  if (to.startsWith('node:')) return to;
  return to
    .split('/')
    .slice(0, to.startsWith('@') ? 2 : 1)
    .join('/');
}

function directionErrors(file: SourceFile): string[] {
  const layer = layerOf(file.path);
  if (layer === undefined) {
    return [`${file.path}: belongs to no layer; move it, or add its layer to LAYERS`];
  }
  return importsOf(file).flatMap((found) => {
    const target = targetName(found.to);
    const asValue =
      target === layer.name ||
      layer.values.includes(target) ||
      (target.startsWith('node:') && layer.values.includes('node:*'));
    const asType = found.typeOnly && (layer.types ?? []).includes(target);
    if (asValue || asType) return [];
    const types = (layer.types ?? []).map((name) => `types of ${name}`);
    const allowed = [...layer.values, ...types].join(', ');
    return [
      `${found.from}:${found.line}: ${layer.name} must not import ${target} (it may: ${allowed})`,
    ];
  });
}

function relativeImportErrors(file: SourceFile, exists: (file: string) => boolean): string[] {
  return importsOf(file)
    .filter(({ to }) => /^(src|machines|test|examples|bench|scripts)\//.test(to))
    .filter(({ to }) => !/\.(ts|js)$/.test(to) || !exists(to))
    .map(({ from, line, to }) => `${from}:${line}: no such file: ${to} (name it with its .ts)`);
}

/** Each cycle of value imports once, as `a -> b -> a`. */
function cyclesOf(files: readonly SourceFile[]): string[] {
  const edges = new Map(
    files.map((file) => [
      file.path,
      importsOf(file)
        .filter(({ typeOnly }) => !typeOnly)
        .map(({ to }) => to),
    ]),
  );
  const cycles: string[] = [];
  const done = new Set<string>();
  const walk = (file: string, trail: readonly string[]): void => {
    const start = trail.indexOf(file);
    if (start >= 0) cycles.push([...trail.slice(start), file].join(' -> '));
    if (start >= 0 || done.has(file)) return;
    for (const next of edges.get(file) ?? []) walk(next, [...trail, file]);
    done.add(file);
  };
  for (const file of edges.keys()) walk(file, []);
  return cycles;
}

/** The code without comments and white space, token by token, one string a line. */
function codeLines(file: SourceFile): Map<number, string> {
  const source = parse(file);
  const lines = new Map<number, string>();
  const collect = (node: ts.Node): void => {
    if (ts.isJSDoc(node)) return;
    const children = node.getChildren(source);
    children.forEach(collect);
    if (children.length > 0) return;
    const line = lineOf(source, node);
    const before = lines.get(line) ?? '';
    const word = /\w$/.test(before) && /^\w/.test(node.getText(source)) ? ' ' : '';
    lines.set(line, before + word + node.getText(source));
  };
  collect(source);
  return lines;
}

function textErrors(file: SourceFile): string[] {
  const ambient = /^(src|machines)\//.test(file.path) && !AMBIENT_ALLOWED.test(file.path);
  const banned = [
    ...(ambient ? AMBIENT : []),
    [/\.only\(/, 'run one test from the command line: npm test -- -t name'] as const,
  ];
  const inCode = [...codeLines(file)].flatMap(([line, code]) =>
    banned
      .filter(([pattern]) => pattern.test(code))
      .map(([pattern, instead]) => `${file.path}:${line}: ${pattern.source}: ${instead}`),
  );
  const leftOver = file.text
    .split('\n')
    .flatMap((text, index) => (/FIX[M]E/.test(text) ? [index + 1] : []))
    .map((line) => `${file.path}:${line}: finish it, or open an issue and name it`);
  return [...inCode, ...leftOver];
}

/** A chart asks for effects by named actions and for timers by raise with a named delay (ADR on model tests). */
function chartErrors(file: SourceFile): string[] {
  const source = parse(file);
  const instead: Readonly<Record<string, string>> = {
    invoke: 'name an action; its result comes back as an event',
    after: "use raise(event, { delay: 'named', id }) and cancel(id)",
  };
  const errors: string[] = [];
  visit(source, (node) => {
    if (!ts.isPropertyAssignment(node)) return;
    const name = node.name.getText(source).replaceAll(/['"]/g, '');
    const message = Object.hasOwn(instead, name) ? instead[name] : undefined;
    if (message !== undefined) {
      errors.push(`${file.path}:${lineOf(source, node)}: ${name}: ${message}`);
    }
  });
  return errors;
}

const IMPURE = new Set([
  ...['Promise', 'Date', 'performance', 'process', 'queueMicrotask'],
  ...['setTimeout', 'setInterval', 'setImmediate'],
]);

/** The protocol decides; it neither waits nor asks the time, and it stops only for a bug. */
function purityErrors(file: SourceFile): string[] {
  const source = parse(file);
  const errors: string[] = [];
  visit(source, (node) => {
    const at = `${file.path}:${lineOf(source, node)}`;
    if (node.kind === ts.SyntaxKind.AsyncKeyword || ts.isAwaitExpression(node)) {
      errors.push(`${at}: async: return the decision; the coordinator acts on it`);
    } else if (ts.isIdentifier(node) && IMPURE.has(node.text)) {
      const isMember = ts.isPropertyAccessExpression(node.parent) && node.parent.name === node;
      if (!isMember) errors.push(`${at}: ${node.text}: take it as a value from the caller`);
    } else if (ts.isThrowStatement(node)) {
      const isBug = /^new InvariantViolation\b/.test(node.expression.getText(source));
      if (!isBug) errors.push(`${at}: throw: return an outcome; only InvariantViolation is thrown`);
    }
  });
  return errors;
}

function exportErrors(file: SourceFile): string[] {
  const source = parse(file);
  return source.statements.flatMap((statement) => {
    const at = `${file.path}:${lineOf(source, statement)}`;
    const isExport = ts.isExportDeclaration(statement);
    if (isExport && (!statement.exportClause || ts.isNamespaceExport(statement.exportClause))) {
      return [`${at}: export *: name each export`];
    }
    const isReExport = isExport && statement.moduleSpecifier !== undefined;
    if (isReExport || !ENTRIES.includes(file.path)) return [];
    return [`${at}: an entry only re-exports; move the code into a file of its layer`];
  });
}

function sizeErrors(file: SourceFile): string[] {
  const isChart = /^machines\/.*\.machine\.ts$/.test(file.path);
  const usual = file.path.startsWith('test/') ? 600 : isChart ? 250 : 400;
  const limit = SIZE_EXCEPTIONS[file.path]?.limit ?? usual;
  const lines = file.text.replace(/\n$/, '').split('\n').length;
  return lines > limit ? [`${file.path}: ${lines} lines, more than ${limit}: split it`] : [];
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

const files = projectFiles();
const code = files.filter((file) =>
  /^(src|machines|test|examples|bench|scripts)\/.*\.[jt]s$/.test(file.path),
);
const sources = code.filter((file) => /^(src|machines)\//.test(file.path));

describe('tidy', () => {
  test('every source file imports only from the layers and packages below it', () => {
    expect(sources.flatMap(directionErrors)).toEqual([]);
  });

  // A benchmark compares with the bare client.
  test('only src/store/etcd imports etcd3, and the benchmark that compares with it', () => {
    const importers = code.filter((file) =>
      importsOf(file).some(({ to }) => targetName(to) === 'etcd3'),
    );
    const outside = importers.filter(
      (file) => !/^(src\/store\/etcd|bench\/etcd)\//.test(file.path),
    );
    expect(outside.map((file) => file.path)).toEqual([]);
  });

  test('every relative import names an existing file by its own extension', () => {
    const known = new Set(files.map((file) => file.path));
    expect(code.flatMap((file) => relativeImportErrors(file, (to) => known.has(to)))).toEqual([]);
  });

  test('no source file imports itself through others', () => {
    expect(cyclesOf(sources)).toEqual([]);
  });

  test('nothing reads the time, chance or the console without a port, and nothing is left over', () => {
    expect(code.flatMap(textErrors)).toEqual([]);
  });

  test('charts neither invoke actors nor use timers without a name', () => {
    const charts = sources.filter((file) => file.path.endsWith('.machine.ts'));
    expect(charts.flatMap(chartErrors)).toEqual([]);
  });

  test('the protocol is synchronous, timeless and throws for bugs only', () => {
    const protocol = sources.filter((file) => layerOf(file.path)?.name === 'protocol');
    expect(protocol.flatMap(purityErrors)).toEqual([]);
  });

  test('exports are named one by one, and package entries hold no code', () => {
    expect(sources.flatMap(exportErrors)).toEqual([]);
  });

  test('every file is short enough to be read in one sitting', () => {
    expect(code.flatMap(sizeErrors)).toEqual([]);
  });

  test('no file names a path of one machine or a package registry', () => {
    expect(files.flatMap(foreignErrors)).toEqual([]);
  });
});

describe('tidy sees', () => {
  const file = (at: string, text: string): SourceFile => ({ path: at, text });

  test.each([
    ['a record that uses rxjs', 'src/records/a.ts', "import { of } from 'rxjs';"],
    ['a base that uses a record', 'src/base/a.ts', "import { a } from '../records/a.ts';"],
    ['a base that reads files', 'src/base/a.ts', "import fs from 'node:fs';"],
    ['a chart that uses rxjs/operators', 'machines/a.ts', "export { a } from 'rxjs/operators';"],
    ['a store that loads a chart later', 'src/store/a.ts', "await import('../../machines/a.ts');"],
    ['a store that knows etcd', 'src/store/a.ts', "import type { A } from './etcd/a.ts';"],
    ['a driver that runs the store', 'src/driver/a.ts', "import { a } from '../store/a.ts';"],
    ['a coordinator above itself', 'src/coordinator/a.ts', "import '../driver/a.ts';"],
    ['a source that uses the test kit', 'src/driver/a.ts', "import '../testing/index.ts';"],
    ['a source that uses a test', 'src/base/a.ts', "type A = import('../../test/a.ts').A;"],
    ['a file outside every layer', 'src/utils/a.ts', ''],
  ])('%s', (_what, at, text) => {
    expect(directionErrors(file(at, text))).toHaveLength(1);
  });

  test('that a driver may use the types of the store', () => {
    const text = "import { type Store } from '../store/port.ts';";
    expect(directionErrors(file('src/driver/a.ts', text))).toEqual([]);
  });

  test('an import of the built name', () => {
    const text = "import { a } from './a.js'; import { b } from './b.ts';";
    const errors = relativeImportErrors(file('src/base/c.ts', text), (to) => to.endsWith('.ts'));
    expect(errors).toHaveLength(1);
  });

  test('a cycle of values, but not one closed by a type', () => {
    const a = file('src/base/a.ts', "export { b } from './b.ts';");
    const value = file('src/base/b.ts', "import { a } from './a.ts';");
    const type = file('src/base/b.ts', "import type { a } from './a.ts';");
    expect(cyclesOf([a, value])).toEqual(['src/base/a.ts -> src/base/b.ts -> src/base/a.ts']);
    expect(cyclesOf([a, type])).toEqual([]);
  });

  test('an ambient call in code, but not in a comment, and allowed in base', () => {
    const text = '// Never Date.now().\n/** Nor console.log. */\nconst at = Date.now();\n';
    expect(textErrors(file('src/records/a.ts', text))).toHaveLength(1);
    expect(textErrors(file('src/base/a.ts', text))).toEqual([]);
  });

  test('a focused test and a note to oneself', () => {
    const text = ['test.on', "ly('a', f); // FIX", 'ME'].join('');
    expect(textErrors(file('test/a.test.ts', text))).toHaveLength(2);
  });

  test('an actor and a nameless timer in a chart', () => {
    const text = "const a = { invoke: { src: 'a' }, states: { b: { 'after': { 5: 'c' } } } };";
    expect(chartErrors(file('machines/a.machine.ts', text))).toHaveLength(2);
  });

  test.each([
    ['async function a(): void {}'],
    ['const a = new Date(0);'],
    ['type A = Promise<void>;'],
    ["throw new Error('a');"],
  ])('that the protocol may not hold: %s', (text) => {
    expect(purityErrors(file('src/protocol/a.ts', text))).toHaveLength(1);
  });

  test('a bare export list and code in an entry', () => {
    const text = "export * from './a.ts';\nexport * as b from './b.ts';\nexport const c = 1;\n";
    expect(exportErrors(file('src/index.ts', text))).toHaveLength(3);
    expect(exportErrors(file('src/base/a.ts', text))).toHaveLength(2);
  });

  test('a file one line too long', () => {
    const lines = (count: number): string => 'a();\n'.repeat(count);
    expect(sizeErrors(file('src/base/a.ts', lines(400)))).toEqual([]);
    expect(sizeErrors(file('src/base/a.ts', lines(401)))).toHaveLength(1);
    expect(sizeErrors(file('machines/a.machine.ts', lines(251)))).toHaveLength(1);
    expect(sizeErrors(file('test/a.test.ts', lines(601)))).toHaveLength(1);
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
