/** What a leading worker lives in: a job with one split, another leader, a planner that answers when the test says so. */
import type { AnyEventObject } from 'xstate';
import { presenceCodec, leaderCodec, planCodec } from '../../../src/records/records.ts';
import type { PlanAnswer, Planner, PlanRequest } from '../../../src/coordinator/api/api.ts';
import { fatalPlannerError } from '../../../src/coordinator/api/planner-error.ts';
import { deferred, type Deferred } from '../../support/observed.ts';
import { isGuarded, touches } from './calls.ts';
import type { Replace } from './chart-probe.ts';
import { OTHER } from './hand.ts';
import type { Gate } from './held-store.ts';
import type { World } from './part.ts';
import { LEASE_MS, ME, SPLIT, Stage } from './stage.ts';

interface Setting {
  /** The job of a leader that the path looks into. */
  readonly focus: string | null;
  /** The plan is sealed before this worker leads. */
  readonly isPlanned: boolean;
  /** Its only split is completed. */
  readonly isDone: boolean;
  readonly replace: Replace | undefined;
}

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

  constructor({ focus, isPlanned, isDone, replace }: Setting) {
    this.focus = focus;
    this.stage = new Stage({ config: { maxInFlight: 0 }, planner: this.planner, replace });
    const { held, keys, hand } = this.stage;
    const { root, leader, plan } = keys;
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

  async begin(): Promise<void> {
    const { stage } = this;
    stage.start();
    await stage.until(() => stage.worker.status().presence === 'present');
    const gates = [this.sessions, this.elections, this.openings, this.seeds, this.plans];
    const more = [this.judges, this.resigns, this.closings];
    for (const gate of [...gates, ...more]) gate.shut();
    if (this.focus === 'balancing') this.assigns.shut();
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

  shown(): string | undefined {
    return this.stage.worker.status().leader;
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

  /** Lets this much time pass, in which nothing may happen. */
  async rest(ms: number): Promise<void> {
    const before = this.shown();
    await this.stage.clock.advance(ms);
    if (this.shown() !== before) throw new Error(`it did not wait for ${ms} ms`);
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

  /** The new leader has read what it must. */
  get isOpen(): boolean {
    return !this.openings.isShut;
  }

  /** Lets the new leader read what it must; false when it has. */
  openTerm(): boolean {
    if (this.isOpen) return false;
    this.openings.open();
    return true;
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
    if (this.shown() === 'campaigning') {
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
    const lose = (): boolean => {
      for (const gate of [this.seeds, this.plans, this.assigns]) gate.lose('E_OUTCOME_UNKNOWN');
      return this.shown()?.startsWith('leading') !== true;
    };
    await this.stage.until(lose, 2 * LEASE_MS, 100);
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
