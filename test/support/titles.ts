/** The titles of all tests, read from their sources, so that documents can name tests. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import ts from 'typescript';

/** One call of `test`; of a `test.each` the template. */
export interface TestTitle {
  readonly file: string;
  /** The title as it is written, and the names of all that surrounds it. */
  readonly text: string;
  readonly around: readonly string[];
  readonly isTemplate: boolean;
  /** Matches the title alone, or with the names of all that surrounds it before it. */
  readonly pattern: RegExp;
}

interface Part {
  readonly text: string;
  /** True when the text has places that `each` fills. */
  readonly isTemplate: boolean;
}

const ROOT = path.resolve(import.meta.dirname, '..');

/** Every test below `test/`. */
export function testTitles(): TestTitle[] {
  return readdirSync(ROOT, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .flatMap((file) => titlesIn(file, readFileSync(path.join(ROOT, file), 'utf8')));
}

/** The tests of one source. */
export function titlesIn(file: string, text: string): TestTitle[] {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const found: TestTitle[] = [];
  const visit = (node: ts.Node, around: readonly Part[]): void => {
    const call = ts.isCallExpression(node) ? callOf(node) : undefined;
    // A title of nothing but a place to fill would fit every name.
    if (call?.kind === 'test' && call.part.text !== '%s') {
      found.push(titleOf(file, around, call.part));
    }
    const inside = call?.kind === 'describe' ? [...around, call.part] : around;
    ts.forEachChild(node, (child) => {
      visit(child, inside);
    });
  };
  visit(source, []);
  return found;
}

/** The tests that `name` names; those that are written out go before templates that it fits. */
export function testsNamed(name: string, titles: readonly TestTitle[]): readonly TestTitle[] {
  const fitting = titles.filter(({ pattern }) => pattern.test(name));
  const exact = fitting.filter(({ isTemplate }) => !isTemplate);
  return exact.length > 0 ? exact : fitting;
}

function callOf(node: ts.CallExpression): { kind: 'test' | 'describe'; part: Part } | undefined {
  const [, kind, each] =
    /^(test|describe)\b(\.each\b)?/.exec(node.expression.getText()) ?? ([] as string[]);
  const [name, body] = node.arguments;
  if (name === undefined || body === undefined) return undefined;
  if (kind !== 'test' && kind !== 'describe') return undefined;
  if (each !== undefined && !ts.isCallExpression(node.expression)) return undefined;
  if (ts.isStringLiteralLike(name)) {
    return { kind, part: { text: name.text, isTemplate: each !== undefined } };
  }
  return { kind, part: { text: textOf(name), isTemplate: true } };
}

/** What is written out of a name that is put together; `%s` for the rest. */
function textOf(name: ts.Expression): string {
  if (!ts.isTemplateExpression(name)) return '%s';
  return name.head.text + name.templateSpans.map(({ literal }) => `%s${literal.text}`).join('');
}

function titleOf(file: string, around: readonly Part[], own: Part): TestTitle {
  const before = around.map((part) => `${patternOf(part)} `).join('');
  return {
    file,
    text: own.text,
    around: around.map(({ text }) => text),
    isTemplate: [...around, own].some(({ isTemplate }) => isTemplate),
    pattern: new RegExp(`^(?:${before})?${patternOf(own)}$`, 'u'),
  };
}

function patternOf({ text, isTemplate }: Part): string {
  const pieces = isTemplate ? text.split(/%[a-z]|\$\w+/) : [text];
  return pieces.map((piece) => piece.replaceAll(/[\\^$.*+?()[\]{}|/]/g, '\\$&')).join('.+');
}
