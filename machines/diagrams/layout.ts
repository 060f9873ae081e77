/**
 * Places a picture: ELK's layered layout, downwards, with right-angled lines.
 *
 * Arrows that run against the order of declaration are turned round before the layout and drawn with their head at the
 * start. That breaks every cycle where a reader would, and keeps the initial state on top; no option of ELK does. The
 * regions of a parallel state are placed one by one and set side by side in the order of declaration.
 */
import Elk, { type ElkExtendedEdge, type ElkNode } from 'elkjs/lib/elk.bundled.js';
import { allBoxes, EVERYWHERE, type Arrow, type Box, type Picture } from './model.ts';
import {
  boxSize,
  HEADER_HEIGHT,
  labelSize,
  MARGIN,
  PAD,
  type Size,
  TEXT_SIZE,
  widthOf,
} from './theme.ts';

export interface Point {
  readonly x: number;
  readonly y: number;
}

export interface Rect extends Point, Size {}

export interface PlacedBox {
  readonly box: Box;
  readonly rect: Rect;
}

export interface PlacedArrow {
  readonly arrow: Arrow;
  /** From the end that was laid out first; the head is at the start of a back arrow. */
  readonly points: readonly Point[];
  readonly label: Rect;
}

/** The dot from which a chart, or a state with substates, starts. */
export interface PlacedStart {
  readonly state: string;
  readonly dot: Rect;
  readonly points: readonly Point[];
}

export interface Layout extends Size {
  /** Outer before inner. */
  readonly boxes: readonly PlacedBox[];
  readonly arrows: readonly PlacedArrow[];
  readonly starts: readonly PlacedStart[];
  readonly everywhere: Rect | undefined;
}

export const EVERYWHERE_TITLE = 'in every state';
const DOT = 10;
const REGION_GAP = 14;
const REGION_PAD = 10;

const OPTIONS: Readonly<Record<string, string>> = {
  'elk.algorithm': 'layered',
  'elk.direction': 'DOWN',
  'elk.hierarchyHandling': 'INCLUDE_CHILDREN',
  'elk.edgeRouting': 'ORTHOGONAL',
  'elk.json.edgeCoords': 'ROOT',
  'elk.json.shapeCoords': 'ROOT',
  'elk.layered.nodePlacement.strategy': 'NETWORK_SIMPLEX',
  'elk.layered.considerModelOrder.strategy': 'NODES_AND_EDGES',
  'elk.layered.thoroughness': '40',
  'elk.layered.spacing.nodeNodeBetweenLayers': '22',
  'elk.layered.spacing.edgeNodeBetweenLayers': '14',
  'elk.layered.spacing.edgeEdgeBetweenLayers': '12',
  'elk.spacing.nodeNode': '26',
  'elk.spacing.edgeNode': '16',
  'elk.spacing.edgeEdge': '14',
  'elk.spacing.edgeLabel': '6',
};

/** Not drawn: keeps what may happen anywhere beside the initial state, not above it. */
const BESIDE_THE_START: ElkExtendedEdge = {
  id: 'start beside',
  sources: ['start:'],
  targets: [EVERYWHERE],
};

export async function layoutOf(picture: Picture): Promise<Layout> {
  return arrange(picture.boxes, picture.arrows, MARGIN);
}

/** Places boxes and the arrows among them, with `padding` around. */
async function arrange(
  boxes: readonly Box[],
  arrows: readonly Arrow[],
  padding: number,
): Promise<Layout> {
  const blocks = new Map<string, Layout>();
  for (const box of allBoxes(boxes)) {
    if (box.children.some(({ isRegion }) => isRegion)) {
      blocks.set(box.name, await blockOf(box, arrows));
    }
  }
  const inBlock = (name: string): boolean =>
    [...blocks.keys()].some((block) => name.startsWith(`${block}.`));
  const outer = arrows.filter(({ from, to }) => !inBlock(from) && !inBlock(to));
  const hasEverywhere = outer.some(({ from }) => from === EVERYWHERE);
  const root = await new Elk.default().layout({
    id: 'root',
    layoutOptions: { ...OPTIONS, 'elk.padding': paddingOf(padding, padding) },
    children: [...(hasEverywhere ? [everywhereNode()] : []), ...nodesIn('', boxes, blocks)],
    edges: [
      ...startEdges('', boxes, blocks),
      ...(hasEverywhere ? [BESIDE_THE_START] : []),
      ...outer.map(edgeOf),
    ],
  });
  return placedFrom(root, boxes, outer, blocks);
}

interface PlacedRegion {
  readonly box: Box;
  readonly inside: Layout;
  readonly rect: Rect;
}

/** The inside of a parallel state: its regions in columns, in the order of declaration. */
async function blockOf(parent: Box, arrows: readonly Arrow[]): Promise<Layout> {
  const header = HEADER_HEIGHT - REGION_PAD;
  const regions: PlacedRegion[] = [];
  for (const box of parent.children) {
    const isIn = (name: string): boolean => name.startsWith(`${box.name}.`);
    if (arrows.some(({ from, to }) => isIn(from) !== isIn(to))) {
      throw new Error(`${box.name}: no drawing for a transition into or out of one region`);
    }
    const own = arrows.filter(({ from }) => isIn(from));
    const inside = await arrange(box.children, own, REGION_PAD);
    const width = Math.max(inside.width, boxSize(box).width);
    const rect = { x: 0, y: 0, width, height: inside.height + header };
    regions.push({ box, inside, rect });
  }
  const placed = inColumns(regions, { x: REGION_PAD, y: HEADER_HEIGHT + 4 });
  const contents = placed.map(({ inside, rect }) => {
    const spare = (rect.width - inside.width) / 2;
    return moved(inside, { x: rect.x + spare, y: rect.y + header });
  });
  return {
    width: Math.max(...placed.map(({ rect }) => rect.x + rect.width)) + REGION_PAD,
    height: Math.max(...placed.map(({ rect }) => rect.y + rect.height)) + REGION_PAD,
    boxes: [
      ...placed.map(({ box, rect }) => ({ box, rect })),
      ...contents.flatMap(({ boxes }) => boxes),
    ],
    arrows: contents.flatMap((part) => part.arrows),
    starts: contents.flatMap((part) => part.starts),
    everywhere: undefined,
  };
}

/** Stacks regions while that is not much taller than the tallest of them, then starts another column. */
function inColumns(regions: readonly PlacedRegion[], start: Point): PlacedRegion[] {
  const heightMax = Math.max(...regions.map(({ rect }) => rect.height)) * 1.4;
  const columns: PlacedRegion[][] = [];
  const heightOf = (column: readonly PlacedRegion[]): number =>
    column.reduce((sum, { rect }) => sum + rect.height + REGION_GAP, -REGION_GAP);
  for (const region of regions) {
    const last = columns.at(-1);
    if (last !== undefined && heightOf([...last, region]) <= heightMax) last.push(region);
    else columns.push([region]);
  }
  const height = Math.max(...columns.map(heightOf));
  let { x } = start;
  return columns.flatMap((column) => {
    const width = Math.max(...column.map(({ rect }) => rect.width));
    let { y } = start;
    const placed = column.map((region, index) => {
      const isLast = index === column.length - 1;
      const rest = isLast ? start.y + height - y : region.rect.height;
      const rect = { x, y, width, height: rest };
      y += rest + REGION_GAP;
      return { ...region, rect };
    });
    x += width + REGION_GAP;
    return placed;
  });
}

function moved(layout: Layout, by: Point): Layout {
  const point = ({ x, y }: Point): Point => ({ x: x + by.x, y: y + by.y });
  const rect = (one: Rect): Rect => ({ ...one, ...point(one) });
  return {
    ...layout,
    boxes: layout.boxes.map((one) => ({ ...one, rect: rect(one.rect) })),
    arrows: layout.arrows.map((one) => ({
      ...one,
      points: one.points.map(point),
      label: rect(one.label),
    })),
    starts: layout.starts.map((one) => ({
      ...one,
      dot: rect(one.dot),
      points: one.points.map(point),
    })),
  };
}

function paddingOf(top: number, others: number): string {
  return `[top=${top},left=${others},bottom=${others},right=${others}]`;
}

function everywhereNode(): ElkNode {
  const width = widthOf(EVERYWHERE_TITLE, TEXT_SIZE) + 2 * PAD;
  return { id: EVERYWHERE, width, height: 24 };
}

type Blocks = ReadonlyMap<string, Size>;

/** The nodes of one container: its states, and the dot it starts from. */
function nodesIn(container: string, boxes: readonly Box[], blocks: Blocks): ElkNode[] {
  const dots = boxes
    .filter(({ isInitial }) => isInitial)
    .map(() => ({ id: `start:${container}`, width: DOT, height: DOT }));
  return [...dots, ...boxes.map((box) => nodeOf(box, blocks))];
}

function nodeOf(box: Box, blocks: Blocks): ElkNode {
  const size = boxSize(box);
  const block = blocks.get(box.name);
  if (block !== undefined) return { id: box.name, width: block.width, height: block.height };
  if (box.children.length === 0) {
    const isEnd = box.kind === 'ended' || box.kind === 'mishap';
    const layer: Record<string, string> = isEnd
      ? { 'elk.layered.layering.layerConstraint': 'LAST' }
      : {};
    return { id: box.name, ...size, layoutOptions: layer };
  }
  return {
    id: box.name,
    children: nodesIn(box.name, box.children, blocks),
    layoutOptions: {
      'elk.padding': paddingOf(HEADER_HEIGHT + 6, 14),
      'elk.nodeSize.constraints': 'MINIMUM_SIZE',
      'elk.nodeSize.minimum': `(${size.width},${size.height})`,
    },
  };
}

function startEdges(container: string, boxes: readonly Box[], blocks: Blocks): ElkExtendedEdge[] {
  return boxes.flatMap((box) => [
    ...(box.isInitial
      ? [
          {
            id: `start:${box.name}`,
            sources: [`start:${container}`],
            targets: [box.name],
            layoutOptions: { 'elk.layered.priority.straightness': '10' },
          },
        ]
      : []),
    ...(blocks.has(box.name) ? [] : startEdges(box.name, box.children, blocks)),
  ]);
}

function idOf(arrow: Arrow): string {
  return `${arrow.from}>${arrow.to}`;
}

function edgeOf(arrow: Arrow): ElkExtendedEdge {
  const [first, last] = arrow.isBack ? [arrow.to, arrow.from] : [arrow.from, arrow.to];
  return {
    id: idOf(arrow),
    sources: [first],
    targets: [last],
    labels: [
      {
        id: `label:${idOf(arrow)}`,
        text: idOf(arrow),
        ...labelSize(arrow.lines),
        layoutOptions: { 'elk.edgeLabels.inline': 'true', 'elk.edgeLabels.placement': 'CENTER' },
      },
    ],
  };
}

function placedFrom(
  root: ElkNode,
  boxes: readonly Box[],
  arrows: readonly Arrow[],
  blocks: ReadonlyMap<string, Layout>,
): Layout {
  const nodes = new Map<string, ElkNode>();
  const collect = (node: ElkNode): void => {
    nodes.set(node.id, node);
    node.children?.forEach(collect);
  };
  collect(root);
  const edges = new Map((root.edges ?? []).map((edge) => [edge.id, edge]));
  const everywhere = nodes.get(EVERYWHERE);
  const placed = allBoxes(boxes).filter(({ name }) => nodes.has(name));
  const inside = placed.flatMap(({ name }) => {
    const block = blocks.get(name);
    return block === undefined ? [] : [moved(block, rectOf(nodes.get(name)!))];
  });
  return {
    width: Math.ceil(root.width ?? 0),
    height: Math.ceil(root.height ?? 0),
    boxes: [
      ...placed.map((box) => ({ box, rect: rectOf(nodes.get(box.name)!) })),
      ...inside.flatMap((block) => block.boxes),
    ],
    arrows: [
      ...arrows.map((arrow) => {
        const edge = edges.get(idOf(arrow))!;
        return { arrow, points: pointsOf(edge), label: rectOf(edge.labels![0]!) };
      }),
      ...inside.flatMap((block) => block.arrows),
    ],
    starts: [
      ...placed
        .filter(({ isInitial }) => isInitial)
        .map(({ name }) => {
          const edge = edges.get(`start:${name}`)!;
          return {
            state: name,
            dot: rectOf(nodes.get(edge.sources[0]!)!),
            points: pointsOf(edge),
          };
        }),
      ...inside.flatMap((block) => block.starts),
    ],
    everywhere: everywhere === undefined ? undefined : rectOf(everywhere),
  };
}

function rectOf(placed: { x?: number; y?: number; width?: number; height?: number }): Rect {
  return {
    x: round(placed.x ?? 0),
    y: round(placed.y ?? 0),
    width: round(placed.width ?? 0),
    height: round(placed.height ?? 0),
  };
}

function pointsOf(edge: ElkExtendedEdge): Point[] {
  return (edge.sections ?? []).flatMap(({ startPoint, bendPoints, endPoint }) =>
    [startPoint, ...(bendPoints ?? []), endPoint].map(({ x, y }) => ({ x: round(x), y: round(y) })),
  );
}

/** Half pixels: fine enough, and the same on every machine. */
function round(value: number): number {
  return Math.round(value * 2) / 2;
}
