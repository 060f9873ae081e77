/**
 * This worker's presence: carries out what the presence chart decides (T1, T2), and watches for twins.
 *
 * Rules: R3, R11, R13-R16. The worker's session belongs to it.
 */
import type { PresenceEvent } from '../../machines/presence.events.ts';
import { presenceMachine } from '../../machines/presence.machine.ts';
import { ABSENT, compareDecimals, type Revision } from '../base/decimals.ts';
import { isLeaseholdError, LeaseholdError, messageOf } from '../base/errors.ts';
import { randomId, type SessionId, type SplitId } from '../base/ids.ts';
import { sameStamp, type Stamp } from '../records/codec.ts';
import { type PresenceRecord, presenceCodec } from '../records/records.ts';
import type { Change, Entry, Txn } from '../store/port.ts';
import { NO_GUARD, type WriteAnswer } from './batcher.ts';
import type { RunningChart } from './chart-host.ts';
import { type Core, LEASEHOLD_VERSION } from './core.ts';
import { joinJob } from './join.ts';
import { probeStore } from './probe.ts';

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
/** The probe's own session: long enough for the probe, short enough to be gone soon when it is cut. */
const PROBE_TRIES_LABEL = 'p';

export class Presence {
  readonly #core: Core;
  readonly #hooks: PresenceHooks;
  readonly #fingerprint: string;
  readonly #machine: typeof presenceMachine;
  #chart!: RunningChart<PresenceEvent>;
  /** Revision of the last announcement known to have landed. */
  #announcedAt: Revision | null = null;
  #hasBeenPresent = false;
  #isParting = false;
  #isWriting = false;
  /** What the announcement on its way says. */
  #written: string | null = null;
  #isAnnounceDue = false;
  #probes = 0;
  #hasJoined = false;
  #lastFailure = '';
  /** The session of the process that this one replaced; null when there was none. */
  predecessorSession: SessionId | null = null;
  landedAtMs = 0;

  constructor(core: Core, fingerprint: string, hooks: PresenceHooks) {
    this.#core = core;
    this.#hooks = hooks;
    this.#fingerprint = fingerprint;
    const machine = presenceMachine.provide({
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
          this.announce();
        },
        announceParting: (_) => {
          this.#isParting = true;
          // Sent and not awaited (R17).
          if (this.#announcedAt !== null) this.announce();
        },
        reportExhaustion: (_) => {
          this.#reportExhaustion();
        },
      },
    });
    this.#machine = machine;
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

  get isParting(): boolean {
    return this.#isParting;
  }

  get hasEverBeenPresent(): boolean {
    return this.#hasBeenPresent;
  }

  send(event: PresenceEvent): void {
    this.#chart.send(event);
    this.#hooks.moved();
  }

  /** The worker's session opened. */
  sessionOpened(): void {
    this.send({ type: 'session.opened' });
  }

  /** Announcing is not answered: while starting up, tries are counted. */
  openFailed(error: unknown): void {
    if (this.#hasBeenPresent || !isLeaseholdError(error) || error.code === 'E_STOPPED') return;
    this.#stepFailed(error);
  }

  /** The store was replaced: the plan must be looked for again (R8). */
  forgetJob(): void {
    this.#hasJoined = false;
    this.#announcedAt = null;
  }

  /** The presence of this instance changed in the store. */
  ownPresenceChanged(change: Change): void {
    const shown = this.#core.view.presences.get(this.#core.me);
    if (change.entry === null) {
      if (this.isPresent && this.#core.session.isValid()) this.send({ type: 'presence.deleted' });
      return;
    }
    if (shown === undefined || shown.record.nonce === this.#core.nonce) return;
    const isNewer =
      this.#announcedAt !== null && compareDecimals(shown.modRevision, this.#announcedAt) > 0;
    if (isNewer && this.isPresent) this.#reportTwin(shown.record);
  }

  /** Puts the presence as it should read now; changes while one is on its way follow it. */
  announce(): void {
    const { session } = this.#core;
    const id = session.id;
    if (this.#isWriting) {
      this.#isAnnounceDue = id === null || JSON.stringify(this.#record(id)) !== this.#written;
      return;
    }
    if (id === null || !session.isValid()) return;
    const shown = this.#core.view.presences.get(this.#core.me);
    if (shown !== undefined && shown.record.nonce !== this.#core.nonce) {
      // Only a process's first announcement may overwrite another process (R14).
      if (this.#hasBeenPresent) {
        this.#reportTwin(shown.record);
        return;
      }
      this.predecessorSession = shown.session ?? shown.record.session;
    }
    this.#isWriting = true;
    this.#isAnnounceDue = false;
    this.#put(id, this.#core.view.entry(this.#key)?.modRevision ?? this.#announcedAt ?? ABSENT, 0);
  }

  /** Deletes the presence if it is still this worker's last one; resolves when answered or given up. */
  remove(): Promise<void> {
    const revision = this.#announcedAt;
    if (revision === null) return Promise.resolve();
    return new Promise((resolve) => {
      this.#core.batcher.enqueue({
        name: 'leave',
        isSessionBound: false,
        guard: NO_GUARD,
        build: () => ({
          compares: [
            { key: this.#key, target: 'modRevision', equals: this.#announcedAt ?? revision },
          ],
          writes: [{ delete: this.#key }],
          onConflict: [],
        }),
        matters: () => true,
        answered: () => {
          resolve();
        },
      });
    });
  }

  stop(): void {
    this.#chart.stop();
  }

  get #key(): string {
    return this.#core.keys.presence(this.#core.me);
  }

  #probe(): void {
    const core = this.#core;
    this.#probes += 1;
    const key = core.keys.probe(core.me, `${core.nonce}${PROBE_TRIES_LABEL}${this.#probes}`);
    const session = randomId(core.random) as SessionId;
    this.#step(probeStore(core.gate, key, session, core.config.leaseDurationMs), () => {
      this.send({ type: 'probe.passed' });
    });
  }

  #join(): void {
    this.#step(joinJob(this.#core, this.#fingerprint), (outcome) => {
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
    joinJob(this.#core, this.#fingerprint).then(
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

  #put(session: SessionId, equals: Revision, conflicts: number): void {
    const core = this.#core;
    const stamp = core.stamp();
    const record = this.#record(session);
    this.#written = JSON.stringify(record);
    const value = presenceCodec.encode(record, stamp);
    const txn: Txn = {
      compares: [{ key: this.#key, target: 'modRevision', equals }],
      writes: [{ put: this.#key, value, session }],
      onConflict: [this.#key],
    };
    core.batcher.enqueue({
      name: 'announce',
      isSessionBound: true,
      guard: NO_GUARD,
      build: () => txn,
      // The session is gone: its put can no longer land (R1).
      matters: () => core.session.id === session,
      answered: (answer) => {
        this.#onAnswer(answer, { session, stamp, value, conflicts });
      },
      failed: (error) => {
        this.openFailed(error);
      },
    });
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

  #onAnswer(
    answer: WriteAnswer,
    sent: { session: SessionId; stamp: Stamp; value: string; conflicts: number },
  ): void {
    const core = this.#core;
    switch (answer.kind) {
      case 'committed':
        this.#landed(answer.revision, sent);
        return;
      case 'conflict':
        this.#onConflict(answer.found[0] ?? null, sent);
        return;
      case 'refused':
        this.#isWriting = false;
        if (answer.error.kind !== 'fenced') core.fatal(answer.error);
        else if (core.session.id === sent.session) core.session.expire('gone');
        else this.#announceAnew();
        return;
      case 'abandoned':
      case 'guardFailed':
        this.#isWriting = false;
        this.#announceAnew();
        return;
    }
  }

  /** The session of the last announcement is gone; one that has opened since was waiting for its answer. */
  #announceAnew(): void {
    if (this.#isAnnounceDue && this.#core.session.id !== null) this.announce();
  }

  #onConflict(
    found: Entry | null,
    sent: { session: SessionId; stamp: Stamp; value: string; conflicts: number },
  ): void {
    const decoded = found === null ? undefined : presenceCodec.decode(found.value);
    if (found !== null && decoded?.kind === 'record') {
      if (sameStamp(decoded.stamp, sent.stamp)) {
        this.#landed(found.modRevision, sent, found);
        return;
      }
      if (decoded.record.nonce !== this.#core.nonce) {
        // Only a process's first announcement may overwrite another process (R14).
        if (this.#hasBeenPresent) {
          this.#isWriting = false;
          this.#reportTwin(decoded.record);
          return;
        }
        this.predecessorSession = found.session ?? decoded.record.session;
      }
    }
    if (sent.conflicts >= this.#core.config.startupMaxAttempts) {
      this.#isWriting = false;
      this.#lastFailure = `the presence of ${this.#core.me} changed at every try`;
      this.send({ type: 'step.failed' });
      return;
    }
    this.#put(sent.session, found?.modRevision ?? ABSENT, sent.conflicts + 1);
  }

  #landed(
    revision: Revision,
    sent: { session: SessionId; value: string },
    found: Entry | null = null,
  ): void {
    const core = this.#core;
    this.#isWriting = false;
    this.#announcedAt = revision;
    core.view.apply({
      key: this.#key,
      modRevision: revision,
      entry: found ?? {
        key: this.#key,
        value: sent.value,
        createRevision: revision,
        modRevision: revision,
        session: sent.session,
      },
    });
    const shown = core.view.presences.get(core.me);
    // Landed is not held: it counts while the key shows under the current session (R3).
    const isHeld = shown?.session === core.session.id && shown?.record.nonce === core.nonce;
    if (!isHeld || this.#isAnnounceDue) {
      if (core.session.id !== null) this.announce();
      if (!isHeld) return;
    }
    if (!this.#hasBeenPresent) {
      this.#hasBeenPresent = true;
      this.landedAtMs = core.clock.nowMs();
      core.log.info('worker.present', 'joined the fleet', { revision });
    }
    this.send({ type: 'announcement.landed' });
  }

  #reportTwin(other: PresenceRecord): void {
    const { me, nonce } = this.#core;
    this.#core.fatal(
      new LeaseholdError(
        'E_INSTANCE_ID_TAKEN',
        `another live process runs as instanceId ${JSON.stringify(me)}: give every process an id of its own`,
        { details: { instanceId: me, nonce, otherNonce: other.nonce, otherHost: other.host } },
      ),
    );
  }
}
