/** The same picture in Mermaid's words, for readers whose viewer draws them (GitHub does) and for a diff of a change. */
import { allBoxes, EVERYWHERE, type Arrow, type Box, type Line, type Picture } from './model.ts';
import { EVERYWHERE_TITLE } from './layout.ts';
import { INK, KINDS } from './theme.ts';

export function mermaidOf(picture: Picture): string {
  const everywhere = picture.hasEverywhere
    ? [`  state "${EVERYWHERE_TITLE}" as ${idOf(EVERYWHERE)}`]
    : [];
  return [
    'stateDiagram-v2',
    '  direction TB',
    ...everywhere,
    ...inside(picture, '', picture.boxes, '  '),
    ...classesOf(picture),
    '',
  ].join('\n');
}

/** What stands inside one container: its states, then the arrows among them. */
function inside(
  picture: Picture,
  container: string,
  boxes: readonly Box[],
  indent: string,
): string[] {
  const start = boxes.filter(({ isInitial }) => isInitial);
  const arrows = picture.arrows.filter((arrow) => containerOf(arrow) === container);
  return [
    ...boxes.flatMap((box, index) => [
      ...(box.isRegion && index > 0 ? [`${indent}--`] : []),
      ...stateOf(picture, box, indent),
    ]),
    ...start.map(({ name }) => `${indent}[*] --> ${idOf(name)}`),
    ...arrows.map(
      ({ from, to, lines }) =>
        `${indent}${idOf(from)} --> ${idOf(to)} : ${lines.map(lineOf).join('<br/>')}`,
    ),
  ];
}

function stateOf(picture: Picture, box: Box, indent: string): string[] {
  const own = box.own.map((line) => `<br/>↺ ${lineOf(line)}`).join('');
  const head = `${indent}state "${box.title}${own}" as ${idOf(box.name)}`;
  if (box.children.length === 0) return [head];
  return [`${head} {`, ...inside(picture, box.name, box.children, `${indent}  `), `${indent}}`];
}

function lineOf({ event, guard, except, isTimer }: Line): string {
  const clock = isTimer ? '⏱ ' : '';
  const condition = guard === undefined ? '' : ` [${guard}]`;
  const missing = except.length === 0 ? '' : `<br/>(not in ${except.join(', ')})`;
  return `${clock}${event}${condition}${missing}`;
}

/** The innermost container of both ends of an arrow. */
function containerOf({ from, to }: Arrow): string {
  const a = from.split('.').slice(0, -1);
  const b = to.split('.').slice(0, -1);
  const parting = a.findIndex((key, index) => b[index] !== key);
  return (parting < 0 ? a : a.slice(0, parting)).join('.');
}

function idOf(name: string): string {
  return name === EVERYWHERE ? 'every_state' : name.replaceAll('.', '_');
}

function classesOf(picture: Picture): string[] {
  const leaves = allBoxes(picture.boxes).filter(({ children }) => children.length === 0);
  return Object.entries(KINDS).flatMap(([kind, { fill, line }]) => {
    const names = leaves.filter((box) => box.kind === kind).map(({ name }) => idOf(name));
    if (names.length === 0) return [];
    return [
      `  classDef ${kind} fill:${fill},stroke:${line},color:${INK}`,
      `  class ${names.join(',')} ${kind}`,
    ];
  });
}
