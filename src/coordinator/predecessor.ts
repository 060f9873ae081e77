/**
 * What a restarted process owes the one before it: its leases are reclaimed, then its sessions are closed, so that what
 * is left of it goes at once instead of after a lease (R13).
 */
import type { SessionId } from '../base/ids.ts';
import type { Core } from './link/core.ts';
import type { Presence } from './membership/presence.ts';
import type { Tenancies } from './holding/tenancies.ts';

export class Predecessor {
  readonly #core: Core;
  readonly #presence: Presence;
  readonly #tenancies: Tenancies;
  #isDone = false;

  constructor(core: Core, presence: Presence, tenancies: Tenancies) {
    this.#core = core;
    this.#presence = presence;
    this.#tenancies = tenancies;
  }

  /** Closes what is left of the predecessor once nothing of it can be reclaimed, or a third of a lease has passed. */
  advance(isFollowing: boolean): void {
    const { clock, config, view, me } = this.#core;
    if (this.#isDone || !this.#presence.isPresent) return;
    const session = this.#presence.announcement.predecessorSession;
    if (session === null) {
      this.#isDone = true;
      return;
    }
    const leftMs =
      this.#presence.announcement.landedAtMs + config.leaseDurationMs / 3 - clock.nowMs();
    const isReclaiming =
      !isFollowing ||
      !view.assignments.has(me) ||
      [...view.leases].some(
        ([split, lease]) => lease.session === session && this.#tenancies.mayReclaim(split),
      );
    if (leftMs > 0 && isReclaiming) return;
    this.#isDone = true;
    this.#closeAll(session);
  }

  #closeAll(session: SessionId): void {
    const { view, me, nonce } = this.#core;
    this.#close(session);
    const { leader } = view;
    const isPredecessors = leader?.record.owner === me && leader.record.nonce !== nonce;
    if (isPredecessors && leader.session !== null) this.#close(leader.session);
  }

  #close(session: SessionId): void {
    this.#core.log.info('predecessor.closed', 'closed the session of the process before this one');
    // Not answered: it runs out by itself.
    this.#core.gate.closeSession(session).catch(() => undefined);
  }
}
