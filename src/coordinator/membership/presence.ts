/**
 * This worker's presence: carries out what the presence chart decides (T1, T2), and watches for twins.
 *
 * Rules: R3, R8, R11, R13-R16. The worker's session belongs to it.
 */
import type { PresenceEvent } from '../../../machines/presence/presence.events.ts';
import { presenceMachine } from '../../../machines/presence/presence.machine.ts';
import { isLeaseholdError, LeaseholdError, messageOf } from '../../base/errors.ts';
import { randomSessionId, type SessionId, type SplitId } from '../../base/ids.ts';
import type { PresenceRecord } from '../../records/records.ts';
import type { Change } from '../../store/port.ts';
import { LEASEHOLD_VERSION } from '../api/version.ts';
import type { Core } from '../link/core.ts';
import { probeStore } from '../link/probe.ts';
import type { RunningChart } from '../loop/chart-host.ts';
import { Announcement } from './announcement.ts';
import { joinJob } from './join.ts';

/** What presence asks of the rest of the worker. */
export interface PresenceHooks {
  /** The plan is there: begin to follow the job. */
  joined(): void;
  /** Splits this worker cannot take now (R27, R40). */
  refuses(): readonly SplitId[];
  /** The chart moved; what depends on being present may go on. */
  moved(): void;
}

export class Presence {
  readonly #core: Core;
  readonly #hooks: PresenceHooks;
  readonly #machine: typeof presenceMachine;
  #chart: RunningChart<PresenceEvent> | null = null;
  /** What this worker has put into the fleet. */
  readonly announcement: Announcement;
  #probes = 0;
  /** The step on its way; what an older one answers is ignored. */
  #step: object | null = null;
  /** What is left to do of the probe beside joining. */
  #restOfProbe: () => Promise<void> = () => Promise.resolve();
  #failure = '';

  constructor(core: Core, hooks: PresenceHooks) {
    this.#core = core;
    this.#hooks = hooks;
    this.announcement = new Announcement(core, {
      record: (session) => this.#record(session),
      send: (event) => {
        this.send(event);
      },
      failed: (error) => {
        this.#stepFailed(error);
      },
    });
    this.#machine = this.#provide();
  }

  /** Starts the chart: the first step is the probe. */
  begin(): void {
    const core = this.#core;
    this.#chart = core.charts.start(this.#machine, 'presence', core.me, {
      instance: core.me,
      failuresMax: core.config.startupMaxAttempts,
    });
  }

  /** False until the worker was started. */
  get hasBegun(): boolean {
    return this.#chart !== null;
  }

  get state(): string {
    return this.#chart?.state ?? 'unstarted';
  }

  get isPresent(): boolean {
    return this.#chart?.isIn('present') === true;
  }

  send(event: PresenceEvent): void {
    const wasPresent = this.isPresent;
    this.#chart?.send(event);
    // Being in the fleet is what ends a time of refusals.
    if (!wasPresent && this.isPresent) this.#core.health.returned();
    this.#hooks.moved();
  }

  /** What this worker has to say may have changed. */
  outdated(): void {
    if (this.isPresent && this.announcement.isOutdated) this.send({ type: 'announcement.due' });
  }

  /** No session could be opened yet; more tries follow. */
  unopened(error: unknown): void {
    if (isLeaseholdError(error)) this.#stepFailed(error);
  }

  /** The store was replaced: the plan must be looked for again (R8). */
  reset(): void {
    this.announcement.forget();
    this.send({ type: 'store.reset' });
  }

  /** The presence of this instance changed in the store. */
  ownPresenceChanged(change: Change): void {
    if (!this.isPresent) return;
    if (change.entry !== null) this.announcement.checkForTwin();
    else if (this.#core.session.isValid()) this.send({ type: 'presence.deleted' });
  }

  stop(): void {
    this.#step = null;
    this.#chart?.stop();
  }

  #provide(): typeof presenceMachine {
    return presenceMachine.provide({
      actions: {
        probeStore: (_) => {
          this.#probe();
        },
        joinJob: (_) => {
          this.#join();
        },
        openSession: (_) => {
          this.#core.session.open();
        },
        announce: (_) => {
          this.announcement.announce();
        },
        announceParting: (_) => {
          // Sent and not awaited (R17).
          if (this.announcement.isAnnounced) this.announcement.announce();
        },
        reportExhaustion: (_) => {
          this.#reportExhaustion();
        },
        reportDenial: (_) => {
          this.#core.fatal(new LeaseholdError('E_STORE_DENIED', this.#failure));
        },
      },
    });
  }

  #probe(): void {
    this.#run(
      async () => {
        try {
          this.#restOfProbe = await this.#probeOnce();
        } catch (error) {
          if (!isLie(error)) throw error;
          // One that was replaced in the middle seems to lie; one that lies does it again.
          this.#restOfProbe = await this.#probeOnce();
        }
      },
      () => {
        this.send({ type: 'probe.passed' });
      },
    );
  }

  #probeOnce(): Promise<() => Promise<void>> {
    const { gate, keys, me, nonce, random, config } = this.#core;
    this.#probes += 1;
    const name = `${nonce}-${this.#probes}`;
    return probeStore(gate, {
      keyOf: (suffix) => keys.probe(me, `${name}-${suffix}`),
      session: randomSessionId(random),
      ttlMs: config.leaseDurationMs,
    });
  }

  #join(): void {
    this.#run(
      async () => {
        const rest = this.#restOfProbe;
        const [outcome] = await Promise.all([joinJob(this.#core), this.#ended(rest)]);
        if (this.#restOfProbe === rest) this.#restOfProbe = () => Promise.resolve();
        return outcome;
      },
      (outcome) => {
        if (outcome === 'waits') {
          this.send({ type: 'job.planless' });
          return;
        }
        this.#hooks.joined();
        this.send({ type: 'job.joined' });
      },
    );
  }

  /** The end of the probe; one that seems to lie there is probed anew as a whole. */
  async #ended(rest: () => Promise<void>): Promise<void> {
    try {
      await rest();
    } catch (error) {
      if (!isLie(error)) throw error;
      await (
        await this.#probeOnce()
      )();
    }
  }

  /** Runs one step; its failure is an event, whatever it is. */
  #run<T>(work: () => Promise<T>, done: (value: T) => void): void {
    const step = {};
    this.#step = step;
    const { mailbox } = this.#core;
    work().then(
      (value) => {
        mailbox.post(() => {
          if (this.#step === step) done(value);
        });
      },
      (error: unknown) => {
        mailbox.post(() => {
          if (this.#step !== step) return;
          if (isLeaseholdError(error)) this.#stepFailed(error);
          else this.#core.bug(error);
        });
      },
    );
  }

  #stepFailed(error: LeaseholdError): void {
    if (error.code === 'E_STOPPED' || this.#chart?.hasEnded !== false) return;
    this.#failure = messageOf(error);
    if (!this.#chart.isIn('rejoining') && !this.isPresent) {
      this.#core.log.warn('startup.failed', 'a startup step failed', { reason: this.#failure });
    }
    if (error.code === 'E_STORE_DENIED') this.send({ type: 'step.denied' });
    else if (error.kind === 'fatal') this.#core.fatal(error);
    else this.send({ type: 'step.failed' });
  }

  #reportExhaustion(): void {
    const { startupMaxAttempts } = this.#core.config;
    this.#core.fatal(
      new LeaseholdError(
        'E_STARTUP_EXHAUSTED',
        `starting up failed ${startupMaxAttempts} times (startupMaxAttempts), last: ${this.#failure}`,
        { details: { startupMaxAttempts, lastFailure: this.#failure } },
      ),
    );
  }

  #record(session: SessionId): PresenceRecord {
    const core = this.#core;
    return {
      nonce: core.nonce,
      session,
      maxInFlight: core.config.maxInFlight,
      parting: core.isLeaving(),
      refuses: this.#hooks.refuses(),
      version: LEASEHOLD_VERSION,
      host: core.hostFacts,
    };
  }
}

/** The store seems to have broken a rule. */
function isLie(error: unknown): boolean {
  return isLeaseholdError(error) && error.code === 'E_STORE_UNSUPPORTED' && 'rule' in error.details;
}
