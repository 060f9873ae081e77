/** What is seen late of a twin that is gone must not kill the one that is left (R14). */
import { expect, test } from '@jest/globals';
import { looksAt, writesTo } from '../../../src/store/faults.ts';
import { LEASE_MS, type SeamWorker, watched } from '../../support/fleet.ts';
import { sessionOf } from '../../support/sources.ts';
import { fleet, startFleet } from '../../support/scenario.ts';

const isPresence = (key: string): boolean => key.includes('/workers/');

/** Whom the presence names as its process. */
function announced(): string | undefined {
  const key = `${fleet.keys.root}workers/pod-1`;
  const entry = fleet.store.dump(key)[0];
  return entry === undefined ? undefined : (JSON.parse(entry.value) as { nonce: string }).nonce;
}

/** A worker that changes its announcement: it gives a split up unasked, and refuses it for a lease (R40). */
function announceAgain(seam: SeamWorker): void {
  const [id, { epoch }] = [...seam.held][0]!;
  void seam.coordinator.giveUp(id, epoch);
}

test('a twin that came and went - heard of while an announcement is on its way, kills nobody (R14)', async () => {
  await startFleet();
  const left = fleet.seam('pod-1');
  const end = watched(left.coordinator.verdict());
  await fleet.until('it owns all', () => left.held.size === 4);
  await fleet.advance(LEASE_MS);
  const { nonce } = left.coordinator.status();
  const heard = left.client.when(looksAt(isPresence)).delayEvents(1_900);
  const sent = left.client.when(writesTo(isPresence)).delay(1_500, { times: 2 });
  announceAgain(left);
  const other = fleet.seam('pod-1');
  // It gets no further than to announce itself.
  const ended = sessionOf(fleet, 'pod-1');
  other.client.when((call) => call.kind === 'closeSession' && call.id === ended).loseBefore();
  other.client.when(writesTo((key) => key.includes('/leases/'))).loseBefore();
  await fleet.until('the other one is announced', () => announced() !== nonce, 1_000);
  other.crash();
  await fleet.store.expireSession(sessionOf(fleet, 'pod-1') as never);
  await fleet.until('both sends have arrived', () => announced() === nonce, 4_000);
  expect(sent.hits).toBe(2);
  await fleet.advance(LEASE_MS);
  expect(heard.hits).toBeGreaterThan(0);
  expect(end.state).toBe('pending');
  expect(announced()).toBe(nonce);
  await fleet.until('it owns all again', () => left.held.size === 4, 4 * LEASE_MS);
});
