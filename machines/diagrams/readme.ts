/** machines/README.md: what each chart is for, its picture, its states and what it ignores. */
import type { Drawing } from './drawing.ts';
import { mermaidOf } from './mermaid.ts';
import { allBoxes } from './model.ts';

const HEAD = `<!-- Generated from the charts by \`npm run diagrams\`; a test fails when it is stale. Do not edit. -->

# Charts

Every decision that has a "now" lives in one of these charts. They are pure: what they ask for is a named action, what
comes back is an event, and a timer is an event that the chart raises itself after a named delay. The same objects run
in a worker, are drawn here and generate the tests in \`test/machines\`, which take every transition of every chart.

In the pictures a line runs from a state to the next one and bears the events that take it there; \`[x]\` is a
condition, \`[else]\` its opposite, a clock marks an event of the chart's own timer, a loop one that stays in its state,
and a broken line leads back to an earlier state. An event that a state neither handles nor lists as ignored fails the
tests.
`;

export function readmeOf(drawings: readonly Drawing[]): string {
  const contents = drawings.map(
    ({ picture }) => `- [${picture.name}](#${picture.name}): ${picture.description}`,
  );
  return [HEAD, ...contents, '', ...drawings.map(sectionOf)].join('\n');
}

function sectionOf({ chart, picture }: Drawing): string {
  const states = allBoxes(picture.boxes).map(({ name, description, tags }) => [
    code(name),
    description,
    tags.map(code).join(', '),
  ]);
  const ignored = chart.ignores.map(({ event, states: where, why }) => [
    event === '*' ? 'any event' : code(event),
    where.map(code).join(', '),
    why,
  ]);
  return [
    `## ${picture.name}`,
    '',
    picture.description,
    '',
    `![The states of ${picture.name}](${picture.name}/${picture.name}.svg)`,
    '',
    table(['state', 'what it means', 'tags'], states),
    '',
    `What ${picture.name} does nothing about:`,
    '',
    table(['event', 'in', 'why'], ignored),
    '',
    '<details>',
    `<summary>${picture.name} as Mermaid</summary>`,
    '',
    '```mermaid',
    mermaidOf(picture).trimEnd(),
    '```',
    '',
    '</details>',
    '',
  ].join('\n');
}

function code(text: string): string {
  return `\`${text}\``;
}

/** A table with its columns padded, as prettier writes it. */
function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) =>
    Math.max(3, title.length, ...rows.map((row) => row[column]!.length)),
  );
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column]!)).join(' | ')} |`;
  const rule = widths.map((width) => '-'.repeat(width));
  return [line(head), line(rule), ...rows.map(line)].join('\n');
}
