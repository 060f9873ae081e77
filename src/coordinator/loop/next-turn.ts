/** Long work goes in parts; between two of them timers fire and answers come in, so that leases are renewed meanwhile. */
import type { Clock } from '../../base/clock.ts';

/** Splits, or records of them, that one part may handle: some ten milliseconds. */
export const PART_MAX = 1_000;

/** Resolves in a later turn of the event loop; never, once a worker's clock is closed. */
export function nextTurn(clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    clock.setTimeout(resolve, 0);
  });
}
