import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { SessionId } from '../../../src/base/ids.ts';
import type { Batch } from '../../../src/store/port.ts';
import { watched } from '../../support/fleet.ts';
import { type Parts, parts, TIMEOUT_MS } from '../../support/parts.ts';

let it: Parts;
beforeEach(() => {
  it = parts();
});
afterEach(() => {
  it.gate.close();
});

const BATCH: Batch = {
  guard: [],
  txns: [{ compares: [], writes: [{ put: 'k', value: 'v', session: null }], onConflict: [] }],
};
const SESSION = 's' as SessionId;

const CALLS = {
  transact: () => it.gate.transact(BATCH),
  read: () => it.gate.read({ prefix: '' }),
  readAll: () => it.gate.readAll({ prefix: '' }),
  readKeys: () => it.gate.readKeys(['k']),
  openSession: () => it.gate.openSession(SESSION, 9_000),
  keepAlive: () => it.gate.keepAlive(SESSION, TIMEOUT_MS),
  closeSession: () => it.gate.closeSession(SESSION),
} as const;
const NAMES = Object.keys(CALLS) as (keyof typeof CALLS)[];

describe('store gate', () => {
  test.each(NAMES)(
    '%s - that is not answered in time ends: a write as unknown, a read in vain (R1)',
    async (name) => {
      it.client.partition({ silent: true });
      const call = watched<unknown>(CALLS[name]());
      await it.clock.advance(TIMEOUT_MS - 1);
      expect(call.state).toBe('pending');
      await it.clock.advance(1);
      const isRead = name.startsWith('read');
      expect(call.error).toMatchObject({
        code: isRead ? 'E_STORE_UNREACHABLE' : 'E_OUTCOME_UNKNOWN',
        kind: isRead ? 'unavailable' : 'indeterminate',
      });
      expect((call.error as Error).message).toContain(`${TIMEOUT_MS} ms`);
      expect(it.gate.inFlight).toBe(0);
      expect(it.timers.size).toBe(0);
    },
  );

  test.each(NAMES)(
    '%s - in flight when the gate closes is given up at once, and its answer is ignored (R17)',
    async (name) => {
      it.client.when('any').delay(500);
      const call = watched<unknown>(CALLS[name]());
      await it.clock.advance(100);
      expect(it.gate.inFlight).toBe(1);
      it.gate.close();
      await it.clock.settle();
      expect(call.error).toMatchObject({ code: 'E_STOPPED' });
      expect(it.gate.inFlight).toBe(0);
      expect(it.timers.size).toBe(0);
      await it.clock.advance(5_000);
      expect(call.state).toBe('rejected');
    },
  );

  test.each(NAMES)('%s - after close never reaches the store (R17)', async (name) => {
    it.gate.close();
    const call = watched<unknown>(CALLS[name]());
    await it.clock.settle();
    expect(call.error).toMatchObject({ code: 'E_STOPPED' });
    expect(it.client.log).toEqual([]);
  });

  test('an answer in time - is passed on, error or value, and leaves no timer', async () => {
    await it.gate.transact(BATCH);
    const { entries, revision } = await it.gate.readKeys(['k', 'absent']);
    expect([...entries.keys()]).toEqual(['k']);
    expect(revision).toBe(it.store.revision);
    await expect(it.gate.keepAlive(SESSION, TIMEOUT_MS)).rejects.toMatchObject({
      code: 'E_LEASE_EXPIRED',
    });
    expect(it.timers.size).toBe(0);
  });

  test('keepAlive - waits no longer than it is told, nor than one operation', async () => {
    it.client.partition({ silent: true });
    const short = watched(it.gate.keepAlive(SESSION, 200));
    const long = watched(it.gate.keepAlive(SESSION, 60_000));
    await it.clock.advance(200);
    expect([short.state, long.state]).toEqual(['rejected', 'pending']);
    await it.clock.advance(TIMEOUT_MS - 200);
    expect(long.state).toBe('rejected');
  });
});
