/** What stands for the data behind a worker in scenarios: sources on the seam, and handlers that work in steps. */
import { expect } from '@jest/globals';
import { type Grant, isLeaseholdError } from '../../src/index.ts';
import type { SplitId } from '../../src/base/ids.ts';
import type { AuditRecord } from '../../src/store/memory.ts';
import {
  type AnyFleet,
  type HandledWorker,
  type SeamWorker,
  type Surroundings,
  watched,
  type WorkerSetup,
} from './fleet.ts';

/** Commits one step on every split held but `except`, as a running source does. A refusal is the next owner's luck. */
export function commitHeld(seam: SeamWorker, except: Iterable<string> = []): void {
  const skipped = new Set(except);
  for (const id of seam.held.keys()) if (!skipped.has(id)) commitStep(seam, id);
}

function commitStep(seam: SeamWorker, id: string): void {
  const split = seam.held.get(id)!;
  split.watermark = (split.watermark ?? 0n) + 1n;
  seam.coordinator.commit(id, { watermark: split.watermark }, split.epoch).catch(ignoreFenced);
}

/** Stops every split asked back at a boundary: a last commit, then the hand-over. Returns what was handed back. */
export function handBackAsked(seam: SeamWorker): Map<string, bigint> {
  const handedBack = new Map<string, bigint>();
  for (const id of [...seam.asked]) {
    commitStep(seam, id);
    const { epoch, watermark } = seam.held.get(id)!;
    handedBack.set(id, watermark!);
    seam.coordinator.releaseDrained([id], epoch).catch(ignoreFenced);
    seam.held.delete(id);
    seam.asked.delete(id);
  }
  return handedBack;
}

/** Completes every split held. */
export function completeHeld(seam: SeamWorker): void {
  for (const [id, { watermark, epoch }] of [...seam.held]) {
    seam.held.delete(id);
    const last = { watermark: (watermark ?? 0n) + 1n, completed: true };
    seam.coordinator.commit(id, last, epoch).catch(ignoreFenced);
  }
}

function ignoreFenced(error: unknown): void {
  if (!isLeaseholdError(error) || (error.code !== 'E_FENCED' && error.code !== 'E_STOPPED')) {
    throw error;
  }
}

/** Lets seams commit and hand back what is asked, until `condition` holds. */
export function settle(
  fleet: AnyFleet,
  what: string,
  seams: readonly SeamWorker[],
  condition: () => boolean,
  withinMs = 20_000,
): Promise<number> {
  const step = (): boolean => {
    for (const seam of seams) {
      commitHeld(seam);
      handBackAsked(seam);
    }
    return condition();
  };
  return fleet.until(what, step, withinMs, 100);
}

/** The code a promise is refused with; fails when it is not refused while time moves on by at most `withinMs`. */
export async function refusalOf(
  fleet: AnyFleet,
  promise: Promise<unknown>,
  withinMs = 1_000,
): Promise<string> {
  const outcome = watched(promise);
  await fleet.until('an answer', () => outcome.state !== 'pending', withinMs);
  expect(outcome.state).toBe('rejected');
  return (outcome.error as { code: string }).code;
}

/** When the session of a worker was last renewed, or opened, for sure: when the answered call was sent. */
export function lastRenewalAtMs({ client }: Surroundings, session: string): number {
  const renewals = client.log.filter(
    ({ call, answer }) =>
      (call.kind === 'keepAlive' || call.kind === 'openSession') &&
      call.id === session &&
      answer !== 'pending',
  );
  return renewals.at(-1)!.atMs;
}

/** What a split's stored record reads, byte for byte. */
export function storedText(fleet: AnyFleet, id: string): string {
  return fleet.entry(fleet.keys.split(id as SplitId))!.value;
}

/** The owners a split had, in the order of its epochs; one that claimed it again counts again. */
export function ownersOf(fleet: AnyFleet, id: string): string[] {
  const owners: string[] = [];
  let epoch: string | null = null;
  for (const { key, value } of fleet.store.history(fleet.keys.split(id as SplitId))) {
    if (key !== fleet.keys.split(id as SplitId) || value === null) continue;
    const record = JSON.parse(value) as { epoch: string; owner: string | null };
    if (record.owner === null || record.epoch === epoch) continue;
    epoch = record.epoch;
    owners.push(record.owner);
  }
  return owners;
}

/** Writes of assignments since `fromMs`. */
export function assignmentWrites(fleet: AnyFleet, fromMs: number): readonly AuditRecord[] {
  return fleet.store
    .history(`${fleet.keys.root}assign/`)
    .filter((record) => record.atMs > fromMs && record.cause === 'batch');
}

/** One thing that a handler did. */
export interface JournalLine {
  readonly atMs: number;
  readonly worker: string;
  readonly split: string;
  readonly epoch: string;
  readonly did: 'start' | 'drain' | 'commit' | 'end';
  readonly watermark: bigint;
}

/** What the handlers of a fleet did, in order. */
export class Journal {
  readonly lines: JournalLine[] = [];
  readonly #running = new Map<string, { worker: string; grant: Grant }[]>();
  /** Splits that were in the hands of two handlers at once, though the first one's grant was not lost. */
  readonly overlaps: string[] = [];

  of(split: string, did?: JournalLine['did']): JournalLine[] {
    return this.lines.filter(
      (line) => line.split === split && (did === undefined || line.did === did),
    );
  }

  note(
    fleet: AnyFleet,
    worker: string,
    grant: Grant,
    line: Pick<JournalLine, 'did' | 'watermark'>,
  ) {
    const split = grant.split.id;
    this.lines.push({ atMs: fleet.clock.nowMs(), worker, split, epoch: grant.epoch, ...line });
    const running = this.#running.get(split) ?? [];
    if (line.did === 'start') {
      if (running.some((other) => !other.grant.lost.aborted)) this.overlaps.push(split);
      this.#running.set(split, [...running, { worker, grant }]);
    } else if (line.did === 'end') {
      this.#running.set(
        split,
        running.filter((other) => other.grant !== grant),
      );
    }
  }

  /** A worker died, and its handlers with it. */
  died(worker: string): void {
    for (const [split, running] of this.#running) {
      this.#running.set(
        split,
        running.filter((other) => other.worker !== worker),
      );
    }
  }

  /** The splits a worker's handlers work on now. */
  runningOn(worker: string): string[] {
    return [...this.#running]
      .filter(([, running]) => running.some((one) => one.worker === worker))
      .map(([split]) => split)
      .sort();
  }
}

export interface StepOptions {
  /** Time between two commits; a commit raises the watermark by one. */
  readonly stepMs?: number;
  /** Time from being asked for the split to having handed it back. */
  readonly drainMs?: number;
  /** The watermark at which a split is complete; never when absent. */
  readonly end?: bigint;
}

/** Starts a worker whose handler commits step by step on the worker's own clock, and hands back when asked. */
export function stepWorker(
  fleet: AnyFleet,
  id: string,
  journal: Journal,
  { stepMs = 500, drainMs = 0, end }: StepOptions = {},
  setup: WorkerSetup = {},
): HandledWorker {
  const around: HandledWorker = fleet.worker(
    id,
    async (grant) => {
      let watermark = grant.progress?.watermark ?? 0n;
      const note = (did: JournalLine['did']): void => {
        journal.note(fleet, id, grant, { did, watermark });
      };
      const commit = async (): Promise<void> => {
        await grant.commit({ watermark: watermark + 1n });
        watermark += 1n;
        note('commit');
      };
      note('start');
      try {
        while (!grant.lost.aborted) {
          await Promise.race([sleep(around, stepMs), grant.draining.whenRequested()]);
          const isAsked = grant.draining.requested;
          if (isAsked) {
            note('drain');
            await sleep(around, drainMs);
          }
          await commit();
          if (end !== undefined && watermark >= end) {
            await grant.complete();
            return;
          }
          if (isAsked) return;
        }
      } finally {
        note('end');
      }
    },
    setup,
  );
  return around;
}

/** Resolves after a time on a worker's own clock; never, once the worker died. */
export function sleep({ clock }: Surroundings, ms: number): Promise<void> {
  return new Promise((resolve) => {
    clock.setTimeout(resolve, ms);
  });
}
