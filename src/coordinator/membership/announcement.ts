/**
 * Puts this worker's presence, knows what of it has landed, and recognises another process under the same name (T2).
 *
 * Rules: R1, R3, R13-R15. Only a process's first announcement may overwrite another process.
 */
import { ABSENT, compareDecimals, type Revision } from '../../base/decimals.ts';
import { LeaseholdError } from '../../base/errors.ts';
import type { SessionId } from '../../base/ids.ts';
import { sameStamp, type Stamp } from '../../records/codec.ts';
import { type PresenceRecord, presenceCodec } from '../../records/records.ts';
import type { Entry, Txn } from '../../store/port.ts';
import { NO_GUARD, type WriteAnswer } from '../link/batcher.ts';
import type { Core } from '../link/core.ts';

export interface AnnouncementHooks {
  /** What the presence should read now. */
  readonly record: (session: SessionId) => PresenceRecord;
  /** An announcement landed and is held. */
  readonly landed: () => void;
  /** A send was not answered. */
  readonly failed: (error: LeaseholdError) => void;
}

interface SentAnnouncement {
  readonly session: SessionId;
  readonly stamp: Stamp;
  readonly value: string;
  readonly conflicts: number;
}

export class Announcement {
  readonly #core: Core;
  readonly #hooks: AnnouncementHooks;
  readonly #key: string;
  /** Revision of the last announcement known to have landed. */
  #announcedAt: Revision | null = null;
  #isWriting = false;
  #isDue = false;
  /** The content of the announcement on its way. */
  #written = '';
  /** True once an announcement of this process has landed. */
  hasLanded = false;
  landedAtMs = 0;
  /** The session of the process that this one replaced; null when there was none. */
  predecessorSession: SessionId | null = null;

  constructor(core: Core, hooks: AnnouncementHooks) {
    this.#core = core;
    this.#hooks = hooks;
    this.#key = core.keys.presence(core.me);
  }

  get isAnnounced(): boolean {
    return this.#announcedAt !== null;
  }

  /** The store was replaced: what was announced is gone (R8). */
  forget(): void {
    this.#announcedAt = null;
  }

  /** Puts the presence as it should read now; changes while one is on its way follow it. */
  announce(): void {
    const { session, view, me, nonce } = this.#core;
    const id = session.id;
    if (this.#isWriting) {
      this.#isDue = id === null || JSON.stringify(this.#hooks.record(id)) !== this.#written;
      return;
    }
    if (id === null || !session.isValid()) return;
    const shown = view.presences.get(me);
    let seenAt = view.entry(this.#key)?.modRevision ?? this.#announcedAt ?? ABSENT;
    if (shown !== undefined && shown.record.nonce !== nonce) {
      // What was seen may be gone: the store says whether it still is there, and then it is a twin (R14).
      if (this.hasLanded) seenAt = ABSENT;
      else this.predecessorSession = shown.session ?? shown.record.session;
    }
    this.#isWriting = true;
    this.#isDue = false;
    this.#put(id, seenAt, 0);
  }

  /** Fatal when the presence shows another process, announced after this one (R14). */
  checkForTwin(): void {
    // The answer to what is on its way decides: it meets whatever is newer, and what is seen meanwhile may be gone (R14).
    if (this.#isWriting) return;
    const { view, me, nonce } = this.#core;
    const shown = view.presences.get(me);
    if (shown === undefined || shown.record.nonce === nonce || this.#announcedAt === null) return;
    if (compareDecimals(shown.modRevision, this.#announcedAt) > 0) this.#reportTwin(shown.record);
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

  #put(session: SessionId, equals: Revision, conflicts: number): void {
    const core = this.#core;
    const stamp = core.stamp();
    const record = this.#hooks.record(session);
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
        this.#hooks.failed(error);
      },
    });
  }

  #onAnswer(answer: WriteAnswer, sent: SentAnnouncement): void {
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
    if (this.#isDue && this.#core.session.id !== null) this.announce();
  }

  #onConflict(found: Entry | null, sent: SentAnnouncement): void {
    const decoded = found === null ? undefined : presenceCodec.decode(found.value);
    if (found !== null && decoded?.kind === 'record') {
      if (sameStamp(decoded.stamp, sent.stamp)) {
        this.#landed(found.modRevision, sent);
        return;
      }
      if (decoded.record.nonce !== this.#core.nonce) {
        if (this.hasLanded) {
          this.#isWriting = false;
          this.#reportTwin(decoded.record);
          return;
        }
        this.predecessorSession = found.session ?? decoded.record.session;
      }
    }
    if (sent.conflicts >= this.#core.config.startupMaxAttempts) {
      this.#isWriting = false;
      const reason = `the presence of ${this.#core.me} changed at every try to announce it`;
      this.#hooks.failed(new LeaseholdError('E_STORE_UNREACHABLE', reason));
      return;
    }
    this.#put(sent.session, found?.modRevision ?? ABSENT, sent.conflicts + 1);
  }

  #landed(revision: Revision, sent: SentAnnouncement): void {
    const core = this.#core;
    this.#isWriting = false;
    this.#announcedAt = revision;
    core.view.wrote(this.#key, sent.value, revision, sent.session);
    const shown = core.view.presences.get(core.me);
    // Landed is not held: it counts while the key shows under the current session (R3).
    const isHeld = shown?.session === core.session.id && shown?.record.nonce === core.nonce;
    if (!isHeld || this.#isDue) {
      if (core.session.id !== null) this.announce();
      if (!isHeld) return;
    }
    if (!this.hasLanded) {
      this.hasLanded = true;
      this.landedAtMs = core.clock.nowMs();
      core.log.info('worker.present', 'joined the fleet', { revision });
    }
    this.#hooks.landed();
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
