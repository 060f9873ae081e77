/** The way of a worker from nothing to its first grant. */
import {
  heldBy,
  holdAll,
  quantile,
  rounded,
  roundTrips,
  startWorker,
  type StoreCall,
  until,
} from './support.ts';

const STARTS = 7;

export interface ColdStart {
  /** Calls that follow one another at least, of the median start. */
  readonly roundTrips: number;
  /** The same of a worker that finds a job with a leader. */
  readonly roundTripsOfSecond: number;
  readonly ms: number;
}

export async function measureColdStart(endpoint: string): Promise<ColdStart> {
  const trips: number[] = [];
  const tripsOfSecond: number[] = [];
  const tookMs: number[] = [];
  for (let number = 0; number < STARTS; number += 1) {
    const first = await start(endpoint, `cold-${number}`, 'first');
    trips.push(first.roundTrips);
    tookMs.push(first.tookMs);
    const second = await start(endpoint, `cold-${number}`, 'second');
    tripsOfSecond.push(second.roundTrips);
    await second.stop();
    await first.stop();
  }
  return {
    roundTrips: quantile(trips, 0.5),
    roundTripsOfSecond: quantile(tripsOfSecond, 0.5),
    ms: rounded(quantile(tookMs, 0.5), 0),
  };
}

async function start(endpoint: string, job: string, instanceId: string) {
  const calls: StoreCall[] = [];
  const startMs = performance.now();
  const { worker, stop } = startWorker({
    endpoint,
    job,
    instanceId,
    splits: 4,
    config: { maxInFlight: 4 },
    onCall: (call) => calls.push(call),
  });
  let grantedMs = Infinity;
  holdAll(worker, () => {
    grantedMs = Math.min(grantedMs, performance.now());
  });
  await until('the first grant', () => grantedMs < Infinity && heldBy(worker) > 0);
  const before = calls.filter(({ endMs }) => endMs <= grantedMs);
  return { roundTrips: roundTrips(before), tookMs: grantedMs - startMs, stop };
}
