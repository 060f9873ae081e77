/** Suspects are tried one at a time, by a process that has outlived what was lost with them (R48). */
import { crashLoopOf, isSuspect, survivalMs, trialAgeMs } from '../../protocol/faults/suspicion.ts';
import type { SplitRecord, SuspicionRecord } from '../../records/records.ts';
import type { Core } from '../link/core.ts';
import type { Wake } from '../loop/wake.ts';
import type { Tenancy } from './tenancy.ts';

export class Trials {
  readonly #core: Core;
  /** How long this process has lived, since its loop last stalled its session away. */
  readonly #agedMs: () => number;
  readonly #wake: Wake;
  /** The suspect that was claimed last; it may be over, or cleared. */
  #tried: Tenancy | null = null;
  #hasToldWait = false;
  /** What was found of processes that die again and again; told once. */
  crashLoop: ReturnType<typeof crashLoopOf> = null;

  constructor(core: Core, agedMs: () => number, wake: Wake) {
    this.#core = core;
    this.#agedMs = agedMs;
    this.#wake = wake;
  }

  /** A claim is sent. */
  claims(tenancy: Tenancy, suspicion: SuspicionRecord | null): void {
    if (isSuspect(suspicion)) this.#tried = tenancy;
  }

  /** The suspect that this process has, or claims; null when it may take one (R48). */
  #onTrial(): Tenancy | null {
    const tenancy = this.#tried;
    if (tenancy === null) return null;
    const { chart, known } = tenancy;
    const isHeld = chart.hasTag('held') && isSuspect(known.record?.suspicion ?? null);
    if (!isHeld && !chart.isIn('claiming')) this.#tried = null;
    return this.#tried;
  }

  /** A claim is held. A suspect that is in hand for longer than what was lost with it has not killed its process (R48). */
  began(tenancy: Tenancy, { epoch, suspicion }: SplitRecord): void {
    if (!isSuspect(suspicion)) return;
    this.#core.after(survivalMs(suspicion!), () => {
      if (tenancy.epoch === epoch && !tenancy.chart.hasEnded) tenancy.survived();
    });
  }

  /** The split got further, or was cleared; a suspect makes room for the next one by it. */
  progressed(tenancy: Tenancy): void {
    if (tenancy === this.#tried && this.#onTrial() === null) this.#core.mailbox.requestDecision();
  }

  /** A suspect is taken alone, by a process that has outlived what was lost with it (R48). */
  mayTry(tenancy: Tenancy, suspicion: SuspicionRecord | null): boolean {
    this.#tell(tenancy, suspicion);
    if (!isSuspect(suspicion)) return true;
    const onTrial = this.#onTrial();
    if (onTrial !== null && onTrial !== tenancy) return false;
    const leftMs = trialAgeMs(suspicion!) - this.#agedMs();
    if (leftMs <= 0) return true;
    this.#wake.in(leftMs);
    this.#tellWait(tenancy, leftMs);
    return false;
  }

  /** What stands still for a while says why, once. */
  #tellWait({ split }: Tenancy, leftMs: number): void {
    if (this.#hasToldWait) return;
    this.#hasToldWait = true;
    this.#core.log.warn(
      'splits.suspected',
      `split ${split} was in the hands of a process that ended without releasing it; what such a process had made no ` +
        `progress with is taken one at a time, here in ${Math.round(leftMs)} ms, once this process has outlived that one`,
      { split, waitMs: Math.round(leftMs) },
    );
  }

  /** Processes that die again and again are worth a word, whatever they die of. */
  #tell({ split }: Tenancy, suspicion: SuspicionRecord | null): void {
    const found = crashLoopOf(suspicion);
    if (found === null || this.crashLoop !== null) return;
    this.crashLoop = found;
    this.#core.log.warn(
      'process.crashLoop',
      `${found.lives} processes ended one after the other with split ${split} in hand; find out what they died of: ` +
        'a split that kills its process is set aside after three trials, a process that dies by itself is not helped by that',
      { split, ...found },
    );
  }
}
