/**
 * Joining a job (T1): the plan is there and was made from the same configuration, or this worker creates it.
 */
import { LeaseholdError } from '../../base/errors.ts';
import { decideJoining } from '../../protocol/joining.ts';
import { newPlan } from '../../protocol/plan-records.ts';
import { joinTxn } from '../../protocol/transactions.ts';
import { KEY_PREFIXES, parseKey } from '../../records/keys.ts';
import { planCodec, type PlanRecord } from '../../records/records.ts';
import type { Entry } from '../../store/port.ts';
import { NO_GUARD, type WriteAnswer } from '../link/batcher.ts';
import type { Core } from '../link/core.ts';

/** Whether the job can be worked on now, or only once its leader has put the plan back. */
export type JoinOutcome = 'joined' | 'waits';

/** Conflicts in a row before a try counts as failed. */
const CONFLICTS_MAX = 4;
/** Keys looked at in one go for one that is ours: the first one nearly always is. */
const PAGE_KEYS = 50;

/**
 * Reads or creates the plan.
 *
 * @throws LeaseholdError `E_FINGERPRINT_MISMATCH`, `E_RECORD_CORRUPT`, `E_RECORD_NEWER`, `E_RECORD_MISSING` (fatal), or
 *   `unavailable` when the store did not answer.
 */
export async function joinJob(core: Core): Promise<JoinOutcome> {
  for (let conflicts = 0; conflicts < CONFLICTS_MAX; conflicts += 1) {
    const { entries } = await core.gate.readKeys([core.keys.plan, core.keys.leader]);
    const plan = entries.get(core.keys.plan);
    const sight = { hasPlan: plan !== undefined, isLed: entries.has(core.keys.leader) };
    switch (decideJoining({ ...sight, hasRecords: null })) {
      case 'join':
        checkPlan(plan!, core.fingerprint);
        return 'joined';
      case 'wait':
        return 'waits';
      default:
    }
    const stray = await findRecord(core);
    if (decideJoining({ ...sight, hasRecords: stray !== null }) === 'lost') {
      // A plan may have been made, and its splits stored, since the plan was looked for.
      const again = await core.gate.readKeys([core.keys.plan, core.keys.leader]);
      if (again.entries.size > 0) continue;
      throw planMissing(core, stray!);
    }
    const answer = await createPlan(core);
    if (answer.kind === 'committed') return 'joined';
    if (answer.kind === 'refused') throw answer.error;
    if (answer.kind === 'abandoned') {
      throw new LeaseholdError('E_STOPPED', 'the worker stopped while joining');
    }
    // A conflict: somebody else created it, or leads; and so may a landed write of ours that was not answered.
  }
  throw new LeaseholdError('E_STORE_UNREACHABLE', 'the plan changed at every try to join');
}

/** Refuses a plan of another configuration, or one that cannot be read. */
export function checkPlan(entry: Entry, fingerprint: string): PlanRecord {
  const decoded = planCodec.decode(entry.value);
  if (decoded.kind === 'newer') {
    throw new LeaseholdError('E_RECORD_NEWER', `${decoded.reason}; upgrade this worker`, {
      details: { key: entry.key },
    });
  }
  if (decoded.kind === 'junk' || decoded.record.finality === 'unknown') {
    const reason = decoded.kind === 'junk' ? decoded.reason : 'plan.finality is unknown';
    throw new LeaseholdError('E_RECORD_CORRUPT', `the job's plan is unreadable: ${reason}`, {
      details: { key: entry.key },
    });
  }
  const stored = decoded.record.fingerprint;
  if (stored !== fingerprint) {
    throw new LeaseholdError(
      'E_FINGERPRINT_MISMATCH',
      `the stored plan was made from fingerprint ${JSON.stringify(stored)}, this worker's is ` +
        `${JSON.stringify(fingerprint)}: give all workers of a job the same configuration, or the changed job a new name`,
      { details: { stored, mine: fingerprint } },
    );
  }
  return decoded.record;
}

/** A key of this job's splits or specs; null when there is none. */
async function findRecord({ gate, keys }: Core): Promise<string | null> {
  for (const kind of [KEY_PREFIXES.specs, KEY_PREFIXES.splits]) {
    const prefix = keys.root + kind;
    for (let after: string | undefined; ;) {
      const from = after === undefined ? {} : { after };
      const page = await gate.read({ prefix }, { keysOnly: true, limit: PAGE_KEYS, ...from });
      if (page.kind !== 'page') continue;
      // Keys of strangers prove nothing.
      const ours = page.entries.find(({ key }) => parseKey(keys, key).kind !== 'alien');
      if (ours !== undefined) return ours.key;
      if (!page.more) break;
      after = page.entries.at(-1)!.key;
    }
  }
  return null;
}

function planMissing(core: Core, key: string): LeaseholdError {
  return new LeaseholdError(
    'E_RECORD_MISSING',
    `the plan at ${core.keys.plan} is gone while splits are there (${key}) and nobody leads: ` +
      'restore it from a backup, or delete the keys of the job to start over',
    { details: { key: core.keys.plan } },
  );
}

function createPlan(core: Core): Promise<WriteAnswer> {
  const value = planCodec.encode(newPlan(core.fingerprint), core.stamp());
  return new Promise((resolve) => {
    core.batcher.enqueue({
      name: 'join',
      isSessionBound: false,
      guard: NO_GUARD,
      build: () => joinTxn(core.keys, value),
      matters: () => true,
      isImpatient: true,
      answered: resolve,
    });
  });
}
