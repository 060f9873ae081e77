/** What a worker on its way into the fleet lives in: a job that another worker leads, and calls that wait for the test. */
import type { AnyEventObject } from 'xstate';
import type { Nonce } from '../../../../src/base/ids.ts';
import { startupBackoffMs } from '../../../../src/protocol/timing.ts';
import { presenceCodec } from '../../../../src/records/records.ts';
import type { StoreCall } from '../../../../src/store/faults.ts';
import { touches } from '../calls.ts';
import type { Replace } from '../chart-probe.ts';
import type { Gate } from '../held-store.ts';
import type { World } from './part.ts';
import { ME, Stage } from '../stage.ts';

/** Tries of each step of the way in. */
export const FAILURES_MAX = 3;
/** Longer than what was lost or refused waits before it is sent again. */
const RESEND_MS = 550;
const LATE_MS = 50;
const ANSWERS = ['announcement.landed', 'announcement.missed', 'session.expired'];

export class PresenceWorld implements World {
  readonly id = ME;
  readonly stage: Stage;
  readonly probes: Gate;
  readonly joins: Gate;
  readonly opens: Gate;
  readonly announcements: Gate;
  readonly leaves: Gate;
  /** A worker is on its way out until its session is closed. */
  readonly closings: Gate;
  /** Splits whose handlers are said to outlive their tenancies. */
  readonly outlived: string[] = [];
  failure: unknown = null;
  /** What was to be announced was given up, and is announced anew with the next try. */
  isGivenUp = false;
  /** When the last try failed. */
  #failedAtMs = 0;

  constructor(replace: Replace | undefined) {
    this.stage = new Stage({ config: { startupMaxAttempts: FAILURES_MAX }, replace });
    const { keys, hand, held, worker } = this.stage;
    this.probes = held.gate(touches({ puts: [`${keys.root}probe/`] }));
    const reads = (call: StoreCall, key: string): boolean =>
      call.kind === 'read' && 'keys' in call.range && call.range.keys.includes(key);
    this.joins = held.gate((call) => reads(call, keys.plan) && reads(call, keys.leader));
    this.opens = held.gate(({ kind }) => kind === 'openSession');
    this.announcements = held.gate(touches({ puts: [keys.presence(ME)] }));
    this.leaves = held.gate(touches({ deletes: [keys.presence(ME)] }));
    this.closings = held.gate(({ kind }) => kind === 'closeSession');
    hand.plan();
    hand.lead();
    worker.verdict().catch((error: unknown) => (this.failure = error));
  }

  get probe() {
    return this.stage.probe;
  }

  get feed() {
    return this.stage.feed;
  }

  until(condition: () => boolean): Promise<boolean> {
    return this.stage.until(condition);
  }

  shown(): string {
    return this.stage.worker.status().charts.presence;
  }

  inject(event: AnyEventObject): void {
    this.stage.inject('presence', ME, event);
  }

  /** What the fleet sees of this worker. */
  get presence() {
    const entry = this.stage.entry(this.stage.keys.presence(ME));
    const decoded = presenceCodec.decode(entry?.value ?? '');
    return decoded.kind === 'record' ? { ...decoded.record, session: entry!.session } : null;
  }

  /** Waits for an announcement on its way; one that was lost goes out again by itself. */
  isAnnouncing(): Promise<boolean> {
    return this.stage.until(() => this.announcements.waiting > 0, RESEND_MS);
  }

  /** The announcement on its way is answered; one that was made on what is gone meanwhile goes out once more. */
  async letLand(): Promise<void> {
    const { length } = this.probe.steps;
    const isHeard = (): boolean =>
      this.probe.steps.slice(length).some(({ event }) => ANSWERS.includes(event.type));
    for (let tries = 0; tries < 2 && !isHeard(); tries += 1) {
      await this.isAnnouncing();
      this.announcements.pass();
      await this.stage.clock.settle();
    }
  }

  /** The worker has more to say than it says. */
  haveMoreToSay(): void {
    const split = `x${this.outlived.length}`;
    this.outlived.push(split);
    this.stage.worker.handlerOutlives(split);
  }

  /** The announcement lands, and its key is gone before the worker hears so. */
  async landAndVanish(): Promise<void> {
    const { client, hand, keys } = this.stage;
    await this.isAnnouncing();
    client.when(touches({ puts: [keys.presence(ME)] })).delayAnswer(LATE_MS, { times: 1 });
    this.announcements.pass();
    await this.stage.clock.settle();
    hand.remove(keys.presence(ME));
  }

  /** The session ends: a write under it finds out, or nobody answers and the worker finds out by itself. */
  async expireSession(): Promise<void> {
    const { store, client } = this.stage;
    if (this.shown() === 'present.announced') {
      client.partition();
      await this.stage.until(() => this.shown().startsWith('rejoining'));
      client.heal();
      return;
    }
    for (const session of store.liveSessions) store.expireSession(session);
    await this.letLand();
  }

  /** The store refuses this worker until it has given its session up. */
  async refuse(): Promise<void> {
    const { client, keys } = this.stage;
    const reads = (call: StoreCall): boolean =>
      call.kind === 'read' && 'keys' in call.range && call.range.keys.includes(keys.presence(ME));
    const denial = client.when(reads).deny();
    await this.stage.until(() => this.shown().startsWith('rejoining'));
    denial.remove();
  }

  /** Another store in the place of the first, where another worker leads on. */
  replaceStore(): void {
    const { store, hand } = this.stage;
    store.reset();
    hand.plan();
    hand.lead();
  }

  /** What is being tried fails. */
  async fail(how: 'E_OUTCOME_UNKNOWN' | 'E_STORE_DENIED'): Promise<void> {
    const gate = this.#tried();
    await this.stage.until(() => gate.waiting > 0, RESEND_MS);
    const isRead = gate === this.joins && how === 'E_OUTCOME_UNKNOWN';
    gate.lose(isRead ? 'E_STORE_UNREACHABLE' : how);
    this.noteFailure();
  }

  noteFailure(): void {
    this.#failedAtMs = this.stage.clock.nowMs();
  }

  /** Whatever is announced, the presence has changed before it lands, until it is given up. */
  async outrun(): Promise<void> {
    const { hand, entry, keys, clock, worker } = this.stage;
    const key = keys.presence(ME);
    for (let tries = 0; tries <= FAILURES_MAX; tries += 1) {
      await this.isAnnouncing();
      if (entry.call(this.stage, key) === undefined) {
        hand.presence(ME, { nonce: worker.status().nonce as Nonce });
      } else hand.remove(key);
      this.announcements.pass();
      await clock.settle();
    }
    hand.remove(key);
    this.isGivenUp = true;
    this.noteFailure();
  }

  /** The next try comes after its pause, and neither earlier nor later. */
  async expectRetry(failures: number): Promise<void> {
    const { clock } = this.stage;
    const isDue = (): boolean => this.probe.steps.at(-1)!.event.type === 'step.retry';
    await clock.advance(this.#failedAtMs + startupBackoffMs(failures) - 1 - clock.nowMs());
    if (isDue()) throw new Error('it was tried again too early');
    await clock.advance(1);
    const { steps } = this.probe;
    if (!steps.slice(-5).some(({ event }) => event.type === 'step.retry')) {
      throw new Error('it was tried again too late');
    }
    this.isGivenUp = false;
  }

  #tried(): Gate {
    const state = this.shown();
    if (state === 'probing') return this.probes;
    if (state.endsWith('joining')) return this.joins;
    return state.endsWith('opening') ? this.opens : this.announcements;
  }

  /** Who had announced itself is seen to leave, while its session lasts. */
  async expectParting(): Promise<void> {
    const hasLanded = this.probe.steps.some(({ event }) => event.type === 'announcement.landed');
    if (!hasLanded || this.stage.worker.status().sessionLeftMs === 0) return;
    // One may be under way that was built before.
    await this.letLand();
    await this.letLand();
    if (this.presence !== null && !this.presence.parting) {
      throw new Error('it is not announced as parting');
    }
  }
}
