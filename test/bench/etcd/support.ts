/** What the benchmarks on etcd share: workers, stores that tell of their calls, figures. */
import { setTimeout as sleep } from 'node:timers/promises';
import { createWorker, type Grant, type Worker, type WorkerOptions } from '../../../src/index.ts';
import { type EtcdStore, etcdStore } from '../../../src/store/etcd/index.ts';
import type { Batch, Range, Store } from '../../../src/store/port.ts';

/** One call that was answered. */
export interface StoreCall {
  /** `session` is a renewal, `opening` the opening or the closing of one. */
  readonly kind: 'transact' | 'read' | 'session' | 'opening';
  readonly startMs: number;
  readonly endMs: number;
  readonly batch?: Batch;
  readonly range?: Range;
}

/** How many calls follow one another at least, however many run side by side. */
export function roundTrips(calls: readonly StoreCall[]): number {
  let count = 0;
  let freeMs = -Infinity;
  for (const { startMs, endMs } of calls.toSorted((a, b) => a.endMs - b.endMs)) {
    if (startMs < freeMs) continue;
    count += 1;
    freeMs = endMs;
  }
  return count;
}

export interface WorkerSetup extends Partial<Pick<WorkerOptions, 'config' | 'logger'>> {
  readonly endpoint: string;
  /** Of the other members. */
  readonly others?: readonly string[];
  readonly job: string;
  readonly instanceId: string;
  /** Splits of the plan. */
  readonly splits: number;
  readonly onCall?: (call: StoreCall) => void;
}

/** A worker with a store of its own. */
export interface BenchWorker {
  readonly worker: Worker;
  readonly store: Store;
  stop(): Promise<void>;
}

export function startWorker(setup: WorkerSetup): BenchWorker {
  const etcd = etcdStore({ endpoints: [setup.endpoint, ...(setup.others ?? [])] });
  const store = setup.onCall === undefined ? etcd : tapped(etcd, setup.onCall);
  const worker = createWorker({
    job: setup.job,
    store,
    instanceId: setup.instanceId,
    planner: {
      fingerprint: () => 'bench',
      plan: () => ({
        splits: Array.from({ length: setup.splits }, (_, index) => ({
          id: `split-${index}`,
          descriptor: `rows of split ${index}`,
        })),
        finality: 'final',
      }),
    },
    ...(setup.logger === undefined ? {} : { logger: setup.logger }),
    config: { rebalanceDelayMs: 0, ...setup.config },
  });
  return {
    worker,
    store,
    async stop() {
      await worker.stop();
      await etcd.close();
    },
  };
}

/** A store that tells of every call once it is answered. */
function tapped(store: EtcdStore, onCall: (call: StoreCall) => void): Store {
  const tap = async <Answer>(
    call: Omit<StoreCall, 'startMs' | 'endMs'>,
    answer: Promise<Answer>,
  ): Promise<Answer> => {
    const startMs = performance.now();
    try {
      return await answer;
    } finally {
      onCall({ ...call, startMs, endMs: performance.now() });
    }
  };
  const session = { kind: 'session' } as const;
  const opening = { kind: 'opening' } as const;
  return {
    name: store.name,
    openSession: (id, ttlMs, options) => tap(opening, store.openSession(id, ttlMs, options)),
    keepAlive: (id, options) => tap(session, store.keepAlive(id, options)),
    closeSession: (id, options) => tap(opening, store.closeSession(id, options)),
    read: (range, read, options) => tap({ kind: 'read', range }, store.read(range, read, options)),
    transact: (batch, options) => tap({ kind: 'transact', batch }, store.transact(batch, options)),
    watch: (range, fromRevision) => store.watch(range, fromRevision),
    close: () => store.close(),
  };
}

/** Starts a worker's handlers, which hold each split until it is asked back. */
export function holdAll(
  worker: Worker,
  onGrant: (grant: Grant) => void = () => undefined,
  onReturn: () => void = () => undefined,
): void {
  worker
    .run(async (grant) => {
      onGrant(grant);
      await Promise.race([grant.draining.whenRequested(), lost(grant)]);
      onReturn();
    })
    .catch(() => undefined);
}

function lost({ lost: signal }: Grant): Promise<void> {
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => {
      resolve();
    });
  });
}

/** Splits that a worker holds now. */
export function heldBy(worker: Worker): number {
  return worker.status().tenancies.filter(({ state }) => state === 'held.owned').length;
}

export async function until(
  what: string,
  condition: () => boolean,
  withinMs = 60_000,
): Promise<void> {
  const endMs = performance.now() + withinMs;
  while (!condition()) {
    if (performance.now() > endMs) throw new Error(`${what}: not within ${withinMs} ms`);
    await sleep(5);
  }
}

/** The value that a share of all values lie at or below. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

export function rounded(value: number, digits = 2): number {
  return Number(value.toFixed(digits));
}
