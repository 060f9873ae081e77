/** Everything that is generated from the charts, as text in memory; generate.ts writes it, a test compares it. */
import type { Chart } from '../index.ts';
import { layoutOf } from './layout.ts';
import { mermaidOf } from './mermaid.ts';
import { pictureOf } from './model.ts';
import type { Drawing } from './drawing.ts';
import { readmeOf } from './readme.ts';
import { svgOf } from './svg.ts';

/** Draws charts, one after the other. */
export async function drawingsOf(charts: readonly Chart[]): Promise<Drawing[]> {
  const drawings: Drawing[] = [];
  for (const chart of charts) {
    const picture = pictureOf(chart);
    drawings.push({ chart, picture, layout: await layoutOf(picture) });
  }
  return drawings;
}

/** File contents by path below `machines/`. */
export function filesFrom(drawings: readonly Drawing[]): Map<string, string> {
  return new Map([
    ...drawings.flatMap(({ picture, layout }): [string, string][] => [
      [`${picture.name}/${picture.name}.svg`, svgOf(picture, layout)],
      [`${picture.name}/${picture.name}.mmd`, mermaidOf(picture)],
    ]),
    ['README.md', readmeOf(drawings)],
  ]);
}
