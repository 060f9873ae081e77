/**
 * The tenancies of one worker: one chart per split it is named for or holds, driven by the assignment, the leases and
 * what the service says.
 *
 * Rules: R12, R16, R25, R27, R29-R41.
 */
import type { TenancyEvent, WithdrawalReason } from '../../../machines/tenancy/tenancy.events.ts';
import type { tenancyMachine } from '../../../machines/tenancy/tenancy.machine.ts';
import type { LeaseholdError } from '../../base/errors.ts';
import type { SplitId } from '../../base/ids.ts';
import type { Progress as StoredProgress } from '../../protocol/tenancy-records.ts';
import type { SplitRecord } from '../../records/records.ts';
import type { Change } from '../../store/port.ts';
import { Claims } from './claims.ts';
import type { Core } from '../link/core.ts';
import { fencedError } from '../api/fenced-error.ts';
import { LeaseKeeper } from './lease-keeper.ts';
import { checkOwnRecords } from './own-records.ts';
import { RefusedSplits } from './refused-splits.ts';
import { Tenancy } from './tenancy.ts';
import { provideTenancy } from './tenancy-effects.ts';
import type { Waiter } from './tenancy-writes.ts';
import { UnclearedEnds } from './uncleared-ends.ts';

/** What tenancies ask of the rest of the worker. */
export interface TenancyHooks {
  /** Announced, and not on the way out: new splits may be claimed. */
  readonly mayClaim: () => boolean;
  /** The set of splits this worker cannot take changed (R27). */
  readonly refusesChanged: () => void;
}

/** A request of the service, and who waits for what becomes of it. */
export interface Ask {
  readonly split: SplitId;
  /** The tenancy meant; the present one when null. */
  readonly epoch: string | null;
  readonly waiter: Waiter;
}

export class Tenancies {
  readonly #core: Core;
  readonly #hooks: TenancyHooks;
  readonly #claims: Claims;
  readonly #leases: LeaseKeeper;
  readonly #machine: typeof tenancyMachine;
  readonly #bySplit = new Map<SplitId, Tenancy>();
  readonly #unclearedEnds = new UnclearedEnds();
  readonly #leaseGoneAtMs = new Map<SplitId, number>();
  /** Splits known to have ended; a requeue, a new assignment and each tick open the question again. */
  readonly #over = new Set<SplitId>();
  readonly #refused: RefusedSplits;
  readonly released: string[] = [];
  readonly forced: string[] = [];
  /** Lost with the session while leaving: their last write was not answered, or found no lease any more. */
  readonly #late: string[] = [];

  constructor(core: Core, hooks: TenancyHooks) {
    this.#core = core;
    this.#hooks = hooks;
    this.#leases = new LeaseKeeper(core);
    this.#refused = new RefusedSplits(core, hooks.refusesChanged);
    this.#claims = new Claims(core, {
      waivesAttempt: (split, record) => this.#waivesAttempt(split, record),
      leaseGoneAtMs: (split) => this.#leaseGoneAtMs.get(split),
      ended: (tenancy) => {
        this.#over.add(tenancy.split);
        tenancy.send({ type: 'split.ended' });
      },
      neverStarted: (split, record) => {
        this.#unclearedEnds.note(split, record.epoch, true);
      },
    });
    this.#machine = provideTenancy({
      core,
      claims: this.#claims,
      leases: this.#leases,
      find: (split) => this.#bySplit.get(split as SplitId),
    });
  }

  /** Every tenancy, for status. */
  all(): IterableIterator<Tenancy> {
    return this.#bySplit.values();
  }

  get size(): number {
    return this.#bySplit.size;
  }

  /** Splits whose lease is, or may be, this worker's. */
  get heldCount(): number {
    let count = 0;
    for (const tenancy of this.#bySplit.values()) {
      if (isInHand(tenancy)) count += 1;
    }
    return count;
  }

  /** True while some handler may still commit, or a claim is on its way. */
  get hasHandlers(): boolean {
    for (const tenancy of this.#bySplit.values()) {
      if (tenancy.chart.isIn('claiming') || tenancy.mayCommit) return true;
    }
    return false;
  }

  /** Splits this worker cannot take now. */
  refuses(): SplitId[] {
    return this.#refused.list();
  }

  /** True while a lease of the process before this one may still be reclaimed (R13). */
  mayReclaim(split: SplitId): boolean {
    const tenancy = this.#bySplit.get(split);
    if (tenancy === undefined || tenancy.chart.hasTag('held')) return false;
    const { known, chart } = tenancy;
    if (known.problem !== null || this.#over.has(split)) return false;
    return known.isAwaited || chart.isIn('claiming') || !this.#claims.isAtCap(tenancy);
  }

  /** Brings tenancies in line with the assignment, claims what is free, shows states on the leases. */
  advance(): void {
    this.#refused.expire();
    this.#reconcile();
    if (this.#hooks.mayClaim() && !this.#core.view.isPaused) {
      const waiting = [...this.#bySplit.values()].filter((tenancy) =>
        tenancy.chart.isIn('awaiting'),
      );
      const free = this.#core.config.maxInFlight - this.heldCount;
      this.#claims.advance(waiting, free);
    }
  }

  /** Runs each third of a lease: marks that were lost are put again, orphans are dropped, ends are asked after again. */
  tick(): void {
    // What is still named may have been put back unheard: set aside and requeued between two looks (R24).
    this.#over.clear();
    this.#leases.tick(this.#bySplit);
    // A wait after a failure is at most half a lease; older deletes decide nothing (R40).
    const oldestMs = this.#core.clock.nowMs() - this.#core.config.leaseDurationMs;
    for (const [split, goneAtMs] of this.#leaseGoneAtMs) {
      if (goneAtMs < oldestMs) this.#leaseGoneAtMs.delete(split);
    }
  }

  /** Leases of others, for splits that wait until they are gone (R24). */
  awaitedLeases(): string[] {
    const { view, session, keys } = this.#core;
    return [...this.#bySplit.values()]
      .filter(({ chart }) => chart.isIn('awaiting'))
      .map(({ split }) => split)
      .filter((split) => {
        const lease = view.leases.get(split);
        return lease !== undefined && lease.session !== session.id;
      })
      .map((split) => keys.lease(split));
  }

  /** The lease of a split changed in the store. */
  leaseChanged(split: SplitId, change: Change): void {
    if (change.entry === null) this.#leaseGoneAtMs.set(split, this.#core.clock.nowMs());
    else this.#leaseGoneAtMs.delete(split);
    const tenancy = this.#bySplit.get(split);
    if (tenancy === undefined) return;
    if (!tenancy.chart.hasTag('held')) {
      const isTaken =
        change.entry !== null && this.#core.view.leases.get(split)?.record.owner !== this.#core.me;
      // While somebody has it, it need not be read again; what is being read has the spec, which never changes.
      if (!isTaken || !tenancy.known.isBeingRead) tenancy.known.outdate();
      return;
    }
    // After a stall the delete may be heard before the deadline fires; the stall is what ended the tenancy then (R31).
    if (!this.#core.session.isValid()) return;
    if (change.entry === null) tenancy.send({ type: 'lease.deleted' });
    else if (change.entry.session !== this.#core.session.id) {
      tenancy.send({ type: 'tenancy.fenced' });
    }
  }

  /** A split was parked, or an operator put it back. */
  parkedChanged(split: SplitId, isParked: boolean): void {
    const tenancy = this.#bySplit.get(split);
    if (isParked) tenancy?.send({ type: 'split.ended' });
    else {
      this.#over.delete(split);
      tenancy?.known.outdate();
    }
  }

  /** A new assignment: what had ended may be named for a reason. */
  assignmentChanged(): void {
    this.#over.clear();
  }

  /** The session is gone: every tenancy ends before a new one is used (R41). */
  sessionExpired(hasStalled: boolean): void {
    for (const tenancy of [...this.#bySplit.values()]) {
      if (tenancy.epoch !== null) {
        this.#unclearedEnds.note(tenancy.split, tenancy.epoch, !hasStalled);
      }
      tenancy.send({ type: 'session.expired' });
    }
  }

  /** The worker is leaving: everything is asked back, nothing more is claimed. */
  stopAll(): void {
    for (const tenancy of [...this.#bySplit.values()]) this.#withdraw(tenancy, 'stopping');
  }

  /** The time to drain is over, for every tenancy at once. */
  forceAll(): void {
    for (const tenancy of [...this.#bySplit.values()]) tenancy.send({ type: 'drain.expired' });
  }

  commit(ask: Ask, progress: StoredProgress): void {
    const tenancy = this.#meant(ask);
    if (tenancy !== null) this.#took(ask, tenancy.commit(progress, ask.waiter));
  }

  complete(ask: Ask, progress: StoredProgress | null): void {
    this.#endBy(ask, { type: 'split.complete' }, { progress });
  }

  fail(ask: Ask, reason: string): void {
    this.#endBy(ask, { type: 'split.fail' }, { reason });
  }

  /** Hands a split back that nobody asked for: it is not taken again for one lease (R40). */
  giveUp(ask: Ask): void {
    const tenancy = this.#find(ask.split, ask.epoch);
    if (tenancy?.mayCommit === true && !this.#core.isLeaving()) this.#refused.givenUp(ask.split);
    this.#endBy(ask, { type: 'split.release' });
  }

  /** Hands a split back that was asked for, even if the request has been withdrawn since (R37). */
  drained(ask: Ask): void {
    this.#endBy(ask, { type: 'drain.finished' });
  }

  /** The source cannot hand the split back at a boundary, or goes on with a withdrawn request. */
  tell(split: SplitId, epoch: string | null, event: 'drain.declined' | 'intake.resumed'): void {
    this.#find(split, epoch)?.send({ type: event });
  }

  /** A handler of a tenancy that is over still runs: the split is refused until it ends (R27). */
  handlerOutlives(split: SplitId): void {
    this.#refused.handlerOutlives(split);
  }

  handlerEnded(split: SplitId): void {
    // A handler that ignored `lost` is a reason to count the attempt (R31).
    if (this.#refused.handlerEnded(split)) this.#unclearedEnds.blame(split);
  }

  /** Reads the records of everything held: a higher epoch means another owner (R39). */
  checkOwnRecords(): void {
    for (const { known } of this.#bySplit.values()) if (known.problem !== null) known.outdate();
    const held = [...this.#bySplit.values()].filter((tenancy) => tenancy.chart.hasTag('held'));
    checkOwnRecords(this.#core, held, (tenancy) => {
      tenancy.send({ type: 'tenancy.fenced' });
    });
  }

  /** Ends every chart without a word; the worker has left. */
  close(): readonly string[] {
    const unsettled: string[] = [...this.#late];
    for (const tenancy of [...this.#bySplit.values()]) {
      if (isInHand(tenancy)) unsettled.push(tenancy.split);
      tenancy.send({ type: 'session.expired' });
      tenancy.chart.stop();
    }
    return unsettled;
  }

  #reconcile(): void {
    const { view, me } = this.#core;
    const assignment = view.assignments.get(me);
    const named = new Set(assignment?.record.splits ?? []);
    if (this.#core.isLeaving()) return;
    for (const tenancy of [...this.#bySplit.values()]) {
      // Its last write is decided; whether it is wanted again concerns the next tenancy.
      if (tenancy.chart.isIn('held.closing')) continue;
      const isNamed =
        assignment === undefined ? tenancy.chart.hasTag('held') : named.has(tenancy.split);
      const isWanted = tenancy.chart.hasTag('wanted');
      if (view.isPaused || !isNamed) {
        if (isWanted) this.#withdraw(tenancy, view.isPaused ? 'paused' : 'unassigned');
      } else if (!isWanted) this.#regain(tenancy);
    }
    if (view.isPaused || !this.#hooks.mayClaim()) return;
    for (const split of named) {
      const isOpen = !this.#bySplit.has(split) && !this.#over.has(split) && !view.parked.has(split);
      if (isOpen && !this.#refused.has(split)) this.#open(split);
    }
  }

  #open(split: SplitId): void {
    const tenancy = new Tenancy(this.#core, split, (ended) => {
      this.#clearUp(ended);
    });
    this.#bySplit.set(split, tenancy);
    const { drainDeadlineMs } = this.#core.config;
    tenancy.chart = this.#core.charts.start(this.#machine, 'tenancy', split, {
      split,
      drainDeadlineMs,
    });
  }

  #withdraw(tenancy: Tenancy, reason: WithdrawalReason): void {
    const atMs = this.#core.clock.nowMs();
    tenancy.send({ type: 'assignment.withdrawn', reason, atMs });
  }

  #regain(tenancy: Tenancy): void {
    tenancy.send({ type: 'assignment.regained', atMs: this.#core.clock.nowMs() });
  }

  #clearUp(tenancy: Tenancy): void {
    if (this.#bySplit.get(tenancy.split) !== tenancy) return;
    this.#bySplit.delete(tenancy.split);
    const { state } = tenancy.chart;
    const { split, epoch } = tenancy;
    if (state === 'released' || state === 'failed') this.#unclearedEnds.forget(split);
    if (state === 'completed' || state === 'quarantined') {
      this.#unclearedEnds.forget(split);
      this.#over.add(split);
    }
    const isNoted = epoch !== null && this.#unclearedEnds.has(split, epoch);
    if (state === 'lostStarved' && !isNoted && epoch !== null) {
      // The key was deleted under a live session: no fault of the split's.
      this.#unclearedEnds.note(split, epoch, true);
    }
    // What was handed back before has no place in the report, and would grow for as long as the worker lives.
    if (this.#core.isLeaving()) {
      const { wasGranted } = tenancy.chart.context;
      if (state === 'released' && wasGranted) this.released.push(split);
      if (state === 'lostRevoked') this.forced.push(split);
      const isLost = state === 'lostFenced' || state === 'lostStarved';
      if (isLost && this.#core.session.id === null) this.#late.push(split);
    }
    tenancy.finish();
    this.#core.mailbox.requestDecision();
  }

  /** The tenancy of a split, if it is the one meant: of that epoch, or the present one when that is null. */
  #find(split: SplitId, epoch: string | null): Tenancy | undefined {
    const tenancy = this.#bySplit.get(split);
    return epoch === null || tenancy?.epoch === epoch ? tenancy : undefined;
  }

  /** The tenancy that a request is about; null when it is over, and the request is refused. */
  #meant({ split, epoch, waiter }: Ask): Tenancy | null {
    const tenancy = this.#find(split, epoch);
    if (tenancy === undefined) {
      waiter.reject(fencedError(split, epoch));
      return null;
    }
    // A blocked loop fires no timers: the deadline is checked at every commit (R10).
    this.#core.session.isValid();
    return tenancy;
  }

  /** Refuses a request that the tenancy did not take. */
  #took({ waiter }: Ask, refusal: LeaseholdError | null): void {
    if (refusal === null) return;
    waiter.reject(refusal);
    if (refusal.kind === 'fatal') this.#core.fatal(refusal);
  }

  #endBy(
    ask: Ask,
    event: TenancyEvent,
    { progress = null, reason = '' }: { progress?: StoredProgress | null; reason?: string } = {},
  ): void {
    const tenancy = this.#meant(ask);
    if (tenancy === null) return;
    const refusal = tenancy.wish(progress, reason, ask.waiter);
    this.#took(ask, refusal);
    if (refusal !== null) return;
    tenancy.send(event);
    // The drain of a departure is over with the last handler, whenever the last writes are answered (R17).
    if (this.#core.isLeaving()) this.#core.mailbox.requestDecision();
    // Asked for from within an event of the tenancy, the chart gets to it right after.
    queueMicrotask(() => {
      tenancy.dropWish();
    });
  }

  #waivesAttempt(split: SplitId, record: SplitRecord): boolean {
    return record.nonce === this.#core.nonce && this.#unclearedEnds.waives(split, record.epoch);
  }
}

/** The split's lease is, or may be, this worker's. */
function isInHand({ chart }: Tenancy): boolean {
  return chart.hasTag('held') || chart.isIn('claiming');
}
