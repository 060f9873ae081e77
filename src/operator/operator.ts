/**
 * What an operator may do to a job, from anywhere that reaches its store: pause and resume it, cordon or drain an
 * instance, put a quarantined split back (R29, T15). Each act is one guarded write; an unanswered one is sent again as it
 * was until it is answered.
 */
import { DELAY_MS_MAX } from '../base/clock.ts';
import { ABSENT, epochOf, type Revision } from '../base/decimals.ts';
import { isLeaseholdError, LeaseholdError } from '../base/errors.ts';
import { type InstanceId, instanceIdOf, randomId, splitIdOf } from '../base/ids.ts';
import { type Random, systemRandom } from '../base/random.ts';
import { A_RANDOM, AN_ID } from '../base/rules.ts';
import {
  aNumber,
  checkTable,
  nearest,
  readTable,
  refuseIfAny,
  type TableOf,
  type Violation,
} from '../base/shape.ts';
import { reopenedPlan } from '../protocol/plan-records.ts';
import { recreatedRecord, requeuedRecord } from '../protocol/tenancy-records.ts';
import { requeueTxn } from '../protocol/transactions.ts';
import { type Decoded, type Stamp, sameStamp } from '../records/codec.ts';
import {
  A_PREFIX,
  jobKeys,
  type JobKeys,
  KEY_PREFIXES,
  nestingViolations,
  tracesOf,
} from '../records/keys.ts';
import { planCodec, specCodec, type SplitRecord, splitCodec } from '../records/records.ts';
import { A_STORE } from '../store/a-store.ts';
import type { Entry, Store, Txn, TxnOutcome } from '../store/port.ts';
import { readEach, readKeysInParts, type ReadKeysResult } from '../store/read-all.ts';
import {
  parkedOf,
  REQUEUE_ALL_OPTIONS,
  type RequeueAllOptions,
  type RequeueAllResult,
} from './parked.ts';

/** As the workers' own. */
const OP_TIMEOUT_MS_MIN = 50;

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

/** The options of `createOperator`. */
export const OPERATOR_OPTIONS: TableOf<OperatorOptions> = {
  job: { rule: AN_ID, isRequired: true, meaning: 'The job to act on.' },
  store: { rule: A_STORE, isRequired: true, meaning: 'Where the workers of the job meet.' },
  prefix: { rule: A_PREFIX, defaultText: 'leasehold', meaning: 'As given to the workers.' },
  name: {
    rule: AN_ID,
    defaultText: 'operator',
    meaning: 'Who acts, for the stamp on what is written.',
  },
  opTimeoutMs: {
    rule: aNumber(OP_TIMEOUT_MS_MIN, DELAY_MS_MAX, ' ms'),
    defaultText: '5000',
    meaning: 'Bound of one send.',
  },
  random: { rule: A_RANDOM, defaultText: 'of the host', meaning: 'Draws the nonce of the stamps.' },
};

/**
 * Acts of an operator. Each resolves when it is durable; repeating one that holds already changes nothing. An act on a job that
 * is not there is refused with `E_JOB_UNKNOWN`, one on an instance that nothing is known of with `E_INSTANCE_UNKNOWN`: a mistyped
 * name must not look like success.
 */
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
   * @throws LeaseholdError `E_SPLIT_UNKNOWN`, `E_SPLIT_NOT_QUARANTINED`, `E_RECORD_CORRUPT`; `E_JOB_UNKNOWN` as every act.
   */
  requeue(splitId: string): Promise<void>;
  /** The same for all that are set aside, or those that `filter` wants, one after the other; rejects with the first that cannot be put back. */
  requeueAll(options?: RequeueAllOptions): Promise<RequeueAllResult>;
}

/** Sends of one write before its outcome is reported as unknown. */
const SENDS_MAX = 5;
/** Times the world may change under an act. */
const CONFLICTS_MAX = 10;
/** Names among which one is looked for that may have been meant. */
const NAMES_READ_MAX = 500;

/** Builds an operator. @throws LeaseholdError `E_CONFIG_INVALID` that lists all violations. */
export function createOperator(options: OperatorOptions): Operator {
  return new StoreOperator(options);
}

class StoreOperator implements Operator {
  readonly #store: Store;
  readonly #job: string;
  readonly #keys: JobKeys;
  readonly #name: string;
  readonly #nonce: string;
  readonly #timeoutMs: number;
  #writes = 0;

  constructor(given: OperatorOptions) {
    const options = checkOptions(given);
    const { job, prefix = 'leasehold', name = 'operator' } = options;
    this.#store = options.store;
    this.#job = job;
    this.#keys = jobKeys(prefix, job);
    this.#name = name;
    this.#nonce = randomId(options.random ?? systemRandom());
    this.#timeoutMs = options.opTimeoutMs ?? 5_000;
  }

  pause(): Promise<void> {
    return this.#raise(this.#keys.paused, null);
  }

  resume(): Promise<void> {
    return this.#lower(this.#keys.paused, null);
  }

  async cordon(instanceId: string): Promise<void> {
    const instance = instanceIdOf(instanceId);
    await this.#raise(this.#keys.cordoned(instance), instance);
  }

  async uncordon(instanceId: string): Promise<void> {
    const instance = instanceIdOf(instanceId);
    await this.#lower(this.#keys.cordoned(instance), instance);
  }

  async drain(instanceId: string): Promise<void> {
    const instance = instanceIdOf(instanceId);
    await this.#raise(this.#keys.drained(instance), instance);
  }

  async undrain(instanceId: string): Promise<void> {
    const instance = instanceIdOf(instanceId);
    await this.#lower(this.#keys.drained(instance), instance);
  }

  async requeueAll(options: RequeueAllOptions = {}): Promise<RequeueAllResult> {
    const { filter } = checkTable(options, REQUEUE_ALL_OPTIONS, 'options of requeueAll');
    await this.#known(null);
    const prefix = `${this.#keys.root}${KEY_PREFIXES.parked}`;
    const matching: string[] = [];
    await readEach(
      this.#store,
      { prefix },
      {
        timeoutMs: this.#timeoutMs,
        restarted: () => {
          matching.length = 0;
        },
      },
      (entries) => {
        for (const { key, value } of entries) {
          const parked = parkedOf(key.slice(prefix.length), value);
          if (filter === undefined || filter(parked)) matching.push(parked.splitId);
        }
      },
    );
    let requeued = 0;
    for (const splitId of matching) if (await this.#requeuedOne(splitId)) requeued += 1;
    return { matched: matching.length, requeued };
  }

  /** False when somebody else has put it back meanwhile. */
  async #requeuedOne(splitId: string): Promise<boolean> {
    try {
      await this.requeue(splitId);
      return true;
    } catch (error) {
      if (isLeaseholdError(error) && error.code === 'E_SPLIT_NOT_QUARANTINED') return false;
      throw error;
    }
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
      if (planEntry === undefined && splitEntry === undefined && !entries.has(wanted[2]!)) {
        throw this.#jobUnknown();
      }
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

  /** Puts a control key, at the plan that was seen: none is left behind where a job is deleted meanwhile. */
  async #raise(key: string, instance: InstanceId | null): Promise<void> {
    const { plan } = this.#keys;
    const value = JSON.stringify({ by: this.#stamp() });
    for (let conflicts = 0; conflicts < CONFLICTS_MAX; conflicts += 1) {
      const planEntry = await this.#known(instance);
      const outcome = await this.#send({
        compares: [
          { key, target: 'createRevision', equals: ABSENT },
          { key: plan, target: 'createRevision', equals: planEntry.createRevision },
        ],
        writes: [{ put: key, value, session: null }],
        onConflict: [key],
      });
      // Found there: raised already, by us or by somebody else.
      if (outcome.kind === 'committed' || outcome.found[0] !== null) return;
    }
    throw new LeaseholdError('E_STORE_UNREACHABLE', `${plan} changed at every try to put ${key}`);
  }

  async #lower(key: string, instance: InstanceId | null): Promise<void> {
    for (let conflicts = 0; conflicts < CONFLICTS_MAX; conflicts += 1) {
      const entry = (await this.#read([key])).entries.get(key);
      if (entry === undefined) {
        await this.#known(instance);
        return;
      }
      const outcome = await this.#send({
        compares: [{ key, target: 'modRevision', equals: entry.modRevision }],
        writes: [{ delete: key }],
        onConflict: [key],
      });
      if (outcome.kind === 'committed' || outcome.found[0] === null) return;
    }
    throw new LeaseholdError('E_STORE_UNREACHABLE', `${key} changed at every try to delete it`);
  }

  /** The plan of the job. @throws LeaseholdError `E_JOB_UNKNOWN`; `E_INSTANCE_UNKNOWN` if one is meant and nothing is known of it. */
  async #known(instance: InstanceId | null): Promise<Entry> {
    const { plan } = this.#keys;
    const traces = instance === null ? [] : tracesOf(this.#keys, instance);
    const { entries } = await this.#read([plan, ...traces]);
    const planEntry = entries.get(plan);
    if (planEntry === undefined) throw this.#jobUnknown();
    if (instance !== null && !traces.some((key) => entries.has(key))) {
      throw await this.#instanceUnknown(instance);
    }
    return planEntry;
  }

  #jobUnknown(): LeaseholdError {
    const { plan } = this.#keys;
    return new LeaseholdError(
      'E_JOB_UNKNOWN',
      `there is no job ${this.#job}: ${plan} is not stored; check the names of job and prefix, or start a worker first`,
      { details: { job: this.#job, key: plan } },
    );
  }

  async #instanceUnknown(instance: InstanceId): Promise<LeaseholdError> {
    const prefix = this.#keys.root + KEY_PREFIXES.workers;
    const page = await this.#store.read(
      { prefix },
      { limit: NAMES_READ_MAX, keysOnly: true },
      { timeoutMs: this.#timeoutMs },
    );
    const names =
      page.kind === 'page' ? page.entries.map(({ key }) => key.slice(prefix.length)) : [];
    const meant = nearest(instance, names);
    const hint = meant === undefined ? '' : `; did you mean ${meant}?`;
    return new LeaseholdError(
      'E_INSTANCE_UNKNOWN',
      `job ${this.#job} knows no instance ${instance}: neither present, assigned, away nor under control${hint}`,
      { details: { job: this.#job, instance } },
    );
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

/** @throws LeaseholdError `E_CONFIG_INVALID` that lists all violations. */
function checkOptions(given: unknown): OperatorOptions {
  const found: Violation[] = [];
  const values = readTable(given, OPERATOR_OPTIONS, { name: 'options', found });
  const { prefix = 'leasehold', job } = values;
  if (job !== undefined) found.push(...nestingViolations(prefix as string, job as string));
  refuseIfAny(found, 'options');
  return values as unknown as OperatorOptions;
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
