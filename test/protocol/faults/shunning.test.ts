import { describe, expect, test } from '@jest/globals';
import type { InstanceId, SplitId } from '../../../src/base/ids.ts';
import { type Host, Shunning } from '../../../src/protocol/faults/shunning.ts';

const LEASE_MS = 10_000;
const host = (name: string, fields: Partial<Host> = {}): Host => ({
  instance: name as InstanceId,
  isUsable: true,
  hasRoom: true,
  isBusy: true,
  getsOn: true,
  ...fields,
});
const failure = (split: string, instance: string, fields: object = {}) => ({
  split: split as SplitId,
  instance: instance as InstanceId,
  counted: false,
  needsOther: false,
  failures: 1,
  ...fields,
});
const plain = ({ barred, instances }: ReturnType<Shunning['look']>) => ({
  barred: Object.fromEntries(barred),
  instances: [...instances],
});

describe('a split that fails where nothing else progresses', () => {
  test('a failure without a witness - bars the instance for the split while a sound one has room (R49)', () => {
    const shunning = new Shunning(LEASE_MS);
    shunning.failed(failure('s0', 'a'), 0);
    expect(plain(shunning.look([host('a'), host('b')], 1)).barred).toEqual({ s0: ['a'] });
    expect(plain(shunning.look([host('a'), host('b', { hasRoom: false })], 2)).barred).toEqual({});
    expect(plain(shunning.look([host('a'), host('b', { isUsable: false })], 3)).barred).toEqual({});
    expect(plain(shunning.look([host('a')], 4)).barred).toEqual({});
  });

  test('a failure without a witness - bars nobody while it is the same everywhere (R49)', () => {
    const shunning = new Shunning(LEASE_MS);
    shunning.failed(failure('s0', 'a'), 0);
    shunning.failed(failure('s1', 'b'), 0);
    expect(plain(shunning.look([host('a'), host('b')], 1))).toEqual({ barred: {}, instances: [] });
  });

  test('a bar - ends after ten leases, with the split, and with progress at the instance (R49)', () => {
    const shunning = new Shunning(LEASE_MS);
    const hosts = [host('a'), host('b')];
    shunning.failed(failure('s0', 'a'), 0);
    expect(shunning.look(hosts, 1).nextDueMs).toBe(10 * LEASE_MS);
    expect(plain(shunning.look(hosts, 10 * LEASE_MS)).barred).toEqual({});
    shunning.failed(failure('s0', 'a'), 0);
    shunning.forget('s0' as SplitId);
    expect(plain(shunning.look(hosts, 1)).barred).toEqual({});
    shunning.failed(failure('s0', 'a'), 0);
    shunning.failed(failure('s1', 'a', { counted: true }), 0);
    expect(plain(shunning.look(hosts, 1)).barred).toEqual({});
  });

  test('what fails again and again - is not named where nothing else runs, while somewhere something does (R49)', () => {
    const shunning = new Shunning(LEASE_MS);
    shunning.failed(failure('s0', 'a', { failures: 2 }), 0);
    const idle = { isBusy: false };
    const hosts = [host('a', idle), host('b', idle), host('c')];
    expect(plain(shunning.look(hosts, 1)).barred).toEqual({ s0: ['a', 'b'] });
    expect(plain(shunning.look([host('a', idle), host('b', idle)], 2)).barred).toEqual({
      s0: ['a'],
    });
  });

  test('a split that fails at one instance alone - is named for another before it is judged (R49)', () => {
    const shunning = new Shunning(LEASE_MS);
    shunning.failed(failure('s0', 'a', { counted: true, needsOther: true }), 0);
    expect(plain(shunning.look([host('a'), host('b')], 1)).barred).toEqual({ s0: ['a'] });
    expect(plain(shunning.look([host('a'), host('b', { hasRoom: false })], 1)).barred).toEqual({});
  });
});

describe('an instance where everything fails', () => {
  const sicken = (shunning: Shunning, nowMs: number): void => {
    for (const split of ['s0', 's1', 's2']) shunning.failed(failure(split, 'a'), nowMs);
  };
  const hosts = [host('a'), host('b')];

  test('a sick instance - gets nothing new for a lease, doubling to ten minutes, while others are sound (R49)', () => {
    const shunning = new Shunning(LEASE_MS);
    let nowMs = 0;
    const lengths: number[] = [];
    for (let round = 0; round < 8; round += 1) {
      sicken(shunning, nowMs);
      const { instances, nextDueMs } = shunning.look(hosts, nowMs);
      expect([...instances]).toEqual(['a']);
      lengths.push(Math.min(nextDueMs!, nowMs + 600_000) - nowMs);
      nowMs += Math.min(600_000, LEASE_MS * 2 ** round);
      expect([...shunning.look(hosts, nowMs).instances]).toEqual([]);
    }
    expect(lengths.slice(0, 4)).toEqual([10_000, 20_000, 40_000, 80_000]);
  });

  test('a sick instance - is given work again with the first progress there, and from the start (R49)', () => {
    const shunning = new Shunning(LEASE_MS);
    sicken(shunning, 0);
    shunning.look(hosts, 0);
    shunning.worked('a' as InstanceId);
    expect(plain(shunning.look(hosts, 1))).toEqual({ barred: {}, instances: [] });
    sicken(shunning, 1);
    expect(shunning.look(hosts, 1).nextDueMs).toBe(1 + LEASE_MS);
  });

  test('an outage that all share - shuns nobody (R49)', () => {
    const shunning = new Shunning(LEASE_MS);
    sicken(shunning, 0);
    shunning.failed(failure('s7', 'b'), 0);
    expect(plain(shunning.look(hosts, 1)).instances).toEqual([]);
  });

  test('an instance that was given another chance - is no proof that an outage is over (R49)', () => {
    const shunning = new Shunning(LEASE_MS);
    sicken(shunning, 0);
    const idle = [host('a'), host('b', { getsOn: false })];
    expect(plain(shunning.look(idle, 1)).instances).toEqual([]);
    expect(plain(shunning.look(hosts, 2)).instances).toEqual(['a']);
  });

  test('an instance that left - is forgotten (R49)', () => {
    const shunning = new Shunning(LEASE_MS);
    sicken(shunning, 0);
    shunning.look([host('b')], 1);
    expect(plain(shunning.look(hosts, 2))).toEqual({ barred: {}, instances: [] });
  });
});
