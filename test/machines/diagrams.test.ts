/**
 * The drawings are fresh, complete and readable.
 *
 * Completeness is reckoned twice: the transitions of the machine, and the lines of the picture spelled out again state
 * by state. Readability is reckoned from the places that the drawing is made of.
 */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, describe, expect, test } from '@jest/globals';
import type { AnyStateNode } from 'xstate';
import type { Drawing } from '../../machines/diagrams/drawing.ts';
import { drawingsOf, filesFrom } from '../../machines/diagrams/files.ts';
import type { Layout, Rect } from '../../machines/diagrams/layout.ts';
import {
  allBoxes,
  EVERYWHERE,
  type Line,
  type Picture,
  pictureOf,
} from '../../machines/diagrams/model.ts';
import {
  guardOf,
  nameOf,
  statesOf,
  timerEventsOf,
  transitionsOf,
} from '../../machines/diagrams/walk.ts';
import { CHARTS, type Chart, type ChartName } from '../../machines/index.ts';
import { geometryErrors } from './geometry.ts';

const machines = path.resolve(import.meta.dirname, '../../machines');

let drawings: Drawing[];
let generated: Map<string, string>;
beforeAll(async () => {
  drawings = await drawingsOf(CHARTS);
  generated = filesFrom(drawings);
}, 60_000);

function drawingOf(name: ChartName): Drawing {
  return drawings.find(({ chart }) => chart.name === name)!;
}

describe('diagrams', () => {
  test('diagrams - every generated file is fresh (npm run diagrams)', () => {
    const stale = [...generated].filter(
      ([file, text]) => text !== readFileSync(path.join(machines, file), 'utf8'),
    );
    expect(stale.map(([file]) => file)).toEqual([]);
  });

  test('diagrams - no drawing is left over from a chart that is gone', () => {
    const drawn = readdirSync(machines, { recursive: true, encoding: 'utf8' }).filter((file) =>
      /\.(svg|mmd)$/.test(file),
    );
    expect(drawn.filter((file) => !generated.has(file))).toEqual([]);
  });

  test('diagrams - the same charts give the same bytes', async () => {
    expect(filesFrom(await drawingsOf(CHARTS))).toEqual(generated);
  }, 60_000);

  test.each(CHARTS.map(({ name }) => name))('diagrams - %s fits a page', (name) => {
    const width = /<svg[^>]* width="(\d+)"/.exec(generated.get(`${name}/${name}.svg`)!)?.[1];
    expect(Number(width)).toBeGreaterThan(300);
    expect(Number(width)).toBeLessThanOrEqual(1_500);
  });

  test.each(CHARTS)('diagrams - $name names every state for the dashboard', (chart) => {
    const svg = generated.get(`${chart.name}/${chart.name}.svg`)!;
    const named = [...svg.matchAll(/data-state="([^"]+)"/g)].map((match) => match[1]!);
    expect(named.toSorted()).toEqual(statesOf(chart.machine).map(nameOf).toSorted());
  });
});

describe.each(CHARTS)('the drawing of $name', (chart) => {
  test(`diagrams - ${chart.name} shows every transition once`, () => {
    expect(shownIn(drawingOf(chart.name).picture).toSorted()).toEqual(writtenIn(chart).toSorted());
  });

  test(`diagrams - ${chart.name} marks the events of its timers`, () => {
    const { picture } = drawingOf(chart.name);
    const lines = [
      ...picture.arrows.flatMap((arrow) => arrow.lines),
      ...allBoxes(picture.boxes).flatMap(({ own }) => own),
    ];
    const marked = new Set(lines.filter(({ isTimer }) => isTimer).map(({ event }) => event));
    expect(marked).toEqual(timerEventsOf(chart.machine));
  });

  test(`diagrams - ${chart.name} has no box over another and no line through a box`, () => {
    expect(geometryErrors(drawingOf(chart.name).layout)).toEqual([]);
  });
});

/** Every transition as the machine has it. */
function writtenIn({ machine }: Chart): string[] {
  return transitionsOf(machine).map((transition) => {
    const { source, eventType } = transition;
    const target = (transition.target as AnyStateNode[] | undefined)?.[0] ?? source;
    const several = source.transitions.get(eventType)!.length > 1;
    const guard = guardOf(transition) ?? (several ? 'else' : '');
    return `${nameOf(source)} ${eventType} [${guard}] ${nameOf(target)}`;
  });
}

/** Every transition as the picture has it; a line that leaves a container is spelled out where the machine does. */
function shownIn(picture: Picture): string[] {
  const boxes = allBoxes(picture.boxes);
  const say = (from: string, { event, guard }: Line, to: string): string =>
    `${from} ${event} [${guard ?? ''}] ${to}`;
  const own = boxes.flatMap(({ name, own }) => own.map((line) => say(name, line, name)));
  const arrows = picture.arrows.flatMap(({ from, to, lines }) =>
    lines.flatMap((line) => {
      const isShared = from === EVERYWHERE || line.except.length > 0;
      if (!isShared) return [say(from, line, to)];
      const inside =
        from === EVERYWHERE ? picture.boxes : boxes.find((b) => b.name === from)!.children;
      return inside
        .filter(({ title, kind }) => !line.except.includes(title) && !/ended|mishap/.test(kind))
        .map(({ name }) => say(name, line, to));
    }),
  );
  return [...own, ...arrows];
}

describe('geometry sees', () => {
  let good: Layout;
  beforeAll(() => {
    good = drawingOf('tenancy').layout;
  });

  const withBox = (state: string, change: (rect: Rect) => Partial<Rect>): Layout => ({
    ...good,
    boxes: good.boxes.map((one) =>
      one.box.name === state ? { ...one, rect: { ...one.rect, ...change(one.rect) } } : one,
    ),
  });
  const rectOf = (state: string): Rect => good.boxes.find(({ box }) => box.name === state)!.rect;

  test('a state over another', () => {
    const over = withBox('released', () => rectOf('completed'));
    expect(geometryErrors(over)).toContain('released lies over completed');
  });

  test('a state outside its container', () => {
    const out = withBox('held.owned', ({ y }) => ({ y: y - 400 }));
    expect(geometryErrors(out)).toContain('held.owned leaves held');
  });

  test('a line through a state, and a line that ends in the air', () => {
    const wide = withBox('held.draining', () => ({ ...rectOf('held'), height: 100 }));
    const moved = withBox('held.closing', ({ x }) => ({ x: x + 300 }));
    expect(geometryErrors(wide).join()).toMatch(/runs through held\.draining/);
    expect(geometryErrors(moved).join()).toMatch(/does not touch held\.closing/);
  });

  test('a label over a state, a label over a label and a label on a border', () => {
    const first = good.arrows[0]!;
    const withLabel = (label: Rect): Layout => ({
      ...good,
      arrows: [{ ...first, label }, ...good.arrows.slice(1)],
    });
    const border = { ...rectOf('held'), width: 20, height: 20, x: rectOf('held').x - 10 };
    const name = `label ${first.arrow.from} -> ${first.arrow.to}`;
    expect(geometryErrors(withLabel(rectOf('failed'))).join()).toMatch(`failed lies over ${name}`);
    expect(geometryErrors(withLabel(good.arrows[1]!.label)).join()).toMatch(
      `${name} lies over label`,
    );
    expect(geometryErrors(withLabel(border))).toContain(`${name} lies over the border of held`);
  });

  test('an initial state that is not on top', () => {
    const low = withBox('awaiting', ({ y }) => ({ y: y + 300 }));
    expect(geometryErrors(low)).toContain('claiming stands above awaiting, the initial state');
  });

  test('a picture that leaves a transition out', () => {
    const chart = CHARTS[0]!;
    const picture = pictureOf(chart);
    const less = { ...picture, arrows: picture.arrows.slice(1) };
    expect(shownIn(less)).not.toHaveLength(writtenIn(chart).length);
  });
});
