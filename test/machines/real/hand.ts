/** Everybody else, played by the test: another leader, another owner, another worker, written into the store by hand. */
import type { Epoch } from '../../../src/base/decimals.ts';
import type { InstanceId, Nonce, SessionId, SplitId } from '../../../src/base/ids.ts';
import type { Stamp } from '../../../src/records/codec.ts';
import type { JobKeys } from '../../../src/records/keys.ts';
import {
  assignmentCodec,
  leaderCodec,
  type LeaseRecord,
  leaseCodec,
  parkedCodec,
  type PlanRecord,
  planCodec,
  type PresenceRecord,
  presenceCodec,
  specCodec,
  type SplitRecord,
  splitCodec,
} from '../../../src/records/records.ts';
import type { MemoryStore } from '../../../src/store/memory.ts';

/** Who writes by hand where nobody else is named. */
export const OTHER = 'z' as InstanceId;
const NONCE = 'nonce-z' as Nonce;

export class Hand {
  readonly #store: MemoryStore;
  readonly #keys: JobKeys;
  #writes = 0;

  constructor(store: MemoryStore, keys: JobKeys) {
    this.#store = store;
    this.#keys = keys;
  }

  plan(change: Partial<PlanRecord> = {}): void {
    const { plan } = this.#keys;
    const before = this.#read(plan, planCodec.decode) ?? {
      fingerprint: 'plan:v1',
      generation: 1,
      finality: 'final' as const,
      sealed: true,
      planned: 1,
      cursor: null,
      requeues: 0,
      verdict: null,
    };
    this.#store.put(plan, planCodec.encode({ ...before, ...change }, this.#stamp()));
  }

  /** Another worker leads. */
  lead(): void {
    const record = { owner: OTHER, nonce: NONCE, generation: 1 };
    this.#store.put(this.#keys.leader, leaderCodec.encode(record, this.#stamp()));
  }

  spec(id: string): void {
    const spec = { weight: 1, descriptor: Buffer.from(id).toString('base64') };
    this.#store.put(this.#keys.spec(id as SplitId), specCodec.encode(spec, this.#stamp()));
  }

  /** Puts the record of a split, as it stands but for what is changed. */
  split(id: string, change: Partial<SplitRecord> = {}): void {
    const key = this.#keys.split(id as SplitId);
    const before = this.#read(key, splitCodec.decode) ?? {
      epoch: '1' as Epoch,
      status: 'runnable' as const,
      owner: null,
      nonce: null,
      attempts: 0,
      weight: 1,
      watermark: null,
      state: null,
      lastFailure: null,
    };
    this.#store.put(key, splitCodec.encode({ ...before, ...change }, this.#stamp()));
  }

  /** Another worker takes a split: a higher epoch. */
  takeSplit(id: string, owner: InstanceId = OTHER): void {
    const { epoch } = this.#read(this.#keys.split(id as SplitId), splitCodec.decode)!;
    this.split(id, { owner, nonce: NONCE, epoch: String(BigInt(epoch) + 1n) as Epoch });
  }

  /** Another worker's lease, on no session unless one is named. */
  lease(id: string, session: SessionId | null = null, owner: InstanceId = OTHER): void {
    const record: LeaseRecord = { owner, nonce: NONCE, epoch: '1' as Epoch, state: 'owned' };
    const key = this.#keys.lease(id as SplitId);
    this.#store.put(key, leaseCodec.encode(record, this.#stamp()), session);
  }

  assign(instance: string, splits: readonly string[]): void {
    const record = { generation: 1, splits: splits as SplitId[] };
    const key = this.#keys.assignment(instance as InstanceId);
    this.#store.put(key, assignmentCodec.encode(record, this.#stamp()));
  }

  presence(instance: string, change: Partial<PresenceRecord> = {}): void {
    const record: PresenceRecord = {
      nonce: `nonce-${instance}` as Nonce,
      session: 'f00d' as SessionId,
      maxInFlight: 0,
      parting: false,
      refuses: [],
      version: '0.1.0',
      host: '',
      ...change,
    };
    const key = this.#keys.presence(instance as InstanceId);
    this.#store.put(key, presenceCodec.encode(record, this.#stamp()));
  }

  park(id: string): void {
    const parked = { attempts: 3, reason: 'by hand', owner: OTHER };
    this.#store.put(this.#keys.parked(id as SplitId), parkedCodec.encode(parked, this.#stamp()));
  }

  /** Puts a key whose value nobody reads. */
  wish(key: string): void {
    this.#store.put(key, '{}');
  }

  remove(key: string): void {
    this.#store.remove(key);
  }

  #read<T>(key: string, decode: (text: string) => { kind: string; record?: T }): T | null {
    const entry = this.#store.dump(key).find((one) => one.key === key);
    return entry === undefined ? null : (decode(entry.value).record ?? null);
  }

  #stamp(): Stamp {
    this.#writes += 1;
    return { instance: OTHER, nonce: NONCE, write: this.#writes };
  }
}
