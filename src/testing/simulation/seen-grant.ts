/** The grant that a simulated handler works with. */
import { isLeaseholdError, messageOf } from '../../base/errors.ts';
import type { Progress, ProgressInput } from '../../coordinator/api/api.ts';
import type { Grant } from '../../driver/grant.ts';
import type { Recorder } from '../checks/time-line.ts';

/** A grant whose every request is on the time line. */
export class SeenGrant implements Grant {
  readonly #grant: Grant;
  readonly #tenancy: number;
  readonly #recorder: Recorder;
  readonly split: Grant['split'];
  readonly epoch: string;
  readonly progress: Progress | null;
  readonly lost: AbortSignal;
  readonly draining: Grant['draining'];

  constructor(grant: Grant, tenancy: number, recorder: Recorder) {
    this.#grant = grant;
    this.#tenancy = tenancy;
    this.#recorder = recorder;
    this.split = grant.split;
    this.epoch = grant.epoch;
    this.progress = grant.progress;
    this.lost = grant.lost;
    this.draining = grant.draining;
  }

  commit(progress: ProgressInput): Promise<void> {
    return this.#ask('commit', progress, () => this.#grant.commit(progress));
  }

  complete(progress?: ProgressInput): Promise<void> {
    return this.#ask('complete', progress, () => this.#grant.complete(progress));
  }

  fail(reason: string): Promise<void> {
    return this.#ask('fail', undefined, () => this.#grant.fail(reason));
  }

  release(): Promise<void> {
    return this.#ask('release', undefined, () => this.#grant.release());
  }

  async #ask(
    what: 'commit' | 'complete' | 'fail' | 'release',
    progress: ProgressInput | undefined,
    ask: () => Promise<void>,
  ): Promise<void> {
    const recorder = this.#recorder;
    const tenancy = this.#tenancy;
    const watermark = progress === undefined ? null : String(progress.watermark);
    const isLate = this.lost.aborted;
    recorder.note({ kind: 'asked', tenancy, what, watermark });
    try {
      await ask();
    } catch (error) {
      const code = isLeaseholdError(error) ? error.code : messageOf(error);
      recorder.note({ kind: 'refused', tenancy, what, code });
      throw error;
    }
    recorder.note({ kind: 'accepted', tenancy, what, watermark, isLate });
  }
}
