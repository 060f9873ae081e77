/**
 * The startup probe: tries, in private keys, everything that fencing depends on. A store that lies is refused with the rule it
 * broke, before it can lose anybody's work.
 *
 * All of its keys hang on a session of its own, so that a start that dies in the middle leaves nothing behind.
 */
import { ABSENT, type Revision, revisionOf } from '../../base/decimals.ts';
import { LeaseholdError } from '../../base/errors.ts';
import type { SessionId } from '../../base/ids.ts';
import type { Entry, Key, Txn, TxnOutcome, Write } from '../../store/port.ts';
import type { StoreGate } from './store-gate.ts';

/** What a probe works with. */
export interface ProbeOptions {
  /** A key that nobody else writes, by a suffix. */
  readonly keyOf: (suffix: string) => Key;
  readonly session: SessionId;
  readonly ttlMs: number;
}

/** One thing that is tried on a key that was created before, and what must come of it. */
interface Trial {
  readonly suffix: string;
  readonly rule: string;
  readonly equals: (created: Revision) => Revision;
  readonly write: (key: Key, session: SessionId) => Write;
  readonly wins: boolean;
  /** What the key holds afterwards; null when it is gone. */
  readonly leaves: string | null;
}

const CREATED = 'created';
const CHANGED = 'changed';

const put = (key: Key, session: SessionId): Write => ({ put: key, value: CHANGED, session });
const remove = (key: Key): Write => ({ delete: key });
const right = (created: Revision): Revision => created;
const stale = (created: Revision): Revision => revisionOf(BigInt(created) - 1n);

const TRIALS: readonly Trial[] = [
  {
    suffix: 'a',
    rule: 'a create of a present key loses',
    equals: () => ABSENT,
    write: put,
    wins: false,
    leaves: CREATED,
  },
  {
    suffix: 'b',
    rule: 'an update at the right revision wins',
    equals: right,
    write: put,
    wins: true,
    leaves: CHANGED,
  },
  {
    suffix: 'c',
    rule: 'an update at a stale revision loses',
    equals: stale,
    write: put,
    wins: false,
    leaves: CREATED,
  },
  {
    suffix: 'd',
    rule: 'a delete at a stale revision loses',
    equals: stale,
    write: remove,
    wins: false,
    leaves: CREATED,
  },
  {
    suffix: 'e',
    rule: 'a delete at the right revision wins',
    equals: right,
    write: remove,
    wins: true,
    leaves: null,
  },
];

/**
 * Probes the store through `gate`, in four calls.
 *
 * @returns The rest of the probe, two calls more: the session is ended, and must take its keys along. It may run beside what
 *   follows, but nothing may be owned before it is over.
 * @throws LeaseholdError `E_STORE_UNSUPPORTED` naming the broken rule; what the store rejects with as it comes.
 */
export async function probeStore(
  gate: StoreGate,
  { keyOf, session, ttlMs }: ProbeOptions,
): Promise<() => Promise<void>> {
  const keys = TRIALS.map(({ suffix }) => keyOf(suffix));
  await gate.openSession(session, ttlMs);
  // A process that was stopped for longer than the session lives finds nothing, and the store has not lied.
  const lie = async (rule: string): Promise<never> => {
    await gate.keepAlive(session, ttlMs);
    throw unsupported(rule, keys[0]!);
  };
  const created = await tryAll(
    gate,
    keys.map((key) => txnOf(key, ABSENT, { put: key, value: CREATED, session })),
  );
  const revisions = created.map((outcome) =>
    outcome.kind === 'committed' ? outcome.revision : null,
  );
  if (revisions.includes(null)) await lie('a create of an absent key wins');
  const outcomes = await tryAll(
    gate,
    TRIALS.map(({ equals, write }, index) =>
      txnOf(keys[index]!, equals(revisions[index]!), write(keys[index]!, session)),
    ),
  );
  const { entries } = await gate.readKeys(keys);
  for (const [index, trial] of TRIALS.entries()) {
    const outcome = outcomes[index];
    const isAsItMust = trial.wins
      ? outcome?.kind === 'committed'
      : outcome?.kind === 'conflict' && outcome.found[0]?.value === CREATED;
    if (!isAsItMust) await lie(trial.rule);
    const entry = entries.get(keys[index]!);
    if ((entry?.value ?? null) !== trial.leaves) {
      await lie(trial.wins ? trial.rule : `${trial.rule} and changes nothing`);
    }
    if (entry !== undefined && entry.session !== session) {
      await lie('a key shows the session it hangs on');
    }
  }
  return async () => {
    await gate.closeSession(session);
    const after: { readonly entries: ReadonlyMap<string, Entry> } = await gate.readKeys(keys);
    if (after.entries.size > 0)
      throw unsupported('a closed session takes its keys along', keys[0]!);
  };
}

function txnOf(key: Key, equals: Revision, write: Write): Txn {
  return {
    compares: [{ key, target: 'modRevision', equals }],
    writes: [write],
    onConflict: [key],
  };
}

async function tryAll(gate: StoreGate, txns: readonly Txn[]): Promise<readonly TxnOutcome[]> {
  const outcome = await gate.transact({ guard: [], txns });
  if (outcome.kind !== 'tried') {
    const key = txns[0]!.onConflict[0]!;
    throw unsupported('a batch without a guard is tried', key);
  }
  if (outcome.outcomes.length !== txns.length) {
    throw unsupported('every transaction is answered', txns[0]!.onConflict[0]!);
  }
  return outcome.outcomes;
}

function unsupported(rule: string, key: Key): LeaseholdError {
  return new LeaseholdError(
    'E_STORE_UNSUPPORTED',
    `the store broke a rule that fencing depends on: ${rule}. Use a store that keeps it`,
    { details: { rule, key } },
  );
}
