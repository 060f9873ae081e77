/** Two handlers of one job. Both copy orders into another system; one of them forgets to look whether it still may. */
import type { Planner } from '../../src/index.ts';
import type { SimulatedHandler } from '../../src/testing/index.ts';

export const planner: Planner = {
  fingerprint: () => 'orders:v1',
  plan: () => ({
    splits: ['north', 'east', 'south', 'west'].map((id) => ({ id, descriptor: id })),
    finality: 'final',
  }),
};

/** Orders of one split. */
const ORDERS = 20;

/** Writes what it read before it went to sleep, though its grant may be lost by then. */
export const careless: SimulatedHandler = async (grant, { sleep, wrote }) => {
  for (let order = Number(grant.progress?.watermark ?? 0); order < ORDERS; order += 1) {
    await sleep(500);
    wrote(`order ${order} of ${grant.split.id}`);
    await grant.commit({ watermark: order + 1 });
    if (grant.draining.requested) return;
  }
  await grant.complete();
};

/** The same, and looks first. */
export const careful: SimulatedHandler = async (grant, { sleep, wrote }) => {
  for (let order = Number(grant.progress?.watermark ?? 0); order < ORDERS; order += 1) {
    await sleep(500, grant.lost);
    if (grant.lost.aborted) return;
    wrote(`order ${order} of ${grant.split.id}`);
    await grant.commit({ watermark: order + 1 });
    if (grant.draining.requested) return;
  }
  await grant.complete();
};
