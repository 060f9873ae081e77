/**
 * Where each record lives: `<prefix>/<job>/<kind>[/<name>]`.
 *
 * Ids hold no `/`, so no key of one job, split or instance is a prefix of another's.
 */
import { type InstanceId, isId, type SplitId } from '../base/ids.ts';

/** The keys of one job. */
export interface JobKeys {
  /** `<prefix>/<job>/`: every key of the job starts with it, and no key of another job does. */
  readonly root: string;
  readonly plan: string;
  readonly leader: string;
  readonly paused: string;
  spec(split: SplitId): string;
  split(split: SplitId): string;
  lease(split: SplitId): string;
  parked(split: SplitId): string;
  assignment(instance: InstanceId): string;
  away(instance: InstanceId): string;
  presence(instance: InstanceId): string;
  cordoned(instance: InstanceId): string;
  drained(instance: InstanceId): string;
  /** A private key for the startup probe of one process. */
  probe(instance: InstanceId, nonce: string): string;
}

/** Prefixes of the kinds that are listed or watched, relative to the root. */
export const KEY_PREFIXES = {
  specs: 'specs/',
  splits: 'splits/',
  leases: 'leases/',
  parked: 'parked/',
  assign: 'assign/',
  away: 'away/',
  workers: 'workers/',
  control: 'control/',
  probe: 'probe/',
} as const;

/** Builds the keys of `job` under `prefix`; both were checked by the configuration. */
export function jobKeys(prefix: string, job: string): JobKeys {
  const root = `${prefix}/${job}/`;
  return {
    root,
    plan: `${root}plan`,
    leader: `${root}leader`,
    paused: `${root}control/paused`,
    spec: (split) => `${root}specs/${split}`,
    split: (split) => `${root}splits/${split}`,
    lease: (split) => `${root}leases/${split}`,
    parked: (split) => `${root}parked/${split}`,
    assignment: (instance) => `${root}assign/${instance}`,
    away: (instance) => `${root}away/${instance}`,
    presence: (instance) => `${root}workers/${instance}`,
    cordoned: (instance) => `${root}control/cordoned/${instance}`,
    drained: (instance) => `${root}control/drained/${instance}`,
    probe: (instance, nonce) => `${root}probe/${instance}/${nonce}`,
  };
}

/** True for the keys that live only as long as a session: presence, leader, leases. */
export function isEphemeralKey(keys: JobKeys, key: string): boolean {
  return (
    key === keys.leader ||
    key.startsWith(keys.root + KEY_PREFIXES.leases) ||
    key.startsWith(keys.root + KEY_PREFIXES.workers)
  );
}

/** What a key under the job's root is. */
export type KeyName =
  | { readonly kind: 'plan' | 'leader' | 'paused' }
  | { readonly kind: 'spec' | 'split' | 'lease' | 'parked'; readonly split: SplitId }
  | {
      readonly kind: 'assignment' | 'away' | 'presence' | 'cordoned' | 'drained';
      readonly instance: InstanceId;
    }
  /** Not one of ours (R42). */
  | { readonly kind: 'alien' };

const ALIEN: KeyName = { kind: 'alien' };

const SPLIT_KINDS = { specs: 'spec', splits: 'split', leases: 'lease', parked: 'parked' } as const;
const INSTANCE_KINDS = { assign: 'assignment', away: 'away', workers: 'presence' } as const;
const CONTROL_KINDS = { cordoned: 'cordoned', drained: 'drained' } as const;

/** Reads a key back; anything of an unknown shape is `alien`. */
export function parseKey(keys: JobKeys, key: string): KeyName {
  if (!key.startsWith(keys.root)) return ALIEN;
  const parts = key.slice(keys.root.length).split('/');
  const [kind = '', name = '', third] = parts;
  if (parts.length === 1) return kind === 'plan' || kind === 'leader' ? { kind } : ALIEN;
  if (kind === 'control') {
    if (parts.length === 2 && name === 'paused') return { kind: 'paused' };
    if (parts.length === 3 && isId(third) && Object.hasOwn(CONTROL_KINDS, name)) {
      return {
        kind: CONTROL_KINDS[name as keyof typeof CONTROL_KINDS],
        instance: third as InstanceId,
      };
    }
    return ALIEN;
  }
  if (parts.length !== 2 || !isId(name)) return ALIEN;
  if (Object.hasOwn(SPLIT_KINDS, kind)) {
    return { kind: SPLIT_KINDS[kind as keyof typeof SPLIT_KINDS], split: name as SplitId };
  }
  if (Object.hasOwn(INSTANCE_KINDS, kind)) {
    return {
      kind: INSTANCE_KINDS[kind as keyof typeof INSTANCE_KINDS],
      instance: name as InstanceId,
    };
  }
  return ALIEN;
}
