/** Sizes and colours of the drawings. Widths are reckoned from character counts, so that no font is needed to measure. */
import type { Box, Kind, Line } from './model.ts';

export const FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace";
export const MARGIN = 16;

/** Widest advance of the fonts above, in parts of the font size; DejaVu Sans Mono has 0.602. */
const ADVANCE = 0.605;

export const TITLE_SIZE = 13;
export const TEXT_SIZE = 11;
export const TEXT_ROW = 14;
/** Room for a clock or a loop before a text. */
export const ICON_WIDTH = 14;
export const PAD = 8;
export const HEADER_HEIGHT = 26;

export function widthOf(text: string, size: number): number {
  return Math.ceil(text.length * size * ADVANCE);
}

/** What each kind of state means, for the legend, and its colours. */
export const KINDS: Readonly<Record<Kind, { fill: string; line: string; meaning: string }>> = {
  normal: { fill: '#dcf3e1', line: '#2f7d4f', meaning: 'in order' },
  waiting: { fill: '#dbeafe', line: '#3b6fb6', meaning: 'waits' },
  handingBack: { fill: '#fdeccf', line: '#b7791f', meaning: 'hands back' },
  writing: { fill: '#ece4fb', line: '#7652b8', meaning: 'writes; the answer decides' },
  alert: { fill: '#fde0df', line: '#c23b36', meaning: 'a person should look' },
  ended: { fill: '#e9ebee', line: '#5b6675', meaning: 'end' },
  mishap: { fill: '#e9ebee', line: '#c23b36', meaning: 'end a person should look at' },
};

export const INK = '#1b2430';
export const FAINT = '#56616f';
export const WIRE = '#5d6b7c';
export const CONTAINER_FILL = '#f7f9fb';

/** A line longer than this is continued in a second row. */
const ROW_CHARS = 22;
/** The indent of a continued row. */
const INDENT = 14;

/** One row of text; `indent` in pixels from where the line starts. */
export interface Row {
  readonly text: string;
  readonly indent: number;
  readonly hasClock: boolean;
}

/** A line as it is written: in one row if it is short, else with its conditions below it. */
export function rowsOf(line: Line): Row[] {
  const indent = line.isTimer ? ICON_WIDTH : 0;
  const conditions = [
    ...(line.guard === undefined ? [] : [`[${line.guard}]`]),
    ...(line.except.length === 0 ? [] : [`(not in ${line.except.join(', ')})`]),
  ];
  const whole = [line.event, ...conditions].join(' ');
  if (conditions.length === 0 || whole.length <= ROW_CHARS) {
    return [{ text: whole, indent, hasClock: line.isTimer }];
  }
  return [
    { text: line.event, indent, hasClock: line.isTimer },
    ...conditions.map((text) => ({ text, indent: INDENT, hasClock: false })),
  ];
}

export interface Size {
  readonly width: number;
  readonly height: number;
}

/** The size of rows of text under each other. */
function stackSize(lines: readonly Line[]): Size {
  const rows = lines.flatMap(rowsOf);
  const widths = rows.map(({ text, indent }) => indent + widthOf(text, TEXT_SIZE));
  return { width: Math.max(0, ...widths), height: rows.length * TEXT_ROW };
}

export function labelSize(lines: readonly Line[]): Size {
  const { width, height } = stackSize(lines);
  return { width: width + 10, height: height + 6 };
}

/** The size of a state without substates, or of the head of one that has some. */
export function boxSize(box: Box): Size {
  const own = stackSize(box.own);
  const ownWidth = box.own.length === 0 ? 0 : own.width + ICON_WIDTH;
  return {
    width: Math.max(96, widthOf(box.title, TITLE_SIZE), ownWidth) + 2 * PAD,
    height: HEADER_HEIGHT + 6 + (box.own.length === 0 ? 0 : own.height + 4),
  };
}
