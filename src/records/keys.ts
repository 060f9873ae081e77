/**
 * Where each record lives: `<prefix>/<job>/<kind>[/<name>]`.
 *
 * Ids hold no `/`, so no key of one job, split or instance is a prefix of another's. A prefix may hold some: where it reads as
 * another job and one of that job's kinds, the two would share keys, and such names are refused (R57).
 */
import { describe, type InstanceId, isId, type SplitId } from '../base/ids.ts';
import { mustPass, type Rule, type Violation } from '../base/shape.ts';

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

/** What a prefix may be. */
const PREFIX_ALLOWED = '1 to 256 characters of [A-Za-z0-9_/.-] that do not end with /';

export const A_PREFIX: Rule = mustPass(PREFIX_ALLOWED, prefixProblem);

function prefixProblem(prefix: unknown): string | undefined {
  const isPrefix =
    typeof prefix === 'string' && /^[A-Za-z0-9_/.-]{1,256}$/.test(prefix) && !prefix.endsWith('/');
  return isPrefix ? undefined : `must be ${PREFIX_ALLOWED}`;
}

/** What is wrong with a prefix for this job, though each of them may be used (R57). */
export function nestingViolations(prefix: string, job: string): Violation[] {
  const rule = nestingProblem(prefix, job);
  const value = `${describe(prefix)} with job ${job}`;
  return rule === undefined ? [] : [{ option: 'prefix', value, rule }];
}

/**
 * Why the keys of a job would lie among those of another job that may be there, in words; undefined when they cannot (R57):
 * `p/j` with job `leases` lies where job `j` under `p` keeps its leases.
 */
function nestingProblem(prefix: string, job: string): string | undefined {
  const parts = `${prefix}/${job}`.split('/');
  const kinds = Object.values(KEY_PREFIXES).map((kind) => kind.slice(0, -1));
  const at = parts.findIndex(
    (part, index) =>
      index >= 2 && kinds.includes(part) && isId(parts[index - 1]) && parts[index - 2] !== '',
  );
  if (at < 0) return undefined;
  const outer = { prefix: parts.slice(0, at - 1).join('/'), job: parts[at - 1]! };
  return (
    `must not lie among the ${parts[at]!} of a job ${outer.job} under the prefix ${outer.prefix}; ` +
    'choose another prefix, or another name for the job'
  );
}

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

/** What an instance leaves in the store: any of it says that there is, or was, one of that name. */
export function tracesOf(keys: JobKeys, instance: InstanceId): string[] {
  return [
    keys.presence(instance),
    keys.assignment(instance),
    keys.away(instance),
    keys.cordoned(instance),
    keys.drained(instance),
  ];
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
