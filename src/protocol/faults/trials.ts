/**
 * Where suspects are tried: one an instance, and only on those that have been alive for long enough (R48).
 *
 * Tests: test/protocol/faults.
 */
import type { InstanceId, SplitId } from '../../base/ids.ts';
import type { SuspicionRecord } from '../../records/records.ts';
import { trialAgeMs } from './suspicion.ts';

/** A suspect without a lease. */
export interface SuspectSplit {
  readonly id: SplitId;
  readonly suspicion: SuspicionRecord;
  /** Whom it is named for. */
  readonly named: InstanceId | null;
  /** Instances that cannot take it (R27). */
  readonly barred: readonly InstanceId[];
}

/** An instance that might try one. */
export interface TrialHost {
  readonly instance: InstanceId;
  /** It may get splits, and has no suspect. */
  readonly isFree: boolean;
  readonly hasRoom: boolean;
  readonly aliveForMs: number;
}

/** Who tries what. */
export interface Trials {
  readonly hosts: ReadonlyMap<SplitId, InstanceId>;
  /** In how many milliseconds another host is old enough; null when age changes nothing. */
  readonly dueInMs: number | null;
}

/**
 * Gives each suspect a host, the least suspicious first; others wait. One that is named for a host stays with it.
 */
export function placeSuspects(
  suspects: readonly SuspectSplit[],
  hosts: readonly TrialHost[],
): Trials {
  const free = new Map(hosts.filter(({ isFree }) => isFree).map((host) => [host.instance, host]));
  const placed = new Map<SplitId, InstanceId>();
  let dueInMs = Infinity;
  const inOrder = [...suspects].sort(bySuspicion);
  for (const { id, named, suspicion } of inOrder) {
    const host = named === null ? undefined : free.get(named);
    if (host === undefined || host.aliveForMs < trialAgeMs(suspicion)) continue;
    placed.set(id, host.instance);
    free.delete(host.instance);
  }
  for (const { id, barred, suspicion } of inOrder) {
    if (placed.has(id)) continue;
    const ageMs = trialAgeMs(suspicion);
    let best: TrialHost | null = null;
    // With nobody else to try it, who is barred for it may have been too young for it before.
    const isBarredByAll = hosts.every(({ instance }) => barred.includes(instance));
    for (const host of free.values()) {
      if (!isBarredByAll && barred.includes(host.instance)) continue;
      if (host.aliveForMs < ageMs) dueInMs = Math.min(dueInMs, ageMs - host.aliveForMs);
      else if (best === null || (host.hasRoom && !best.hasRoom)) best = host;
    }
    if (best === null) continue;
    placed.set(id, best.instance);
    free.delete(best.instance);
  }
  return { hosts: placed, dueInMs: dueInMs === Infinity ? null : dueInMs };
}

function bySuspicion(a: SuspectSplit, b: SuspectSplit): number {
  const { charged, deaths } = a.suspicion;
  return charged - b.suspicion.charged || deaths - b.suspicion.deaths || (a.id < b.id ? -1 : 1);
}
