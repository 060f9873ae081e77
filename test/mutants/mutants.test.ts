/** The deliberate mistakes themselves; who notices them is tried by `npm run mutants`. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { MUTANTS } from './mutants.ts';

const root = path.resolve(import.meta.dirname, '../..');
const read = (file: string): string => readFileSync(path.join(root, file), 'utf8');

const README = read('test/README.md');
const [, TABLE = ''] = /<!-- mutants:begin -->([^]*)<!-- mutants:end -->/.exec(README) ?? [];
const ROWS = TABLE.split('\n')
  .filter((line) => line.startsWith('|'))
  .slice(2)
  .map((line) => line.split('|').map((cell) => cell.trim()));

describe('mutants', () => {
  test('mutants - each stands in the table, with who noticed it and after how many runs', () => {
    expect(ROWS.map(([, mistake, rules]) => ({ mistake, rules }))).toEqual(
      MUTANTS.map(({ mistake, rules }) => ({ mistake, rules })),
    );
    for (const [, , , by, runs] of ROWS) {
      if (by!.startsWith('simulator: ')) expect(Number(runs)).toBeGreaterThan(0);
      else expect(by).toMatch(/^`.+`$/);
    }
  });

  test.each(MUTANTS.map((mutant) => [mutant.mistake, mutant] as const))(
    'mutants - the place of a mistake is in the source once: %s',
    (_, { edits }) => {
      expect(edits.length).toBeGreaterThan(0);
      for (const { file, find, replace } of edits) {
        expect(read(file).split(find)).toHaveLength(2);
        expect(replace).not.toBe(find);
      }
    },
  );

  test('mutants - are told apart by their names, and name rules that exist', () => {
    const invariants = read('src/protocol/INVARIANTS.md');
    expect(new Set(MUTANTS.map(({ mistake }) => mistake)).size).toBe(MUTANTS.length);
    for (const { rules } of MUTANTS) {
      for (const rule of rules.split(', ')) expect(invariants).toContain(`**${rule}. `);
    }
  });
});
