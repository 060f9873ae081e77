/**
 * Sends transactions to the store: independent ones travel together, each keeps its own compares and its own answer.
 *
 * The first item of a quiet moment goes out at once; what is issued while batches are on their way goes together in the
 * next one. Unknown outcomes are settled by sending the same item again, byte for byte, with the compares of its first
 * send, until it is answered or no longer matters (R1). Session-bound items never share a batch with durable ones (R6).
 */
import { type RunningChart, type ChartHost } from '../loop/chart-host.ts';
import type { WritingEvent } from '../../../machines/writing/writing.events.ts';
import type { writingMachine } from '../../../machines/writing/writing.machine.ts';
import type { Clock, Timer } from '../../base/clock.ts';
import type { Revision } from '../../base/decimals.ts';
import { invariant, isLeaseholdError, type LeaseholdError } from '../../base/errors.ts';
import { BatchSize, keyOf } from '../../store/batch.ts';
import type { BatchOutcome, Compare, Entry, Txn } from '../../store/port.ts';
import type { Mailbox } from '../loop/mailbox.ts';
import type { StoreGate } from './store-gate.ts';

/** What became of one item. */
export type WriteAnswer =
  | { readonly kind: 'committed'; readonly revision: Revision }
  | {
      readonly kind: 'conflict';
      readonly found: readonly (Entry | null)[];
      readonly revision: Revision;
    }
  /** The guard of the batch did not hold: this worker does not lead in that term any more. */
  | { readonly kind: 'guardFailed' }
  /** Certainly not written, and sending it again would not help. */
  | { readonly kind: 'refused'; readonly error: LeaseholdError }
  /** It no longer matters; nobody knows whether it landed. */
  | { readonly kind: 'abandoned' };

/** One transaction on its way. */
export interface WriteItem {
  readonly name: string;
  /** Puts keys under a session (R6). */
  readonly isSessionBound: boolean;
  /** Outer compares; items with the same guard array travel together. */
  readonly guard: readonly Compare[];
  /** Builds the transaction when it is first sent; null when there is nothing to write any more. */
  build(): Txn | null;
  /** Whether an answer still matters to anybody. */
  matters(): boolean;
  answered(answer: WriteAnswer): void;
  /** Unknown outcomes of this item are not settled: it is dropped (R32). */
  readonly isDisposable?: boolean;
  /** Told of every send without a usable answer. */
  failed?(error: LeaseholdError): void;
  /** A refusal for want of permission is answered at once, in place of being waited out. */
  readonly isImpatient?: boolean;
}

/** How long an item that was refused for want of permission waits before it is sent again. */
const DENIED_PAUSE_MS = 500;

/** An item in line; its transaction is built when it is first sent and never again (R1). */
interface Queued {
  readonly item: WriteItem;
  txn: Txn | undefined;
  /** It may have spoilt a batch for others: it is sent by itself. */
  isAlone: boolean;
}

type Sent = Queued & { readonly txn: Txn };

interface Lane {
  readonly chart: RunningChart<WritingEvent>;
  batch: Sent[];
  isBusy: boolean;
}

/** Batches as large as etcd takes them, in at most 4 lanes, were fastest on it. */
const LANES_MAX = 4;
const RESEND_MS = 100;
const RESEND_MS_MAX = 2_000;

/** Counts for the scale checks. */
export interface BatchStats {
  batches: number;
  items: number;
  unanswered: number;
}

/** What batches are sent with. */
export interface BatcherPorts {
  readonly gate: StoreGate;
  readonly clock: Clock;
  readonly mailbox: Mailbox;
  readonly charts: ChartHost;
  /** True for keys that must hang on a session: one without would outlive its owner (R5). */
  readonly isEphemeral: (key: string) => boolean;
}

export class Batcher {
  readonly #gate: StoreGate;
  readonly #clock: Clock;
  readonly #mailbox: Mailbox;
  readonly #isEphemeral: BatcherPorts['isEphemeral'];
  readonly #lanes: Lane[] = [];
  readonly #queue: Queued[] = [];
  #isFlushDue = false;
  #isClosed = false;
  /** Refused for want of permission: sent again later, as they were (R1). */
  readonly #denied: Sent[] = [];
  #deniedTimer: Timer | undefined;
  readonly stats: BatchStats = { batches: 0, items: 0, unanswered: 0 };

  constructor(
    { gate, clock, mailbox, charts, isEphemeral }: BatcherPorts,
    machine: (resend: (lane: number) => void) => typeof writingMachine,
  ) {
    this.#gate = gate;
    this.#clock = clock;
    this.#mailbox = mailbox;
    this.#isEphemeral = isEphemeral;
    const provided = machine((lane) => {
      this.#resend(this.#lanes[lane - 1]!);
    });
    for (let lane = 1; lane <= LANES_MAX; lane += 1) {
      const input = { lane, resendMs: RESEND_MS, resendMsMax: RESEND_MS_MAX };
      const chart = charts.start(provided, 'writing', String(lane), input);
      this.#lanes.push({ chart, batch: [], isBusy: false });
    }
  }

  /** Items not answered yet. */
  get unsettled(): number {
    const sent = this.#lanes.reduce((sum, lane) => sum + lane.batch.length, 0);
    return this.#queue.length + this.#denied.length + sent;
  }

  /** States of the lanes, for status. */
  laneStates(): { lane: number; state: string; items: number }[] {
    return this.#lanes.map((lane, index) => ({
      lane: index + 1,
      state: lane.chart.state,
      items: lane.batch.length,
    }));
  }

  /** Puts an item in line; it goes out within this turn if a lane is free. */
  enqueue(item: WriteItem): void {
    if (this.#isClosed) {
      item.answered({ kind: 'abandoned' });
      return;
    }
    this.#queue.push({ item, txn: undefined, isAlone: false });
    this.#requestFlush();
  }

  /** Lanes with nothing on the way come to rest. */
  rest(): void {
    for (const lane of this.#lanes) {
      if (!lane.isBusy && lane.chart.isIn('writing')) lane.chart.send({ type: 'lane.rested' });
    }
  }

  /** Drops what no longer matters, also in lanes that wait for their next send. */
  dropStale(): void {
    this.#denied.splice(0, Infinity, ...this.#denied.filter((sent) => this.#keep(sent)));
    for (const lane of this.#lanes) {
      if (lane.isBusy || lane.batch.length === 0) continue;
      lane.batch = lane.batch.filter((sent) => this.#keep(sent));
      if (lane.batch.length === 0) this.#free(lane, 'batch.abandoned');
    }
  }

  /** Gives up everything; every item is answered `abandoned`. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const queued = [...this.#queue.splice(0), ...this.#denied.splice(0)];
    for (const lane of this.#lanes) {
      queued.push(...lane.batch.splice(0));
      lane.chart.send({ type: 'lane.closed' });
    }
    for (const { item } of queued) item.answered({ kind: 'abandoned' });
  }

  #requestFlush(): void {
    if (this.#isFlushDue) return;
    this.#isFlushDue = true;
    queueMicrotask(() => {
      this.#isFlushDue = false;
      this.#mailbox.postQuietly(() => {
        this.#flush();
      });
    });
  }

  #flush(): void {
    for (const [index, lane] of this.#lanes.entries()) {
      if (this.#isClosed || this.#queue.length === 0) return;
      if (lane.isBusy || lane.batch.length > 0) continue;
      // One lane is never the leader's: its failing writes must not hold up the commits of its own splits.
      lane.batch = this.#collect(index > 0);
      if (lane.batch.length > 0) this.#send(lane);
    }
  }

  /** Takes the first item in line and those that may travel with it, in order. */
  #collect(takesGuarded: boolean): Sent[] {
    const batch: Sent[] = [];
    const keys = new Set<string>();
    const queue = this.#queue;
    let size: BatchSize | undefined;
    let kept = 0;
    let index = 0;
    for (; index < queue.length && size?.isFull !== true; index += 1) {
      const queued = queue[index]!;
      const first = batch[0];
      const travels = first === undefined || mayShare(first, queued);
      const mayGo = takesGuarded || queued.item.guard.length === 0;
      if (!travels || !mayGo) {
        queue[kept++] = queued;
        continue;
      }
      if (!this.#build(queued)) continue;
      const collides = queued.txn.writes.some((write) => keys.has(keyOf(write)));
      size ??= new BatchSize(queued.item.guard);
      if (collides || !size.addIfFits(queued.txn)) {
        queue[kept++] = queued;
        continue;
      }
      for (const write of queued.txn.writes) keys.add(keyOf(write));
      batch.push(queued);
    }
    // What stands behind a full batch is not looked at: the queue may hold thousands.
    queue.splice(kept, index - kept);
    return batch;
  }

  /** Builds the transaction of an item unless it has one; false when the item dropped out. */
  #build(queued: Queued): queued is Sent {
    const { item } = queued;
    const txn = item.matters() ? (queued.txn ?? item.build()) : null;
    if (txn === null) {
      item.answered({ kind: 'abandoned' });
      return false;
    }
    for (const write of txn.writes) {
      const isLost = 'put' in write && write.session === null && this.#isEphemeral(write.put);
      invariant(!isLost, `${item.name} puts an ephemeral key without a session (R5)`);
    }
    queued.txn = txn;
    return true;
  }

  #send(lane: Lane): void {
    lane.isBusy = true;
    // In any other state the event would be ignored; not sending it keeps commits free of chart events.
    if (lane.chart.isIn('idle')) lane.chart.send({ type: 'batch.submitted' });
    this.stats.batches += 1;
    this.stats.items += lane.batch.length;
    const sent = lane.batch;
    const guard = sent[0]!.item.guard;
    this.#gate.transact({ guard, txns: sent.map(({ txn }) => txn) }).then(
      (outcome) => {
        this.#mailbox.postQuietly(() => {
          this.#onAnswer(lane, sent, outcome);
        });
      },
      (error: unknown) => {
        this.#mailbox.post(() => {
          this.#onError(lane, sent, error);
        });
      },
    );
  }

  #resend(lane: Lane): void {
    if (lane.isBusy) return;
    lane.batch = lane.batch.filter((sent) => this.#keep(sent));
    if (lane.batch.length > 0) this.#send(lane);
    else this.#free(lane, 'batch.abandoned');
  }

  #keep({ item }: Sent): boolean {
    if (item.matters() && item.isDisposable !== true) return true;
    item.answered({ kind: 'abandoned' });
    return false;
  }

  #free(lane: Lane, event: 'batch.answered' | 'batch.abandoned'): void {
    lane.batch = [];
    lane.isBusy = false;
    // In `writing` the event would be ignored; not sending it keeps commits free of chart events.
    if (lane.chart.isIn('settling')) lane.chart.send({ type: event });
    if (this.#queue.length > 0) this.#requestFlush();
  }

  #onAnswer(lane: Lane, sent: readonly Sent[], outcome: BatchOutcome): void {
    if (this.#isClosed) return;
    this.#free(lane, 'batch.answered');
    for (const [index, { item }] of sent.entries()) {
      if (outcome.kind === 'guardFailed') item.answered({ kind: 'guardFailed' });
      else item.answered(outcome.outcomes[index]!);
    }
  }

  #onError(lane: Lane, sent: readonly Sent[], thrown: unknown): void {
    if (this.#isClosed) return;
    if (!isLeaseholdError(thrown)) throw thrown;
    const error = thrown;
    for (const { item } of sent) item.failed?.(error);
    if (error.kind === 'indeterminate' || error.kind === 'unavailable') {
      this.stats.unanswered += 1;
      lane.isBusy = false;
      lane.chart.send({ type: 'batch.unanswered' });
      lane.batch = lane.batch.filter((one) => this.#keep(one));
      if (lane.batch.length === 0) this.#free(lane, 'batch.abandoned');
      return;
    }
    this.#free(lane, 'batch.answered');
    if (sent.length > 1) {
      // One item may have spoilt the batch for all (R6): each is tried alone. Nothing was written, so this is no repeat.
      for (const queued of sent) queued.isAlone = true;
      this.#queue.unshift(...sent);
      this.#requestFlush();
      return;
    }
    const [only] = sent;
    const { item } = only!;
    if (error.code !== 'E_STORE_DENIED' || item.isImpatient === true) {
      item.answered({ kind: 'refused', error });
    } else if (this.#keep(only!)) this.#sendLater(only!);
  }

  /**
   * A refusal settles nothing: an earlier send may have landed, and permission may come back. The item goes out again, as it
   * was, for as long as it matters; it holds up nobody meanwhile.
   */
  #sendLater(sent: Sent): void {
    this.#denied.push(sent);
    this.#deniedTimer ??= this.#clock.setTimeout(() => {
      this.#mailbox.postQuietly(() => {
        this.#deniedTimer = undefined;
        this.#queue.unshift(...this.#denied.splice(0));
        this.#requestFlush();
      });
    }, DENIED_PAUSE_MS);
  }
}

function mayShare(first: Queued, next: Queued): boolean {
  return (
    !first.isAlone &&
    !next.isAlone &&
    first.item.isSessionBound === next.item.isSessionBound &&
    first.item.guard === next.item.guard
  );
}

/** Nothing to compare: the batch of a worker that writes for itself. */
export const NO_GUARD: readonly Compare[] = [];
