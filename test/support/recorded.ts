/**
 * A fleet whose whole run is on one time line: claims, commits, handlers, leadership, deaths. When it is closed the checks of
 * the simulations are made on it and on the history of the store. Seams are not on the time line; what they wrote is checked.
 */
import { expect } from '@jest/globals';
import {
  type Grant,
  type Handler,
  isLeaseholdError,
  type ProgressInput,
  type Transition,
  type WorkerConfig,
} from '../../src/index.ts';
import type { Promises } from '../../src/testing/checks/process-checks.ts';
import { checkRun } from '../../src/testing/checks/run-checks.ts';
import { Recorder } from '../../src/testing/checks/time-line.ts';
import { guardProcess } from './departures.ts';
import { violations } from './faults.ts';
import { CONFIG, Fleet, type FleetOptions, type HandledWorker, type WorkerSetup } from './fleet.ts';

export class RecordedFleet extends Fleet {
  readonly recorder = new Recorder(
    () => this.clock.nowMs(),
    () => Number(this.store.revision),
  );
  readonly #guard = guardProcess();
  readonly #promises: Promises;
  readonly #maxAttempts: number;
  readonly #except: ReadonlySet<string>;
  #processes = 0;
  #tenancies = 0;
  #isClosed = false;

  /** `except` names checks that the test itself breaks. */
  constructor(options: FleetOptions = {}, ...except: readonly string[]) {
    super(options);
    this.#except = new Set(except);
    const { config = {} } = options;
    const set = { ...CONFIG, ...config } as WorkerConfig;
    this.#promises = {
      leaseMs: set.leaseDurationMs,
      stopMs: set.drainDeadlineMs + set.opTimeoutMs,
      rebalanceDelayMs: set.rebalanceDelayMs,
    };
    this.#maxAttempts = set.maxAttempts;
  }

  override worker(id: string, handler: Handler, setup?: WorkerSetup): HandledWorker {
    const { recorder } = this;
    const process = this.#processes;
    this.#processes += 1;
    const around = super.worker(id, (grant) => this.#record(process, grant, handler), setup);
    const { worker } = around;
    recorder.note({ kind: 'started', process, instance: id, nonce: worker.status().nonce });
    this.#followLeadership(process, around.transitions);
    const stop = worker.stop.bind(worker);
    worker.stop = () => {
      recorder.note({ kind: 'stopAsked', process });
      return stop();
    };
    void this.#noteEnd(process, around, stop);
    return {
      ...around,
      crash: () => {
        around.crash();
        recorder.note({ kind: 'crashed', process });
      },
      freeze: (time = 'runs') => {
        around.freeze(time);
        const by = time === 'runs' ? 'frozen' : 'suspended';
        recorder.note({ kind: 'disturbed', process, by });
      },
      thaw: () => {
        recorder.note({ kind: 'thawed', process });
        around.thaw();
      },
    };
  }

  /** Ends the fleet, and fails when a promise was broken at any time. */
  override async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const { happenings } = this.recorder;
    const found = checkRun({
      history: this.store.history(),
      happenings: [...happenings],
      promises: this.#promises,
      maxAttempts: this.#maxAttempts,
    });
    await super.close();
    this.#guard.end();
    expect(this.#guard.caught).toEqual([]);
    expect(found.broken.filter(({ check }) => !this.#except.has(check))).toEqual([]);
    expect(violations(this.store)).toEqual([]);
  }

  async #noteEnd(
    process: number,
    { worker, run }: HandledWorker,
    stop: () => Promise<unknown>,
  ): Promise<void> {
    const verdict = await worker.verdict().catch(() => null);
    await stop();
    const code = isLeaseholdError(run.error) ? run.error.code : null;
    this.recorder.note({ kind: 'left', process, verdict, code });
  }

  /** Notes leadership at the very transition: events are told later. */
  #followLeadership(process: number, transitions: Transition[]): void {
    let isLeading = false;
    const push = transitions.push.bind(transitions);
    transitions.push = (...added) => {
      for (const { chart, to } of added) {
        if (chart !== 'leader' || to.startsWith('leading') === isLeading) continue;
        isLeading = !isLeading;
        this.recorder.note({ kind: isLeading ? 'leads' : 'leadsNoMore', process });
      }
      return push(...added);
    };
  }

  async #record(process: number, grant: Grant, handler: Handler): Promise<void> {
    const { recorder } = this;
    const tenancy = this.#tenancies;
    this.#tenancies += 1;
    const watermark = grant.progress === null ? null : String(grant.progress.watermark);
    const { epoch } = grant;
    recorder.note({ kind: 'granted', tenancy, process, split: grant.split.id, epoch, watermark });
    grant.lost.addEventListener('abort', () => {
      recorder.note({ kind: 'lost', tenancy });
    });
    let error: string | null = null;
    try {
      await handler(seen(grant, tenancy, recorder));
    } catch (thrown) {
      error = String(thrown);
      throw thrown;
    } finally {
      recorder.note({ kind: 'returned', tenancy, error });
    }
  }
}

/** A grant whose every request is on the time line. */
function seen(grant: Grant, tenancy: number, recorder: Recorder): Grant {
  const ask = async (
    what: 'commit' | 'complete' | 'fail' | 'release',
    progress: ProgressInput | undefined,
    request: () => Promise<void>,
  ): Promise<void> => {
    const watermark = progress === undefined ? null : String(progress.watermark);
    const isLate = grant.lost.aborted;
    recorder.note({ kind: 'asked', tenancy, what, watermark });
    try {
      await request();
    } catch (error) {
      const code = isLeaseholdError(error) ? error.code : String(error);
      recorder.note({ kind: 'refused', tenancy, what, code });
      throw error;
    }
    recorder.note({ kind: 'accepted', tenancy, what, watermark, isLate });
  };
  const { split, epoch, progress, lost, draining } = grant;
  return {
    split,
    epoch,
    progress,
    lost,
    draining,
    commit: (next) => ask('commit', next, () => grant.commit(next)),
    complete: (last) => ask('complete', last, () => grant.complete(last)),
    fail: (reason) => ask('fail', undefined, () => grant.fail(reason)),
    release: () => ask('release', undefined, () => grant.release()),
  };
}
