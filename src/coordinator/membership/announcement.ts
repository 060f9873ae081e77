/**
 * Puts this worker's presence, knows what of it has landed, and recognises another process under the same name (T2).
 *
 * When to announce is the presence chart's business; what an answer means is decided here. Rules: R1, R3, R13-R15. Only a
 * process's first announcement may overwrite another process.
 */
import type { PresenceEvent } from '../../../machines/presence/presence.events.ts';
import { ABSENT, compareDecimals, type Revision } from '../../base/decimals.ts';
import { LeaseholdError } from '../../base/errors.ts';
import type { SessionId } from '../../base/ids.ts';
import {
  type Announcer,
  announceOn,
  isTwin,
  settleAnnouncement,
} from '../../protocol/announcing.ts';
import { isHeld } from '../../protocol/settle.ts';
import { announceTxn, leaveTxn } from '../../protocol/transactions.ts';
import type { Stamp } from '../../records/codec.ts';
import { type PresenceRecord, presenceCodec } from '../../records/records.ts';
import type { Entry } from '../../store/port.ts';
import { NO_GUARD, type WriteAnswer } from '../link/batcher.ts';
import type { Core } from '../link/core.ts';

export interface AnnouncementHooks {
  /** What the presence should read now. */
  readonly record: (session: SessionId) => PresenceRecord;
  readonly send: (event: PresenceEvent) => void;
  /** A send was not answered, or the presence changed at every try. */
  readonly failed: (error: LeaseholdError) => void;
}

interface SentAnnouncement {
  readonly session: SessionId;
  readonly stamp: Stamp;
  readonly value: string;
  /** What it says, to see later whether that is still right. */
  readonly content: string;
  readonly conflicts: number;
}

export class Announcement {
  readonly #core: Core;
  readonly #hooks: AnnouncementHooks;
  readonly #key: string;
  /** Revision of the last announcement known to have landed. */
  #announcedAt: Revision | null = null;
  /** The announcement on its way. */
  #sent: SentAnnouncement | null = null;
  /** Monotonic time at which an announcement of this process first landed in this store; null before. */
  landedAtMs: number | null = null;
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

  /** True once an announcement of this process has landed: from then on another one under its name is a twin (R14). */
  get hasLanded(): boolean {
    return this.landedAtMs !== null;
  }

  /**
   * The store was replaced (R8): what was announced is gone, and what stands there under this name is a ghost, of this process
   * or of one before it, until something else is announced in this store (R14).
   */
  forget(): void {
    this.#announcedAt = null;
    this.landedAtMs = null;
    this.predecessorSession = null;
  }

  /** True when what is announced, or on its way, is not what should be read now. */
  get isOutdated(): boolean {
    const { session } = this.#core;
    return session.id !== null && this.#sent?.content !== this.#contentFor(session.id);
  }

  /** Puts the presence as it should read now; while one is on its way, its answer brings the next one. */
  announce(): void {
    const { session, view, me } = this.#core;
    const { id } = session;
    if (this.#sent !== null || id === null || !session.isValid()) return;
    const shown = view.presences.get(me);
    const seenAt = view.entry(this.#key)?.modRevision ?? this.#announcedAt ?? ABSENT;
    const { equals, predecessor } = announceOn(this.#announcer, shown, seenAt);
    this.predecessorSession = predecessor ?? this.predecessorSession;
    this.#put(id, equals, 0);
  }

  /** Fatal when the presence shows another process, announced after this one (R14). */
  checkForTwin(): void {
    // The answer to what is on its way decides: it meets whatever is newer, and what is seen meanwhile may be gone (R14).
    if (this.#sent !== null) return;
    const { view, me } = this.#core;
    const shown = view.presences.get(me);
    if (isTwin(this.#core, shown, this.#announcedAt)) this.#reportTwin(shown!.record);
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
        build: () => leaveTxn(this.#key, this.#announcedAt ?? revision),
        matters: () => true,
        isImpatient: true,
        answered: () => {
          resolve();
        },
      });
    });
  }

  get #announcer(): Announcer {
    const { nonce, session } = this.#core;
    return { nonce, session: session.id, hasLanded: this.hasLanded };
  }

  #contentFor(session: SessionId): string {
    return JSON.stringify(this.#hooks.record(session));
  }

  #put(session: SessionId, equals: Revision, conflicts: number): void {
    const core = this.#core;
    const stamp = core.stamp();
    const record = this.#hooks.record(session);
    const value = presenceCodec.encode(record, stamp);
    const sent = { session, stamp, value, content: JSON.stringify(record), conflicts };
    this.#sent = sent;
    const txn = announceTxn(this.#key, value, { equals, session });
    core.batcher.enqueue({
      name: 'announce',
      isSessionBound: true,
      guard: NO_GUARD,
      build: () => txn,
      // The session is gone: its put can no longer land (R1).
      matters: () => core.session.id === session,
      answered: (answer) => {
        this.#sent = null;
        this.#onAnswer(answer, sent);
      },
      failed: (error) => {
        this.#hooks.failed(error);
      },
    });
  }

  #onAnswer(answer: WriteAnswer, sent: SentAnnouncement): void {
    switch (answer.kind) {
      case 'committed':
        this.#landed(answer.revision, sent);
        return;
      case 'conflict':
        this.#onConflict(answer.found[0] ?? null, sent);
        return;
      case 'refused':
        if (answer.error.kind !== 'fenced') this.#core.fatal(answer.error);
        else this.#core.session.gone(sent.session);
        this.#hooks.send({ type: 'announcement.missed' });
        return;
      case 'abandoned':
      case 'guardFailed':
        // Its session is gone; one that has opened since waits for this answer.
        this.#hooks.send({ type: 'announcement.missed' });
        return;
    }
  }

  #onConflict(found: Entry | null, sent: SentAnnouncement): void {
    const shown =
      found === null
        ? null
        : { decoded: presenceCodec.decode(found.value), session: found.session };
    // Older than this process's own: a ghost in a store that went back, and nobody's twin (R14).
    const isGhost =
      found !== null &&
      this.#announcedAt !== null &&
      compareDecimals(found.modRevision, this.#announcedAt) < 0;
    const me = { ...this.#announcer, hasLanded: this.hasLanded && !isGhost };
    const meaning = settleAnnouncement(me, sent.stamp, shown);
    switch (meaning.kind) {
      case 'landed':
        this.#landed(found!.modRevision, sent);
        return;
      case 'twin':
        this.#reportTwin(meaning.other);
        return;
      case 'again':
        this.predecessorSession = meaning.predecessor ?? this.predecessorSession;
    }
    if (sent.conflicts >= this.#core.config.startupMaxAttempts) {
      const reason = `the presence of ${this.#core.me} changed at every try to announce it`;
      this.#hooks.failed(new LeaseholdError('E_STORE_UNREACHABLE', reason));
      return;
    }
    this.#put(sent.session, found?.modRevision ?? ABSENT, sent.conflicts + 1);
  }

  #landed(revision: Revision, sent: SentAnnouncement): void {
    const core = this.#core;
    this.#announcedAt = revision;
    core.view.wrote(this.#key, sent.value, revision, sent.session);
    const shown = core.view.presences.get(core.me);
    // Landed is not held: it counts while the key shows under the current session (R3).
    if (!isHeld(shown, core.session.id, ({ nonce }) => nonce === core.nonce)) {
      this.#hooks.send({ type: 'announcement.missed' });
      return;
    }
    if (this.landedAtMs === null) {
      this.landedAtMs = core.clock.nowMs();
      core.log.info('worker.present', 'joined the fleet', { revision });
    }
    const isCurrent = sent.content === this.#contentFor(sent.session);
    this.#hooks.send({ type: 'announcement.landed', isCurrent });
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
