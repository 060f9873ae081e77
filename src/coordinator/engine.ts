/**
 * One worker, put together: everything that comes in goes through one mailbox, the charts decide, and what they decide is
 * carried out against the store.
 */
import type { ExpiryReason } from '../../machines/session/session.events.ts';
import type { LeaseholdError } from '../base/errors.ts';
import { isLeaseholdError, messageOf } from '../base/errors.ts';
import { hash32 } from '../base/hash.ts';
import { describe, type SplitId } from '../base/ids.ts';
import { jitter } from '../protocol/timing.ts';
import type { KeyName } from '../records/keys.ts';
import type { Change } from '../store/port.ts';
import type { StopReport, Verdict } from './api/api.ts';
import type { CoordinatorOptions } from './api/options.ts';
import { buildCore } from './core-builder.ts';
import { Departure } from './departure.ts';
import { Tenancies } from './holding/tenancies.ts';
import { Leadership } from './leading/leadership.ts';
import type { Core } from './link/core.ts';
import { JobWatches } from './link/job-watches.ts';
import { lookAgain } from './link/look-again.ts';
import { checkPlan } from './membership/join.ts';
import { Peers } from './membership/peers.ts';
import { Presence } from './membership/presence.ts';
import { Predecessor } from './predecessor.ts';
import { type Status, statusOf } from './status.ts';
import { stoppedBeforeVerdict, Verdicts } from './verdicts.ts';

export class Engine {
  readonly core: Core;
  readonly tenancies: Tenancies;
  readonly departure: Departure;
  readonly #presence: Presence;
  readonly #leadership: Leadership;
  readonly #peers: Peers;
  readonly #watches: JobWatches;
  readonly #predecessor: Predecessor;
  readonly #verdicts: Verdicts;
  #fatalError: LeaseholdError | null = null;
  #rounds = 0;

  constructor(options: CoordinatorOptions) {
    this.core = this.#buildCore(options);
    const { core } = this;
    this.tenancies = new Tenancies(core, {
      mayClaim: () => this.#mayTakePart(),
      refusesChanged: () => {
        this.#presence.outdated();
      },
    });
    this.#presence = new Presence(core, {
      joined: () => {
        this.#watches.start();
      },
      refuses: () => this.tenancies.refuses(),
      moved: () => {
        core.mailbox.requestDecision();
      },
    });
    this.#peers = new Peers(core, () => {
      this.#leadership.inputsChanged();
    });
    this.#leadership = new Leadership(core, this.#peers, { mayStand: () => this.#mayTakePart() });
    this.#watches = new JobWatches(core, () => {
      this.#reset();
    });
    this.#verdicts = new Verdicts(core);
    this.#predecessor = new Predecessor(core, {
      presence: this.#presence,
      tenancies: this.tenancies,
      leaderSession: () => this.#leadership.session.id,
    });
    this.departure = new Departure(core, () => ({
      presence: this.#presence,
      tenancies: this.tenancies,
      leadership: this.#leadership,
      close: () => {
        this.#close();
      },
    }));
  }

  get isStopped(): boolean {
    return this.departure.isOver;
  }

  start(): void {
    const { core } = this;
    core.log.info('worker.starting', 'starts', { config: { ...core.config } });
    core.mailbox.post(() => {
      this.#presence.begin();
    });
    this.#tickLater();
    this.#reconcileLater();
  }

  verdict(): Promise<Verdict> {
    return this.#verdicts.wait();
  }

  stop(hasStarted: boolean): Promise<StopReport> {
    this.core.mailbox.post(() => {
      const reason = this.#verdicts.known === null ? 'stopped' : 'finished';
      if (hasStarted) this.departure.begin({ reason, error: null });
      else this.departure.skip();
    });
    return this.departure.finished;
  }

  status(): Status {
    return statusOf({
      core: this.core,
      presence: this.#presence,
      departure: this.departure,
      tenancies: this.tenancies,
      leadership: this.#leadership,
      watches: this.#watches,
      peers: this.#peers,
      verdict: this.#verdicts.known,
      fatalError: this.#fatalError === null ? null : this.#fatalError.message,
    });
  }

  #buildCore(options: CoordinatorOptions): Core {
    return buildCore(options, {
      decide: () => {
        this.#decide();
      },
      crash: (error) => {
        this.#crash(error);
      },
      changed: (name, change) => {
        this.#changed(name, change);
      },
      wentBack: () => {
        this.core.mailbox.post(() => {
          this.#reset();
        });
      },
      session: {
        opened: () => {
          this.#presence.send({ type: 'session.opened' });
        },
        unopened: (error) => {
          this.#presence.unopened(error);
        },
        expired: (_, reason) => {
          this.#sessionExpired(reason);
        },
      },
      abandonAll: () => {
        this.core.session.abandon('denied');
        this.#leadership.giveUp('the store has refused it for a whole lease');
      },
      isLeaving: () => this.departure.hasBegun,
      fatal: (error) => {
        this.#fatal(error);
      },
    });
  }

  /** Runs once after each burst of messages: everything is decided on what is known now. */
  #decide(): void {
    if (!this.#presence.hasBegun) return;
    this.tenancies.advance();
    if (!this.departure.hasBegun) {
      this.#leadership.advance();
      this.#predecessor.advance(this.#watches.isFollowing);
    }
    this.departure.advance();
  }

  #mayTakePart(): boolean {
    return this.#presence.isPresent && !this.departure.hasBegun && this.#watches.isFollowing;
  }

  #changed(name: KeyName, change: Change): void {
    const { core } = this;
    const leadership = this.#leadership;
    core.mailbox.requestDecision();
    switch (name.kind) {
      case 'plan':
        this.#planChanged(change);
        return;
      case 'leader':
        leadership.leaderChanged(change);
        return;
      case 'presence':
        this.#peers.changed(name.instance);
        if (name.instance === core.me) this.#presence.ownPresenceChanged(change);
        leadership.inputsChanged();
        return;
      case 'assignment': {
        if (name.instance === core.me) this.tenancies.assignmentChanged();
        const isOwn = core.view.assignments.get(name.instance)?.stamp.nonce === core.nonce;
        if (!isOwn) leadership.inputsChanged();
        return;
      }
      case 'lease':
        this.tenancies.leaseChanged(name.split, change);
        leadership.leaseChanged(name.split, change);
        return;
      case 'parked':
        this.#parkedChanged(name.split);
        return;
      case 'paused':
      case 'cordoned':
      case 'drained':
        leadership.inputsChanged();
        return;
      case 'spec':
      case 'split':
      case 'away':
      case 'alien':
        return;
    }
  }

  #planChanged(change: Change): void {
    const { core } = this;
    this.#leadership.planChanged();
    if (change.entry === null) return;
    try {
      this.#verdicts.planRead(checkPlan(change.entry, core.fingerprint));
    } catch (error) {
      if (!isLeaseholdError(error)) throw error;
      core.fatal(error);
    }
  }

  #parkedChanged(split: SplitId): void {
    const { view, events } = this.core;
    const parked = view.parked.get(split);
    this.tenancies.parkedChanged(split, parked !== undefined);
    this.#leadership.parkedChanged(split);
    if (parked === undefined) return;
    const { attempts, reason, owner } = parked.record;
    events.emit({ type: 'quarantined', splitId: split, attempts, reason, by: owner });
  }

  /** Every tenancy ends before a new session is used (R41). */
  #sessionExpired(reason: ExpiryReason): void {
    const { log, session, config, events } = this.core;
    const hasStalled = session.stallMs > config.leaseDurationMs / 3;
    const fields = { reason, ...(hasStalled ? { stallMs: Math.round(session.stallMs) } : {}) };
    const text = hasStalled
      ? `the session was lost: the event loop was blocked for ${Math.round(session.stallMs)} ms`
      : 'the session was lost';
    log.warn('session.lost', text, fields);
    this.tenancies.sessionExpired(hasStalled);
    events.emit({ type: 'sessionLost', reason: hasStalled ? 'stalled' : reason });
    this.#presence.send({ type: 'session.expired', isDenied: reason === 'denied' });
  }

  /** The store is another one: nothing that was known holds any more (R8). */
  #reset(): void {
    const { core } = this;
    core.log.error('store.reset', 'the store was replaced or went back in time; starting over');
    core.session.reset();
    this.#leadership.reset();
    core.view.clear();
    this.#peers.clear();
    this.#predecessor.reset();
    this.#watches.reset();
    this.#presence.reset();
  }

  #fatal(error: LeaseholdError): void {
    if (this.#fatalError !== null || this.departure.hasBegun) return;
    this.#fatalError = error;
    this.core.log.error('worker.failed', error.message, { code: error.code, ...error.details });
    this.#verdicts.refuse(error);
    this.core.mailbox.post(() => {
      this.departure.begin({ reason: 'failed', error });
    });
  }

  /** A bug: it must not be survived in silence. */
  #crash(error: unknown): void {
    this.core.log.error('worker.bug', `a bug in Leasehold: ${messageOf(error)}`, {
      stack: error instanceof Error ? error.stack : describe(error),
    });
    queueMicrotask(() => {
      throw error;
    });
  }

  #close(): void {
    const { core } = this;
    this.#watches.close();
    this.#peers.clear();
    core.health.stop();
    core.session.stop();
    core.batcher.close();
    core.gate.close();
    core.clock.close();
    core.mailbox.close();
    core.events.close();
    this.#verdicts.refuse(stoppedBeforeVerdict());
  }

  #tickLater(): void {
    const { config, batcher, health } = this.core;
    this.core.after(config.leaseDurationMs / 3, () => {
      batcher.rest();
      health.tick();
      this.#watches.tick();
      this.#lookAgain();
      this.tenancies.tick();
      this.#leadership.tick();
      this.#tickLater();
    });
  }

  #lookAgain(): void {
    if (!this.#presence.isPresent) return;
    const { keys, me } = this.core;
    lookAgain(this.core, [keys.assignment(me), keys.presence(me)]);
    lookAgain(this.core, this.tenancies.awaitedLeases());
  }

  /** The backstop for lost events: everything watched and everything held is verified (R24, R39). */
  #reconcileLater(): void {
    const { config, me } = this.core;
    this.#rounds += 1;
    this.core.after(jitter(hash32(1, me), this.#rounds, config.reconcileIntervalMs), () => {
      this.#watches.check();
      this.#leadership.check();
      this.tenancies.checkOwnRecords();
      this.#reconcileLater();
    });
  }
}
