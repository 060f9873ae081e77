/**
 * One term of leadership: its guard, its clock of failing writes, and what it knows. When it is over, nothing more of it
 * is written: every write carries the guard as an outer compare (R19), and unsent ones are dropped.
 */
import { ABSENT, type Revision } from '../../base/decimals.ts';
import type { Compare, Txn } from '../../store/port.ts';
import type { WriteAnswer } from '../link/batcher.ts';
import type { Core } from '../link/core.ts';
import type { SessionKeeper } from '../link/session-keeper.ts';
import { SplitIndex } from './split-index.ts';

/** What a term tells the leadership about itself. */
export interface TermHooks {
  /** A write found another leader, or none. */
  guardFailed(): void;
  /** Leader writes have failed for one lease (R18). */
  unhealthy(): void;
}

export class Term {
  readonly generation: number;
  readonly createRevision: Revision;
  readonly startedAtMs: number;
  /** The same array for all writes of the term: they travel together. */
  readonly guard: readonly Compare[];
  readonly index = new SplitIndex();
  readonly abort = new AbortController();
  /** The splits were read and the assignments are followed: decisions may be taken. */
  isReady = false;
  readonly #core: Core;
  readonly #session: SessionKeeper;
  readonly #hooks: TermHooks;
  #failingSinceMs: number | null = null;

  constructor(
    core: Core,
    session: SessionKeeper,
    elected: { generation: number; createRevision: Revision },
    hooks: TermHooks,
  ) {
    this.#core = core;
    this.#session = session;
    this.#hooks = hooks;
    this.generation = elected.generation;
    this.createRevision = elected.createRevision;
    this.startedAtMs = core.clock.nowMs();
    this.guard = [
      { key: core.keys.leader, target: 'createRevision', equals: elected.createRevision },
    ];
  }

  get isOver(): boolean {
    return this.abort.signal.aborted;
  }

  end(): void {
    this.abort.abort();
    this.#core.batcher.dropStale();
  }

  /**
   * Writes one transaction of this term. `build` runs when it is sent.
   *
   * Never rejects: answers `abandoned` when the term is over, `guardFailed` when it was over already. Whatever the store
   * refuses is tried again, until the term is given up for it (R18).
   */
  write(name: string, build: () => Txn | null): Promise<WriteAnswer> {
    return new Promise((resolve) => {
      this.#enqueue(name, build, resolve);
    });
  }

  /**
   * Writes or deletes one durable key, if it is still at `equals` and the keys of `absent` are not there, and takes the answer
   * into the view.
   *
   * @returns True when the key stands as written, also by an earlier send; false when somebody else changed it, or the
   *   term is over.
   */
  async put(
    name: string,
    key: string,
    value: string | null,
    { equals, absent = [] }: { readonly equals: Revision; readonly absent?: readonly string[] },
  ): Promise<boolean> {
    const { view } = this.#core;
    const txn: Txn = {
      compares: [
        { key, target: 'modRevision', equals },
        ...absent.map((one) => ({ key: one, target: 'createRevision', equals: ABSENT }) as const),
      ],
      writes: [value === null ? { delete: key } : { put: key, value, session: null }],
      onConflict: [key, ...absent],
    };
    const answer = await this.write(name, () => txn);
    if (answer.kind === 'committed') {
      view.wrote(key, value, answer.revision);
      return true;
    }
    if (answer.kind !== 'conflict') return false;
    const found = answer.found[0] ?? null;
    for (const [index, one] of txn.onConflict.entries()) {
      view.found(one, answer.found[index] ?? null, answer.revision);
    }
    // The value carries its stamp: found there, it is this very write, sent twice.
    return (found?.value ?? null) === value;
  }

  #enqueue(name: string, build: () => Txn | null, resolve: (answer: WriteAnswer) => void): void {
    const core = this.#core;
    core.batcher.enqueue({
      name,
      isSessionBound: false,
      guard: this.guard,
      // The deadline of the leader's session is checked before each of its writes (R10).
      build: () => (this.isOver || !this.#session.isValid() ? null : build()),
      matters: () => !this.isOver,
      failed: (error) => {
        // A full store refuses everybody; another leader would fare no better (R18).
        if (error.code !== 'E_STORE_FULL') this.#noteFailure();
      },
      answered: (answer) => {
        if (answer.kind === 'refused' && !this.isOver) {
          core.clock.setTimeout(() => {
            core.mailbox.post(() => {
              if (this.isOver) resolve({ kind: 'abandoned' });
              else this.#enqueue(name, build, resolve);
            });
          }, core.config.leaseDurationMs / 10);
          return;
        }
        if (answer.kind === 'committed' || answer.kind === 'conflict') this.#failingSinceMs = null;
        if (answer.kind === 'guardFailed' && !this.isOver) this.#hooks.guardFailed();
        resolve(answer);
      },
    });
  }

  #noteFailure(): void {
    const nowMs = this.#core.clock.nowMs();
    this.#failingSinceMs ??= nowMs;
    if (nowMs - this.#failingSinceMs >= this.#core.config.leaseDurationMs && !this.isOver) {
      this.#failingSinceMs = null;
      this.#hooks.unhealthy();
    }
  }
}
