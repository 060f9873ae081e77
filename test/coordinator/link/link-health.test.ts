import { expect, test } from '@jest/globals';
import { LeaseholdError } from '../../../src/base/errors.ts';
import type { InstanceId } from '../../../src/base/ids.ts';
import { SILENT_LOGGER } from '../../../src/base/logger.ts';
import { virtualClock } from '../../../src/base/virtual-clock.ts';
import { LinkHealth } from '../../../src/coordinator/link/link-health.ts';
import { ChartHost } from '../../../src/coordinator/loop/chart-host.ts';
import { Mailbox } from '../../../src/coordinator/loop/mailbox.ts';
import { workerLog } from '../../../src/coordinator/loop/worker-log.ts';

const LEASE_MS = 9_000;
const PATH = { name: 'read leases/', isLeaders: false };
const DENIED = new LeaseholdError('E_STORE_DENIED', 'not allowed');
const UNREACHABLE = new LeaseholdError('E_STORE_UNREACHABLE', 'no answer');

function healthOf() {
  const clock = virtualClock();
  const crash = (error: unknown): void => {
    throw error as Error;
  };
  const mailbox = new Mailbox(() => undefined, crash);
  const charts = new ChartHost(clock, () => undefined, crash);
  const log = workerLog(SILENT_LOGGER, { job: 'job', instanceId: 'a' });
  let abandoned = 0;
  const health = new LinkHealth(
    { clock, mailbox, charts, log },
    { instance: 'a' as InstanceId, leaseDurationMs: LEASE_MS },
    { abandonAll: () => (abandoned += 1), fatal: crash },
  );
  health.returned();
  return { health, clock, abandoned: () => abandoned };
}

test('link health - a refusal that lasts for a lease costs what is held (R45)', async () => {
  const { health, clock, abandoned } = healthOf();
  health.failed(PATH, DENIED);
  expect(health.state).toBe('denied');
  await clock.advance(LEASE_MS - 1);
  expect(abandoned()).toBe(0);
  await clock.advance(1);
  expect(health.state).toBe('barred');
  expect(abandoned()).toBe(1);
});

test('link health - what was refused and fails in another way since is refused no more', async () => {
  const { health, clock, abandoned } = healthOf();
  health.failed(PATH, DENIED);
  health.failed(PATH, UNREACHABLE);
  expect(health.state).toBe('failing');
  await clock.advance(2 * LEASE_MS);
  expect(abandoned()).toBe(0);
  health.worked(PATH);
  expect(health.state).toBe('serving');
});
