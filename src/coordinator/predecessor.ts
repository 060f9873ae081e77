/**
 * What a restarted process owes the one before it: its leases are reclaimed, then its sessions are closed, so that what
 * is left of it goes at once instead of after a lease (R13). After the store was replaced, it may be this process itself that
 * was there before.
 */
import type { SessionId } from '../base/ids.ts';
import type { Tenancies } from './holding/tenancies.ts';
import type { Core } from './link/core.ts';
import type { Presence } from './membership/presence.ts';

/** What of the worker a predecessor concerns. */
export interface PredecessorPorts {
  readonly presence: Presence;
  readonly tenancies: Tenancies;
  /** The session that this worker leads under, or stands for election; null when there is none. */
  readonly leaderSession: () => SessionId | null;
}

export class Predecessor {
  readonly #core: Core;
  readonly #ports: PredecessorPorts;
  /** Unknown until this worker is in the fleet; then its leases are reclaimed, and its sessions closed. */
  #state: 'unknown' | 'reclaiming' | 'over' = 'unknown';

  constructor(core: Core, ports: PredecessorPorts) {
    this.#core = core;
    this.#ports = ports;
  }

  /** The store was replaced (R8): somebody may have been there before again. */
  reset(): void {
    this.#state = 'unknown';
  }

  /** Closes what is left of the predecessor once nothing of it can be reclaimed, or a third of a lease has passed. */
  advance(isFollowing: boolean): void {
    const { presence } = this.#ports;
    if (this.#state === 'over' || !presence.isPresent) return;
    const { predecessorSession: session, landedAtMs } = presence.announcement;
    if (session === null) {
      this.#state = 'over';
      return;
    }
    const { clock, config } = this.#core;
    const leftMs = (landedAtMs ?? 0) + config.leaseDurationMs / 3 - clock.nowMs();
    if (this.#state === 'unknown') {
      this.#state = 'reclaiming';
      // Something wakes it when nothing else does.
      this.#core.after(Math.max(0, leftMs), () => undefined);
    }
    if (leftMs > 0 && this.#isReclaiming(session, isFollowing)) return;
    this.#state = 'over';
    this.#closeAll(session);
  }

  #isReclaiming(session: SessionId, isFollowing: boolean): boolean {
    const { view, me } = this.#core;
    if (!isFollowing || !view.assignments.has(me)) return true;
    return [...view.leases].some(
      ([split, lease]) => lease.session === session && this.#ports.tenancies.mayReclaim(split),
    );
  }

  #closeAll(session: SessionId): void {
    const { view, me } = this.#core;
    this.#close(session);
    const { leader } = view;
    const isItsOwn = leader?.record.owner === me && leader.session !== this.#ports.leaderSession();
    if (isItsOwn && leader.session !== null) this.#close(leader.session);
  }

  #close(session: SessionId): void {
    this.#core.log.info('predecessor.closed', 'closed the session of the process before this one');
    // Not answered: it runs out by itself.
    this.#core.gate.closeSession(session).catch(() => undefined);
  }
}
