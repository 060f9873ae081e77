/** The ways in which a simulated service has its worker: all of them are driven by the same handlers. */
import type { CoordinationEvent, StopReport, Verdict } from '../../../coordinator/api/api.ts';
import type { CoordinatorOptions } from '../../../coordinator/api/options.ts';
import type { Status } from '../../../coordinator/api/status.ts';
import type { Grant } from '../../../driver/grant.ts';
import { retryWishOf } from '../../../driver/retry-errors.ts';
import { createWorker, type Worker } from '../../../driver/worker.ts';
import type { Embedding, Listeners } from '../scenario.ts';
import { onSeam } from './seam.ts';
import { textOf } from './thrown.ts';

/** A worker as its service has it. */
export interface Embedded {
  /** Works until the verdict; rejects as `Worker.run` does. */
  run(handler: (grant: Grant) => Promise<void>): Promise<Verdict>;
  stop(): Promise<StopReport>;
  status(): Status;
}

/** Builds a worker, and says how its grants come to their handlers. */
export function embed(
  { embedding, listeners }: { readonly embedding: Embedding; readonly listeners: Listeners },
  options: CoordinatorOptions,
): Embedded {
  switch (embedding) {
    case 'run':
      return createWorker(options);
    case 'grants':
      return byHand(createWorker(options));
    case 'seam':
    case 'heedlessSeam':
      return onSeam(options, {
        isHeedless: embedding === 'heedlessSeam',
        hear: LISTENERS[listeners],
      });
  }
}

/** Listens to every event, and does what its service does beside. */
const LISTENERS: Readonly<Record<Listeners, (event: CoordinationEvent) => unknown>> = {
  quiet: () => undefined,
  throw: () => {
    throw new Error('a listener threw');
  },
  reject: () => Promise.reject(new Error('a listener of promises rejected')),
};

/** Takes grants in a loop, and handles each beside the others. */
function byHand(worker: Worker): Embedded {
  return {
    run: async (handler) => {
      const work = async (grant: Grant): Promise<void> => {
        await handler(grant).catch(async (error: unknown) => {
          await grant.fail(textOf(error), retryWishOf(error)).catch(() => undefined);
        });
        await grant.finished();
      };
      for await (const grant of worker.grants()) void work(grant);
      try {
        return await worker.verdict();
      } finally {
        await worker.stop();
      }
    },
    stop: () => worker.stop(),
    status: () => worker.status(),
  };
}
