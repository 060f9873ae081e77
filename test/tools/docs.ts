/**
 * Writes what documents take from the code: `npm run docs`. The options into README.md, the errors into ERRORS.md, and into
 * INVARIANTS.md the tests that cite each rule.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { format, resolveConfig } from 'prettier';
import { testsNamed, type TestTitle, testTitles } from '../support/titles.ts';
import { ERROR_CODES, type ErrorKind } from '../../src/base/errors.ts';
import { type OptionDescription, OPTIONS } from '../../src/coordinator/api/config.ts';

const root = path.resolve(import.meta.dirname, '../..');
const README = path.join(root, 'README.md');
const ERRORS = path.join(root, 'src/base/ERRORS.md');
const INVARIANTS = path.join(root, 'src/protocol/INVARIANTS.md');
const BEGIN = '<!-- options:begin -->';
const END = '<!-- options:end -->';
const DAY_MS = 24 * 60 * 60 * 1_000;

/** What a caller should do about each kind. */
const KINDS: Readonly<Record<ErrorKind, string>> = {
  usage: 'The program calls Leasehold wrongly. Fix the program; nothing was done.',
  unavailable:
    'The store was not reached, and certainly nothing was written. Repeat when it is back.',
  indeterminate: 'Sent and not answered. Look at what is stored, or repeat what may happen twice.',
  fenced:
    'The caller no longer owns the split. Stop, discard what was not committed, write nothing more.',
  fatal: 'Configuration or data that no retry heals. Stop the process and call a person.',
};

/** The text of the README with a table that is up to date. */
export function withOptions(readme: string): Promise<string> {
  const begin = readme.indexOf(BEGIN);
  const end = readme.indexOf(END);
  if (begin < 0 || end < begin) throw new Error(`README.md lacks ${BEGIN} and ${END}`);
  const rows = OPTIONS.map((option) => [
    `\`${option.name}\``,
    `\`${option.defaultText}\``,
    [boundsOf(option), option.rule].filter((text) => text !== '').join('; '),
    option.meaning,
  ]);
  const options = table(['option', 'default', 'allowed', 'meaning'], rows);
  return formatted(
    `${readme.slice(0, begin + BEGIN.length)}\n\n${options}\n\n${readme.slice(end)}`,
  );
}

/** The text of ERRORS.md. */
export function errorsPage(): Promise<string> {
  const kinds = Object.entries(KINDS).map(([kind, advice]) => [`\`${kind}\``, advice]);
  const codes = Object.entries(ERROR_CODES).map(([code, [kind, meaning]]) => [
    `\`${code}\``,
    `\`${kind}\``,
    meaning,
  ]);
  return formatted(`# Errors

Written by \`npm run docs\` from [errors.ts](errors.ts). Codes are public and never change their meaning. The \`kind\` says what
a caller can do:

${table(['kind', 'what to do'], kinds)}

${table(['code', 'kind', 'meaning'], codes)}
`);
}

/** How many tests a rule names. */
export const TESTS_MIN = 2;
export const TESTS_MAX = 6;
const BEGINS_WITH_A_CASE = /^[%$]/;
/** Folders of tests from which a rule takes its tests first: whole fleets show more than parts. */
const FIRST = ['scenarios', 'coordinator', 'driver', 'protocol'];

/** The text of INVARIANTS.md with the tests of each rule: titles that end with its number, `(R7)` or `(R7, R9)`. */
export function withTests(invariants: string, titles = testTitles()): Promise<string> {
  const parts = invariants.split(/^(?=\*\*R\d+\.|## )/m).map((part) => {
    const [, rule] = /^\*\*(R\d+)\./.exec(part) ?? [];
    if (rule === undefined) return part;
    const names = testsOf(rule, titles).map((title) => `\`${nameOf(title, titles)}\``);
    const text = part.replace(/^Tests: .*?(?=^\s*$|$(?![\s\S]))/ms, '').trimEnd();
    return `${text}\n\nTests: ${names.join(',\n')}.\n\n`;
  });
  return formatted(parts.join(''));
}

/** The tests that cite a rule, those that are about it first, one of each file before a second one of any. */
function testsOf(rule: string, titles: readonly TestTitle[]): TestTitle[] {
  const citing = titles
    .filter(({ file, text }) => file.endsWith('.test.ts') && rulesOf(text).includes(rule))
    .sort((a, b) => placeOf(a, rule) - placeOf(b, rule) || (a.file < b.file ? -1 : 1));
  // A name that begins with what a table fills in says little.
  const clear = citing.filter((title) => !BEGINS_WITH_A_CASE.test(nameOf(title, titles)));
  const seen = new Map<string, number>();
  return (clear.length < TESTS_MIN ? citing : clear)
    .map((title) => {
      const turn = seen.get(title.file) ?? 0;
      seen.set(title.file, turn + 1);
      return { title, turn };
    })
    .sort((a, b) => a.turn - b.turn)
    .slice(0, TESTS_MAX)
    .map(({ title }) => title);
}

/** The rules that a title cites at its end. */
function rulesOf(title: string): string[] {
  const [, cited = ''] = /\(([^()]*)\)$/.exec(title) ?? [];
  return cited.split(', ');
}

function placeOf({ file, text }: TestTitle, rule: string): number {
  const folder = FIRST.indexOf(file.split(path.sep)[0]!);
  const place = folder < 0 ? FIRST.length : folder;
  return place + (rulesOf(text)[0] === rule ? 0 : 2 * FIRST.length);
}

/** The title, with the names of all that surrounds it where it alone says too little, or would name more than one test. */
function nameOf({ text, around }: TestTitle, titles: readonly TestTitle[]): string {
  const isClear = !BEGINS_WITH_A_CASE.test(text) && testsNamed(text, titles).length === 1;
  return isClear ? text : [...around, text].join(' ');
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [head, head.map(() => '---'), ...rows];
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

async function formatted(text: string): Promise<string> {
  return format(text, { ...(await resolveConfig(README)), parser: 'markdown' });
}

function boundsOf({ min, max, unit }: OptionDescription): string {
  const most = unit === 'ms' && max % DAY_MS === 0 ? `${max / DAY_MS} days` : number(max);
  return `${number(min)} to ${most}`;
}

function number(value: number): string {
  return value.toLocaleString('en-US');
}

if (process.argv[1] === import.meta.filename) {
  writeFileSync(README, await withOptions(readFileSync(README, 'utf8')));
  writeFileSync(ERRORS, await errorsPage());
  writeFileSync(INVARIANTS, await withTests(readFileSync(INVARIANTS, 'utf8')));
}
