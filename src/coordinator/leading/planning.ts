/**
 * The leader's planning runs: asks the planner, stores what is new, publishes the plan and seals it (T4, T5).
 *
 * A run carries the term it started under; what comes back after the term is dropped (R19). Rules: R18, R21, R22, R42.
 */
import type { LeaderEvent } from '../../../machines/leader/leader.events.ts';
import { ABSENT, type Revision } from '../../base/decimals.ts';
import { isLeaseholdError, messageOf } from '../../base/errors.ts';
import type { SplitId } from '../../base/ids.ts';
import { seededRecord } from '../../protocol/tenancy-records.ts';
import { newPlan, publishedPlan } from '../../protocol/plan-records.ts';
import { seedTxn } from '../../protocol/transactions.ts';
import { planCodec, type PlanRecord, specCodec, splitCodec } from '../../records/records.ts';
import { bytesOfBase64 } from '../api/bytes.ts';
import type { WriteAnswer } from '../link/batcher.ts';
import type { Core } from '../link/core.ts';
import { nextTurn } from '../loop/next-turn.ts';
import { type CheckedPlan, type CheckedSplit, checkPlanAnswer } from './plan-check.ts';
import type { Term } from './term.ts';

const PLANNER_PAUSE_MS = 500;
/** Seeds under way at once: several batches in every lane, without holding a whole plan in flight. */
const SEEDS_IN_FLIGHT_MAX = 600;

/** What planning asks of the leadership. */
export interface PlanningHooks {
  readonly send: (event: LeaderEvent) => void;
  /** Gives leadership up for cause, and for how long at least (R18). */
  readonly resign: (holdOffMs: number, reason: string) => void;
  /** The leader's index has grown. */
  readonly moved: () => void;
  /** A split was found stored that the leader did not know: it must be read. */
  readonly known: (split: SplitId) => void;
}

export class Planning {
  readonly #core: Core;
  readonly #send: (event: LeaderEvent) => void;
  readonly #resign: (holdOffMs: number, reason: string) => void;
  readonly #moved: () => void;
  readonly #known: (split: SplitId) => void;
  /** What the planner listed, until it is published. */
  #answer: CheckedPlan | null = null;
  #throws = 0;
  #isMoveDue = false;
  /** Puts of a deleted plan in this term; one is on its way while `isUnderWay`. */
  #recreation = { count: 0, isUnderWay: false };
  /** Why the last run failed; null when it did not. For status. */
  lastError: string | null = null;

  constructor(core: Core, hooks: PlanningHooks) {
    this.#core = core;
    this.#send = hooks.send;
    this.#resign = hooks.resign;
    this.#moved = hooks.moved;
    this.#known = hooks.known;
  }

  /** Calls the planner. */
  start(term: Term): void {
    const { view, planner, mailbox, clock } = this.#core;
    const cursor = view.plan.kind === 'seen' ? view.plan.plan.record.cursor : null;
    const request = {
      cursor: cursor === null ? null : bytesOfBase64(cursor),
      generation: term.generation,
      signal: term.abort.signal,
    };
    const pause = async (): Promise<void> => {
      await nextTurn(clock);
      request.signal.throwIfAborted();
    };
    const run = async (): Promise<CheckedPlan> =>
      checkPlanAnswer(await planner.plan(request), pause);
    run().then(
      (answer) => {
        mailbox.post(() => {
          if (term.isOver) return;
          this.#answer = answer;
          this.#throws = 0;
          this.lastError = null;
          this.#send({ type: 'planner.returned' });
        });
      },
      (error: unknown) => {
        mailbox.post(() => {
          if (!term.isOver) this.#threw(error);
        });
      },
    );
  }

  /** Stores the planned splits that the leader does not know, in order, some at a time. */
  seed(term: Term): void {
    const fresh = (this.#answer?.splits ?? []).filter((split) => !term.index.has(split.id));
    let next = 0;
    let underWay = 0;
    let isFillDue = false;
    const fill = (): void => {
      isFillDue = false;
      while (underWay < SEEDS_IN_FLIGHT_MAX && next < fresh.length && !term.isOver) {
        underWay += 1;
        void this.#seedOne(term, fresh[next]!).then(answered);
        next += 1;
      }
    };
    const answered = (): void => {
      underWay -= 1;
      if (term.isOver) return;
      if (next < fresh.length) {
        if (isFillDue) return;
        isFillDue = true;
        // In another turn: a store that answers at once would let nothing else run until all is stored.
        void nextTurn(this.#core.clock).then(fill);
      } else if (underWay === 0) this.#seeded();
    };
    if (fresh.length === 0) this.#seeded();
    else fill();
  }

  #seeded(): void {
    this.#core.mailbox.post(() => {
      this.#send({ type: 'splits.seeded' });
    });
  }

  /** Writes counts, cursor, finality and the seal; what others put into the plan meanwhile stays (R23). */
  publish(term: Term): void {
    const answer = this.#answer!;
    const { view } = this.#core;
    if (view.plan.kind !== 'seen') {
      this.#core.mailbox.post(() => {
        this.#send({ type: 'plan.lost' });
      });
      return;
    }
    const { record, modRevision } = view.plan.plan;
    const { finality, cursor } = answer;
    const sealed = finality === 'final';
    const next = publishedPlan(record, { finality, cursor, planned: term.index.size });
    if (next === null) {
      this.#core.mailbox.post(() => {
        this.#published(sealed);
      });
      return;
    }
    void this.#putPlan(term, next, modRevision).then((landed) => {
      this.#core.mailbox.post(() => {
        if (term.isOver) return;
        if (landed) this.#published(sealed);
        else this.publish(term);
      });
    });
  }

  /** The plan was deleted under a leader: it puts it back, one generation on (R42). */
  recreate(term: Term): void {
    if (this.#recreation.isUnderWay) return;
    this.#recreation = { count: this.#recreation.count + 1, isUnderWay: true };
    const record = newPlan(this.#core.fingerprint, {
      generation: term.generation + this.#recreation.count,
      planned: term.index.size,
    });
    this.#core.log.warn('plan.recreated', 'the plan was deleted; it is created again', {
      generation: record.generation,
    });
    void this.#putPlan(term, record, ABSENT).then(() => {
      this.#core.mailbox.post(() => {
        if (term.isOver) return;
        this.#recreation.isUnderWay = false;
        this.#send({ type: 'plan.recreated', hasAnswer: this.#answer !== null });
      });
    });
  }

  /** The term is over. */
  stop(): void {
    this.#answer = null;
    this.#throws = 0;
    this.#recreation = { count: 0, isUnderWay: false };
  }

  #published(isSealed: boolean): void {
    this.#answer = null;
    if (isSealed) this.#core.log.info('plan.sealed', 'every split of the final plan is stored');
    this.#send({ type: 'plan.published', isSealed });
  }

  #threw(error: unknown): void {
    const isFatal = isLeaseholdError(error) && error.kind === 'fatal';
    const reason = isLeaseholdError(error) ? `${error.code}: ${error.message}` : messageOf(error);
    this.lastError = reason;
    this.#core.log.error('planner.failed', 'the planner failed', { reason, isFatal });
    this.#core.events.emit({ type: 'plannerFailed', reason, isFatal });
    const { replanIntervalMs } = this.#core.config;
    if (isFatal) {
      this.#resign(replanIntervalMs, `the planner failed for good: ${reason}`);
      return;
    }
    const pauseMs = Math.min(replanIntervalMs, PLANNER_PAUSE_MS * 2 ** Math.min(this.#throws, 20));
    this.#throws += 1;
    this.#send({ type: 'planner.threw', pauseMs });
  }

  async #seedOne(term: Term, split: CheckedSplit): Promise<void> {
    const { keys, mailbox } = this.#core;
    const stamp = this.#core.stamp();
    const record = seededRecord({ weight: split.weight, seed: split.seed });
    const spec = { weight: split.weight, descriptor: split.descriptor };
    const answer = await term.write('seed', () =>
      seedTxn(keys, split.id, {
        spec: specCodec.encode(spec, stamp),
        split: splitCodec.encode(record, stamp),
      }),
    );
    mailbox.post(() => {
      if (term.isOver) return;
      if (answer.kind === 'committed') {
        term.index.set(split.id, record, answer.revision);
        this.#noteMoved();
      } else if (answer.kind === 'conflict') this.#alreadyThere(split.id, answer);
    });
  }

  /** Tells of what was stored: once for all that was answered together. */
  #noteMoved(): void {
    if (this.#isMoveDue) return;
    this.#isMoveDue = true;
    queueMicrotask(() => {
      this.#core.mailbox.post(() => {
        this.#isMoveDue = false;
        this.#moved();
      });
    });
  }

  /** Both halves there: planned before, its content stays. One alone is an error that blocks the verdict (R21). */
  #alreadyThere(id: SplitId, answer: WriteAnswer & { kind: 'conflict' }): void {
    const [spec = null, split = null] = answer.found;
    if (spec !== null && split !== null) {
      this.#known(id);
      return;
    }
    const { keys, warnings } = this.#core;
    const missing = spec === null ? keys.spec(id) : keys.split(id);
    warnings.warn(
      missing,
      'is missing while its other half is there: the verdict waits; requeue the split',
    );
  }

  #putPlan(term: Term, record: PlanRecord, equals: Revision): Promise<boolean> {
    const value = planCodec.encode(record, this.#core.stamp());
    return term.put('plan', this.#core.keys.plan, value, { equals });
  }
}
