/** What a fleet costs a store, and a store that is full: workers wait, and lose nothing. */
import { afterEach, describe, expect, test } from '@jest/globals';
import { ids } from '../../support/fleet.ts';
import { type EtcdFleet, LEASE_MS, startFleet } from '../support/fleet.ts';
import { type Gateway, GatewayError } from '../support/server/gateway.ts';
import { machineMs } from '../support/time-line.ts';
import { patiently } from '../../support/patience.js';

let fleet: EtcdFleet | undefined;
afterEach(async () => {
  await fleet?.close();
  fleet = undefined;
});

describe('a small store', () => {
  test('quota - when the store is full commits wait, nothing is lost, and they land in order once there is room', async () => {
    const splits = ids(4);
    const steps = 80;
    const started = await startFleet(
      { splits, work: { steps, stepMs: 50 } },
      { quotaBytes: 2 * 1024 * 1024 },
    );
    fleet = started.fleet;
    const { gateway } = started.server;
    const { timeLine } = fleet;
    const workers = [fleet.start('a'), fleet.start('b')];
    await fleet.until('all work', () => splits.every((id) => fleet!.watermark(id) > 2));
    await fill(gateway);
    const fullMs = machineMs();
    const before = fleet.watermarks(splits);
    await fleet.stays('all are held', () => fleet!.under('leases/').length === 4, 5 * LEASE_MS);
    // Full: nothing was committed all the while.
    expect(fleet.watermarks(splits)).toEqual(before);
    // Nothing was handed over for lack of room, and nobody was started.
    expect(timeLine.all({ what: 'started', sinceMs: fullMs })).toEqual([]);
    expect(timeLine.all({ what: 'ended', sinceMs: fullMs })).toEqual([]);
    await makeRoom(gateway);
    await fleet.until(
      'the job ends',
      () => workers.every(({ run }) => run.state === 'resolved'),
      patiently(25_000),
    );
    expect(workers.map(({ run }) => run.value?.kind)).toEqual(['complete', 'complete']);
    expect(timeLine.all({ what: 'lost' })).toEqual([]);
    expect(timeLine.all({ what: 'sessionLost' })).toEqual([]);
    // Each step landed once, in order.
    for (const split of splits) {
      const landed = fleet.recorder.entries
        .filter(({ key }) => key === fleet!.keys.split(split as never))
        .map(({ value }) => JSON.parse(value!) as { status: string; watermark: string | null })
        .filter(({ status, watermark }) => status === 'runnable' && watermark !== null)
        .map(({ watermark }) => Number(watermark))
        // A hand-over writes the record, and leaves the watermark.
        .filter((watermark, index, all) => watermark !== all[index - 1]);
      expect(landed).toEqual(Array.from({ length: steps }, (_, index) => index + 1));
    }
    expect(await fleet.verify()).toEqual([]);
  });
});

const FILLER = 'filler-';

async function fill(gateway: Gateway): Promise<void> {
  try {
    for (let part = 0; part < 100; part += 1) {
      await gateway.put(`${FILLER}${part}`, 'x'.repeat(100_000));
    }
  } catch (error) {
    if (error instanceof GatewayError && error.message.includes('space exceeded')) return;
    throw error;
  }
  throw new Error('the store takes more than its quota');
}

/** What an operator does: deletes, compacts, defragments and clears the alarm. */
async function makeRoom(gateway: Gateway): Promise<void> {
  for (const { key } of await gateway.list(FILLER)) await gateway.delete(key);
  await gateway.compact((await gateway.position()).revision);
  await gateway.call('maintenance/defragment', {});
  const { alarms } = (await gateway.call('maintenance/alarm', { action: 'GET' })) as {
    alarms?: { memberID: string; alarm: string }[];
  };
  for (const { memberID, alarm } of alarms ?? []) {
    await gateway.call('maintenance/alarm', { action: 'DEACTIVATE', memberID, alarm });
  }
}
