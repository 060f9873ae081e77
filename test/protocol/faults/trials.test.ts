import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { InstanceId, SplitId } from '../../../src/base/ids.ts';
import { trialAgeMs } from '../../../src/protocol/faults/suspicion.ts';
import {
  placeSuspects,
  type SuspectSplit,
  type TrialHost,
} from '../../../src/protocol/faults/trials.ts';

const suspect = (
  id: string,
  fields: Partial<SuspectSplit> = {},
  charged = 0,
  lifeMs = 15_000,
): SuspectSplit => ({
  id: id as SplitId,
  suspicion: { deaths: 1, relapses: 0, charged, lifeMs, isCleared: false },
  named: null,
  barred: [],
  ...fields,
});
const host = (instance: string, fields: Partial<TrialHost> = {}): TrialHost => ({
  instance: instance as InstanceId,
  isFree: true,
  hasRoom: true,
  aliveForMs: 60_000,
  ...fields,
});
const placed = (suspects: readonly SuspectSplit[], hosts: readonly TrialHost[]) =>
  Object.fromEntries(placeSuspects(suspects, hosts).hosts);

describe('suspects', () => {
  test('suspects - go one to an instance, the least suspicious first (R48)', () => {
    const all = [suspect('s0', {}, 2), suspect('s1'), suspect('s2', {}, 1)];
    expect(placed(all, [host('a'), host('b')])).toEqual({ s1: 'a', s2: 'b' });
    expect(placed(all, [host('a', { isFree: false }), host('b')])).toEqual({ s1: 'b' });
  });

  test('suspects - go only where a process has outlived by far what was lost with them, and wait for it (R48)', () => {
    const young = host('a', { aliveForMs: 29_000 });
    expect(placeSuspects([suspect('s0')], [young])).toEqual({ hosts: new Map(), dueInMs: 1_000 });
    expect(placed([suspect('s0')], [host('a', { aliveForMs: 30_000 })])).toEqual({ s0: 'a' });
  });

  test('suspects - stay where they are named, and go where there is room and no bar (R48)', () => {
    const named = suspect('s9', { named: 'b' as InstanceId });
    expect(placed([suspect('s0'), named], [host('a'), host('b')])).toEqual({ s0: 'a', s9: 'b' });
    expect(placed([suspect('s0')], [host('a', { hasRoom: false }), host('b')])).toEqual({
      s0: 'b',
    });
    const barred = suspect('s0', { barred: ['a' as InstanceId] });
    expect(placed([barred], [host('a'), host('b', { isFree: false })])).toEqual({});
    expect(placed([barred], [host('a'), host('b')])).toEqual({ s0: 'b' });
    expect(placed([barred], [host('a')])).toEqual({ s0: 'a' });
  });

  test('suspects - no instance ever has two, nor one that it is too young for (R48)', () => {
    const anySuspects = fc
      .uniqueArray(fc.nat(20), { maxLength: 12 })
      .chain((numbers) =>
        fc.tuple(
          ...numbers.map((number) =>
            fc
              .record({ charged: fc.nat(2), lifeMs: fc.nat(40_000), named: fc.option(fc.nat(5)) })
              .map(({ charged, lifeMs, named }) =>
                suspect(
                  `s${number}`,
                  { named: named === null ? null : (`h${named}` as InstanceId) },
                  charged,
                  lifeMs,
                ),
              ),
          ),
        ),
      );
    const anyHosts = fc.array(
      fc.record({ isFree: fc.boolean(), hasRoom: fc.boolean(), aliveForMs: fc.nat(90_000) }),
      { maxLength: 6 },
    );
    fc.assert(
      fc.property(anySuspects, anyHosts, (suspects, found) => {
        const hosts = found.map((fields, index) => host(`h${index}`, fields));
        const result = placeSuspects(suspects, hosts).hosts;
        expect(new Set(result.values()).size).toBe(result.size);
        for (const [id, instance] of result) {
          const { isFree, aliveForMs } = hosts.find((one) => one.instance === instance)!;
          const { suspicion } = suspects.find((one) => one.id === id)!;
          expect([isFree, aliveForMs >= trialAgeMs(suspicion)]).toEqual([true, true]);
        }
        const fit = suspects.some(({ suspicion }) =>
          hosts.some(({ isFree, aliveForMs }) => isFree && aliveForMs >= trialAgeMs(suspicion)),
        );
        expect(result.size > 0).toBe(fit);
      }),
    );
  });
});
