/** The row of signs under a drawing: only those that occur in it. */
import { allBoxes, type Picture } from './model.ts';
import { clockIcon, loopIcon, stateShape, text } from './shapes.ts';
import { KINDS, MARGIN, TEXT_SIZE, widthOf } from './theme.ts';

export interface Legend {
  readonly width: number;
  readonly height: number;
  readonly parts: readonly string[];
}

interface Entry {
  readonly meaning: string;
  /** Draws the sign at the left of the base line `y`. */
  readonly sign: (x: number, y: number) => string;
}

const SIGN_WIDTH = 28;
const GAP = 22;
const ROW = 24;

/** Lays the entries out in rows of at most `width`. */
export function legendOf(picture: Picture, width: number): Legend {
  const parts: string[] = [];
  let x = MARGIN;
  let y = 16;
  let widest = 0;
  for (const { meaning, sign } of entriesOf(picture)) {
    const length = SIGN_WIDTH + widthOf(meaning, TEXT_SIZE);
    if (x > MARGIN && x + length + MARGIN > Math.max(width, 620)) {
      x = MARGIN;
      y += ROW;
    }
    parts.push(sign(x, y), text(meaning, x + SIGN_WIDTH, y, 'faint'));
    widest = Math.max(widest, x + length + MARGIN);
    x += length + GAP;
  }
  return { width: widest, height: y + MARGIN, parts };
}

function entriesOf(picture: Picture): Entry[] {
  const boxes = allBoxes(picture.boxes);
  const lines = [...picture.arrows.flatMap((arrow) => arrow.lines), ...boxes.flatMap((b) => b.own)];
  const kinds = Object.entries(KINDS) as [keyof typeof KINDS, { meaning: string }][];
  const states = kinds
    .filter(([kind]) => boxes.some((box) => box.children.length === 0 && box.kind === kind))
    .map(([kind, { meaning }]) => ({ meaning, sign: swatch(kind) }));
  const signs: [boolean, Entry][] = [
    [true, { meaning: 'starts here', sign: (x, y) => dot(x + 12, y - 4) }],
    [
      picture.arrows.some(({ isBack }) => isBack),
      { meaning: 'back to an earlier state', sign: wire('wire back') },
    ],
    [
      boxes.some(({ own }) => own.length > 0),
      { meaning: 'stays in the state', sign: (x, y) => loopIcon(x + 8, y) },
    ],
    [
      lines.some(({ isTimer }) => isTimer),
      { meaning: 'raised by its own timer', sign: (x, y) => clockIcon(x + 8, y) },
    ],
    [
      lines.some(({ guard }) => guard !== undefined),
      { meaning: 'only if', sign: (x, y) => text('[x]', x + 3, y) },
    ],
    [
      boxes.some(({ isRegion }) => isRegion),
      { meaning: 'all of these at once', sign: (x, y) => shape('state region', x, y, '4') },
    ],
  ];
  return [...states, ...signs.filter(([isUsed]) => isUsed).map(([, entry]) => entry)];
}

function swatch(kind: keyof typeof KINDS): Entry['sign'] {
  return (x, y) => {
    const parts = stateShape(kind, { x, y: y - 11, width: 22, height: 15 });
    return `<g class="state ${kind}">${parts.join('')}</g>`;
  };
}

function shape(style: string, x: number, y: number, radius: string): string {
  return `<g class="${style}"><rect x="${x}" y="${y - 11}" width="22" height="15" rx="${radius}"/></g>`;
}

function dot(x: number, y: number): string {
  return `<circle class="dot" cx="${x}" cy="${y}" r="5"/>`;
}

function wire(style: string): Entry['sign'] {
  return (x, y) =>
    `<path class="${style}" d="M${x} ${y - 4}L${x + 24} ${y - 4}" marker-end="url(#chart-head)"/>`;
}
