/**
 * One term of leadership: its guard, its clocks of failing work, and what it knows. When it is over, nothing more of it is
 * written: every write carries the guard as an outer compare (R19), and unsent ones are dropped.
 */
import type { Revision } from '../../base/decimals.ts';
import type { LeaseholdError } from '../../base/errors.ts';
import { leadsCompares, putTxn } from '../../protocol/transactions.ts';
import type { Compare, Entry, Range, Txn } from '../../store/port.ts';
import type { WriteAnswer } from '../link/batcher.ts';
import type { Core } from '../link/core.ts';
import { readUntilAnswered } from '../link/reading.ts';
import type { SessionKeeper } from '../link/session-keeper.ts';
import type { Elected } from './election.ts';
import { nextTurn, PART_MAX } from '../loop/next-turn.ts';
import { SplitIndex } from './split-index.ts';

/** What a term tells the leadership about itself. */
export interface TermHooks {
  /** A write found another leader, or none. */
  guardFailed(): void;
  /** Some kind of work has failed for one lease (R18). */
  unhealthy(what: string): void;
}

/** Work of a leader that fails and heals by itself. */
export type LeaderWork = 'writing' | 'reading assignments' | 'reading splits' | 'judging';

export class Term {
  readonly generation: number;
  readonly createRevision: Revision;
  readonly startedAtMs: number;
  /** The same array for all writes of the term: they travel together. */
  readonly guard: readonly Compare[];
  readonly index = new SplitIndex();
  readonly abort = new AbortController();
  readonly #core: Core;
  readonly #session: SessionKeeper;
  readonly #hooks: TermHooks;
  /** What fails now, and since when. */
  readonly #failingSinceMs = new Map<LeaderWork, number>();

  constructor(core: Core, session: SessionKeeper, elected: Elected, hooks: TermHooks) {
    this.#core = core;
    this.#session = session;
    this.#hooks = hooks;
    this.generation = elected.generation;
    this.createRevision = elected.createRevision;
    this.startedAtMs = core.clock.nowMs();
    this.guard = leadsCompares(core.keys, elected);
  }

  get isOver(): boolean {
    return this.abort.signal.aborted;
  }

  end(): void {
    this.abort.abort();
    this.#core.batcher.dropStale();
  }

  /** Some work of this kind was done: another leader would not do better. */
  worked(work: LeaderWork): void {
    this.#failingSinceMs.delete(work);
  }

  /** Some work of this kind was in vain; after one lease of that another leader should try (R18). */
  failed(work: LeaderWork): void {
    const nowMs = this.#core.clock.nowMs();
    const sinceMs = this.#failingSinceMs.get(work) ?? nowMs;
    this.#failingSinceMs.set(work, sinceMs);
    if (nowMs - sinceMs < this.#core.config.leaseDurationMs || this.isOver) return;
    this.#failingSinceMs.delete(work);
    this.#hooks.unhealthy(work);
  }

  /** Counts what becomes of one try. */
  async #counted<T>(work: LeaderWork, read: () => Promise<T>): Promise<T> {
    try {
      const answer = await read();
      this.worked(work);
      return answer;
    } catch (error) {
      this.#core.mailbox.post(() => {
        this.failed(work);
      });
      throw error;
    }
  }

  /**
   * Lists a range for this term, page by page, all at one revision. A page that arrives is a success, however long the whole
   * takes; one that does not is asked for again.
   *
   * @returns The revision; `compacted` when its history was lost, so that what was taken is void.
   * @throws `E_STOPPED` when the term is over.
   */
  async list(
    work: LeaderWork,
    range: Range,
    options: { readonly keysOnly?: boolean; readonly atRevision?: Revision },
    take: (entries: readonly Entry[]) => void,
  ): Promise<Revision | 'compacted'> {
    const { leaderGate, clock } = this.#core;
    let part = 0;
    const result = await leaderGate.readPages(range, options, {
      persist: (page) => this.answered(work, page),
      take: async (entries) => {
        if (part + entries.length > PART_MAX) {
          part = 0;
          await nextTurn(clock);
        }
        part += entries.length;
        if (!this.isOver) take(entries);
      },
    });
    return result === 'compacted' ? result : result.revision;
  }

  /** Reads until there is an answer. @throws `E_STOPPED` when the term is over. */
  answered<T>(work: LeaderWork, read: () => Promise<T>): Promise<T> {
    return readUntilAnswered(this.#core, {
      read: () => this.#counted(work, read),
      isWanted: () => !this.isOver,
    });
  }

  /** Does a work of several answers, and hands its result on as a message; neither once the term is over. */
  run<T>(work: () => Promise<T>, done: (result: T) => void): void {
    const { mailbox, bug } = this.#core;
    work().then(
      (result) => {
        mailbox.post(() => {
          if (!this.isOver) done(result);
        });
      },
      (error: unknown) => {
        if (!this.isOver) bug(error);
      },
    );
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
   * Writes or deletes one durable key, if it is still at `where.equals` and the keys of `where.absent` are not there, and takes the answer
   * into the view.
   *
   * @returns True when the key stands as written, also by an earlier send; false when somebody else changed it, or the
   *   term is over.
   */
  async put(
    name: string,
    key: string,
    value: string | null,
    where: { readonly equals: Revision; readonly absent?: readonly string[] },
  ): Promise<boolean> {
    const { view } = this.#core;
    const txn = putTxn(key, value, where);
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
        this.#writeFailed(error);
      },
      answered: (answer) => {
        if (answer.kind === 'refused' && !this.isOver) {
          this.#writeFailed(answer.error);
          core.after(core.config.leaseDurationMs / 10, () => {
            if (this.isOver) resolve({ kind: 'abandoned' });
            else this.#enqueue(name, build, resolve);
          });
          return;
        }
        if (answer.kind === 'committed' || answer.kind === 'conflict') this.worked('writing');
        if (answer.kind === 'guardFailed' && !this.isOver) this.#hooks.guardFailed();
        resolve(answer);
      },
    });
  }

  /** A full store refuses everybody; another leader would fare no better (R18). */
  #writeFailed(error: LeaseholdError): void {
    if (error.code !== 'E_STORE_FULL') this.failed('writing');
  }
}
