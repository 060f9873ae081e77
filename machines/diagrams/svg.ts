/** Draws a placed picture as SVG: no scripts, no outside fonts, the same bytes for the same chart. */
import {
  EVERYWHERE_TITLE,
  type Layout,
  type PlacedArrow,
  type PlacedBox,
  type PlacedStart,
  type Rect,
} from './layout.ts';
import { legendOf } from './legend.ts';
import type { Picture } from './model.ts';
import { escape, pathOf, rectOf, stackOf, stateShape, text } from './shapes.ts';
import {
  CONTAINER_FILL,
  FAINT,
  FONT,
  HEADER_HEIGHT,
  INK,
  KINDS,
  PAD,
  TEXT_SIZE,
  TITLE_SIZE,
  WIRE,
} from './theme.ts';

export function svgOf(picture: Picture, layout: Layout): string {
  const legend = legendOf(picture, layout.width);
  const width = Math.max(layout.width, legend.width);
  const height = layout.height + legend.height;
  const containers = layout.boxes.filter(({ box }) => box.children.length > 0);
  const leaves = layout.boxes.filter(({ box }) => box.children.length === 0);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" class="chart" data-chart="${picture.name}" role="img" aria-label="${escape(picture.description)}">`,
    `<title>${escape(picture.name)}</title>`,
    `<desc>${escape(picture.description)}</desc>`,
    `<style>${styleOf()}</style>`,
    `<defs>${markerOf()}</defs>`,
    `<rect width="${width}" height="${height}" fill="#ffffff"/>`,
    ...containers.map(containerOf),
    ...layout.starts.map(startOf),
    ...layout.arrows.map(wireOf),
    ...leaves.map(leafOf),
    ...(layout.everywhere === undefined ? [] : [everywhereOf(layout.everywhere)]),
    ...layout.arrows.map(labelOf),
    `<g class="legend" transform="translate(0 ${layout.height})">`,
    ...legend.parts,
    '</g>',
    '</svg>',
    '',
  ].join('\n');
}

/** Scoped to the drawing, so that several of them can stand in one page. */
function styleOf(): string {
  const rules: [string, string][] = [
    ['text', `font-family:${FONT};font-size:${TEXT_SIZE}px;fill:${INK}`],
    ['.name', `font-size:${TITLE_SIZE}px;font-weight:bold`],
    ['.faint', `fill:${FAINT}`],
    ['.state>rect', 'stroke-width:1.2'],
    ...Object.entries(KINDS).map(([kind, { fill, line }]): [string, string] => [
      `.${kind}>rect`,
      `fill:${fill};stroke:${line}`,
    ]),
    ['.state>.inner', 'fill:none'],
    ['.container>rect', `fill:${CONTAINER_FILL};stroke:${FAINT}`],
    ['.region>rect', `fill:#ffffff;stroke:${FAINT};stroke-dasharray:6 4`],
    ['.wire', `fill:none;stroke:${WIRE};stroke-width:1.2`],
    ['.back', 'stroke-dasharray:5 3'],
    ['.label>rect', 'fill:#ffffff;stroke:#b9c2cd;stroke-width:.8'],
    ['.icon', `fill:none;stroke:${FAINT};stroke-width:1.2`],
    ['.everywhere>rect', `fill:#ffffff;stroke:${FAINT};stroke-dasharray:2 3`],
    ['.dot', `fill:${INK}`],
  ];
  return rules.map(([selector, rule]) => `.chart ${selector}{${rule}}`).join('');
}

function markerOf(): string {
  return (
    '<marker id="chart-head" viewBox="0 0 8 8" refX="7.2" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto-start-reverse">' +
    `<path d="M0 .8L8 4L0 7.2z" fill="${WIRE}"/></marker>`
  );
}

function containerOf({ box, rect }: PlacedBox): string {
  const kind = box.isRegion ? 'region' : 'container';
  return group(`state ${kind}`, box.name, box.description, [
    rectOf(rect, box.isRegion ? 4 : 8),
    text(box.title, rect.x + PAD + 2, rect.y + 18, 'name'),
    ...stackOf(box.own, rect.x + PAD, rect.y + HEADER_HEIGHT + 10, true),
  ]);
}

function leafOf({ box, rect }: PlacedBox): string {
  return group(`state ${box.kind}`, box.name, box.description, [
    ...stateShape(box.kind, rect),
    text(box.title, rect.x + rect.width / 2, rect.y + 20, 'name', 'middle'),
    ...stackOf(box.own, rect.x + PAD, rect.y + HEADER_HEIGHT + 12, true),
  ]);
}

function startOf({ state, dot, points }: PlacedStart): string {
  const radius = dot.width / 2;
  return [
    `<g class="start" data-start="${escape(state)}">`,
    `<circle class="dot" cx="${dot.x + radius}" cy="${dot.y + radius}" r="${radius}"/>`,
    `<path class="wire" d="${pathOf(points)}" marker-end="url(#chart-head)"/></g>`,
  ].join('');
}

function wireOf({ arrow, points }: PlacedArrow): string {
  const head = arrow.isBack ? 'marker-start' : 'marker-end';
  const style = arrow.isBack ? 'wire back' : 'wire';
  return `<path class="${style}" data-from="${escape(arrow.from)}" data-to="${escape(arrow.to)}" d="${pathOf(points)}" ${head}="url(#chart-head)"/>`;
}

function labelOf({ arrow, label }: PlacedArrow): string {
  const lines = stackOf(arrow.lines, label.x + 5, label.y + 13);
  return `<g class="label">${rectOf(label, 3)}${lines.join('')}</g>`;
}

function everywhereOf(rect: Rect): string {
  const x = rect.x + rect.width / 2;
  const inner = [rectOf(rect, 12), text(EVERYWHERE_TITLE, x, rect.y + 16, 'faint', 'middle')];
  return `<g class="everywhere">${inner.join('')}</g>`;
}

function group(style: string, state: string, title: string, parts: readonly string[]): string {
  return `<g class="${style}" data-state="${escape(state)}"><title>${escape(title)}</title>${parts.join('')}</g>`;
}
