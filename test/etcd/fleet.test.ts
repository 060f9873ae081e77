/** A fleet of real workers on a real etcd: two in this process, one in a process that is killed in the midst of its work. */
import { afterEach, expect, test } from '@jest/globals';
import { ids } from '../support/fleet.ts';
import { type EtcdFleet, LEASE_MS, startFleet } from './support/fleet.ts';
import { machineMs } from './support/time-line.ts';
import { patiently } from '../support/patience.js';

const LAST = 5;
const LANES = 5;
const SPLITS = ids(40);

let fleet: EtcdFleet;
afterEach(() => fleet.close());

test('fleet - three workers on etcd complete forty splits, though one of them is killed', async () => {
  const config = { rebalanceDelayMs: 0, maxInFlight: LANES };
  ({ fleet } = await startFleet({ splits: SPLITS, config, work: { steps: LAST, stepMs: 20 } }));
  // It never gets further than its first commits.
  const victim = fleet.child('victim', { work: { stepMs: LEASE_MS / 3 } });
  const working = (): string[] => fleet.leasesOf('victim').filter((id) => fleet.watermark(id) > 0);
  await fleet.until('the victim works', () => working().length === LANES);
  const taken = working();
  const others = ['first', 'second'].map((id) => fleet.start(id));
  await fleet.until('all work', () =>
    ['first', 'second'].every((id) => fleet.timeLine.has({ worker: id, what: 'completed' })),
  );
  await victim.kill();
  const killedMs = machineMs();
  await fleet.until('the end', () => others.every(({ run }) => run.state !== 'pending'));
  // The victim's splits waited for its lease; after it, everything is quick.
  expect(machineMs() - killedMs).toBeLessThan(patiently(3 * LEASE_MS));
  for (const { run } of others) {
    expect(run.value).toMatchObject({ kind: 'complete', completed: 40, quarantined: 0 });
  }
  const begun = fleet.timeLine.all({ what: 'started', sinceMs: killedMs });
  for (const id of taken) expect(begun.map(({ split }) => split)).toContain(id);
  for (const id of SPLITS) {
    expect(fleet.split(id)?.status).toBe('completed');
    expect(fleet.watermark(id)).toBeGreaterThanOrEqual(LAST);
  }
  expect(fleet.timeLine.overlaps()).toEqual([]);
  expect(await fleet.verify()).toEqual([]);
  await Promise.all(others.map(({ worker }) => worker.stop()));
  await fleet.recorder.settled();
  for (const part of ['leases/', 'workers/', 'leader']) expect(fleet.under(part)).toEqual([]);
});
