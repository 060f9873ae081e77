/** What changes in a worker has one place, and src/README.md names it. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import ts from 'typescript';
import { CHARTS } from '../../machines/index.ts';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');

/** True for a field that changes: it can be set, or is a collection that is filled. */
function changes(field: ts.PropertyDeclaration): boolean {
  const has = (kind: ts.SyntaxKind): boolean =>
    field.modifiers?.some((modifier) => modifier.kind === kind) === true;
  if (has(ts.SyntaxKind.StaticKeyword)) return false;
  const made = field.initializer?.getText() ?? '';
  return !has(ts.SyntaxKind.ReadonlyKeyword) || /^(new (Map|Set|WeakMap)\b|\[)/.test(made);
}

function hasState(file: string, text: string): boolean {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  let found = false;
  const visit = (node: ts.Node): void => {
    if (ts.isPropertyDeclaration(node) && changes(node)) found = true;
    const isList = ts.isVariableStatement(node) && node.parent === source;
    if (isList && (node.declarationList.flags & ts.NodeFlags.Let) !== 0) found = true;
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

function filesWithState(): string[] {
  return ['src/coordinator', 'src/driver'].flatMap((room) =>
    readdirSync(path.join(root, room), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts'))
      .filter((file) => hasState(file, readFileSync(path.join(root, room, file), 'utf8')))
      .map((file) => path.basename(file)),
  );
}

function rows(): string[][] {
  const text = readFileSync(path.join(root, 'src/README.md'), 'utf8');
  const section = text.slice(text.indexOf('## Who holds what state'));
  return section
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .slice(2)
    .map((line) => line.split('|').map((cell) => cell.trim()));
}

const ticked = (cell: string, pattern: RegExp): string[] =>
  [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name!).filter((name) => pattern.test(name));

describe('the table of states', () => {
  test('the table of states - names every file of a worker that holds some, once, and no other', () => {
    const named = rows().flatMap((cells) => ticked(cells[3]!, /\.ts$/));
    expect(named.sort()).toEqual(filesWithState().sort());
  });

  test('the table of states - names every chart', () => {
    const kinds = rows().map((cells) => cells[2]!);
    const named = kinds
      .filter((kind) => kind.startsWith('chart'))
      .flatMap((kind) => ticked(kind, /./));
    expect(named.sort()).toEqual(CHARTS.map(({ name }) => name as string).sort());
  });

  test('the table of states - would miss a field that is not there', () => {
    expect(hasState('x.ts', 'class X { readonly #a = 1; }')).toBe(false);
    expect(hasState('x.ts', 'class X { #a = 1; }')).toBe(true);
    expect(hasState('x.ts', 'class X { readonly #a = new Map<string, string>(); }')).toBe(true);
    expect(hasState('x.ts', 'let last = 0;')).toBe(true);
  });
});
