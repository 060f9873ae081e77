/** A leader played by the test: what it writes is what a leader would write, at moments that the test chooses. */
import type { Epoch } from '../../../src/base/decimals.ts';
import type { InstanceId, Nonce, SplitId } from '../../../src/base/ids.ts';
import type { Stamp } from '../../../src/records/codec.ts';
import type { JobKeys } from '../../../src/records/keys.ts';
import {
  assignmentCodec,
  leaderCodec,
  planCodec,
  specCodec,
  splitCodec,
} from '../../../src/records/records.ts';
import type { Gateway } from './server/gateway.ts';

const ME = 'by-hand' as InstanceId;
const NONCE = 'nonce-by-hand' as Nonce;
const GENERATION = 1;
/** Longer than any test: it is not renewed. */
const LEASE_SECONDS = 300;

export class HandLeader {
  readonly #gateway: Gateway;
  readonly #keys: JobKeys;
  #writes = 0;

  private constructor(gateway: Gateway, keys: JobKeys) {
    this.#gateway = gateway;
    this.#keys = keys;
  }

  /** Leads before any worker is there, under an open plan of this fingerprint. */
  static async elect(gateway: Gateway, keys: JobKeys, fingerprint: string): Promise<HandLeader> {
    const leader = new HandLeader(gateway, keys);
    const { id } = await gateway.grant(LEASE_SECONDS);
    const record = { owner: ME, nonce: NONCE, generation: GENERATION };
    await gateway.put(keys.leader, leaderCodec.encode(record, leader.#stamp()), id);
    const plan = {
      fingerprint,
      generation: GENERATION,
      finality: 'open' as const,
      sealed: false,
      planned: 0,
      cursor: null,
      requeues: 0,
      verdict: null,
    };
    await gateway.put(keys.plan, planCodec.encode(plan, leader.#stamp()));
    return leader;
  }

  /** Adds splits to the plan. */
  async seed(splits: readonly string[]): Promise<void> {
    for (const split of splits as SplitId[]) {
      const spec = { weight: 1, descriptor: Buffer.from(split).toString('base64') };
      await this.#gateway.put(this.#keys.spec(split), specCodec.encode(spec, this.#stamp()));
      const record = {
        epoch: '0' as Epoch,
        status: 'runnable' as const,
        owner: null,
        nonce: null,
        attempts: 0,
        weight: 1,
        watermark: null,
        state: null,
        lastFailure: null,
      };
      await this.#gateway.put(this.#keys.split(split), splitCodec.encode(record, this.#stamp()));
    }
  }

  /** Names what an instance should hold. */
  async assign(instance: string, splits: readonly string[]): Promise<void> {
    const record = { generation: GENERATION, splits: splits as SplitId[] };
    await this.#gateway.put(
      this.#keys.assignment(instance as InstanceId),
      assignmentCodec.encode(record, this.#stamp()),
    );
  }

  #stamp(): Stamp {
    this.#writes += 1;
    return { instance: ME, nonce: NONCE, write: this.#writes };
  }
}
