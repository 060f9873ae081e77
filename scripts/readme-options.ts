/** Writes the table of options into README.md, from the table in the code: `npm run docs`. */
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { format, resolveConfig } from 'prettier';
import { type OptionDescription, OPTIONS } from '../src/coordinator/config.ts';

const README = path.resolve(import.meta.dirname, '../README.md');
const BEGIN = '<!-- options:begin -->';
const END = '<!-- options:end -->';
const DAY_MS = 24 * 60 * 60 * 1_000;

/** The text of the README with a table that is up to date. */
export async function withOptions(readme: string): Promise<string> {
  const begin = readme.indexOf(BEGIN);
  const end = readme.indexOf(END);
  if (begin < 0 || end < begin) throw new Error(`README.md lacks ${BEGIN} and ${END}`);
  const text = `${readme.slice(0, begin + BEGIN.length)}\n\n${table()}\n\n${readme.slice(end)}`;
  return format(text, { ...(await resolveConfig(README)), parser: 'markdown' });
}

function table(): string {
  const rows = OPTIONS.map((option) => [
    `\`${option.name}\``,
    `\`${option.defaultText}\``,
    [boundsOf(option), option.rule].filter((text) => text !== '').join('; '),
    option.meaning,
  ]);
  const lines = [
    ['option', 'default', 'allowed', 'meaning'],
    ['---', '---', '---', '---'],
    ...rows,
  ];
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
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
}
