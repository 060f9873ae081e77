/** The strokes the drawings are made of. */
import type { Point, Rect } from './layout.ts';
import type { Kind, Line } from './model.ts';
import { ICON_WIDTH, rowsOf, TEXT_ROW } from './theme.ts';

/** A state's outline; an end has a second line inside. */
export function stateShape(kind: Kind, rect: Rect): string[] {
  if (kind !== 'ended' && kind !== 'mishap') return [rectOf(rect, 7)];
  const inner = {
    x: rect.x + 3,
    y: rect.y + 3,
    width: rect.width - 6,
    height: rect.height - 6,
  };
  return [rectOf(rect, 9), rectOf(inner, 6, 'inner')];
}

/** Lines of text under each other; `y` is the base line of the first, and each may have a loop before it. */
export function stackOf(lines: readonly Line[], x: number, y: number, hasLoops = false): string[] {
  const shift = hasLoops ? ICON_WIDTH : 0;
  const rows = lines.flatMap((line) =>
    rowsOf(line).map((row, index) => ({ ...row, hasLoop: hasLoops && index === 0 })),
  );
  return rows.flatMap((row, index) => {
    const base = y + index * TEXT_ROW;
    const at = x + shift + row.indent;
    return [
      ...(row.hasLoop ? [loopIcon(x, base)] : []),
      ...(row.hasClock ? [clockIcon(at - ICON_WIDTH, base)] : []),
      text(row.text, at, base),
    ];
  });
}

export function clockIcon(x: number, y: number): string {
  return `<path class="icon" d="M${x + 5} ${y - 8.5}a4.5 4.5 0 1 1 -.01 0zM${x + 5} ${y - 6.5}v2.5h2"/>`;
}

export function loopIcon(x: number, y: number): string {
  return `<path class="icon" d="M${x + 2.5} ${y - 7}a4 4 0 1 0 4 -.8m-2.6 -1.8l2.6 1.8l-1.8 2.4"/>`;
}

const CORNER = 6;

/** A right-angled line with rounded corners. */
export function pathOf(points: readonly Point[]): string {
  return points
    .map((point, index) => {
      const before = points[index - 1];
      const after = points[index + 1];
      if (before === undefined) return `M${point.x} ${point.y}`;
      if (after === undefined) return `L${point.x} ${point.y}`;
      const start = towards(point, before);
      const end = towards(point, after);
      return `L${start.x} ${start.y}Q${point.x} ${point.y} ${end.x} ${end.y}`;
    })
    .join('');
}

function towards(from: Point, to: Point): Point {
  const length = Math.hypot(to.x - from.x, to.y - from.y);
  const part = length === 0 ? 0 : Math.min(CORNER, length / 2) / length;
  return {
    x: tidy(from.x + (to.x - from.x) * part),
    y: tidy(from.y + (to.y - from.y) * part),
  };
}

function tidy(value: number): number {
  return Math.round(value * 100) / 100;
}

export function rectOf(rect: Rect, radius: number, style?: string): string {
  const { x, y, width, height } = rect;
  const name = style === undefined ? '' : ` class="${style}"`;
  return `<rect${name} x="${x}" y="${y}" width="${width}" height="${height}" rx="${radius}"/>`;
}

export function text(
  value: string,
  x: number,
  y: number,
  style?: string,
  anchor?: 'middle',
): string {
  const name = style === undefined ? '' : ` class="${style}"`;
  const side = anchor === undefined ? '' : ` text-anchor="${anchor}"`;
  return `<text${name} x="${x}" y="${y}"${side}>${escape(value)}</text>`;
}

export function escape(value: string): string {
  return value
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}
