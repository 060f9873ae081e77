/** A line at the bottom of a terminal that redraws itself while the program works; nothing at all anywhere else. */
import type { Progress } from './job.ts';
import { showCount, showSeconds } from './report.ts';

const REDRAW_MS = 80;
const BAR_CELLS = 24;
const COLUMNS_WHEN_UNKNOWN = 80;
const ERASE_LINE = '\r\u001b[2K';

export class StatusLine {
  readonly #out: NodeJS.WriteStream;
  #timer: NodeJS.Timeout | undefined;

  constructor(out: NodeJS.WriteStream) {
    this.#out = out;
  }

  /** Shows a text until the next call. */
  show(text: string): void {
    clearInterval(this.#timer);
    this.#draw(text);
  }

  /** Shows how far the job is, until the next call. */
  follow(files: number, progress: Progress): void {
    this.show(progressText(files, progress));
    this.#timer = setInterval(() => {
      this.#draw(progressText(files, progress));
    }, REDRAW_MS);
  }

  #draw(text: string): void {
    if (!this.#out.isTTY) return;
    const columns = this.#out.columns > 0 ? this.#out.columns : COLUMNS_WHEN_UNKNOWN;
    this.#out.write(ERASE_LINE + text.slice(0, columns - 1));
  }
}

function progressText(files: number, progress: Progress): string {
  const share = files === 0 ? 1 : progress.filesDone / files;
  const full = Math.floor(share * BAR_CELLS);
  const bar = '█'.repeat(full) + '░'.repeat(BAR_CELLS - full);
  const percent = String(Math.floor(share * 100)).padStart(3);
  return `${percent}% ${bar} ${showCount(progress.filesDone)} files${situation(progress)}`;
}

function situation({ faults, sinceStartMs }: Progress): string {
  const fault = faults.at(-1);
  if (fault === undefined) return '';
  const { kind, instanceId } = fault;
  if (fault.takeoverMs !== null) return `, splits of ${instanceId} taken over`;
  const what = kind === 'leader killed' ? `leader ${instanceId} killed` : `${instanceId} ${kind}`;
  return `, ${what} ${showSeconds(sinceStartMs - fault.atMs)} ago`;
}
