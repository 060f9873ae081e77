/**
 * This worker's presence: carries out what the presence chart decides (T1, T2), and watches for twins.
 *
 * Rules: R3, R11, R13-R16. The worker's session belongs to it.
 */
import type { PresenceEvent } from '../../../machines/presence/presence.events.ts';
import { presenceMachine } from '../../../machines/presence/presence.machine.ts';
import { isLeaseholdError, LeaseholdError, messageOf } from '../../base/errors.ts';
import { randomSessionId, type SessionId, type SplitId } from '../../base/ids.ts';
import type { PresenceRecord } from '../../records/records.ts';
import type { Change } from '../../store/port.ts';
import { Announcement } from './announcement.ts';
import type { RunningChart } from '../loop/chart-host.ts';
import { type Core, LEASEHOLD_VERSION } from '../link/core.ts';
import { joinJob } from './join.ts';
import { probeStore } from '../link/probe.ts';

/** What presence asks of the rest of the worker. */
export interface PresenceHooks {
  /** The plan is there: begin to follow the job. */
  joined(): void;
  /** Splits this worker cannot take now (R27, R40). */
  refuses(): readonly SplitId[];
  /** The chart moved; what depends on being present may go on. */
  moved(): void;
}

const JOIN_WAIT_MS = 500;

export class Presence {
  readonly #core: Core;
  readonly #hooks: PresenceHooks;
  readonly #machine: typeof presenceMachine;
  #chart!: RunningChart<PresenceEvent>;
  /** What this worker has put into the fleet. */
  readonly announcement: Announcement;
  #isParting = false;
  #probes = 0;
  #hasJoined = false;
  #lastFailure = '';

  constructor(core: Core, hooks: PresenceHooks) {
    this.#core = core;
    this.#hooks = hooks;
    this.announcement = new Announcement(core, {
      record: (session) => this.#record(session),
      landed: () => {
        this.send({ type: 'announcement.landed' });
      },
      failed: (error) => {
        this.openFailed(error);
      },
    });
    this.#machine = presenceMachine.provide({
      actions: {
        probeStore: (_) => {
          this.#probe();
        },
        joinJob: (_) => {
          this.#join();
        },
        openSession: (_) => {
          this.#openSession();
        },
        announce: (_) => {
          this.announcement.announce();
        },
        announceParting: (_) => {
          this.#isParting = true;
          // Sent and not awaited (R17).
          if (this.announcement.isAnnounced) this.announcement.announce();
        },
        reportExhaustion: (_) => {
          this.#reportExhaustion();
        },
      },
    });
  }

  /** Starts the chart: the first step is the probe. */
  begin(): void {
    const core = this.#core;
    this.#chart = core.charts.start(this.#machine, 'presence', core.me, {
      instance: core.me,
      failuresMax: core.config.startupMaxAttempts,
    });
  }

  get state(): string {
    return this.#chart.state;
  }

  get isPresent(): boolean {
    return this.#chart.isIn('present');
  }

  send(event: PresenceEvent): void {
    this.#chart.send(event);
    this.#hooks.moved();
  }

  /** The worker's session opened. */
  sessionOpened(): void {
    this.send({ type: 'session.opened' });
  }

  /** No session could be opened: while starting up, tries are counted; what no retry heals is fatal at any time. */
  openFailed(error: unknown): void {
    if (!isLeaseholdError(error) || error.code === 'E_STOPPED') return;
    if (!this.announcement.hasLanded) this.#stepFailed(error);
    else if (error.kind === 'fatal') this.#core.fatal(error);
  }

  /** The store was replaced: the plan must be looked for again (R8). */
  forgetJob(): void {
    this.#hasJoined = false;
    this.announcement.forget();
  }

  /** The presence of this instance changed in the store. */
  ownPresenceChanged(change: Change): void {
    if (!this.isPresent) return;
    if (change.entry !== null) this.announcement.checkForTwin();
    else if (this.#core.session.isValid()) this.send({ type: 'presence.deleted' });
  }

  stop(): void {
    this.#chart.stop();
  }

  #probe(): void {
    const core = this.#core;
    this.#probes += 1;
    const key = core.keys.probe(core.me, `${core.nonce}-${this.#probes}`);
    const session = randomSessionId(core.random);
    this.#step(probeStore(core.gate, key, session, core.config.leaseDurationMs), () => {
      this.send({ type: 'probe.passed' });
    });
  }

  #join(): void {
    this.#step(joinJob(this.#core), (outcome) => {
      if (outcome === 'waits') {
        this.#core.clock.setTimeout(() => {
          this.#core.mailbox.post(() => {
            if (this.#chart.isIn('joining')) this.#join();
          });
        }, JOIN_WAIT_MS);
        return;
      }
      this.#hasJoined = true;
      this.#hooks.joined();
      this.send({ type: 'job.joined' });
    });
  }

  /** Opens the worker's session; after a reset of the store the plan comes first. */
  #openSession(): void {
    if (this.#hasJoined) {
      this.#core.session.open();
      return;
    }
    joinJob(this.#core).then(
      (outcome) => {
        this.#core.mailbox.post(() => {
          if (this.#chart.hasEnded || this.#isParting) return;
          if (outcome === 'waits') this.#openSessionLater();
          else {
            this.#hasJoined = true;
            this.#core.session.open();
          }
        });
      },
      (error: unknown) => {
        this.#core.mailbox.post(() => {
          if (isLeaseholdError(error) && error.kind === 'fatal') this.#core.fatal(error);
          else this.#openSessionLater();
        });
      },
    );
  }

  #openSessionLater(): void {
    this.#core.clock.setTimeout(() => {
      this.#core.mailbox.post(() => {
        if (this.#chart.isIn('rejoining') || this.#chart.isIn('announcing')) this.#openSession();
      });
    }, JOIN_WAIT_MS);
  }

  /** Runs one startup step; its failure is counted, unless no retry would heal it. */
  #step<T>(work: Promise<T>, done: (value: T) => void): void {
    work.then(
      (value) => {
        this.#core.mailbox.post(() => {
          done(value);
        });
      },
      (error: unknown) => {
        this.#core.mailbox.post(() => {
          this.#stepFailed(error);
        });
      },
    );
  }

  #stepFailed(error: unknown): void {
    if (!isLeaseholdError(error)) throw error;
    if (error.code === 'E_STOPPED') return;
    this.#lastFailure = messageOf(error);
    this.#core.log.warn('startup.failed', 'a startup step failed', { reason: this.#lastFailure });
    if (error.kind === 'fatal') this.#core.fatal(error);
    else this.send({ type: 'step.failed' });
  }

  #reportExhaustion(): void {
    const { startupMaxAttempts } = this.#core.config;
    this.#core.fatal(
      new LeaseholdError(
        'E_STARTUP_EXHAUSTED',
        `starting up failed ${startupMaxAttempts} times (startupMaxAttempts), last: ${this.#lastFailure}`,
        { details: { startupMaxAttempts, lastFailure: this.#lastFailure } },
      ),
    );
  }

  #record(session: SessionId): PresenceRecord {
    const core = this.#core;
    return {
      nonce: core.nonce,
      session,
      maxInFlight: core.config.maxInFlight,
      parting: this.#isParting,
      refuses: this.#hooks.refuses(),
      version: LEASEHOLD_VERSION,
      host: core.hostFacts,
    };
  }
}
