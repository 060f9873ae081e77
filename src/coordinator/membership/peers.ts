/**
 * The other workers as this one sees them: one chart each, kept by every worker so that a new leader knows who is missing
 * and since when (R26).
 */
import type { PeerEvent } from '../../../machines/peer/peer.events.ts';
import { peerMachine } from '../../../machines/peer/peer.machine.ts';
import { compareDecimals } from '../../base/decimals.ts';
import type { InstanceId } from '../../base/ids.ts';
import type { PresenceRecord } from '../../records/records.ts';
import type { RunningChart } from '../loop/chart-host.ts';
import type { Core } from '../link/core.ts';
import type { Seen } from '../link/fleet-view.ts';

/** A worker that may be given splits. */
export interface Member {
  readonly instance: InstanceId;
  readonly presence: Seen<PresenceRecord>;
}

/** Gone peers remembered; the oldest are forgotten first. */
const GONE_MAX = 1_000;

export class Peers {
  readonly #core: Core;
  readonly #machine: typeof peerMachine;
  readonly #charts = new Map<InstanceId, RunningChart<PeerEvent>>();
  readonly #announcedAtMs = new Map<InstanceId, number>();

  constructor(core: Core, membershipMoved: () => void) {
    this.#core = core;
    this.#machine = peerMachine.provide({
      actions: {
        noteMembership: (_) => {
          membershipMoved();
        },
      },
    });
  }

  /** A presence other than this worker's changed. */
  changed(instance: InstanceId): void {
    const presence = this.#core.view.presences.get(instance);
    if (presence === undefined) {
      this.#charts.get(instance)?.send({ type: 'peer.vanished' });
      return;
    }
    const isNew = !this.#charts.has(instance);
    const chart = this.#chartOf(instance);
    const before = chart.state;
    chart.send({ type: presence.record.parting ? 'peer.parting' : 'peer.announced' });
    this.#announcedAtMs.set(instance, this.#core.clock.nowMs());
    if (isNew && this.#core.view.presences.has(this.#core.me)) {
      this.#core.log.info('peer.joined', 'another worker is there', { instance });
    } else if (before === 'present' && chart.state === 'gone') {
      this.#core.log.info('peer.left', 'another worker is leaving', { instance });
    }
  }

  /** An owner that was never seen, but had not been given up by an earlier leader: its delay begins now (R26). */
  missing(instance: InstanceId): void {
    if (this.#charts.has(instance)) return;
    this.#chartOf(instance).send({ type: 'peer.vanished' });
  }

  /** True while the splits of a vanished worker wait for it. */
  isAway(instance: InstanceId): boolean {
    return this.#charts.get(instance)?.isIn('withheld') === true;
  }

  /** True when nothing waits for a worker: it left, or never was. */
  isGone(instance: InstanceId): boolean {
    const chart = this.#charts.get(instance);
    return chart === undefined || chart.isIn('gone');
  }

  /** Workers that may be given splits, this one included, in the order of their announcement. */
  members(): Member[] {
    const members: Member[] = [];
    for (const [instance, presence] of this.#core.view.presences) {
      if (!presence.record.parting) members.push({ instance, presence });
    }
    return members.sort((a, b) => compareDecimals(a.presence.modRevision, b.presence.modRevision));
  }

  /** Monotonic time at which this worker last heard an announcement of `instance`. */
  announcedAtMs(instance: InstanceId): number {
    return this.#announcedAtMs.get(instance) ?? -Infinity;
  }

  /** States by instance, for status. */
  states(): { instance: string; state: string }[] {
    return [...this.#charts].map(([instance, chart]) => ({ instance, state: chart.state }));
  }

  /** Forgets everybody (R8). */
  clear(): void {
    for (const chart of this.#charts.values()) chart.stop();
    this.#charts.clear();
    this.#announcedAtMs.clear();
  }

  #chartOf(instance: InstanceId): RunningChart<PeerEvent> {
    const known = this.#charts.get(instance);
    if (known !== undefined) return known;
    this.#forgetOldest();
    const { rebalanceDelayMs } = this.#core.config;
    const chart = this.#core.charts.start(this.#machine, 'peer', instance, {
      instance,
      rebalanceDelayMs,
    });
    this.#charts.set(instance, chart);
    return chart;
  }

  #forgetOldest(): void {
    if (this.#charts.size < GONE_MAX) return;
    for (const [instance, chart] of this.#charts) {
      if (!chart.isIn('gone')) continue;
      chart.stop();
      this.#charts.delete(instance);
      this.#announcedAtMs.delete(instance);
      return;
    }
  }
}
