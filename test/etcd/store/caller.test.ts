/** How the etcd store divides the time of one call; no etcd is needed for it. */
import { expect, test } from '@jest/globals';
import { systemClock } from '../../../src/base/clock.ts';
import { etcdStore } from '../../../src/store/etcd/index.ts';
import { expectCode } from '../../store/support.ts';
import { freePort } from '../support/server/ports.ts';

test('etcd store - a read that goes on to the next member when its time is up is tried for a moment, and then unreachable', async () => {
  const system = systemClock();
  let atMs = 0;
  const delays: number[] = [];
  const store = etcdStore({
    // Nobody listens there.
    endpoints: [`http://127.0.0.1:${await freePort()}`, `http://127.0.0.1:${await freePort()}`],
    clock: {
      ...system,
      nowMs: () => atMs,
      setTimeout: (callback, delayMs) => {
        delays.push(delayMs);
        return system.setTimeout(callback, delayMs);
      },
    },
  });
  const answer = store.read({ keys: ['a'] }, {}, { timeoutMs: 200 });
  // As if the event loop had been blocked while the first try was on its way.
  atMs = 60_000;
  await expectCode(answer, 'E_STORE_UNREACHABLE');
  expect(delays).toEqual([100, 1]);
  await store.close();
});
