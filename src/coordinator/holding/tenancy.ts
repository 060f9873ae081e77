/**
 * One tenancy's data and its writes: commits and the ending, one at a time (R38).
 *
 * The chart decides what may happen; this class carries its writes out: it builds each transaction from the last record
 * known, adopts what a conflict found when that is still this tenancy's, and answers whoever waits. Rules: R1, R2, R4,
 * R33, R36, R38.
 */
import type {
  Ending,
  TenancyContext,
  TenancyEvent,
} from '../../../machines/tenancy/tenancy.events.ts';
import type { Epoch, Revision } from '../../base/decimals.ts';
import { LeaseholdError } from '../../base/errors.ts';
import type { SessionId, SplitId } from '../../base/ids.ts';
import { isHandedBack, settleConflict } from '../../protocol/settle.ts';
import {
  committedRecord,
  compareWatermarks,
  endedRecord,
  type Progress,
  withState,
} from '../../protocol/tenancy-records.ts';
import { progressTxn } from '../../protocol/transactions.ts';
import { type SplitRecord, splitCodec } from '../../records/records.ts';
import type { Entry, Key, Txn } from '../../store/port.ts';
import { NO_GUARD, type WriteAnswer, type WriteItem } from '../link/batcher.ts';
import type { RunningChart } from '../loop/chart-host.ts';
import type { Core } from '../link/core.ts';
import { fencedError } from '../api/fenced-error.ts';
import { SplitKnowledge } from './split-knowledge.ts';
import {
  type EndingRequest,
  merged,
  type PendingCommit,
  type SentWrite,
  type Waiter,
  waitersOf,
} from './tenancy-writes.ts';

/** Where the one write of a tenancy that is under way stands (R38). */
type Line =
  | { readonly kind: 'idle' }
  /** In line; what it will be is built when its turn comes. */
  | { readonly kind: 'queued' }
  | { readonly kind: 'sent'; readonly write: SentWrite };

const IDLE: Line = { kind: 'idle' };
const QUEUED: Line = { kind: 'queued' };

export class Tenancy {
  readonly split: SplitId;
  /** Of the split's record. */
  readonly key: Key;
  /** What is known of the split. */
  readonly known = new SplitKnowledge();
  readonly #core: Core;
  readonly #onEnded: (tenancy: Tenancy) => void;
  chart!: RunningChart<TenancyEvent, TenancyContext>;

  /** The epoch of this tenancy; null before a claim was won. */
  epoch: Epoch | null = null;
  /** The session that its lease hangs on. */
  #session: SessionId | null = null;
  /** A mark of its lease is on its way. */
  isMarking = false;
  #startWatermark: string | null = null;
  /** The highest watermark accepted, written or not. */
  #acceptedWatermark: string | null = null;
  #line: Line = IDLE;
  readonly #item: WriteItem;
  #pending: PendingCommit | null = null;
  /** What the source asked the tenancy to end with; the chart turns it into the ending. */
  #wish: { progress: Progress | null; reason: string; waiter: Waiter } | null = null;
  #ending: EndingRequest | null = null;

  constructor(core: Core, split: SplitId, onEnded: (tenancy: Tenancy) => void) {
    this.#core = core;
    this.split = split;
    this.key = core.keys.split(split);
    this.#onEnded = onEnded;
    this.#item = {
      name: 'progress',
      isSessionBound: false,
      guard: NO_GUARD,
      build: () => this.#build(),
      matters: () => !this.chart.hasEnded,
      answered: (answer) => {
        const line = this.#line;
        this.#line = IDLE;
        this.#onAnswer(answer, line.kind === 'sent' ? line.write : null);
      },
      failed: (error) => {
        const isEnding = this.#line.kind === 'sent' && this.#line.write.ending !== null;
        if (error.kind === 'indeterminate' && isEnding) this.send({ type: 'ending.unanswered' });
      },
    };
  }

  /** True while the source may commit, complete or fail. */
  get mayCommit(): boolean {
    return this.chart.hasTag('mayCommit');
  }

  /** Hands the chart an event; its owner is told when that ended the tenancy. */
  send(event: TenancyEvent): void {
    this.chart.send(event);
    if (this.chart.hasEnded) this.#onEnded(this);
  }

  /** The claim landed and is held: commits go from here. */
  began(record: SplitRecord, revision: Revision, session: SessionId): void {
    this.known.wrote(record, revision);
    this.#session = session;
    this.epoch = record.epoch;
    this.#startWatermark = record.watermark;
    this.#acceptedWatermark = record.watermark;
  }

  /**
   * Takes a commit; `waiter` hears when it is durable. A newer one replaces an unsent older one and answers for both.
   *
   * @returns An error to reject with at once, and nothing is taken.
   */
  commit(progress: Progress, waiter: Waiter): LeaseholdError | null {
    const refusal = this.#refusal(progress);
    if (refusal !== null) return refusal;
    this.#acceptedWatermark = progress.watermark;
    if (this.#pending === null) this.#pending = { progress, waiters: [waiter] };
    else {
      this.#pending.progress = merged(this.#pending.progress, progress);
      this.#pending.waiters.push(waiter);
    }
    this.#pump();
    return null;
  }

  /** Notes how the source wants the tenancy to end, before the chart is told. Returns an error when it may not. */
  wish(progress: Progress | null, reason: string, waiter: Waiter): LeaseholdError | null {
    const refusal = progress === null ? this.#closedError() : this.#refusal(progress);
    if (refusal !== null) return refusal;
    if (progress !== null) this.#acceptedWatermark = progress.watermark;
    this.#wish = { progress, reason, waiter };
    return null;
  }

  /** A wish that the chart did not act on. */
  dropWish(): void {
    const wish = this.#wish;
    this.#wish = null;
    wish?.waiter.reject(this.fencedError());
  }

  /** The chart closes the tenancy: the last write follows the one on its way. */
  end(kind: Ending): void {
    const wish = this.#wish;
    this.#wish = null;
    const waiters = wish === null ? [] : [wish.waiter];
    let progress = wish?.progress ?? null;
    const pending = this.#pending;
    if (kind === 'force') this.#dropPending();
    else if (kind === 'complete' && pending !== null) {
      // The complete carries the newer progress and answers for the commit it replaces.
      progress = progress === null ? pending.progress : merged(pending.progress, progress);
      waiters.push(...pending.waiters);
      this.#pending = null;
    }
    this.#ending = { kind, progress, reason: wish?.reason ?? '', waiters };
    this.#pump();
  }

  /** The tenancy is over: whoever still waits is told that nothing more is known. */
  finish(): void {
    this.#dropPending();
    const ending = this.#ending;
    this.#ending = null;
    for (const waiter of ending?.waiters ?? []) waiter.reject(this.fencedError());
    this.#wish?.waiter.reject(this.fencedError());
    this.#wish = null;
  }

  /** Losing the grant refuses what is not written (R33). */
  lose(): void {
    this.#dropPending();
  }

  fencedError(): LeaseholdError {
    return fencedError(this.split, this.epoch);
  }

  #dropPending(): void {
    const pending = this.#pending;
    this.#pending = null;
    for (const waiter of pending?.waiters ?? []) waiter.reject(this.fencedError());
  }

  #closedError(): LeaseholdError | null {
    return this.mayCommit && this.#wish === null ? null : this.fencedError();
  }

  #refusal(progress: Progress): LeaseholdError | null {
    const closed = this.#closedError();
    if (closed !== null) return closed;
    if (compareWatermarks(progress.watermark, this.#acceptedWatermark) >= 0) return null;
    return new LeaseholdError(
      'E_WATERMARK_REGRESSION',
      `split ${this.split} was committed at watermark ${this.#acceptedWatermark} and may not fall back to ` +
        `${progress.watermark}: the source counts wrongly`,
      {
        details: {
          split: this.split,
          committed: this.#acceptedWatermark,
          given: progress.watermark,
        },
      },
    );
  }

  /** Sends the next write if none is on its way: the unsent commit first, then the ending. */
  #pump(): void {
    if (this.#line.kind !== 'idle' || this.chart.hasEnded) return;
    if (this.#pending === null && this.#ending === null) return;
    this.#line = QUEUED;
    this.#core.batcher.enqueue(this.#item);
  }

  #build(): Txn | null {
    const write = this.#nextWrite();
    if (write === null) return null;
    this.#line = { kind: 'sent', write };
    if (write.ending !== null) this.send({ type: 'ending.sent' });
    const { split, key } = this;
    const ends = write.ending !== null;
    const where = { split, key, revision: this.known.revision, session: this.#session! };
    return progressTxn(this.#core.keys, where, { record: write.record, stamp: write.stamp, ends });
  }

  #nextWrite(): SentWrite | null {
    const record = this.known.record!;
    const stamp = this.#core.stamp();
    const commit = this.#pending;
    if (commit !== null) {
      this.#pending = null;
      const progress = withState(commit.progress, record);
      const next = committedRecord(record, progress, this.#startWatermark);
      return { record: next, stamp, ending: null, commit };
    }
    const ending = this.#ending;
    if (ending === null) return null;
    const { me: by, config } = this.#core;
    const next = endedRecord(record, ending, {
      startWatermark: this.#startWatermark,
      by,
      maxAttempts: config.maxAttempts,
    });
    return { record: next, stamp, ending, commit: null };
  }

  #onAnswer(answer: WriteAnswer, sent: SentWrite | null): void {
    switch (answer.kind) {
      case 'committed':
        this.#landed(sent!, answer.revision);
        return;
      case 'conflict':
        this.#onConflict(sent!, answer);
        return;
      case 'refused':
        this.#onRefused(sent, answer.error);
        return;
      case 'abandoned':
      case 'guardFailed':
        // Nothing to write, or the tenancy has ended.
        if (sent !== null) for (const waiter of waitersOf(sent)) waiter.reject(this.fencedError());
        if (sent === null) this.#pump();
        return;
    }
  }

  #landed(sent: SentWrite, revision: Revision): void {
    this.known.wrote(sent.record, revision);
    if (sent.ending === null) {
      for (const waiter of waitersOf(sent)) waiter.resolve();
      // Only the silence clock of a cancelled drain listens (R34); a plain commit is no chart event.
      if (this.chart.isIn('held.cancelledDrain')) this.send({ type: 'progress.landed' });
      this.#pump();
      return;
    }
    this.#core.view.wrote(this.#core.keys.lease(this.split), null, revision);
    this.#ended(sent);
  }

  /** Decides by epoch and owner what a conflict means (R2, R4). */
  #onConflict(sent: SentWrite, answer: WriteAnswer & { kind: 'conflict' }): void {
    const core = this.#core;
    const [found = null, lease = null] = answer.found;
    const carriesProgress = sent.ending === null || sent.ending.kind === 'complete';
    const meaning = settleConflict(
      {
        stamp: sent.stamp,
        epoch: this.epoch,
        owner: core.me,
        nonce: core.nonce,
        watermark: carriesProgress ? sent.record.watermark : undefined,
        completes: sent.ending?.kind === 'complete',
      },
      found === null ? null : splitCodec.decode(found.value),
    );
    switch (meaning.kind) {
      case 'landed':
        this.#landed(sent, found!.modRevision);
        return;
      case 'completed':
        this.#landed({ ...sent, record: meaning.record }, found!.modRevision);
        return;
      case 'adopt':
        this.known.wrote(meaning.record, found!.modRevision);
        if (lease?.session !== this.#session) {
          this.#leaseGone(sent, lease, answer.revision);
          return;
        }
        this.#again(sent);
        return;
      case 'fenced':
        if (meaning.warning !== null) core.warnings.warn(this.key, meaning.warning);
        this.#superseded(sent, meaning.warning !== null);
        return;
    }
  }

  #ended(sent: SentWrite): void {
    for (const waiter of waitersOf(sent)) waiter.resolve();
    this.#ending = null;
    this.send({ type: 'ending.landed', quarantined: sent.record.status === 'quarantined' });
  }

  /** Puts the content of a write back in line, to be built anew. */
  #again(sent: SentWrite): void {
    const { commit } = sent;
    if (commit !== null) {
      const newer = this.#pending;
      this.#pending =
        newer === null
          ? commit
          : {
              progress: merged(commit.progress, newer.progress),
              waiters: [...commit.waiters, ...newer.waiters],
            };
    }
    this.#pump();
  }

  /** The record is this tenancy's still, and its lease is not: nothing is written without one. */
  #leaseGone(sent: SentWrite, lease: Entry | null, revision: Revision): void {
    const { view, keys } = this.#core;
    view.found(keys.lease(this.split), lease, revision);
    if (lease !== null) {
      this.#superseded(sent, true);
      return;
    }
    for (const waiter of waitersOf(sent)) waiter.reject(this.fencedError());
    this.send({ type: 'tenancy.starved' });
  }

  /** The record is somebody else's, or ended; `isStrange` when nothing of this protocol explains it. */
  #superseded(sent: SentWrite, isStrange: boolean): void {
    const { ending } = sent;
    const mayHaveLanded = this.chart.hasTag('mayHaveLanded') && !isStrange;
    if (ending !== null && isHandedBack(ending.kind === 'complete', mayHaveLanded)) {
      this.#ended(sent);
      return;
    }
    for (const waiter of waitersOf(sent)) waiter.reject(this.fencedError());
    this.send({ type: ending === null ? 'tenancy.fenced' : 'ending.refused' });
  }

  #onRefused(sent: SentWrite | null, error: LeaseholdError): void {
    for (const waiter of sent === null ? [] : waitersOf(sent)) waiter.reject(error);
    this.#core.log.error('write.refused', 'the store refuses a write for good', {
      split: this.split,
      code: error.code,
    });
    // An ending refused for good would leave a renewed orphan: closing the session frees the lease (R12).
    if (sent?.ending !== null) this.#core.session.abandon('closed');
    this.#core.fatal(error);
  }
}
