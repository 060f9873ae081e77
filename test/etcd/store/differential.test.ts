/**
 * The memory store against a real etcd: random histories that both must tell alike, step by step. What the memory store is
 * trusted for everywhere else in the tests rests on this.
 *
 * `LEASEHOLD_STEPS` makes more steps; with `LEASEHOLD_SEED` they are one history of that seed.
 */
import { beforeAll, describe, expect, test } from '@jest/globals';
import { randomInt } from 'node:crypto';
import type { Revision } from '../../../src/base/decimals.ts';
import { seededRandom } from '../../../src/base/random.ts';
import { virtualClock } from '../../../src/base/virtual-clock.ts';
import { etcdStore } from '../../../src/store/etcd/index.ts';
import { faultyStore } from '../../../src/store/faults.ts';
import { memoryStore } from '../../../src/store/memory.ts';
import type { Store } from '../../../src/store/port.ts';
import {
  type HistoryOptions,
  runHistory,
  type Side,
  type Tally,
} from '../support/history/histories.ts';
import { startProxy } from '../support/server/proxy.ts';
import { type EtcdServer, startEtcd } from '../support/server.ts';

const { LEASEHOLD_SEED, LEASEHOLD_STEPS } = process.env;
const STEPS = Number(LEASEHOLD_STEPS ?? 2_000);
const STEPS_A_HISTORY = 500;

let etcd: EtcdServer;

beforeAll(async () => {
  etcd = await startEtcd();
});

/** Time stands still, so that no session expires. `lie` changes the client that takes the calls. */
function memorySide(lie: (store: Store) => Partial<Store> = () => ({})): Side {
  const clock = virtualClock();
  const memory = memoryStore({ clock, historyRevisionsMax: 1_000_000 });
  const watcher = faultyStore(memory, { clock, random: seededRandom(1) });
  return {
    name: 'the memory store',
    store: Object.assign(Object.create(memory) as Store, bound(memory), lie(memory)),
    watcher,
    drop() {
      watcher.partition();
      watcher.heal();
    },
    cut: () => {
      watcher.partition();
    },
    heal: async () => {
      watcher.heal();
    },
    compact: async (revision) => {
      memory.compact(revision);
    },
  };
}

/** The methods of a store, to be put in front of those of another object. */
function bound(store: Store): Partial<Store> {
  return {
    read: store.read.bind(store),
    transact: store.transact.bind(store),
    openSession: store.openSession.bind(store),
    keepAlive: store.keepAlive.bind(store),
    closeSession: store.closeSession.bind(store),
  };
}

async function etcdSide(): Promise<Side & { close(): Promise<void> }> {
  const proxy = await startProxy(etcd.endpoint);
  const store = etcdStore({ endpoints: [etcd.endpoint] });
  const watcher = etcdStore({ endpoints: [proxy.endpoint] });
  return {
    name: 'etcd',
    store,
    watcher,
    drop: () => {
      proxy.drop();
    },
    cut: () => {
      proxy.cut();
    },
    heal: () => proxy.heal(),
    compact: (revision) => etcd.gateway.compact(BigInt(revision)),
    async close() {
      await store.close();
      await watcher.close();
      await proxy.stop();
    },
  };
}

async function compareWithEtcd(seed: number, steps: number): Promise<Tally> {
  const subject = await etcdSide();
  try {
    return await runHistory({ seed, steps, reference: memorySide(), subject });
  } finally {
    await subject.close();
  }
}

/** What a run of some length must have met, or the histories prove less than they seem to. */
const MET = [
  'transact: tried',
  'transact: guardFailed',
  'transact: mixed',
  'transact: E_LEASE_EXPIRED',
  'transact: InvariantViolation',
  'transaction: committed',
  'transaction: conflict',
  'open: done',
  'keepAlive: done',
  'keepAlive: E_LEASE_EXPIRED',
  'close: done',
  'read: page',
  'read: compacted',
  'watch: changes',
  'watch: compacted',
  'watch: reset',
];

/** Kept, so that what they found stays found. */
const ONCE_DIFFERED = [
  // A watch of single keys was cut off behind an event between two of them, and history was compacted meanwhile.
  { seed: 1_345_349_699, steps: 60 },
];

describe('differential', () => {
  test(
    'differential - random histories on the memory store and on etcd agree in every answer and every watch',
    async () => {
      const isReplay = LEASEHOLD_SEED !== undefined;
      const total: Tally = {};
      for (let made = 0; made < STEPS; made += STEPS_A_HISTORY) {
        const seed = isReplay ? Number(LEASEHOLD_SEED) : randomInt(2 ** 32);
        const steps = isReplay ? STEPS : Math.min(STEPS_A_HISTORY, STEPS - made);
        const tally = await compareWithEtcd(seed, steps);
        for (const [what, count] of Object.entries(tally)) total[what] = (total[what] ?? 0) + count;
        if (isReplay) break;
      }
      if (STEPS >= 2_000) expect(Object.keys(total)).toEqual(expect.arrayContaining(MET));
    },
    60_000 + STEPS * 40,
  );

  test('differential - the histories that differed once agree', async () => {
    for (const { seed, steps } of ONCE_DIFFERED) await compareWithEtcd(seed, steps);
  });

  test('differential - a store that tells one thing wrongly is found out, with the command that replays it', async () => {
    const lies: Record<string, (store: Store) => Partial<Store>> = {
      'a conflict that shows another value': (store) => ({
        async transact(batch, options) {
          const outcome = await store.transact(batch, options);
          if (outcome.kind !== 'tried') return outcome;
          const outcomes = outcome.outcomes.map((one) =>
            one.kind === 'conflict'
              ? { ...one, found: one.found.map((entry) => entry && { ...entry, value: 'lie' }) }
              : one,
          );
          return { ...outcome, outcomes };
        },
      }),
      'a write that did not happen': (store) => ({
        async transact(batch, options) {
          if (batch.txns.length > 2 && batch.guard.length === 0) {
            return store.transact({ ...batch, txns: batch.txns.slice(1) }, options);
          }
          return store.transact(batch, options);
        },
      }),
      'a session that outlives its end': () => ({
        closeSession: () => Promise.resolve(),
      }),
      'a page of the wrong revision': (store) => ({
        read: (range, { atRevision: _, ...read }, options) => store.read(range, read, options),
      }),
    };
    for (const [what, lie] of Object.entries(lies)) {
      const options: HistoryOptions = {
        seed: 7,
        steps: 300,
        reference: memorySide(),
        subject: memorySide(lie),
      };
      const failure = await runHistory(options).then(
        () => `${what}: not found`,
        (error: unknown) => String(error),
      );
      expect(failure).toContain('replay: LEASEHOLD_SEED=7 LEASEHOLD_STEPS=300 npm test');
    }
  });

  test('differential - a watch that drops an event, or tells one twice, is found out', async () => {
    for (const times of [0, 2]) {
      const subject = memorySide();
      const { watcher } = subject;
      let heard = 0;
      const lying: Store = Object.assign(Object.create(watcher) as Store, {
        watch: (range: Parameters<Store['watch']>[0], from: Revision) => ({
          subscribe: (observer: Parameters<ReturnType<Store['watch']>['subscribe']>[0]) =>
            watcher.watch(range, from).subscribe({
              ...observer,
              next(event) {
                heard += 1;
                const isLie = heard === 20;
                for (let time = 0; time < (isLie ? times : 1); time += 1) observer.next(event);
              },
            }),
        }),
      });
      const run = runHistory({
        seed: 7,
        steps: 300,
        reference: memorySide(),
        subject: { ...subject, watcher: lying },
        settleMsMax: 200,
      });
      await expect(run).rejects.toThrow('replay: LEASEHOLD_SEED=7');
    }
  });
});
