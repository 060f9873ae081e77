/**
 * What an operator may do to a job, from anywhere that reaches its store: pause and resume it, cordon or drain an
 * instance, put a quarantined split back (R29, T15). Each act is one guarded write; an unanswered one is sent again as it
 * was until it is answered.
 */
import { ABSENT, epochOf, type Revision } from '../base/decimals.ts';
import { isLeaseholdError, LeaseholdError } from '../base/errors.ts';
import { describe, idProblem, instanceIdOf, randomId, splitIdOf } from '../base/ids.ts';
import { type Random, systemRandom } from '../base/random.ts';
import { reopenedPlan } from '../protocol/plan-records.ts';
import { recreatedRecord, requeuedRecord } from '../protocol/tenancy-records.ts';
import { requeueTxn } from '../protocol/transactions.ts';
import { type Decoded, type Stamp, sameStamp } from '../records/codec.ts';
import { jobKeys, type JobKeys } from '../records/keys.ts';
import { planCodec, specCodec, type SplitRecord, splitCodec } from '../records/records.ts';
import type { Entry, Store, Txn, TxnOutcome, Write } from '../store/port.ts';
import { readKeysInParts, type ReadKeysResult } from '../store/read-all.ts';

export interface OperatorOptions {
  readonly job: string;
  /** As given to the workers; `leasehold` when absent. */
  readonly prefix?: string;
  readonly store: Store;
  /** Who acts, for the stamp on what is written; 1..128 bytes of `[A-Za-z0-9_-]`. */
  readonly name?: string;
  /** Bound of one send, in milliseconds; 5,000 when absent. */
  readonly opTimeoutMs?: number;
  readonly random?: Random;
}

/** Acts of an operator. Each resolves when it is durable; repeating one that holds already changes nothing. */
export interface Operator {
  /** Every worker drains and claims nothing; assignments stay, so that `resume` moves nothing. */
  pause(): Promise<void>;
  resume(): Promise<void>;
  /** The instance keeps its splits and gets no new ones. */
  cordon(instanceId: string): Promise<void>;
  uncordon(instanceId: string): Promise<void>;
  /** The instance hands everything back and gets nothing. */
  drain(instanceId: string): Promise<void>;
  undrain(instanceId: string): Promise<void>;
  /**
   * Puts a quarantined split back into the pool with all its attempts, and takes the verdict back if there was one. A
   * split of which only the spec is left gets a new record.
   *
   * @throws LeaseholdError `E_SPLIT_UNKNOWN`, `E_SPLIT_NOT_QUARANTINED`, `E_RECORD_CORRUPT`.
   */
  requeue(splitId: string): Promise<void>;
}

/** Sends of one write before its outcome is reported as unknown. */
const SENDS_MAX = 5;
/** Times the world may change under a requeue. */
const CONFLICTS_MAX = 10;

/** Builds an operator. @throws LeaseholdError `E_ID_INVALID`. */
export function createOperator(options: OperatorOptions): Operator {
  return new StoreOperator(options);
}

class StoreOperator implements Operator {
  readonly #store: Store;
  readonly #keys: JobKeys;
  readonly #name: string;
  readonly #nonce: string;
  readonly #timeoutMs: number;
  #writes = 0;

  constructor(options: OperatorOptions) {
    const name = options.name ?? 'operator';
    for (const [what, value] of Object.entries({ job: options.job, name })) {
      const problem = idProblem(value);
      if (problem === undefined) continue;
      throw new LeaseholdError('E_ID_INVALID', `${what} ${problem}`, {
        details: { what, value: describe(value) },
      });
    }
    this.#store = options.store;
    this.#keys = jobKeys(options.prefix ?? 'leasehold', options.job);
    this.#name = name;
    this.#nonce = randomId(options.random ?? systemRandom());
    this.#timeoutMs = options.opTimeoutMs ?? 5_000;
  }

  pause(): Promise<void> {
    return this.#raise(this.#keys.paused);
  }

  resume(): Promise<void> {
    return this.#lower(this.#keys.paused);
  }

  async cordon(instanceId: string): Promise<void> {
    await this.#raise(this.#keys.cordoned(instanceIdOf(instanceId)));
  }

  async uncordon(instanceId: string): Promise<void> {
    await this.#lower(this.#keys.cordoned(instanceIdOf(instanceId)));
  }

  async drain(instanceId: string): Promise<void> {
    await this.#raise(this.#keys.drained(instanceIdOf(instanceId)));
  }

  async undrain(instanceId: string): Promise<void> {
    await this.#lower(this.#keys.drained(instanceIdOf(instanceId)));
  }

  async requeue(splitId: string): Promise<void> {
    const split = splitIdOf(splitId);
    const { plan } = this.#keys;
    const wanted = [this.#keys.split(split), plan, this.#keys.spec(split)];
    for (let conflicts = 0; conflicts < CONFLICTS_MAX; conflicts += 1) {
      const { entries, revision } = await this.#read(wanted);
      const stamp = this.#stamp();
      const splitEntry = entries.get(wanted[0]!);
      const planEntry = entries.get(plan);
      const planRecord = readOrThrow(plan, planEntry, planCodec.decode);
      const next = this.#requeued(splitId, splitEntry, entries.get(wanted[2]!), revision);
      const values = {
        split: splitCodec.encode(next, stamp),
        plan: planCodec.encode(reopenedPlan(planRecord), stamp),
      };
      const outcome = await this.#send(
        requeueTxn(this.#keys, split, values, {
          revision: splitEntry?.modRevision ?? ABSENT,
          planRevision: planEntry!.modRevision,
        }),
      );
      if (outcome.kind === 'committed') return;
      const [splitFound = null, planFound = null] = outcome.found;
      // Claimed since, the split carries its owner's stamp; the plan still carries ours (R2).
      const isOwn = [
        splitFound === null ? undefined : splitCodec.decode(splitFound.value),
        planFound === null ? undefined : planCodec.decode(planFound.value),
      ].some((decoded) => decoded?.kind === 'record' && sameStamp(decoded.stamp, stamp));
      if (isOwn) return;
    }
    throw new LeaseholdError(
      'E_STORE_UNREACHABLE',
      `${splitId} or the plan changed at every try to requeue it`,
    );
  }

  #requeued(
    splitId: string,
    entry: Entry | undefined,
    specEntry: Entry | undefined,
    revision: Revision,
  ): SplitRecord {
    if (entry === undefined) {
      if (specEntry === undefined) {
        throw new LeaseholdError('E_SPLIT_UNKNOWN', `split ${splitId} is not in this job's plan`, {
          details: { split: splitId },
        });
      }
      const spec = readOrThrow(specEntry.key, specEntry, specCodec.decode);
      return recreatedRecord({ weight: spec.weight, epoch: epochOf(revision) });
    }
    const record = readOrThrow(entry.key, entry, splitCodec.decode);
    if (record.status !== 'quarantined') {
      throw new LeaseholdError(
        'E_SPLIT_NOT_QUARANTINED',
        `split ${splitId} is ${record.status}; only a quarantined split can be requeued`,
        { details: { split: splitId, status: record.status } },
      );
    }
    return requeuedRecord(record);
  }

  async #raise(key: string): Promise<void> {
    const value = JSON.stringify({ by: this.#stamp() });
    // Found there: raised already, by us or by somebody else.
    await this.#send(absentThen(key, { put: key, value, session: null }));
  }

  async #lower(key: string): Promise<void> {
    for (let conflicts = 0; conflicts < CONFLICTS_MAX; conflicts += 1) {
      const entry = (await this.#read([key])).entries.get(key);
      if (entry === undefined) return;
      const outcome = await this.#send({
        compares: [{ key, target: 'modRevision', equals: entry.modRevision }],
        writes: [{ delete: key }],
        onConflict: [key],
      });
      if (outcome.kind === 'committed' || outcome.found[0] === null) return;
    }
    throw new LeaseholdError('E_STORE_UNREACHABLE', `${key} changed at every try to delete it`);
  }

  #read(keys: readonly string[]): Promise<ReadKeysResult> {
    return readKeysInParts(this.#store, keys, { timeoutMs: this.#timeoutMs });
  }

  /** Sends the very same write until it is answered (R1). */
  async #send(txn: Txn): Promise<TxnOutcome> {
    for (let sends = 1; ; sends += 1) {
      try {
        const outcome = await this.#store.transact(
          { guard: [], txns: [txn] },
          { timeoutMs: this.#timeoutMs },
        );
        if (outcome.kind === 'tried') return outcome.outcomes[0]!;
      } catch (error) {
        const mayRepeat =
          isLeaseholdError(error) &&
          (error.kind === 'indeterminate' || error.kind === 'unavailable') &&
          sends < SENDS_MAX;
        if (!mayRepeat) throw error;
      }
    }
  }

  #stamp(): Stamp {
    this.#writes += 1;
    return { instance: this.#name, nonce: this.#nonce, write: this.#writes };
  }
}

function absentThen(key: string, write: Write): Txn {
  return {
    compares: [{ key, target: 'createRevision', equals: ABSENT }],
    writes: [write],
    onConflict: [],
  };
}

function readOrThrow<T>(
  key: string,
  entry: Entry | undefined,
  decode: (text: string) => Decoded<T>,
): T {
  const decoded = entry === undefined ? undefined : decode(entry.value);
  if (decoded?.kind === 'record') return decoded.record;
  const reason = decoded === undefined ? 'it is missing' : decoded.reason;
  throw new LeaseholdError('E_RECORD_CORRUPT', `${key} cannot be worked on: ${reason}`, {
    details: { key },
  });
}
