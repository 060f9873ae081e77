/** The deliberate mistakes themselves; who notices them is tried by `npm run mutants`. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { MUTANTS } from './mutants.ts';

const root = path.resolve(import.meta.dirname, '../..');
const read = (file: string): string => readFileSync(path.join(root, file), 'utf8');

describe('mutants', () => {
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
