/** A handler that works in small steps and notes everything it does; runs in the test and in child processes. */
import type { CoordinationEvent, Grant, Handler } from '../../../src/index.ts';
import type { Note } from './time-line.ts';

export interface Work {
  /** Watermark at which a split is completed; never when absent. */
  readonly steps?: number;
  /** Between two steps. */
  readonly stepMs: number;
  /** Called before each commit, at once after the step was handed over. */
  readonly beforeCommit?: (split: string, watermark: number) => void;
}

/**
 * Commits one watermark after the other from where the last tenancy left off, and hands back at a boundary when asked.
 * Notes `started`, then per step `handed` and `committed`; `asked`, `aborted` when the grant is lost, `refused` with the
 * code of a refusal, `completed`, `ended`.
 */
export function steadyWork(note: Note, work: Work): Handler {
  return async (grant) => {
    const about = { split: grant.split.id, epoch: grant.epoch };
    const begin = Number(grant.progress?.watermark ?? 0n);
    note({ ...about, what: 'started', watermark: begin });
    grant.lost.addEventListener('abort', () => {
      note({ ...about, what: 'aborted' });
    });
    try {
      await steps(grant, begin, work, (what, watermark) => {
        note({ ...about, what, watermark });
      });
    } catch (error) {
      note({ ...about, what: 'refused', detail: (error as { code?: string }).code ?? 'no code' });
      throw error;
    } finally {
      note({ ...about, what: 'ended' });
    }
  };
}

async function steps(
  grant: Grant,
  begin: number,
  { steps: last = Infinity, stepMs, beforeCommit }: Work,
  note: (what: string, watermark: number) => void,
): Promise<void> {
  let at = begin;
  while (at < last) {
    await pause(grant, stepMs);
    if (grant.lost.aborted) return;
    if (grant.draining.requested) {
      note('asked', at);
      return;
    }
    at += 1;
    note('handed', at);
    beforeCommit?.(grant.split.id, at);
    await grant.commit({ watermark: at });
    note('committed', at);
  }
  await grant.complete();
  note('completed', at);
}

/** Waits for the next step, at most until the split is asked back or lost. */
async function pause(grant: Grant, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const time = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([time, grant.draining.whenRequested()]);
  clearTimeout(timer);
}

/** An event of a worker as a moment. */
export function noteEvent(note: Note, event: CoordinationEvent): void {
  const split =
    event.type === 'gained' ? event.split.id : 'splitId' in event ? event.splitId : undefined;
  note({
    what: event.type,
    ...(split === undefined ? {} : { split }),
    ...('epoch' in event ? { epoch: event.epoch } : {}),
    ...('reason' in event ? { detail: event.reason } : {}),
  });
}
