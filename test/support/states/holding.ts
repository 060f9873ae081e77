/** Ways into the states of tenancies, and of the lanes that write for them. */
import { leaseCodec } from '../../../src/records/records.ts';
import type { Epoch } from '../../../src/base/decimals.ts';
import type { InstanceId, Nonce, SplitId } from '../../../src/base/ids.ts';
import { writesTo } from '../../../src/store/faults.ts';
import { OPERATION_MS } from '../departures.ts';
import { type AnyFleet, LEASE_MS } from '../fleet.ts';
import { keyStarts, laneIn, loseRelease, LOST, type StateCase, tenancyIn, way } from './way.ts';

/** A lease of somebody who is not there. */
async function foreignLease(fleet: AnyFleet): Promise<void> {
  const stamp = { instance: 'z', nonce: 'n', write: 1 };
  const lease = {
    owner: 'z' as InstanceId,
    nonce: 'n' as Nonce,
    epoch: '1' as Epoch,
    state: 'owned' as const,
  };
  await fleet.store.put(fleet.keys.lease('s1' as SplitId), leaseCodec.encode(lease, stamp));
}

export const TENANCY_CASES: readonly StateCase[] = [
  way('tenancy.awaiting', tenancyIn('awaiting'), { before: foreignLease }),
  way('tenancy.claiming.wanted', tenancyIn('claiming.wanted'), {
    started: (fleet, a) => {
      a.client.when(writesTo(keyStarts(fleet, 'leases/'))).loseBefore(LOST);
    },
  }),
  way('tenancy.claiming.unwanted', tenancyIn('claiming.unwanted'), {
    started: (fleet, a) => {
      a.client.when(writesTo(keyStarts(fleet, 'leases/'))).loseBefore(LOST);
      fleet.clock.setTimeout(() => void fleet.operator().pause(), 1_000);
    },
  }),
  way('tenancy.held.owned', tenancyIn('held.owned'), { then: () => undefined }),
  way('tenancy.held.draining', tenancyIn('held.draining'), {
    then: (fleet) => fleet.operator().pause(),
  }),
  way('tenancy.held.cancelledDrain', tenancyIn('held.cancelledDrain'), {
    then: async (fleet, a) => {
      await fleet.operator().pause();
      await fleet.until('draining', () => tenancyIn('held.draining')(a));
      await fleet.operator().resume();
    },
  }),
  way('tenancy.held.closing.queued', tenancyIn('held.closing.queued'), {
    then: async (fleet, a) => {
      a.client.when(writesTo(keyStarts(fleet, 'splits/'))).loseBefore(LOST);
      a.coordinator.commit('s1', { watermark: 1 }).catch(() => undefined);
      await fleet.advance(20);
      a.coordinator.releaseDrained(['s1']).catch(() => undefined);
    },
  }),
  way('tenancy.held.closing.sent', tenancyIn('held.closing.sent'), { then: loseRelease }),
  way('tenancy.held.closing.unanswered', tenancyIn('held.closing.unanswered'), {
    then: async (fleet, a) => {
      loseRelease(fleet, a);
      await fleet.advance(OPERATION_MS);
    },
  }),
];

export const WRITING_CASES: readonly StateCase[] = [
  way('writing.idle', (a) => a.coordinator.status().lanes.every(({ state }) => state === 'idle'), {
    then: (fleet) => fleet.advance(LEASE_MS),
  }),
  way(
    'writing.writing',
    (a) =>
      a.coordinator.status().lanes.some(({ state, items }) => state === 'writing' && items > 0),
    {
      then: (fleet, a) => {
        a.client.when(writesTo(keyStarts(fleet, 'splits/'))).delay(1_000, { times: 1 });
        a.coordinator.commit('s1', { watermark: 1 }).catch(() => undefined);
      },
    },
  ),
  way('writing.settling', laneIn('settling'), {
    then: async (fleet, a) => {
      a.client.when(writesTo(keyStarts(fleet, 'splits/'))).loseBefore(LOST);
      a.coordinator.commit('s1', { watermark: 1 }).catch(() => undefined);
      await fleet.advance(OPERATION_MS);
    },
  }),
];
