/** The records that the lives of a fleet are about. */
import type { Epoch } from '../../../../src/base/decimals.ts';
import type { InstanceId, Nonce } from '../../../../src/base/ids.ts';
import { seededRecord } from '../../../../src/protocol/tenancy-records.ts';
import type { AssignmentRecord, PlanRecord, SplitRecord } from '../../../../src/records/records.ts';
import { emptyEtcd, type EtcdState, put } from '../etcd.ts';
import { keys } from '../model.ts';
import { SPLIT } from './model.ts';

export function newPlan(): PlanRecord {
  return {
    fingerprint: 'f',
    generation: 0,
    finality: 'final',
    sealed: false,
    planned: 1,
    cursor: null,
    requeues: 0,
    verdict: null,
  };
}

export function newSplit(): SplitRecord {
  return seededRecord({ weight: 1, seed: null });
}

export function planIn({ entries }: EtcdState): PlanRecord | undefined {
  return entries[keys.plan]?.value as PlanRecord | undefined;
}

export function splitIn({ entries }: EtcdState): SplitRecord | undefined {
  return entries[keys.split(SPLIT)]?.value as SplitRecord | undefined;
}

export function splitsNamedFor({ entries }: EtcdState, id: string): readonly string[] | undefined {
  return (entries[keys.assignment(id)]?.value as AssignmentRecord | undefined)?.splits;
}

/**
 * What a snapshot brings back: a job at work, whose first worker was an earlier process under the same name, and in which
 * this process of the second one led. Nobody renews what hangs on its sessions.
 */
export function ghosts(revision: number, instances: readonly string[]): EtcdState {
  const etcd = { ...emptyEtcd(), revision };
  const [first, second = first] = instances as [string, string?];
  etcd.sessions = [`${first}-ghost`, `${second}-ghost`].filter(
    (one, i, all) => all.indexOf(one) === i,
  );
  const nonce = `${first}0` as Nonce;
  const owner = first as InstanceId;
  put(etcd, keys.plan, { ...newPlan(), sealed: true, generation: 1 });
  put(etcd, keys.split(SPLIT), { ...newSplit(), owner, nonce, epoch: '1' as Epoch });
  put(etcd, keys.assignment(first), { generation: 1, splits: [SPLIT] });
  put(etcd, keys.lease(SPLIT), { owner, nonce, epoch: '1', state: 'owned' }, `${first}-ghost`);
  put(
    etcd,
    keys.presence(first),
    { nonce, session: `${first}-ghost`, parting: false },
    `${first}-ghost`,
  );
  if (second !== first) {
    const presence = { nonce: `${second}1`, session: `${second}-ghost`, parting: false };
    put(etcd, keys.presence(second), presence, `${second}-ghost`);
  }
  put(etcd, keys.leader, { owner: second, nonce: `${second}1`, generation: 1 }, `${second}-ghost`);
  return etcd;
}
