/** A worker's session: opened, given up, found gone; and processes that die and come back. */
import type { PresenceRecord } from '../../../src/records/records.ts';
import { endSession, put } from './etcd.ts';
import { release } from './items.ts';
import { type Fleet, keys, newLeading, nonceOf, type Place, type Worker } from './model.ts';

/** Opens a session and announces itself under it, in one step. */
export function openSession({ fleet, worker }: Pick<Place, 'fleet' | 'worker'>): void {
  worker.sessionCount += 1;
  const session = `${worker.id}${worker.sessionCount}`;
  worker.session = session;
  fleet.etcd.sessions = [...fleet.etcd.sessions, session].sort();
  const presence = { nonce: nonceOf(worker), session } as Partial<PresenceRecord>;
  put(fleet.etcd, keys.presence(worker.id), presence, session);
}

/** True while some process renews this session. */
export function isBelievedIn(fleet: Fleet, session: string): boolean {
  return fleet.workers.some(
    ({ isUp, session: own, leading }) => isUp && (own === session || leading.session === session),
  );
}

export function end(fleet: Fleet, session: string): void {
  endSession(fleet.etcd, session);
}

/** The process is gone; what it has sent is still under way. */
export function crash(fleet: Fleet, worker: Worker): void {
  for (const item of worker.items) release(fleet, item);
  Object.assign(worker, blank(worker.leases));
  worker.isUp = false;
}

/** Another process under the same name, which knows what the store holds. */
export function restart(fleet: Fleet, worker: Worker): void {
  const { entries, revision } = fleet.etcd;
  worker.isUp = true;
  worker.process += 1;
  worker.assignment = { entry: entries[keys.assignment(worker.id)] ?? null, revision };
  for (const split of Object.keys(worker.leases)) {
    worker.leases[split] = { entry: entries[keys.lease(split)] ?? null, revision };
  }
  openSession({ fleet, worker });
}

function blank(leases: Worker['leases']): Partial<Worker> {
  const nothing = { entry: null, revision: 0 };
  return {
    session: null,
    assignment: nothing,
    leases: Object.fromEntries(Object.keys(leases).map((split) => [split, nothing])),
    tenancies: {},
    over: [],
    leading: newLeading(),
    items: [],
  };
}
