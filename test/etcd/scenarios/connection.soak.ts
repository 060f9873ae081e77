/** Workers that cannot reach etcd, or cannot run: they count time by themselves, and come back by themselves. */
import { afterEach, describe, expect, test } from '@jest/globals';
import { ids } from '../../support/fleet.ts';
import { CONFIG, type EtcdFleet, LEASE_MS, startFleet } from '../support/fleet.ts';
import { startProxy } from '../support/server/proxy.ts';
import { machineMs } from '../support/time-line.ts';
import { patiently } from '../../support/patience.js';

let fleet: EtcdFleet | undefined;
afterEach(async () => {
  await fleet?.close();
  fleet = undefined;
});

/** Timers of a busy machine. */
const SLACK_MS = patiently(500);

describe('a worker without a connection', () => {
  test('self-fence - behind a black hole a worker stops before its lease is over, nobody else starts before, and it comes back', async () => {
    const started = await startFleet({ splits: ['s1', 's2'] });
    fleet = started.fleet;
    const { timeLine } = fleet;
    const proxy = await startProxy(started.server.endpoint);
    const a = fleet.start('a', { store: { endpoints: [proxy.endpoint] } });
    await fleet.until('a works', () => fleet!.watermark('s1') > 2 && fleet!.watermark('s2') > 2);
    fleet.start('b', { config: { maxInFlight: 2 } });
    await fleet.until('both work', () => fleet!.leasesOf('b').length === 1);
    const [held] = fleet.leasesOf('a');
    const split = held!;
    proxy.blackHole();
    const cutMs = machineMs();
    await fleet.until('b works on all', () =>
      timeLine.has({ worker: 'b', what: 'started', split, sinceMs: cutMs }),
    );
    const aborted = timeLine.first({ worker: 'a', what: 'aborted', split, sinceMs: cutMs })!;
    const taken = timeLine.first({ worker: 'b', what: 'started', split, sinceMs: cutMs })!;
    // R10: counted from the sending of the last answered renewal, at the latest the moment of the cut.
    expect(aborted.atMs - cutMs).toBeLessThan(LEASE_MS);
    expect(taken.atMs).toBeGreaterThan(aborted.atMs);
    expect(timeLine.all({ worker: 'a', what: 'lost', split })).toHaveLength(1);
    await fleet.stays(
      'a does nothing',
      () => !timeLine.has({ worker: 'a', what: 'handed', sinceMs: aborted.atMs }),
      Math.max(0, cutMs + 4 * LEASE_MS - machineMs()),
    );
    await proxy.heal();
    const rejoinMs = await fleet.until('a is served again', () => fleet!.leasesOf('a').length > 0);
    expect(rejoinMs).toBeLessThan(LEASE_MS + CONFIG.opTimeoutMs! + 2 * SLACK_MS);
    expect(a.run.state).toBe('pending');
    expect(timeLine.overlaps()).toEqual([]);
    expect(await fleet.verify()).toEqual([]);
  });

  test('self-fence - a worker whose requests arrive and whose answers do not is fenced in the same way', async () => {
    const started = await startFleet({ splits: ['s1'] });
    fleet = started.fleet;
    const { timeLine } = fleet;
    const proxy = await startProxy(started.server.endpoint);
    fleet.start('a', { store: { endpoints: [proxy.endpoint] } });
    await fleet.until('a works', () => fleet!.watermark('s1') > 2);
    fleet.start('b');
    await fleet.until('b is there', () => fleet!.assignment('b') !== null);
    proxy.blackHole('answers');
    const cutMs = machineMs();
    await fleet.until(
      'b works',
      () => timeLine.has({ worker: 'b', what: 'started' }),
      patiently(30_000),
    );
    const aborted = timeLine.first({ worker: 'a', what: 'aborted' })!;
    expect(aborted.atMs - cutMs).toBeLessThan(LEASE_MS);
    const taken = timeLine.first({ worker: 'b', what: 'started' })!;
    expect(taken.atMs).toBeGreaterThan(aborted.atMs);
    await proxy.heal();
    await fleet.until(
      'a is present',
      () => fleet!.workers[0]!.worker.status().presence === 'present',
    );
    expect(timeLine.overlaps()).toEqual([]);
    expect(await fleet.verify()).toEqual([]);
  });
});

describe('a worker whose event loop is blocked', () => {
  test('event loop - blocked for three leases, a process commits nothing more and another one finishes its split', async () => {
    const steps = 60;
    const started = await startFleet({ splits: ['s1'], work: { steps, stepMs: 50 } });
    fleet = started.fleet;
    const { timeLine } = fleet;
    const a = fleet.child('a');
    await fleet.until('a works', () => fleet!.watermark('s1') > 2);
    const b = fleet.start('b', { config: { maxInFlight: 2 } });
    await fleet.until('b is there', () => fleet!.assignment('b') !== null);
    a.tell({ kind: 'block', ms: 3 * LEASE_MS });
    await fleet.until('a goes on', () => timeLine.has({ worker: 'a', what: 'unblocked' }));
    const unblocked = timeLine.first({ worker: 'a', what: 'unblocked' })!;
    await fleet.until('b is done', () => b.run.state === 'resolved');
    await fleet.until('a is told', () => timeLine.has({ worker: 'a', what: 'lost' }));
    await fleet.until('a is refused', () => timeLine.has({ worker: 'a', what: 'ended' }));
    // Nothing is handed over after the block, and its commit is refused.
    expect(timeLine.all({ worker: 'a', what: 'handed', sinceMs: unblocked.atMs })).toEqual([]);
    expect(timeLine.all({ worker: 'a', what: 'committed', sinceMs: unblocked.atMs })).toEqual([]);
    expect(timeLine.all({ worker: 'a', what: 'refused' })).toMatchObject([{ detail: 'E_FENCED' }]);
    expect(timeLine.all({ worker: 'a', what: 'lost', split: 's1' })).toHaveLength(1);
    // Each step of the other one landed once, from where the blocked one left off.
    const epoch = fleet.split('s1')!.epoch;
    const landed = fleet.recorder.entries
      .filter(({ key }) => key === fleet!.keys.split('s1' as never))
      .map(({ value }) => JSON.parse(value!) as { epoch: string; watermark: string })
      .filter((record) => record.epoch === epoch)
      .map(({ watermark }) => Number(watermark));
    const begin = timeLine.first({ worker: 'b', what: 'started' })!.watermark!;
    expect(new Set(landed)).toEqual(
      new Set(Array.from({ length: steps - begin + 1 }, (_, index) => begin + index)),
    );
    expect(begin).toBe(timeLine.last({ worker: 'a', what: 'committed' })!.watermark);
    expect(await fleet.verify()).toEqual([]);
  });
});

describe('a process that is stopped', () => {
  test('stopped process - one that stood still for longer than its lease commits nothing more to what it had, and is served again', async () => {
    const started = await startFleet({ splits: ids(2) });
    fleet = started.fleet;
    const { timeLine } = fleet;
    const zombie = fleet.child('zombie');
    await fleet.until('it holds both', () => fleet!.leasesOf('zombie').length === 2);
    const heir = fleet.start('heir');
    await fleet.until('one each', () =>
      ['zombie', 'heir'].every((id) => fleet!.leasesOf(id).length === 1),
    );
    const [split] = fleet.leasesOf('zombie');
    await fleet.until('it works', () => fleet!.watermark(split!) > 2);
    zombie.pause();
    await fleet.until('the heir works', () => fleet!.leasesOf('heir').length === 2);
    const { epoch } = fleet.split(split!)!;
    const thawedMs = machineMs();
    zombie.resume();
    await fleet.until('it knows', () =>
      timeLine.has({ worker: 'zombie', what: 'lost', split: split!, sinceMs: thawedMs }),
    );
    await fleet.until('it is served again', () => fleet!.leasesOf('zombie').length === 1);
    const stale = fleet.recorder.entries
      .filter(({ key }) => key.endsWith(`splits/${split}`))
      .map(({ value }) => JSON.parse(value!) as { epoch: string; by: { instance: string } })
      .filter(
        ({ epoch: found, by }) => by.instance === 'zombie' && BigInt(found) === BigInt(epoch),
      );
    expect(stale).toEqual([]);
    expect(heir.run.state).toBe('pending');
    expect(await fleet.verify()).toEqual([]);
  });
});
