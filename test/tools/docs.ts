/** Writes what documents take from the code: `npm run docs`. The options into README.md, the errors into ERRORS.md. */
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { format, resolveConfig } from 'prettier';
import { ERROR_CODES, type ErrorKind } from '../../src/base/errors.ts';
import { type OptionDescription, OPTIONS } from '../../src/coordinator/api/config.ts';

const root = path.resolve(import.meta.dirname, '../..');
const README = path.join(root, 'README.md');
const ERRORS = path.join(root, 'src/base/ERRORS.md');
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
}
