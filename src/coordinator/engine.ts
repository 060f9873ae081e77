/**
 * One worker, put together: everything that comes in goes through one mailbox, the charts decide, and what they decide is
 * carried out against the store.
 */
import type { LeaseholdError } from '../base/errors.ts';
import { isLeaseholdError, messageOf } from '../base/errors.ts';
import { hash32 } from '../base/hash.ts';
import { describe, type SplitId } from '../base/ids.ts';
import { jitter } from '../protocol/timing.ts';
import type { KeyName } from '../records/keys.ts';
import type { Change } from '../store/port.ts';
import type { StopReport, Verdict } from './api/api.ts';
import type { CoordinatorOptions } from './api/options.ts';
import type { Core } from './link/core.ts';
import { buildCore } from './core-builder.ts';
import { Departure, type Leaving } from './departure.ts';
import { Follower } from './link/follower.ts';
import { checkPlan } from './membership/join.ts';
import { Leadership } from './leading/leadership.ts';
import { Peers } from './membership/peers.ts';
import { Predecessor } from './predecessor.ts';
import { Presence } from './membership/presence.ts';
import type { ExpiryReason } from './link/session-keeper.ts';
import { type Status, statusOf } from './status.ts';
import { Tenancies } from './holding/tenancies.ts';
import { stoppedBeforeVerdict, Verdicts } from './verdicts.ts';

export class Engine {
  readonly core: Core;
  readonly tenancies: Tenancies;
  readonly departure: Departure;
  readonly #peers: Peers;
  readonly #follower: Follower;
  readonly #verdicts: Verdicts;
  #presence: Presence | null = null;
  #leadership: Leadership | null = null;
  #predecessor: Predecessor | null = null;
  #fatalError: LeaseholdError | null = null;
  #rounds = 0;

  constructor(options: CoordinatorOptions) {
    this.core = buildCore(options, {
      decide: () => {
        this.#decide();
      },
      crash: (error) => {
        this.#crash(error);
      },
      changed: (name, change) => {
        this.#changed(name, change);
      },
      session: {
        opened: () => this.#presence?.sessionOpened(),
        openFailed: (error) => this.#presence?.openFailed(error),
        expired: (_, reason) => {
          this.#sessionExpired(reason);
        },
      },
      fatal: (error) => {
        this.#fatal(error);
      },
    });
    this.tenancies = new Tenancies(this.core, {
      mayClaim: () => this.#mayTakePart(),
      refusesChanged: () => this.#presence?.send({ type: 'announcement.due' }),
    });
    this.#peers = new Peers(this.core, () => {
      this.#leadership?.inputsChanged();
    });
    this.#follower = new Follower(this.core, () => {
      this.#reset();
    });
    this.#verdicts = new Verdicts(this.core);
    this.departure = new Departure(this.core, () => this.#leaving());
  }

  get isStopped(): boolean {
    return this.departure.isOver;
  }

  start(): void {
    const { core } = this;
    core.log.info('worker.starting', 'starts', { config: { ...core.config } });
    this.#leadership = new Leadership(core, this.#peers, {
      mayStand: () => this.#mayTakePart(),
    });
    core.mailbox.post(() => {
      this.#presence = new Presence(core, {
        joined: () => {
          this.#follower.start();
        },
        refuses: () => this.tenancies.refuses(),
        moved: () => {
          core.mailbox.requestDecision();
        },
      });
      this.#predecessor = new Predecessor(core, this.#presence, this.tenancies);
      this.#presence.begin();
    });
    this.#tickLater();
    this.#reconcileLater();
  }

  verdict(): Promise<Verdict> {
    return this.#verdicts.wait();
  }

  stop(hasStarted: boolean): Promise<StopReport> {
    if (!hasStarted) this.departure.skip();
    else {
      this.core.mailbox.post(() => {
        this.departure.begin(this.#verdicts.known === null ? 'stopped' : 'finished', null);
      });
    }
    return this.departure.finished;
  }

  status(): Status {
    return statusOf({
      core: this.core,
      presence: this.#presence,
      tenancies: this.tenancies,
      leadership: this.#leadership,
      peers: this.#peers,
      verdict: this.#verdicts.known,
      fatalError: this.#fatalError === null ? null : this.#fatalError.message,
    });
  }

  /** Runs once after each burst of messages: everything is decided on what is known now. */
  #decide(): void {
    this.tenancies.advance();
    if (!this.departure.hasBegun) {
      this.#leadership?.advance();
      this.#predecessor?.advance(this.#follower.isFollowing);
    }
    this.departure.advance();
  }

  #mayTakePart(): boolean {
    return (
      this.#presence?.isPresent === true && !this.departure.hasBegun && this.#follower.isFollowing
    );
  }

  #changed(name: KeyName, change: Change): void {
    const { core } = this;
    const leadership = this.#leadership!;
    core.mailbox.requestDecision();
    switch (name.kind) {
      case 'plan':
        this.#planChanged(change);
        return;
      case 'leader':
        leadership.leaderChanged(change);
        return;
      case 'presence':
        if (name.instance === core.me) this.#presence?.ownPresenceChanged(change);
        else this.#peers.changed(name.instance);
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
      case 'alien':
        return;
    }
  }

  #planChanged(change: Change): void {
    const { core } = this;
    this.#leadership?.planChanged();
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
    this.#leadership?.parkedChanged(split);
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
    this.#presence?.send({ type: 'session.expired' });
  }

  /** The store is another one: nothing that was known holds any more (R8). */
  #reset(): void {
    const { core } = this;
    core.log.error('store.reset', 'the store was replaced or went back in time; starting over');
    this.#presence?.forgetJob();
    core.session.expire('reset');
    this.#leadership?.reset();
    core.view.clear();
    this.#peers.clear();
    this.#follower.restart();
  }

  #fatal(error: LeaseholdError): void {
    if (this.#fatalError !== null || this.departure.hasBegun) return;
    this.#fatalError = error;
    this.core.log.error('worker.failed', error.message, { code: error.code, ...error.details });
    this.#verdicts.refuse(error);
    this.core.mailbox.post(() => {
      this.departure.begin('failed', error);
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

  #leaving(): Leaving {
    return {
      presence: this.#presence!,
      tenancies: this.tenancies,
      leadership: this.#leadership!,
      close: () => {
        this.#close();
      },
    };
  }

  #close(): void {
    const { core } = this;
    this.#follower.close();
    this.#peers.clear();
    core.batcher.close();
    core.gate.close();
    core.clock.close();
    core.mailbox.close();
    core.events.close();
    this.#verdicts.refuse(stoppedBeforeVerdict());
  }

  #tickLater(): void {
    const { clock, config, mailbox, batcher } = this.core;
    clock.setTimeout(() => {
      mailbox.post(() => {
        batcher.rest();
        this.tenancies.tick();
        this.#leadership?.tick();
      });
      this.#tickLater();
    }, config.leaseDurationMs / 3);
  }

  /** The backstop for lost events: everything watched and everything held is read again (R24, R39). */
  #reconcileLater(): void {
    const { clock, config, mailbox, me } = this.core;
    this.#rounds += 1;
    clock.setTimeout(
      () => {
        mailbox.post(() => {
          this.#follower.relist();
          this.#leadership?.relist();
          this.tenancies.checkOwnRecords();
        });
        this.#reconcileLater();
      },
      jitter(hash32(1, me), this.#rounds, config.reconcileIntervalMs),
    );
  }
}
