/** Waits for what others bring about: each condition is looked at again after every change. */
import { JobFailedError } from './job-failed-error.ts';

interface Waiting {
  readonly holds: () => boolean;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

export class Conditions {
  readonly #waiting = new Set<Waiting>();
  #failure: { readonly error: unknown } | null = null;

  /** Something has changed. */
  check(): void {
    for (const waiting of this.#waiting) {
      if (!waiting.holds()) continue;
      this.#waiting.delete(waiting);
      waiting.resolve();
    }
  }

  /** Nothing is worth waiting for any more: all waits, also later ones, reject with the first error. */
  fail(error: unknown): void {
    this.#failure ??= { error };
    for (const { reject } of this.#waiting) reject(this.#failure.error);
    this.#waiting.clear();
  }

  /**
   * Resolves when `holds` says true.
   *
   * @param within  Fails with `what` when it does not in time; without it the wait is unlimited.
   */
  async until(
    holds: () => boolean,
    within?: { readonly ms: number; readonly what: string },
  ): Promise<void> {
    if (this.#failure !== null) throw this.#failure.error;
    if (holds()) return;
    let timer: NodeJS.Timeout | undefined;
    try {
      await new Promise<void>((resolve, reject) => {
        this.#waiting.add({ holds, resolve, reject });
        if (within === undefined) return;
        timer = setTimeout(() => {
          this.fail(new JobFailedError(`waited ${within.ms / 1_000} s for ${within.what}`));
        }, within.ms);
      });
    } finally {
      clearTimeout(timer);
    }
  }

  /** Resolves after a time. */
  async sleep(ms: number): Promise<void> {
    let isOver = false;
    const timer = setTimeout(() => {
      isOver = true;
      this.check();
    }, ms);
    try {
      await this.until(() => isOver);
    } finally {
      clearTimeout(timer);
    }
  }
}
