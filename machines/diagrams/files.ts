/** Everything that is generated from the charts, as text in memory; generate.ts writes it, a test compares it. */
import type { Chart } from '../index.ts';
import { type Layout, layoutOf } from './layout.ts';
import { mermaidOf } from './mermaid.ts';
import { type Picture, pictureOf } from './model.ts';
import { readmeOf } from './readme.ts';
import { svgOf } from './svg.ts';

export interface Drawing {
  readonly chart: Chart;
  readonly picture: Picture;
  readonly layout: Layout;
}

export async function drawingOf(chart: Chart): Promise<Drawing> {
  const picture = pictureOf(chart);
  return { chart, picture, layout: await layoutOf(picture) };
}

/** File contents by path below `machines/`. */
export async function filesOf(charts: readonly Chart[]): Promise<Map<string, string>> {
  const drawings: Drawing[] = [];
  for (const chart of charts) drawings.push(await drawingOf(chart));
  return new Map([
    ...drawings.flatMap(({ picture, layout }): [string, string][] => [
      [`diagrams/${picture.name}.svg`, svgOf(picture, layout)],
      [`diagrams/${picture.name}.mmd`, mermaidOf(picture)],
    ]),
    ['README.md', readmeOf(drawings)],
  ]);
}
