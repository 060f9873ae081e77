/** What a leading worker lives in: a job with one split, another leader, a planner that answers when the test says so. */
import type { AnyEventObject } from 'xstate';
import type { Rule } from '../../../../src/store/faults.ts';
import { presenceCodec, leaderCodec, planCodec } from '../../../../src/records/records.ts';
import type { PlanAnswer, Planner, PlanRequest } from '../../../../src/coordinator/api/api.ts';
import { fatalPlannerError } from '../../../../src/coordinator/api/planner-error.ts';
import { deferred, type Deferred } from '../../../support/observed.ts';
import { isGuarded, touches } from '../calls.ts';
import type { Replace } from '../chart-probe.ts';
import { OTHER } from '../hand.ts';
import type { Gate } from '../held-store.ts';
import type { World } from './part.ts';
import { LEASE_MS, ME, SPLIT, Stage } from '../stage.ts';

interface Setting {
  /** The job of a leader that the path looks into. */
  readonly focus: string | null;
  /** The plan is sealed before this worker leads. */
  readonly isPlanned: boolean;
  /** Its only split is completed. */
  readonly isDone: boolean;
  readonly replace: Replace | undefined;
}

/** As short as the lease lets it be. */
export const REPLAN_MS = LEASE_MS;

/** A planner whose answers the test gives. */
class HandPlanner implements Planner {
  calls = 0;
  asked: Deferred<PlanAnswer> | null = null;
  /** Of the last call. */
  signal: AbortSignal | null = null;

  fingerprint(): string {
    return 'plan:v1';
  }

  plan({ signal }: PlanRequest): Promise<PlanAnswer> {
    this.calls += 1;
    this.signal = signal;
    this.asked = deferred<PlanAnswer>();
    return this.asked.promise;
  }
}

export class LeaderWorld implements World {
  readonly id = ME;
  readonly focus: string | null;
  readonly planner = new HandPlanner();
  readonly stage: Stage;
  readonly announcements: Gate;
  readonly joins: Gate;
  readonly sessions: Gate;
  readonly elections: Gate;
  readonly openings: Gate;
  readonly seeds: Gate;
  readonly plans: Gate;
  readonly assigns: Gate;
  readonly judges: Gate;
  readonly resigns: Gate;
  readonly closings: Gate;
  readonly renewals: Gate;
  /** The planner threw, and is to be asked again. */
  isPausing = false;
  /** When the leader last decided who holds what. */
  decidedAtMs: number | null = null;
  #peers = 0;
  /** What it follows is refused: it may not stand. */
  #bar: Rule | null = null;

  constructor({ focus, isPlanned, isDone, replace }: Setting) {
    this.focus = focus;
    const config = { maxInFlight: 0, replanIntervalMs: REPLAN_MS };
    this.stage = new Stage({ config, planner: this.planner, replace });
    const { held, keys, hand } = this.stage;
    const { root, leader, plan } = keys;
    this.announcements = held.gate(touches({ puts: [keys.presence(ME)] }));
    this.joins = held.gate(
      (call) => call.kind === 'read' && 'keys' in call.range && call.range.keys.includes(leader),
    );
    this.sessions = held.gate(({ kind }) => kind === 'openSession');
    this.elections = held.gate(touches({ puts: [leader] }));
    this.openings = held.gate(
      (call) =>
        call.kind === 'read' &&
        'prefix' in call.range &&
        call.range.prefix === `${root}splits/` &&
        call.read.atRevision === undefined,
    );
    const isPut = (kind: string) => touches({ puts: [root + kind] });
    this.seeds = held.gate((call) => isGuarded(call) && isPut('specs/')(call));
    this.plans = held.gate((call) => isGuarded(call) && isPut('plan')(call));
    this.assigns = held.gate((call) => isGuarded(call) && isPut('assign/')(call));
    this.judges = held.gate(
      (call) => call.kind === 'read' && 'keys' in call.range && call.range.keys.join() === plan,
    );
    this.resigns = held.gate(touches({ deletes: [leader] }));
    this.closings = held.gate(({ kind }) => kind === 'closeSession');
    this.renewals = held.gate(
      (call) => call.kind === 'keepAlive' && call.id === this.stage.entry(leader)?.session,
    );
    hand.lead();
    // It announced itself before this worker, and so would stand first.
    hand.presence(OTHER);
    if (!isPlanned) {
      hand.plan({ sealed: false, finality: 'open', planned: 0 });
      return;
    }
    hand.plan();
    hand.spec(SPLIT);
    hand.split(SPLIT, { status: isDone ? 'completed' : 'runnable' });
  }

  /** Up to being about to join the fleet: until then a worker may not stand. */
  async begin(): Promise<void> {
    const { stage } = this;
    this.announcements.shut();
    stage.start();
    await stage.until(() => this.announcements.waiting > 0);
    const gates = [this.joins, this.sessions, this.elections, this.openings, this.seeds];
    const more = [this.plans, this.judges, this.resigns, this.closings];
    for (const gate of [...gates, ...more]) gate.shut();
    if (this.focus === 'balancing') this.assigns.shut();
  }

  /** It may stand, as far as it is concerned. */
  async admit(): Promise<void> {
    await this.stage.clock.settle();
    this.announcements.open();
    this.#bar?.remove();
    this.#bar = null;
  }

  /** It may not stand any more: it does not hear what it must know. */
  bar(): void {
    const { client, keys } = this.stage;
    const parked = `${keys.root}parked/`;
    this.#bar = client
      .when(
        (call) => call.kind === 'watch' && 'prefix' in call.range && call.range.prefix === parked,
      )
      .deny();
  }

  /** Brings about what the worker sees of leader and plan; a worker that is barred sees it once it is admitted. */
  show(leader: 'other' | 'nobody', plan: 'there' | 'gone'): Promise<void> {
    const { hand, keys } = this.stage;
    if (plan === 'gone') hand.remove(keys.plan);
    else if (this.plan === null) hand.plan();
    if (leader === 'nobody') hand.remove(keys.leader);
    else if (this.leader === null) hand.lead();
    return this.admit();
  }

  /** The last event of this type that the chart was handed. */
  lastOf(type: string): AnyEventObject {
    return this.probe.steps.findLast(
      ({ of, event }) => of.chart === 'leader' && event.type === type,
    )!.event;
  }

  get probe() {
    return this.stage.probe;
  }

  get feed() {
    return this.stage.feed;
  }

  until(condition: () => boolean): Promise<boolean> {
    return this.stage.until(condition, 70_000);
  }

  shown(): string {
    return this.stage.worker.status().charts.leader;
  }

  inject(event: AnyEventObject): void {
    this.stage.inject('leader', ME, event);
  }

  /** What the service was told of this worker's leadership. */
  get told(): string[] {
    return this.stage.events
      .map(({ type }) => type)
      .filter((type) => type.startsWith('leadership'));
  }

  /** Sessions beside the one of the worker's own keys. */
  get leaderSessions(): number {
    const own = this.stage.entry(this.stage.keys.presence(ME))?.session;
    return this.stage.store.liveSessions.filter((id) => id !== own).length;
  }

  /** The worker waits for this long, and no longer. */
  async rest(ms: number): Promise<void> {
    const before = this.shown();
    await this.stage.clock.advance(ms - 1);
    if (this.shown() !== before) throw new Error(`it did not wait for ${ms} ms`);
    await this.stage.clock.advance(1);
    if (this.shown() === before) throw new Error(`it waited for more than ${ms} ms`);
  }

  get leader() {
    const { stage } = this;
    const decoded = leaderCodec.decode(stage.entry(stage.keys.leader)?.value ?? '');
    return decoded.kind === 'record' ? decoded.record : null;
  }

  get plan() {
    const { stage } = this;
    const decoded = planCodec.decode(stage.entry(stage.keys.plan)?.value ?? '');
    return decoded.kind === 'record' ? decoded.record : null;
  }

  /** Present workers that no assignment names. */
  unassigned(): string[] {
    const { store, keys } = this.stage;
    const prefix = `${keys.root}workers/`;
    return store
      .dump(prefix)
      .filter(({ value }) => presenceCodec.decode(value).kind === 'record')
      .map(({ key }) => key.slice(prefix.length))
      .filter((id) => this.stage.entry(`${keys.root}assign/${id}`) === undefined);
  }

  /** Keys that only a leader writes, as this worker wrote them. */
  ownWrites(): string[] {
    const { store, keys } = this.stage;
    return store
      .history(keys.root)
      .filter(({ key, cause }) => cause === 'batch' && /\/(plan|assign|specs|parked)/.test(key))
      .map(({ key, revision }) => `${key}@${revision}`);
  }

  answer(isFinal: boolean): void {
    const id = `t${this.planner.calls}`;
    this.#settle((asked) => {
      asked.resolve({ splits: [{ id, descriptor: id }], finality: isFinal ? 'final' : 'open' });
    });
  }

  failPlanner(error: unknown): void {
    this.isPausing = true;
    this.#settle((asked) => {
      asked.reject(error);
    });
  }

  /** Another worker comes, and has to be told what to hold. */
  addPeer(): void {
    this.#peers += 1;
    this.stage.hand.presence(`p${this.#peers}`);
  }

  /** The split's owner completes it; the leader hears of it by the lease. */
  completeSplit(): void {
    const { hand, keys } = this.stage;
    hand.split(SPLIT, { status: 'completed' });
    hand.lease(SPLIT);
    hand.remove(keys.lease(SPLIT));
  }

  /** The session of the leader key ends: found out by a write while standing, by the deadline while leading. */
  async expireSession(): Promise<void> {
    const { store } = this.stage;
    if (this.shown().startsWith('campaigning')) {
      const own = this.stage.entry(this.stage.keys.presence(ME))?.session;
      for (const id of store.liveSessions) if (id !== own) store.expireSession(id);
      this.elections.pass();
    } else this.renewals.shut();
  }

  /** No write of the term is answered for a lease, or the planner can do no more. */
  async spoilWrites(): Promise<void> {
    if (this.planner.asked !== null) {
      this.failPlanner(fatalPlannerError('the source is gone'));
      return;
    }
    const writes = [this.seeds, this.plans, this.assigns];
    const reads = [this.openings, this.judges];
    const { clock } = this.stage;
    for (let waitedMs = 0; waitedMs < 2 * LEASE_MS; waitedMs += 100) {
      for (const gate of writes) gate.lose('E_OUTCOME_UNKNOWN');
      for (const gate of reads) gate.lose('E_STORE_UNREACHABLE');
      if (!this.shown().startsWith('leading')) return;
      await clock.advance(100);
    }
  }

  letAllPass(): void {
    for (const gate of [this.seeds, this.plans, this.assigns, this.judges]) gate.open();
  }

  #settle(act: (asked: Deferred<PlanAnswer>) => void): void {
    const { asked } = this.planner;
    this.planner.asked = null;
    if (asked !== null) act(asked);
  }
}
