/** Who owns a split, and how it changes hands, on a real etcd in real time. */
import { afterEach, describe, expect, test } from '@jest/globals';
import type { Grant } from '../../src/driver/grant.ts';
import { finalPlan, ids } from '../support/fleet.ts';
import { CONFIG, type EtcdFleet, LEASE_MS, startFleet } from './support/fleet.ts';
import { machineMs } from './support/time-line.ts';
import { steadyWork } from './support/work.ts';

let fleet: EtcdFleet | undefined;
afterEach(async () => {
  await fleet?.close();
  fleet = undefined;
});

/** What a busy machine may need beside the times of the protocol. */
const SLACK_MS = 1_000;

/** Waits until each of the workers holds this many splits. */
async function settled(each: number, ...workers: string[]): Promise<void> {
  await fleet!.until(`each holds ${each}`, () =>
    workers.every((id) => fleet!.leasesOf(id).length === each),
  );
}

describe('ownership', () => {
  test('ownership - of workers that start at once one leads, and each split is worked on once to its end', async () => {
    const splits = ids(12);
    let plans = 0;
    const plan = finalPlan(splits);
    const planner = {
      fingerprint: plan.fingerprint,
      plan: (request: Parameters<typeof plan.plan>[0]) => {
        plans += 1;
        return plan.plan(request);
      },
    };
    const started = await startFleet({ planner, work: { steps: 10, stepMs: 30 } });
    fleet = started.fleet;
    const workers = ids(4, 'worker-').map((id) => fleet!.worker(id));
    await fleet.until('the job ends', () => workers.every(({ run }) => run.state !== 'pending'));
    for (const { run } of workers)
      expect(run.value).toMatchObject({ kind: 'complete', completed: 12 });
    expect(plans).toBe(1);
    expect(fleet.timeLine.all({ what: 'leadershipGained' })).toHaveLength(1);
    expect(fleet.timeLine.all({ what: 'lost' })).toEqual([]);
    for (const split of splits) {
      expect(fleet.timeLine.all({ what: 'completed', split })).toHaveLength(1);
      expect(
        fleet.timeLine.all({ what: 'committed', split }).map(({ watermark }) => watermark),
      ).toEqual(Array.from({ length: 10 }, (_, index) => index + 1));
    }
    expect(fleet.timeLine.overlaps()).toEqual([]);
    expect(await fleet.verify()).toEqual([]);
  });

  test('ownership - the splits of a killed worker go on elsewhere from their last commit, soon after its lease', async () => {
    const splits = ids(4);
    const started = await startFleet({ splits });
    fleet = started.fleet;
    const { timeLine } = fleet;
    const victim = fleet.child('victim');
    fleet.worker('heir');
    await settled(2, 'victim', 'heir');
    const held = fleet.leasesOf('victim');
    await fleet.until('it works', () =>
      held.every((split) => timeLine.has({ worker: 'victim', what: 'committed', split })),
    );
    await victim.kill();
    const killedMs = machineMs();
    await settled(4, 'heir');
    expect(machineMs() - killedMs).toBeLessThan(LEASE_MS + CONFIG.rebalanceDelayMs! + SLACK_MS);
    for (const split of held) {
      const last = timeLine.last({ worker: 'victim', what: 'committed', split })!;
      await fleet.until('the heir works', () =>
        timeLine.has({ worker: 'heir', what: 'started', split }),
      );
      const again = timeLine.last({ worker: 'heir', what: 'started', split })!;
      expect(again.watermark! - last.watermark!).toBeGreaterThanOrEqual(0);
      expect(again.watermark! - last.watermark!).toBeLessThanOrEqual(1);
      expect(Number(again.epoch)).toBeGreaterThan(Number(last.epoch));
    }
    expect(timeLine.overlaps()).toEqual([]);
    expect(await fleet.verify()).toEqual([]);
  });

  test('ownership - a worker that is stopped hands its splits over without anybody waiting for its lease', async () => {
    const started = await startFleet({ splits: ids(4) });
    fleet = started.fleet;
    const { timeLine } = fleet;
    const leaver = fleet.worker('leaver');
    fleet.worker('heir');
    await settled(2, 'leaver', 'heir');
    const held = fleet.leasesOf('leaver');
    await fleet.until('it works', () =>
      held.every((split) => timeLine.has({ worker: 'leaver', what: 'committed', split })),
    );
    const stoppedMs = machineMs();
    const report = await leaver.worker.stop();
    expect([...report.released].sort()).toEqual(held);
    expect(report).toMatchObject({ reason: 'stopped', forced: [], unsettled: [] });
    await settled(4, 'heir');
    expect(machineMs() - stoppedMs).toBeLessThan(LEASE_MS / 2);
    for (const split of held) {
      const last = timeLine.last({ worker: 'leaver', what: 'committed', split })!;
      const again = timeLine.last({ worker: 'heir', what: 'started', split })!;
      expect(again.watermark).toBe(last.watermark);
      expect(fleet.split(split)?.attempts).toBe(0);
    }
    expect(timeLine.overlaps()).toEqual([]);
    expect(await fleet.verify()).toEqual([]);
  });

  test('ownership - a killed worker that comes back under its name takes its own splits again, and nobody else moves', async () => {
    const started = await startFleet({
      splits: ids(4),
      // It is back before anybody may have its splits.
      config: { rebalanceDelayMs: 10_000 },
    });
    fleet = started.fleet;
    const { timeLine } = fleet;
    fleet.worker('other');
    const former = fleet.child('again');
    await settled(2, 'again', 'other');
    const held = fleet.leasesOf('again');
    await former.kill();
    const killedMs = machineMs();
    fleet.worker('again');
    await fleet.until('its splits are worked on', () =>
      held.every((split) =>
        timeLine.has({ worker: 'again', what: 'started', split, sinceMs: killedMs }),
      ),
    );
    expect(machineMs() - killedMs).toBeLessThan(LEASE_MS);
    expect(fleet.leasesOf('again')).toEqual(held);
    expect(timeLine.all({ worker: 'other', what: 'started', sinceMs: killedMs })).toEqual([]);
    expect(timeLine.overlaps()).toEqual([]);
    expect(await fleet.verify()).toEqual([]);
  });

  test('ownership - of two live workers of one name exactly one dies, and says which name', async () => {
    const started = await startFleet({ splits: ids(2) });
    fleet = started.fleet;
    const twins = [fleet.worker('twin')];
    await settled(2, 'twin');
    twins.push(fleet.worker('twin'));
    await fleet.until('one dies', () => twins.some(({ run }) => run.state === 'rejected'));
    const dead = twins.filter(({ run }) => run.state === 'rejected');
    const alive = twins.filter(({ run }) => run.state === 'pending');
    expect([dead.length, alive.length]).toEqual([1, 1]);
    expect((dead[0]!.run.error as Error).message).toMatch(/instanceId.*twin/);
    const before = fleet.watermarks(ids(2));
    await fleet.until('the other one works', () => fleet!.areServed(ids(2), before));
    await fleet.stays('it lives', () => alive[0]!.run.state === 'pending', LEASE_MS);
    expect(await fleet.verify()).toEqual([]);
  });

  test('ownership - a process that stood still for longer than its lease commits nothing more to what it had, and is served again', async () => {
    const started = await startFleet({ splits: ids(2) });
    fleet = started.fleet;
    const { timeLine } = fleet;
    const zombie = fleet.child('zombie');
    await settled(2, 'zombie');
    const heir = fleet.worker('heir');
    await settled(1, 'zombie', 'heir');
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

describe('balance', () => {
  test('balance - a newcomer gets its share, drained at a boundary, and what stays is not interrupted', async () => {
    const splits = ids(6);
    const started = await startFleet({ splits });
    fleet = started.fleet;
    const { timeLine } = fleet;
    fleet.worker('a');
    await settled(6, 'a');
    await fleet.until('it works', () => splits.every((id) => fleet!.watermark(id) > 2));
    const joinedMs = machineMs();
    fleet.worker('b');
    await settled(3, 'a', 'b');
    expect(machineMs() - joinedMs).toBeLessThan(LEASE_MS);
    for (const split of fleet.leasesOf('b')) {
      await fleet.until('b works', () => timeLine.has({ worker: 'b', what: 'started', split }));
      const again = timeLine.first({ worker: 'b', what: 'started', split })!;
      expect(again.watermark).toBe(
        timeLine.last({ worker: 'a', what: 'committed', split })!.watermark,
      );
    }
    for (const split of fleet.leasesOf('a')) {
      expect(timeLine.all({ what: 'started', split })).toHaveLength(1);
    }
    expect(timeLine.all({ what: 'lost' })).toEqual([]);
    expect(timeLine.overlaps()).toEqual([]);
    expect(await fleet.verify()).toEqual([]);
  });

  test('balance - a split whose handler does not hand it back is taken at the drain deadline, and its late commit is refused', async () => {
    const splits = ids(2);
    const started = await startFleet({ splits });
    fleet = started.fleet;
    const { timeLine } = fleet;
    const note = timeLine.noteFor('deaf');
    const late: Promise<unknown>[] = [];
    const deaf = async (grant: Grant): Promise<void> => {
      note({ what: 'started', split: grant.split.id, epoch: grant.epoch });
      await grant.commit({ watermark: 5 });
      await new Promise<void>((resolve) => {
        grant.lost.addEventListener('abort', () => {
          note({ what: 'aborted', split: grant.split.id, epoch: grant.epoch });
          resolve();
        });
      });
      late.push(
        grant.commit({ watermark: 6 }).catch((error: unknown) => (error as { code: string }).code),
      );
    };
    fleet.worker('deaf', { handler: deaf });
    await fleet.until('both are committed', () => splits.every((id) => fleet!.watermark(id) === 5));
    const joinedMs = machineMs();
    fleet.worker('b');
    await fleet.until('b works', () => timeLine.has({ worker: 'b', what: 'started' }));
    const asked = timeLine.first({ worker: 'deaf', what: 'revokeRequested', sinceMs: joinedMs })!;
    const taken = timeLine.first({ worker: 'b', what: 'started' })!;
    expect(taken.atMs - asked.atMs).toBeGreaterThanOrEqual(CONFIG.drainDeadlineMs! - 50);
    expect(taken.atMs - asked.atMs).toBeLessThan(CONFIG.drainDeadlineMs! + SLACK_MS);
    expect(taken).toMatchObject({ split: asked.split, watermark: 5 });
    expect(timeLine.first({ what: 'lost' })).toMatchObject({
      split: asked.split,
      detail: 'revoked',
    });
    expect(await Promise.all(late)).toEqual(['E_FENCED']);
    expect(timeLine.overlaps()).toEqual([]);
    expect(await fleet.verify()).toEqual([]);
  });

  test('balance - nobody holds more than its lanes, and what waits is done when one is free', async () => {
    const splits = ids(9);
    const started = await startFleet({
      splits,
      config: { maxInFlight: 2 },
      work: { steps: 5, stepMs: 40 },
    });
    fleet = started.fleet;
    const workers = ['a', 'b'].map((id) => fleet!.worker(id));
    await fleet.until('the job ends', () => workers.every(({ run }) => run.state !== 'pending'));
    expect(workers.map(({ run }) => run.value?.completed)).toEqual([9, 9]);
    expect(mostLeasesAtOnce(fleet)).toEqual(
      new Map([
        ['a', 2],
        ['b', 2],
      ]),
    );
    expect(await fleet.verify()).toEqual([]);
  });

  test('quarantine - a split that fails each time is parked, the others are done, and the verdict names it', async () => {
    const splits = ids(4);
    const started = await startFleet({ splits, work: { steps: 5, stepMs: 30 } });
    fleet = started.fleet;
    const workers = ['a', 'b'].map((id) => {
      const good = steadyWork(fleet!.timeLine.noteFor(id), { steps: 5, stepMs: 30 });
      return fleet!.worker(id, {
        handler: (grant) => {
          if (grant.split.id === 's0') throw new Error('poison');
          return good(grant);
        },
      });
    });
    await fleet.until('the job ends', () => workers.every(({ run }) => run.state !== 'pending'));
    for (const { run, events } of workers) {
      const verdict = { kind: 'stalled', completed: 3, quarantined: 1, quarantinedIds: ['s0'] };
      expect(run.value).toEqual(verdict);
      expect(events.find(({ type }) => type === 'quarantined')).toMatchObject({
        splitId: 's0',
        attempts: CONFIG.maxAttempts,
        reason: 'poison',
      });
    }
    expect(fleet.timeLine.all({ what: 'gained', split: 's0' })).toHaveLength(CONFIG.maxAttempts!);
    expect(fleet.split('s0')).toMatchObject({ status: 'quarantined', owner: null });
    expect(await fleet.verify()).toEqual([]);
  });
});

/** The most leases that each instance held at the same time, by the history. */
function mostLeasesAtOnce({ recorder }: EtcdFleet): Map<string, number> {
  const owners = new Map<string, string>();
  const most = new Map<string, number>();
  for (const { key, value } of recorder.entries) {
    if (!key.includes('/leases/')) continue;
    if (value === null) {
      owners.delete(key);
      continue;
    }
    const { owner } = JSON.parse(value) as { owner: string };
    owners.set(key, owner);
    const held = [...owners.values()].filter((other) => other === owner).length;
    most.set(owner, Math.max(most.get(owner) ?? 0, held));
  }
  return new Map([...most].sort());
}
