/** The client of a worker whose clock runs faster than real time: etcd lives in real time. */
import type { Revision } from '../../../src/base/decimals.ts';
import type { SessionId } from '../../../src/base/ids.ts';
import type { EtcdStore } from '../../../src/store/etcd/index.ts';
import type {
  Batch,
  BatchOutcome,
  CallOptions,
  Range,
  ReadOptions,
  ReadOutcome,
  SessionGrant,
  Store,
  WatchStream,
} from '../../../src/store/port.ts';

/** What was answered, before the caller hears of it. */
export interface Answered {
  readonly revision: Revision;
  /** True when something was written at this revision. */
  readonly isWrite: boolean;
}

export class FastStore implements Store {
  readonly name = 'etcd';
  readonly #inner: EtcdStore;
  readonly #speed: number;
  readonly #answered: (answer: Answered | null) => Promise<void>;

  /** `answered` delays each answer; null says that a session has ended. */
  constructor(
    inner: EtcdStore,
    speed: number,
    answered: (answer: Answered | null) => Promise<void>,
  ) {
    this.#inner = inner;
    this.#speed = speed;
    this.#answered = answered;
  }

  get clusterId(): string {
    return this.#inner.clusterId;
  }

  async openSession(id: SessionId, ttlMs: number, options: CallOptions): Promise<SessionGrant> {
    return this.#grant(await this.#inner.openSession(id, ttlMs / this.#speed, this.#real(options)));
  }

  async keepAlive(id: SessionId, options: CallOptions): Promise<SessionGrant> {
    return this.#grant(await this.#inner.keepAlive(id, this.#real(options)));
  }

  async closeSession(id: SessionId, options: CallOptions): Promise<void> {
    await this.#inner.closeSession(id, this.#real(options));
    await this.#answered(null);
  }

  async read(range: Range, read: ReadOptions, options: CallOptions): Promise<ReadOutcome> {
    const outcome = await this.#inner.read(range, read, this.#real(options));
    if (outcome.kind !== 'tooLarge') {
      await this.#answered({ revision: outcome.revision, isWrite: false });
    }
    return outcome;
  }

  async transact(batch: Batch, options: CallOptions): Promise<BatchOutcome> {
    const outcome = await this.#inner.transact(batch, this.#real(options));
    const isWrite =
      outcome.kind === 'tried' && outcome.outcomes.some(({ kind }) => kind === 'committed');
    await this.#answered({ revision: outcome.revision, isWrite });
    return outcome;
  }

  watch(range: Range, fromRevision: Revision): WatchStream {
    return this.#inner.watch(range, fromRevision);
  }

  close(): Promise<void> {
    return this.#inner.close();
  }

  #real({ timeoutMs }: CallOptions): CallOptions {
    return { timeoutMs: timeoutMs / this.#speed };
  }

  #grant({ ttlMs }: SessionGrant): SessionGrant {
    return { ttlMs: ttlMs * this.#speed };
  }
}
