/**
 * One worker, put together: everything that comes in goes through one mailbox, the charts decide, and what they decide is
 * carried out against the store.
 */
import { systemClock } from '../base/clock.ts';
import { isLeaseholdError, LeaseholdError, messageOf } from '../base/errors.ts';
import { describe, type InstanceId, type Nonce, randomId, type SplitId } from '../base/ids.ts';
import { type Logger, SILENT_LOGGER } from '../base/logger.ts';
import { systemRandom } from '../base/random.ts';
import { hash32 } from '../base/hash.ts';
import { jitter } from '../protocol/timing.ts';
import { jobKeys, KEY_PREFIXES, type KeyName } from '../records/keys.ts';
import type { Change, Range } from '../store/port.ts';
import { writingMachine } from '../../machines/writing.machine.ts';
import type { StopReport, Verdict } from './api.ts';
import { Batcher } from './batcher.ts';
import { ChartHost, type Transition } from './chart-host.ts';
import { resolveConfig } from './config.ts';
import type { CoordinatorOptions } from './coordinator.ts';
import type { Core, WorkerLog } from './core.ts';
import { Departure } from './departure.ts';
import { EventSink } from './event-sink.ts';
import { FleetView } from './fleet-view.ts';
import { checkPlan } from './join.ts';
import { Leadership } from './leadership.ts';
import { Mailbox } from './mailbox.ts';
import { Peers } from './peers.ts';
import { Predecessor } from './predecessor.ts';
import { Presence } from './presence.ts';
import { RangeWatcher } from './range-watcher.ts';
import { type ExpiryReason, SessionKeeper } from './session-keeper.ts';
import { type Status, statusOf } from './status.ts';
import { StoreGate } from './store-gate.ts';
import { Tenancies } from './tenancies.ts';
import { TimerSet } from './timers.ts';

const HOST_CHARACTERS_MAX = 500;

export class Engine {
  readonly core: Core;
  readonly tenancies: Tenancies;
  readonly departure: Departure;
  readonly #job: string;
  readonly #fingerprint: string;
  #presence: Presence | null = null;
  readonly #peers: Peers;
  #leadership: Leadership | null = null;
  #predecessor: Predecessor | null = null;
  readonly #watchers: RangeWatcher[] = [];
  readonly #listed = new Set<RangeWatcher>();
  readonly #verdictWaiters: { resolve(verdict: Verdict): void; reject(error: Error): void }[] = [];
  #verdict: Verdict | null = null;
  #fatalError: LeaseholdError | null = null;
  #rounds = 0;

  constructor(options: CoordinatorOptions) {
    const random = options.random ?? systemRandom();
    const instanceId = options.instanceId ?? `worker-${randomId(random).slice(0, 12)}`;
    const prefix = options.prefix ?? 'leasehold';
    const fingerprint = options.planner.fingerprint();
    const identity = { job: options.job, prefix, instanceId, fingerprint };
    const config = resolveConfig({ ...options.config }, identity);
    this.#job = options.job;
    this.#fingerprint = fingerprint;
    const clock = new TimerSet(options.clock ?? systemClock());
    const crash = (error: unknown): void => {
      this.#crash(error);
    };
    const mailbox = new Mailbox(() => {
      this.#decide();
    }, crash);
    const gate = new StoreGate(options.store, clock, config.opTimeoutMs);
    const log = workerLog(options.logger ?? SILENT_LOGGER, { job: options.job, instanceId });
    const charts = new ChartHost(clock, inspector(options.inspect, log), crash);
    const nonce = randomId(random) as Nonce;
    let writes = 0;
    this.core = {
      config,
      keys: jobKeys(prefix, options.job),
      me: instanceId as InstanceId,
      nonce,
      hostFacts: (options.host ?? '').slice(0, HOST_CHARACTERS_MAX),
      planner: options.planner,
      clock,
      random,
      log,
      mailbox,
      gate,
      charts,
      batcher: new Batcher(gate, mailbox, charts, (resend) =>
        writingMachine.provide({
          actions: {
            resendBatch: ({ context }) => {
              mailbox.post(() => {
                resend(context.lane);
              });
            },
          },
        }),
      ),
      view: new FleetView(jobKeys(prefix, options.job), {
        changed: (name, change) => {
          this.#changed(name, change);
        },
        warn: (key, reason) => {
          this.core.log.warn('record.ignored', `${key} ${reason}`, { key, reason });
        },
      }),
      events: new EventSink(),
      session: new SessionKeeper({ gate, clock, random, mailbox }, config.leaseDurationMs, {
        opened: () => this.#presence?.sessionOpened(),
        openFailed: (error) => this.#presence?.openFailed(error),
        expired: (_, reason) => {
          this.#sessionExpired(reason);
        },
      }),
      stamp: () => {
        writes += 1;
        return { instance: instanceId, nonce, write: writes };
      },
      fatal: (error) => {
        this.#fatal(error);
      },
    };
    this.tenancies = new Tenancies(this.core, {
      mayClaim: () => this.#mayTakePart(),
      refusesChanged: () => this.#presence?.send({ type: 'announcement.due' }),
    });
    this.#peers = new Peers(this.core, () => {
      this.#leadership?.inputsChanged();
    });
    this.departure = new Departure(this.core, () => this.#leaving());
  }

  get isStopped(): boolean {
    return this.departure.isOver;
  }

  start(): void {
    const { core } = this;
    core.log.info('worker.starting', 'starts', { config: { ...core.config } });
    this.#leadership = new Leadership(core, this.#peers, this.#fingerprint, {
      mayStand: () => this.#mayTakePart(),
    });
    core.mailbox.post(() => {
      this.#presence = new Presence(core, this.#fingerprint, {
        joined: () => {
          this.#follow();
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
    if (this.#verdict !== null) return Promise.resolve(this.#verdict);
    if (this.#fatalError !== null) return Promise.reject(this.#fatalError);
    if (this.isStopped) return Promise.reject(stoppedError());
    return new Promise((resolve, reject) => {
      this.#verdictWaiters.push({ resolve, reject });
    });
  }

  stop(hasStarted: boolean): Promise<StopReport> {
    if (!hasStarted) this.departure.skip();
    else {
      this.core.mailbox.post(() => {
        this.departure.begin(this.#verdict === null ? 'stopped' : 'finished', null);
      });
    }
    return this.departure.finished;
  }

  status(): Status {
    return statusOf({
      job: this.#job,
      core: this.core,
      presence: this.#presence,
      tenancies: this.tenancies,
      leadership: this.#leadership,
      peers: this.#peers,
      verdict: this.#verdict,
      fatalError: this.#fatalError === null ? null : this.#fatalError.message,
    });
  }

  /** Runs once after each burst of messages: everything is decided on what is known now. */
  #decide(): void {
    this.tenancies.advance();
    if (!this.departure.hasBegun) {
      this.#leadership?.advance();
      this.#predecessor?.advance(this.#isFollowing);
    }
    this.departure.advance();
  }

  /** True once everything watched has been read at least once. */
  get #isFollowing(): boolean {
    return this.#watchers.length > 0 && this.#listed.size === this.#watchers.length;
  }

  #mayTakePart(): boolean {
    return this.#presence?.isPresent === true && !this.departure.hasBegun && this.#isFollowing;
  }

  /** Watches what a follower watches; a commit or a renewal writes none of it. */
  #follow(): void {
    if (this.#watchers.length > 0) return;
    const { keys, me, gate, clock, view, mailbox } = this.core;
    const ranges: Range[] = [
      { keys: [keys.plan, keys.leader, keys.assignment(me)] },
      ...[KEY_PREFIXES.workers, KEY_PREFIXES.leases, KEY_PREFIXES.parked, KEY_PREFIXES.control].map(
        (prefix) => ({ prefix: keys.root + prefix }),
      ),
    ];
    for (const range of ranges) {
      const watcher: RangeWatcher = new RangeWatcher(range, gate, clock, {
        onListing: (entries, revision) => {
          view.list(range, entries, revision);
          this.#listed.add(watcher);
        },
        onChanges: (changes) => {
          for (const change of changes) view.apply(change);
        },
        onReset: () => {
          this.#reset();
        },
      });
      this.#watchers.push(watcher);
      mailbox.connect(watcher.messages);
      watcher.start();
    }
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
      checkPlan(change.entry, this.#fingerprint);
    } catch (error) {
      if (!isLeaseholdError(error)) throw error;
      core.fatal(error);
      return;
    }
    const { plan } = core.view;
    const verdict = plan.kind === 'seen' ? plan.plan.record.verdict : null;
    if (verdict !== null && verdict.kind !== 'unknown' && this.#verdict === null) {
      const { kind, completed, quarantined, ids } = verdict;
      this.#verdict = { kind, completed, quarantined, quarantinedIds: ids };
      core.log.info('job.verdict', 'the job has ended', { ...this.#verdict });
      core.events.emit({ type: 'verdict', verdict: this.#verdict });
      for (const waiter of this.#verdictWaiters.splice(0)) waiter.resolve(this.#verdict);
    } else if (verdict === null) this.#verdict = null;
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
    this.#listed.clear();
    this.#presence?.forgetJob();
    core.session.expire('reset');
    this.#leadership?.reset();
    core.view.clear();
    this.#peers.clear();
    for (const watcher of this.#watchers) watcher.start();
  }

  #fatal(error: LeaseholdError): void {
    if (this.#fatalError !== null || this.departure.hasBegun) return;
    this.#fatalError = error;
    this.core.log.error('worker.failed', error.message, { code: error.code, ...error.details });
    for (const waiter of this.#verdictWaiters.splice(0)) waiter.reject(error);
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

  #leaving() {
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
    for (const watcher of this.#watchers) watcher.close();
    this.#peers.clear();
    core.batcher.close();
    core.gate.close();
    core.clock.close();
    core.mailbox.close();
    core.events.close();
    for (const waiter of this.#verdictWaiters.splice(0)) waiter.reject(stoppedError());
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
          for (const watcher of this.#watchers) watcher.relist();
          this.#leadership?.relist();
          this.tenancies.checkOwnRecords();
        });
        this.#reconcileLater();
      },
      jitter(hash32(1, me), this.#rounds, config.reconcileIntervalMs),
    );
  }
}

function stoppedError(): LeaseholdError {
  return new LeaseholdError('E_STOPPED', 'the worker was stopped before the job had a verdict');
}

/** An inspector watches; what it throws is reported once and changes nothing. */
function inspector(
  inspect: CoordinatorOptions['inspect'],
  log: WorkerLog,
): (transition: Transition) => void {
  let hasThrown = false;
  return (transition) => {
    try {
      inspect?.(transition);
    } catch (error) {
      if (!hasThrown) {
        log.error('inspector.threw', 'the inspector threw; this is reported once', {
          reason: messageOf(error),
        });
      }
      hasThrown = true;
    }
  };
}

function workerLog(logger: Logger, name: { job: string; instanceId: string }): WorkerLog {
  const line =
    (level: keyof Logger) =>
    (event: string, message: string, fields: Readonly<Record<string, unknown>> = {}): void => {
      logger[level]({ event, ...name, ...fields }, message);
    };
  return { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') };
}
