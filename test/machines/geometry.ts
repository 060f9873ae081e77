/** What makes a placed drawing unreadable, as sentences. Empty for a good one. */
import {
  EVERYWHERE_TITLE,
  type Layout,
  type PlacedArrow,
  type Point,
  type Rect,
} from '../../machines/diagrams/layout.ts';
import { EVERYWHERE } from '../../machines/diagrams/model.ts';

interface Named {
  readonly name: string;
  readonly rect: Rect;
}

export function geometryErrors(layout: Layout): string[] {
  const everywhere =
    layout.everywhere === undefined ? [] : [{ name: EVERYWHERE_TITLE, rect: layout.everywhere }];
  const labels = layout.arrows.map(({ arrow, label }) => ({
    name: `label ${arrow.from} -> ${arrow.to}`,
    rect: label,
  }));
  const dots = layout.starts.map(({ state, dot }) => ({ name: `start of ${state}`, rect: dot }));
  const leaves: Named[] = [
    ...layout.boxes
      .filter(({ box }) => box.children.length === 0)
      .map(({ box, rect }) => ({ name: box.name, rect })),
    ...everywhere,
    ...dots,
  ];
  return [
    ...overlaps([...leaves, ...labels]),
    ...nestingErrors(layout),
    ...borderErrors(layout, [...labels, ...everywhere]),
    ...edgeErrors(layout, leaves, labels),
    ...startErrors(layout, everywhere),
    ...[...leaves, ...labels]
      .filter(({ rect }) => !contains({ x: 0, y: 0, ...sizeOf(layout) }, rect))
      .map(({ name }) => `${name} leaves the drawing`),
  ];
}

function sizeOf({ width, height }: Layout): { width: number; height: number } {
  return { width, height };
}

function overlaps(all: readonly Named[]): string[] {
  return all.flatMap((a, index) =>
    all
      .slice(index + 1)
      .filter((b) => intersect(a.rect, b.rect))
      .map((b) => `${a.name} lies over ${b.name}`),
  );
}

/** Siblings stand apart, and a container holds what is in it. */
function nestingErrors(layout: Layout): string[] {
  return layout.boxes.flatMap(({ box, rect }) => {
    const children = layout.boxes.filter((one) => box.children.includes(one.box));
    const outside = children
      .filter((child) => !contains(rect, child.rect))
      .map((child) => `${child.box.name} leaves ${box.name}`);
    const siblings = layout.boxes.filter(
      (one) => parentOf(one.box.name) === parentOf(box.name) && one.box.name < box.name,
    );
    const over = siblings
      .filter((one) => intersect(one.rect, rect))
      .map((one) => `${box.name} lies over ${one.box.name}`);
    return [...outside, ...over];
  });
}

/** A label stands inside a container or outside it, never on its border. */
function borderErrors(layout: Layout, all: readonly Named[]): string[] {
  const containers = layout.boxes.filter(({ box }) => box.children.length > 0);
  return containers.flatMap(({ box, rect }) =>
    all
      .filter((one) => intersect(rect, one.rect) && !contains(rect, one.rect))
      .map((one) => `${one.name} lies over the border of ${box.name}`),
  );
}

function edgeErrors(layout: Layout, leaves: readonly Named[], labels: readonly Named[]): string[] {
  return layout.arrows.flatMap((placed, index) => {
    const { from, to } = placed.arrow;
    const name = `${from} -> ${to}`;
    const others = [...leaves, ...labels.filter((_label, other) => other !== index)];
    const through = others
      .filter(({ rect }) => segmentsOf(placed).some((segment) => crosses(segment, rect)))
      .map((other) => `${name} runs through ${other.name}`);
    const inside = layout.boxes
      .filter(({ box }) => box.children.length > 0)
      .filter(({ box }) => ![from, to].some((end) => end.startsWith(`${box.name}.`)))
      .filter(({ rect }) => segmentsOf(placed).some((segment) => crosses(segment, rect)))
      .map(({ box }) => `${name} runs through ${box.name}`);
    const [first, last] = placed.arrow.isBack ? [to, from] : [from, to];
    const loose = [[first, placed.points.at(0)] as const, [last, placed.points.at(-1)] as const]
      .filter(([state, point]) => !touches(point!, rectOf(layout, state)))
      .map(([state]) => `${name} does not touch ${state}`);
    return [...through, ...inside, ...loose];
  });
}

function rectOf(layout: Layout, state: string): Rect {
  if (state === EVERYWHERE) return layout.everywhere!;
  return layout.boxes.find(({ box }) => box.name === state)!.rect;
}

/** The initial state of a container has no sibling above it. */
function startErrors(layout: Layout, everywhere: readonly Named[]): string[] {
  return layout.boxes
    .filter(({ box }) => box.isInitial)
    .flatMap(({ box, rect }) => {
      const parent = parentOf(box.name);
      const siblings = layout.boxes
        .filter((one) => parentOf(one.box.name) === parent)
        .map((one) => ({ name: one.box.name, rect: one.rect }));
      return [...siblings, ...(parent === '' ? everywhere : [])]
        .filter((one) => one.rect.y < rect.y)
        .map((one) => `${one.name} stands above ${box.name}, the initial state`);
    });
}

function parentOf(name: string): string {
  return name.split('.').slice(0, -1).join('.');
}

function intersect(a: Rect, b: Rect): boolean {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

function contains(outer: Rect, inner: Rect): boolean {
  return (
    outer.x <= inner.x &&
    outer.y <= inner.y &&
    outer.x + outer.width >= inner.x + inner.width &&
    outer.y + outer.height >= inner.y + inner.height
  );
}

type Segment = readonly [Point, Point];

function segmentsOf({ points }: PlacedArrow): Segment[] {
  return points.slice(1).map((point, index) => [points[index]!, point]);
}

/** Whether a level or upright segment runs through the inside of a rectangle. */
function crosses([a, b]: Segment, rect: Rect): boolean {
  const left = Math.min(a.x, b.x);
  const right = Math.max(a.x, b.x);
  const top = Math.min(a.y, b.y);
  const bottom = Math.max(a.y, b.y);
  return (
    left < rect.x + rect.width && right > rect.x && top < rect.y + rect.height && bottom > rect.y
  );
}

/** Whether a point lies on the outline, within the pixel the drawing is rounded to. */
function touches(point: Point, rect: Rect): boolean {
  const grown = { x: rect.x - 1, y: rect.y - 1, width: rect.width + 2, height: rect.height + 2 };
  const shrunk = { x: rect.x + 1, y: rect.y + 1, width: rect.width - 2, height: rect.height - 2 };
  const spot = { ...point, width: 0, height: 0 };
  return contains(grown, spot) && !intersect(shrunk, spot);
}
