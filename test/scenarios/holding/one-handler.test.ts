import { describe, expect, test } from '@jest/globals';
import { createWorker, type Grant, type Worker } from '../../../src/index.ts';
import { CONFIG, finalPlan, JOB, LEASE_MS, lost } from '../../support/fleet.ts';
import { deferred, pass } from '../../support/observed.ts';
import { fleet, startFleet } from '../../support/scenario.ts';

/** How a tenancy ends while work on it goes on. */
interface Ending {
  readonly by: string;
  /** Done by the work itself, once it has its grant. */
  readonly end: (grant: Grant) => Promise<void>;
  /** Done to it from outside. */
  readonly cause?: () => Promise<void>;
}

const ENDINGS: readonly Ending[] = [
  { by: 'fail()', end: (grant) => grant.fail('not today') },
  { by: 'release() unasked', end: (grant) => grant.release() },
  {
    by: 'release() when asked',
    end: async (grant) => {
      await grant.draining.whenRequested();
      await grant.release();
    },
    cause: async () => {
      await fleet.operator().pause();
      await pass(fleet, 500);
      await fleet.operator().resume();
    },
  },
  {
    by: 'an end that nobody awaits',
    end: async (grant) => {
      void grant.fail('not today');
      await Promise.resolve();
    },
  },
  {
    by: 'a watermark that falls',
    end: async (grant) => {
      await grant.commit({ watermark: 5 });
      await grant.commit({ watermark: 3 }).catch(() => undefined);
    },
  },
  {
    by: 'the loss of its lease',
    end: lost,
    cause: async () => {
      await fleet.store.remove(fleet.keys.lease('s0' as never));
    },
  },
];

/** Counts what works on a split at once. */
class Counter {
  starts = 0;
  now = 0;
  most = 0;
  readonly #go = deferred();

  /** What the first work waits for after its tenancy has ended. */
  end(): void {
    this.#go.resolve();
  }

  async count(work: () => Promise<void>): Promise<void> {
    this.starts += 1;
    this.now += 1;
    this.most = Math.max(this.most, this.now);
    const isFirst = this.starts === 1;
    await work();
    if (isFirst) await this.#go.promise;
    this.now -= 1;
  }
}

describe('one at a time in a process', () => {
  test.each(ENDINGS)(
    'a handler that goes on after $by - is the only one of its split in its process until it returns (R27)',
    async ({ end, cause }) => {
      await startFleet({ planner: finalPlan(['s0']), config: { maxAttempts: 9 } });
      const counter = new Counter();
      const a = fleet.worker('a', (grant) =>
        counter.count(() => (counter.starts === 1 ? end(grant) : lost(grant))),
      );
      await fleet.until('it works', () => counter.starts === 1);
      await fleet.advance(50);
      await cause?.();
      await fleet.advance(2 * LEASE_MS);
      expect(counter).toMatchObject({ starts: 1, now: 1, most: 1 });
      expect(a.worker.status().refuses).toEqual(['s0']);
      const said = a.lines.filter(({ event }) => event === 'handler.outlives');
      expect(said).toHaveLength(1);
      expect(said[0]!.fields).toMatchObject({ split: 's0', epoch: '1' });
      counter.end();
      await fleet.until('the next one', () => counter.starts === 2, 2 * LEASE_MS);
      expect(counter.most).toBe(1);
      expect(a.worker.status().refuses).toEqual([]);
    },
  );

  test('a handler that goes on after its end - leaves its split to another worker meanwhile (R27)', async () => {
    await startFleet({ planner: finalPlan(['s0']) });
    const counter = new Counter();
    fleet.worker('a', (grant) => counter.count(() => grant.fail('not today')));
    await fleet.until('it works', () => counter.starts === 1);
    const held: string[] = [];
    fleet.worker('b', async (grant) => {
      held.push(grant.epoch);
      await lost(grant);
    });
    await fleet.until('the other has it', () => held.length === 1, 2 * LEASE_MS);
    expect(counter).toMatchObject({ starts: 1, now: 1 });
    counter.end();
  });

  test('a handler that returns right after its end - is no reason to announce anything (R27)', async () => {
    await startFleet({ planner: finalPlan(['s0']) });
    const a = fleet.worker('a', async (grant) => {
      if (grant.epoch === '1') await grant.fail('not today');
      else await lost(grant);
    });
    await fleet.until('a second tenancy', () => fleet.split('s0')?.epoch === '2');
    await fleet.advance(LEASE_MS);
    expect(fleet.store.history(fleet.keys.presence('a' as never))).toHaveLength(1);
    expect(a.worker.status().refuses).toEqual([]);
  });
});

describe('grants taken by hand', () => {
  /** A loop that hands each grant on, and takes the next one. */
  function byHand(work: (grant: Grant) => Promise<void>): { worker: Worker; lines: string[] } {
    const lines: string[] = [];
    const worker = createWorker({
      job: JOB,
      prefix: fleet.prefix,
      store: fleet.store,
      instanceId: 'a',
      planner: finalPlan(['s0']),
      clock: fleet.clock,
      config: { ...CONFIG, maxAttempts: 9 },
      logger: {
        debug: () => undefined,
        info: () => undefined,
        error: () => undefined,
        warn: ({ event }) => lines.push(String(event)),
      },
    });
    void (async () => {
      for await (const grant of worker.grants()) void work(grant);
    })();
    return { worker, lines };
  }

  test.each(ENDINGS)(
    'a grant taken by hand that ended by $by - keeps its split from its process until the work is said to be finished (R27)',
    async ({ end, cause }) => {
      await startFleet({ planner: finalPlan(['s0']) });
      const counter = new Counter();
      const { worker, lines } = byHand(async (grant) => {
        await counter.count(() => (counter.starts === 1 ? end(grant) : lost(grant)));
        await grant.finished();
      });
      await fleet.until('it works', () => counter.starts === 1);
      await fleet.advance(50);
      await cause?.();
      await fleet.advance(2 * LEASE_MS);
      expect(counter).toMatchObject({ starts: 1, now: 1, most: 1 });
      expect(worker.status().refuses).toEqual(['s0']);
      expect(lines.filter((event) => event === 'handler.outlives')).toHaveLength(1);
      counter.end();
      await fleet.until('the next one', () => counter.starts === 2, 2 * LEASE_MS);
      expect(counter.most).toBe(1);
      void worker.stop();
      await fleet.advance(2 * LEASE_MS);
    },
  );

  test('a turn of the loop - says by itself that the work is over when its grant has ended before it (R27)', async () => {
    await startFleet({ planner: finalPlan(['s0']) });
    const epochs: string[] = [];
    const worker = createWorker({
      job: JOB,
      prefix: fleet.prefix,
      store: fleet.store,
      instanceId: 'a',
      planner: finalPlan(['s0']),
      clock: fleet.clock,
      config: { ...CONFIG, maxAttempts: 9 },
    });
    const loop = (async () => {
      for await (const grant of worker.grants()) {
        epochs.push(grant.epoch);
        if (grant.epoch === '1') await grant.fail('not today');
        else await grant.complete();
      }
    })();
    await fleet.until('both turns', () => epochs.length === 2, 2 * LEASE_MS);
    await fleet.advance(1_000);
    await loop;
    expect(fleet.split('s0')).toMatchObject({ status: 'completed', epoch: '2' });
    expect(worker.status().presence).toBe('departed');
  });

  test('finished() - ends what is still open as a return does: failed, or handed back if it was asked for (R37)', async () => {
    await startFleet({ planner: finalPlan(['s0']) });
    const grants: Grant[] = [];
    const { worker } = byHand(async (grant) => {
      grants.push(grant);
      await Promise.resolve();
    });
    await fleet.until('a grant', () => grants.length === 1);
    await grants[0]!.finished();
    expect(fleet.split('s0')).toMatchObject({
      attempts: 1,
      lastFailure: { reason: 'returned without completing' },
    });
    await fleet.until('a second one', () => grants.length === 2);
    await fleet.operator().pause();
    await fleet.advance(50);
    await grants[1]!.finished();
    await grants[1]!.finished();
    expect(fleet.split('s0')).toMatchObject({ attempts: 1, owner: null, epoch: '2' });
    void worker.stop();
    await fleet.advance(2 * LEASE_MS);
  });
});
