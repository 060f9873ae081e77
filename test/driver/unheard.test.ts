/** Nothing that a service leaves unheard, or throws where it is told something, ends its process. */
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { createCoordinator, createWorker, type Grant } from '../../src/index.ts';
import { writesTo } from '../../src/store/faults.ts';
import { guardProcess } from '../support/departures.ts';
import { completeAtOnce, CONFIG, finalPlan, Fleet, lost, watched } from '../support/fleet.ts';

let fleet: Fleet;
let guard: ReturnType<typeof guardProcess>;
beforeEach(() => {
  guard = guardProcess();
  fleet = new Fleet({ planner: finalPlan(['s1', 's2']) });
});
afterEach(async () => {
  await fleet.close();
  await realTurns();
  guard.end();
  expect(guard.caught).toEqual([]);
});

/** Time for what nobody heard to be noticed. */
const realTurns = (): Promise<void> =>
  new Promise((resolve) => setImmediate(() => setImmediate(resolve)));

async function granted(): Promise<Grant> {
  const grants: Grant[] = [];
  fleet.worker('a', async (grant) => {
    grants.push(grant);
    await lost(grant);
  });
  await fleet.until('the grants', () => grants.length === 2);
  await fleet.advance(20);
  return grants.find(({ split }) => split.id === 's1')!;
}

describe('requests that nobody awaits', () => {
  test('requests of a grant - that are refused because it was lost end no process, and whoever awaits them hears of it (R53)', async () => {
    const grant = await granted();
    fleet.store.remove(fleet.keys.lease('s1' as never));
    // Asked for before the loss is known, and answered by it.
    for (let watermark = 1; watermark < 4; watermark += 1) void grant.commit({ watermark });
    await fleet.until('lost', () => grant.lost.aborted);
    const requests = [
      () => grant.commit({ watermark: 9 }),
      () => grant.complete({ watermark: 9 }),
      () => grant.fail('late'),
      () => grant.release(),
    ];
    for (const request of requests) void request();
    await realTurns();
    for (const request of requests) {
      await expect(request()).rejects.toMatchObject({ code: 'E_FENCED' });
    }
    await grant.finished();
  });

  test.each(['complete', 'fail', 'release'] as const)(
    'a %s - that nobody awaits and that finds its split lost ends no process',
    async (end) => {
      const grant = await granted();
      fleet.store.remove(fleet.keys.lease('s1' as never));
      void (end === 'fail' ? grant.fail('no') : grant[end]());
      await fleet.until('lost', () => grant.lost.aborted || fleet.split('s1')?.owner === null);
      await fleet.advance(20_000);
    },
  );

  test('bad progress - that nobody awaits ends no process, and one line says so (R53)', async () => {
    const a = fleet.worker('a', async (grant) => {
      void grant.commit({ watermark: NaN });
      await grant.complete();
    });
    await fleet.until('the end', () => a.run.state === 'resolved');
    const said = a.lines.filter(({ event }) => event === 'request.refused');
    expect(said.map(({ fields }) => [fields.split, fields.code]).sort()).toEqual([
      ['s1', 'E_PROGRESS_INVALID'],
      ['s2', 'E_PROGRESS_INVALID'],
    ]);
  });

  test('requests on the seam - that are refused end no process, neither while the worker runs nor after it (R53)', async () => {
    const a = fleet.seam('a');
    await fleet.until('held', () => a.held.size === 2);
    const { coordinator } = a;
    const requests = [
      () => coordinator.commit('s1', { watermark: 1 }, '7'),
      () => coordinator.complete('s1', null, '7'),
      () => coordinator.fail('s1', 'no', '7'),
      () => coordinator.releaseDrained(['s1', 's2'], '7'),
      () => coordinator.giveUp('s1', '7'),
      () => coordinator.commit('s1', { watermark: 1 }, undefined as never),
    ];
    for (const request of requests) void request();
    await realTurns();
    a.client.when(writesTo((key) => key.includes('/splits/'))).delay(30_000);
    void coordinator.commit('s1', { watermark: 1 }, '1');
    void coordinator.stop();
    await fleet.advance(20_000);
    for (const request of requests) void request();
    await realTurns();
    for (const request of requests) await expect(request()).rejects.toThrow();
  });
});

describe('what a service throws where it is told something', () => {
  test.each([
    [
      'throws',
      () => {
        throw new Error('of the listener');
      },
    ],
    ['is async and rejects', () => Promise.reject(new Error('of the listener'))],
  ] as [string, () => unknown][])(
    'a listener that %s - is logged and counted, and everybody else is told (R53)',
    async (_, listener) => {
      const a = fleet.seam('a');
      a.coordinator.listen(listener);
      const heard: string[] = [];
      a.coordinator.listen(({ type }) => heard.push(type));
      await fleet.until('held', () => a.held.size === 2);
      await realTurns();
      expect(heard).toContain('gained');
      const { listenerErrors } = a.coordinator.status();
      expect(listenerErrors).toBe(heard.length);
      const said = a.lines.filter(({ event }) => event === 'listener.threw');
      expect(said).toHaveLength(heard.length);
      expect(said[0]).toMatchObject({ level: 'error' });
      expect(said[0]!.message).toContain('of the listener');
      await a.coordinator.commitNow('s1', { watermark: 1 });
    },
  );

  test('a logger and an inspector - that throw or reject harm nothing (R53)', async () => {
    const reject = (): never => Promise.reject(new Error('no space left')) as never;
    const worker = createWorker({
      job: 'job',
      prefix: 'test',
      store: fleet.store,
      instanceId: 'x',
      planner: finalPlan(['s1']),
      config: CONFIG,
      clock: fleet.clock,
      logger: { debug: reject, info: reject, warn: reject, error: reject },
      inspect: reject,
    });
    const run = watched(worker.run(completeAtOnce));
    await fleet.until('the end', () => run.state !== 'pending');
    await realTurns();
    expect(run.value).toMatchObject({ kind: 'complete' });
  });

  test('a listener - of a worker whose service hears nothing else is told on after it threw', async () => {
    const coordinator = createCoordinator({
      job: 'other',
      store: fleet.store,
      instanceId: 'x',
      planner: finalPlan(['s1', 's2']),
      config: CONFIG,
      clock: fleet.clock,
    });
    let told = 0;
    coordinator.listen(() => {
      told += 1;
      throw new Error('each time');
    });
    coordinator.start();
    await fleet.until('all are told', () => told >= 3);
    expect(coordinator.status().listenerErrors).toBe(told);
    void coordinator.stop();
    await fleet.advance(20_000);
  });
});
