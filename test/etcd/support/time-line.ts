/** What workers did and when, on a clock that all processes of the machine share. */

/** What happened at one moment of a worker. */
export interface Moment {
  /** By the machine's monotonic clock, in milliseconds. */
  readonly atMs: number;
  readonly worker: string;
  /** An event of the worker by its type, or of a handler: see `steadyWork`. */
  readonly what: string;
  readonly split?: string;
  readonly epoch?: string;
  readonly watermark?: number;
  readonly detail?: string;
}

/** Takes what happened now. */
export type Note = (moment: Omit<Moment, 'atMs' | 'worker'>) => void;

/** The monotonic clock of the machine: equal in all its processes. */
export function machineMs(): number {
  return Number(process.hrtime.bigint() / 1_000n) / 1_000;
}

/** Which moments are meant; what is absent does not matter. */
export type Wanted = Partial<Pick<Moment, 'worker' | 'what' | 'split' | 'epoch' | 'watermark'>> & {
  readonly sinceMs?: number;
};

export class TimeLine {
  readonly moments: Moment[] = [];

  /** Notes for one worker of this process. */
  noteFor(worker: string): Note {
    return (moment) => this.moments.push({ atMs: machineMs(), worker, ...moment });
  }

  /** All that match, in order of time. */
  all(wanted: Wanted): Moment[] {
    const { sinceMs = 0, ...fields } = wanted;
    return this.moments
      .filter(
        (moment) =>
          moment.atMs >= sinceMs &&
          Object.entries(fields).every(([name, value]) => moment[name as keyof Moment] === value),
      )
      .sort((a, b) => a.atMs - b.atMs);
  }

  first(wanted: Wanted): Moment | undefined {
    return this.all(wanted)[0];
  }

  last(wanted: Wanted): Moment | undefined {
    return this.all(wanted).at(-1);
  }

  has(wanted: Wanted): boolean {
    return this.first(wanted) !== undefined;
  }

  /**
   * Handlers that worked on one split at the same time. A handler counts from its start until it was told of the loss, or
   * ended, or its worker was killed.
   */
  overlaps(): string[] {
    const running = new Map<string, Moment>();
    const found: string[] = [];
    for (const moment of [...this.moments].sort((a, b) => a.atMs - b.atMs)) {
      const { what, worker, split = '' } = moment;
      if (what === 'killed') {
        for (const [name, other] of running) if (other.worker === worker) running.delete(name);
      }
      const other = running.get(split);
      if (what === 'started') {
        if (other !== undefined) found.push(`${split}: ${worker} while ${other.worker}`);
        running.set(split, moment);
      }
      const isOver = what === 'aborted' || what === 'ended';
      if (isOver && other?.worker === worker && other.epoch === moment.epoch) running.delete(split);
    }
    return found;
  }

  /** The end of it, for failure messages. */
  tail(count = 60): string {
    const moments = [...this.moments].sort((a, b) => a.atMs - b.atMs);
    const startMs = moments[0]?.atMs ?? 0;
    return moments
      .slice(-count)
      .map(({ atMs, worker, what, split, epoch, watermark, detail }) =>
        [`+${Math.round(atMs - startMs)}`, worker, what, split, epoch, watermark, detail]
          .filter((part) => part !== undefined)
          .join(' '),
      )
      .join('\n');
  }
}
