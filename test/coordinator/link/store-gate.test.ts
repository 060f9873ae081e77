import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { SessionId } from '../../../src/base/ids.ts';
import type { Batch } from '../../../src/store/port.ts';
import { watched } from '../../support/fleet.ts';
import { type Parts, parts, TIMEOUT_MS } from '../../support/parts.ts';

let rig: Parts;
beforeEach(() => {
  rig = parts();
});
afterEach(() => {
  rig.gate.close();
});

const BATCH: Batch = {
  guard: [],
  txns: [{ compares: [], writes: [{ put: 'k', value: 'v', session: null }], onConflict: [] }],
};
const SESSION = 's' as SessionId;

const CALLS = {
  transact: () => rig.gate.transact(BATCH),
  read: () => rig.gate.read({ prefix: '' }),
  readAll: () => rig.gate.readAll({ prefix: '' }),
  readKeys: () => rig.gate.readKeys(['k']),
  openSession: () => rig.gate.openSession(SESSION, 9_000),
  keepAlive: () => rig.gate.keepAlive(SESSION, TIMEOUT_MS),
  closeSession: () => rig.gate.closeSession(SESSION),
} as const;
const NAMES = Object.keys(CALLS) as (keyof typeof CALLS)[];

describe('store gate', () => {
  test.each(NAMES)(
    '%s - that is not answered in time ends: a write as unknown, a read in vain (R1)',
    async (name) => {
      rig.client.partition({ silent: true });
      const call = watched<unknown>(CALLS[name]());
      await rig.clock.advance(TIMEOUT_MS - 1);
      expect(call.state).toBe('pending');
      await rig.clock.advance(1);
      const isRead = name.startsWith('read');
      expect(call.error).toMatchObject({
        code: isRead ? 'E_STORE_UNREACHABLE' : 'E_OUTCOME_UNKNOWN',
        kind: isRead ? 'unavailable' : 'indeterminate',
      });
      expect((call.error as Error).message).toContain(`${TIMEOUT_MS} ms`);
      expect(rig.gate.inFlight).toBe(0);
      expect(rig.timers.size).toBe(0);
    },
  );

  test.each(NAMES)(
    '%s - in flight when the gate closes is given up at once, and its answer is ignored (R17)',
    async (name) => {
      rig.client.when('any').delay(500);
      const call = watched<unknown>(CALLS[name]());
      await rig.clock.advance(100);
      expect(rig.gate.inFlight).toBe(1);
      rig.gate.close();
      await rig.clock.settle();
      expect(call.error).toMatchObject({ code: 'E_STOPPED' });
      expect(rig.gate.inFlight).toBe(0);
      expect(rig.timers.size).toBe(0);
      await rig.clock.advance(5_000);
      expect(call.state).toBe('rejected');
    },
  );

  test.each(NAMES)('%s - after close never reaches the store (R17)', async (name) => {
    rig.gate.close();
    const call = watched<unknown>(CALLS[name]());
    await rig.clock.settle();
    expect(call.error).toMatchObject({ code: 'E_STOPPED' });
    expect(rig.client.log).toEqual([]);
  });

  test('an answer in time - is passed on, error or value, and leaves no timer', async () => {
    await rig.gate.transact(BATCH);
    const { entries, revision } = await rig.gate.readKeys(['k', 'absent']);
    expect([...entries.keys()]).toEqual(['k']);
    expect(revision).toBe(rig.store.revision);
    await expect(rig.gate.keepAlive(SESSION, TIMEOUT_MS)).rejects.toMatchObject({
      code: 'E_LEASE_EXPIRED',
    });
    expect(rig.timers.size).toBe(0);
  });

  test('keepAlive - waits no longer than it is told, nor than one operation', async () => {
    rig.client.partition({ silent: true });
    const short = watched(rig.gate.keepAlive(SESSION, 200));
    const long = watched(rig.gate.keepAlive(SESSION, 60_000));
    await rig.clock.advance(200);
    expect([short.state, long.state]).toEqual(['rejected', 'pending']);
    await rig.clock.advance(TIMEOUT_MS - 200);
    expect(long.state).toBe('rejected');
  });
});
