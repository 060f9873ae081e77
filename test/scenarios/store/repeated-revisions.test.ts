/** After a restore revisions are given out anew: what a zombie knows of a key may be true again, of somebody else's record. */
import { describe, expect, test } from '@jest/globals';
import type { InstanceId, SplitId } from '../../../src/base/ids.ts';
import type { StoreCall } from '../../../src/store/faults.ts';
import { transaction, type TransactionName } from '../../support/faults.ts';
import {
  type AnyFleet,
  finalPlan,
  LEASE_MS,
  memoryOf,
  type SeamWorker,
} from '../../support/fleet.ts';
import { fleet, startFleet } from '../../support/scenario.ts';

interface Case {
  readonly what: TransactionName;
  /** The key that is compared. */
  readonly key: (fleet: AnyFleet) => string;
  /** Makes the worker send it. */
  send(a: SeamWorker): unknown;
}

const split = (of: AnyFleet): string => of.keys.split('s0' as SplitId);
const CASES: readonly Case[] = [
  { what: 'commit', key: split, send: (a) => a.coordinator.commit('s0', { watermark: 41n }) },
  { what: 'complete', key: split, send: (a) => a.coordinator.complete('s0', { watermark: 41n }) },
  { what: 'release', key: split, send: (a) => a.coordinator.giveUp('s0') },
  {
    what: 'assign',
    key: (of) => of.keys.leader,
    send: () => fleet.store.remove(fleet.keys.assignment('a' as InstanceId)),
  },
];

describe('a revision that is given out twice', () => {
  test.each(CASES.map((one) => [one.what, one] as const))(
    'a late %s of before the restore - writes nothing over what stands at its revision now (R47)',
    async (what, { key, send }) => {
      await startFleet({ planner: finalPlan(['s0']) });
      const empty = memoryOf(fleet).snapshot();
      const a = fleet.seam('a');
      await fleet.until('a holds', () => a.held.size === 1);
      await fleet.advance(1_000);
      const known = fleet.entry(key(fleet))!;
      const rule = a.client.when(transaction(what)).loseBefore({ silent: true });
      Promise.resolve(send(a)).catch(() => undefined);
      await fleet.until('it is on its way', () => rule.hits === 1);
      const { call } = a.client.log.findLast((logged) => logged.call.kind === 'transact')!;
      a.crash();

      memoryOf(fleet).restore(empty, { sameCluster: true });
      const b = fleet.seam('b');
      await fleet.until('b holds', () => b.held.size === 1);
      // It has done what the other one did, on the same empty store.
      const again = fleet.entry(key(fleet))!;
      expect(again.modRevision).toBe(known.modRevision);
      expect(again.value).not.toBe(known.value);
      const before = fleet.store.revision;
      // What a network held back for so long arrives.
      const { batch } = call as StoreCall & { kind: 'transact' };
      await memoryOf(fleet).transact(batch, { timeoutMs: 1_000 });
      expect(fleet.entry(key(fleet))).toEqual(again);
      expect(fleet.assignment('b')?.splits).toEqual(['s0']);
      expect(fleet.assignment('a')).toBeNull();
      expect(fleet.store.revision).toBe(before);
      await b.coordinator.commit('s0', { watermark: 7n }).catch(() => undefined);
      await fleet.advance(LEASE_MS);
      expect(fleet.split('s0')).toMatchObject({ owner: 'b' });
    },
  );
});
