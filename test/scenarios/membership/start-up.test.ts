/** Processes that start while others do, or that are stopped in the middle of it. */
import { expect, test } from '@jest/globals';
import { LEASE_MS, watched } from '../../support/fleet.ts';
import { fleet, startFleet } from '../../support/scenario.ts';

test('a joiner - that heard of no plan, and then finds splits, looks for the plan again (R42)', async () => {
  await startFleet();
  const { plan } = fleet.keys;
  const late = fleet.seam('late');
  const end = watched(late.coordinator.verdict());
  const rule = late.client
    .when((call) => call.kind === 'read' && 'keys' in call.range && call.range.keys.includes(plan))
    .delayAnswer(1_500, { times: 1 });
  fleet.seam('early');
  await fleet.until('the plan is stored', () => fleet.plan()?.sealed === true, 1_400);
  expect(rule.hits).toBe(1);
  await fleet.until('the late one is there', () => fleet.leasesOf('late').length > 0, LEASE_MS);
  expect(end.state).toBe('pending');
});

test('a process - stopped for longer than a lease while it tries the store out does not accuse the store', async () => {
  await startFleet();
  const slow = fleet.seam('slow');
  const end = watched(slow.coordinator.verdict());
  let isFrozen = false;
  // Stopped between a put under the session of the trial and the look at it.
  slow.client
    .when((call) => {
      const putsUnderSession =
        call.kind === 'transact' &&
        call.batch.txns.some(({ writes }) =>
          writes.some((write) => 'put' in write && write.session !== null),
        );
      if (!putsUnderSession || isFrozen) return false;
      isFrozen = true;
      queueMicrotask(() => {
        slow.freeze('stops');
      });
      return false;
    })
    .delay(0);
  await fleet.until('it is stopped', () => isFrozen, 5_000);
  await fleet.advance(2 * LEASE_MS);
  slow.thaw();
  await fleet.until('it is there', () => fleet.leasesOf('slow').length > 0, 2 * LEASE_MS);
  expect(end.state).toBe('pending');
});
