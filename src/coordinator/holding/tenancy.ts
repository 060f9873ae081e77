/**
 * One tenancy's data and its writes: commits and the ending, one at a time (R38).
 *
 * The chart decides what may happen; this class carries its writes out: it builds each transaction from the last record
 * known, adopts what a conflict found when that is still this tenancy's, and answers whoever waits. Rules: R1, R2, R4,
 * R33, R36, R38.
 */
import type {
  Ending,
  TenancyEvent,
  WithdrawalReason,
} from '../../../machines/tenancy/tenancy.events.ts';
import { ABSENT, type Epoch, type Revision } from '../../base/decimals.ts';
import { LeaseholdError } from '../../base/errors.ts';
import type { SplitId } from '../../base/ids.ts';
import { settleConflict } from '../../protocol/settle.ts';
import {
  committedRecord,
  compareWatermarks,
  type Progress,
} from '../../protocol/tenancy-records.ts';
import { type SpecRecord, type SplitRecord, splitCodec } from '../../records/records.ts';
import type { Entry, Key } from '../../store/port.ts';
import { NO_GUARD, type WriteAnswer, type WriteItem } from '../link/batcher.ts';
import type { RunningChart } from '../loop/chart-host.ts';
import type { Core } from '../link/core.ts';
import { fencedError } from '../api/fenced-error.ts';
import {
  endedRecord,
  type EndingRequest,
  merged,
  type PendingCommit,
  type SentWrite,
  tenancyTxn,
  type Waiter,
  waitersOf,
  withState,
} from './tenancy-writes.ts';

export class Tenancy {
  readonly split: SplitId;
  /** Of the split's record. */
  readonly key: Key;
  readonly #core: Core;
  readonly #onEnded: (tenancy: Tenancy) => void;
  chart!: RunningChart<TenancyEvent>;

  /** The split's record at `revision`; null until it was read. */
  record: SplitRecord | null = null;
  revision: Revision = ABSENT;
  spec: SpecRecord | null = null;
  /** The record must be read again before it is decided on. */
  isStale = true;
  /** The newest reading on its way; what an older one answers is ignored. */
  reading: object | null = null;
  /** Monotonic time of the first reading. */
  readAtMs = 0;
  /** Why the split cannot be worked on here; it is left alone and blocks the verdict (R42). */
  problem: string | null = null;
  isClaiming = false;
  /** What the chart was last told about being wanted. */
  withdrawnFor: WithdrawalReason | null = null;

  /** The epoch of this tenancy; null before a claim was won. */
  epoch: Epoch | null = null;
  hasGrant = false;
  wasGranted = false;
  mayCommit = false;
  hasEverDrained = false;
  isMarking = false;
  #startWatermark: string | null = null;
  /** The highest watermark accepted, written or not. */
  #acceptedWatermark: string | null = null;
  #isWriting = false;
  /** Stands in line for whatever is to be written next: there is one write at a time (R38). */
  readonly #item: WriteItem;
  /** The write on its way; null while none was built. */
  #sent: SentWrite | null = null;
  #pending: PendingCommit | null = null;
  /** What the source asked the tenancy to end with; the chart turns it into the ending. */
  #wish: { progress: Progress | null; reason: string; waiter: Waiter } | null = null;
  #ending: EndingRequest | null = null;
  /** The split is handed back, or was failed: the answer to that write decides, not who is seen to have it since (R4). */
  isHandingBack = false;
  /** A send of that write was not answered: it may have landed. */
  #isHandbackUnknown = false;

  constructor(core: Core, split: SplitId, onEnded: (tenancy: Tenancy) => void) {
    this.#core = core;
    this.split = split;
    this.key = core.keys.split(split);
    this.#onEnded = onEnded;
    this.#item = {
      name: 'progress',
      isSessionBound: false,
      guard: NO_GUARD,
      build: () => {
        this.#sent = this.#nextWrite();
        return this.#sent === null ? null : tenancyTxn(core, this, this.#sent);
      },
      matters: () => !this.chart.hasEnded,
      answered: (answer) => {
        const sent = this.#sent;
        this.#sent = null;
        this.#isWriting = false;
        this.#onAnswer(answer, sent);
      },
      failed: (error) => {
        if (error.kind === 'indeterminate' && this.isHandingBack) this.#isHandbackUnknown = true;
      },
    };
  }

  /** Hands the chart an event; its owner is told when that ended the tenancy. */
  send(event: TenancyEvent): void {
    this.chart.send(event);
    if (this.chart.hasEnded) this.#onEnded(this);
  }

  /** The claim landed and is held: commits go from here. */
  began(record: SplitRecord, revision: Revision): void {
    this.record = record;
    this.revision = revision;
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
    this.mayCommit = false;
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
    this.mayCommit = false;
    this.hasGrant = false;
    this.#dropPending();
    const ending = this.#ending;
    this.#ending = null;
    for (const waiter of ending?.waiters ?? []) waiter.reject(this.fencedError());
    this.#wish?.waiter.reject(this.fencedError());
    this.#wish = null;
  }

  /** Losing the grant refuses local commits at once (R33). */
  lose(): void {
    this.hasGrant = false;
    this.mayCommit = false;
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
    if (this.#isWriting || this.chart.hasEnded) return;
    if (this.#pending === null && this.#ending === null) return;
    this.#isWriting = true;
    this.#core.batcher.enqueue(this.#item);
  }

  #nextWrite(): SentWrite | null {
    const record = this.record!;
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
    this.isHandingBack = ending.kind !== 'complete';
    return {
      record: endedRecord(this.#core, record, ending, this.#startWatermark),
      stamp,
      ending,
      commit: null,
    };
  }

  #onAnswer(answer: WriteAnswer, sent: SentWrite | null): void {
    switch (answer.kind) {
      case 'committed':
        this.#landed(sent!, answer.revision);
        return;
      case 'conflict':
        this.#onConflict(sent!, answer.found[0] ?? null);
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
    this.record = sent.record;
    this.revision = revision;
    if (sent.ending === null) {
      for (const waiter of waitersOf(sent)) waiter.resolve();
      // Only the silence clock of a cancelled drain listens (R34); a plain commit is no chart event.
      if (this.hasEverDrained) this.send({ type: 'progress.landed' });
      this.#pump();
      return;
    }
    this.#core.view.wrote(this.#core.keys.lease(this.split), null, revision);
    this.#ended(sent);
  }

  /** Decides by epoch and owner what a conflict means (R2, R4). */
  #onConflict(sent: SentWrite, found: Entry | null): void {
    const core = this.#core;
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
        this.#isHandbackUnknown = false;
        this.record = meaning.record;
        this.revision = found!.modRevision;
        this.#again(sent);
        return;
      case 'fenced':
        if (meaning.warning !== null) core.view.warn(this.key, meaning.warning);
        // After an unanswered send the hand-back has landed, and somebody else has the split since (R4).
        if (meaning.warning === null && this.#isHandbackUnknown) this.#ended(sent);
        else this.#fenced(sent);
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

  #fenced(sent: SentWrite): void {
    for (const waiter of waitersOf(sent)) waiter.reject(this.fencedError());
    this.send({ type: 'tenancy.fenced' });
  }

  #onRefused(sent: SentWrite | null, error: LeaseholdError): void {
    for (const waiter of sent === null ? [] : waitersOf(sent)) waiter.reject(error);
    this.#core.log.error('write.refused', 'the store refuses a write for good', {
      split: this.split,
      code: error.code,
    });
    // An ending refused for good would leave a renewed orphan: closing the session frees the lease (R12).
    if (sent?.ending !== null) this.#core.session.expire('closed');
    this.#core.fatal(error);
  }
}
