/** What is wrong with keys and records of the job, said once each (R42). */
import type { WorkerLog } from '../loop/worker-log.ts';

/** Keys warned about; more are not remembered, and not reported either. */
const WARNINGS_MAX = 1_000;

export class Warnings {
  readonly #log: WorkerLog;
  readonly #said = new Set<string>();

  constructor(log: WorkerLog) {
    this.#log = log;
  }

  /** Says what is wrong with `key`, unless something was said of it before. */
  warn(key: string, reason: string): void {
    if (this.#said.has(key) || this.#said.size >= WARNINGS_MAX) return;
    this.#said.add(key);
    this.#log.warn('record.ignored', `${key} ${reason}`, { key, reason });
  }
}
