/**
 * The workers of the job as this one sees them, itself included: one chart each, kept by every worker so that a new leader
 * knows who is missing and since when, and treats its own splits like those of all (R26, R28).
 */
import type { PeerEvent } from '../../../machines/peer/peer.events.ts';
import { peerMachine } from '../../../machines/peer/peer.machine.ts';
import { compareDecimals } from '../../base/decimals.ts';
import type { InstanceId } from '../../base/ids.ts';
import type { PresenceRecord } from '../../records/records.ts';
import type { Core } from '../link/core.ts';
import type { Seen } from '../link/fleet-view.ts';
import type { RunningChart } from '../loop/chart-host.ts';

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

  /** A presence changed. */
  changed(instance: InstanceId): void {
    const presence = this.#core.view.presences.get(instance);
    if (presence === undefined) {
      const delayMs = this.#core.config.rebalanceDelayMs;
      this.#charts.get(instance)?.send({ type: 'peer.vanished', delayMs });
      return;
    }
    const isNew = !this.#charts.has(instance);
    const chart = this.#chartOf(instance);
    const before = chart.state;
    chart.send({ type: presence.record.parting ? 'peer.parting' : 'peer.announced' });
    this.#announcedAtMs.set(instance, this.#core.clock.nowMs());
    if (instance === this.#core.me) return;
    if (isNew && this.#core.view.presences.has(this.#core.me)) {
      this.#core.log.info('peer.joined', 'another worker is there', { instance });
    } else if (before === 'present' && chart.state === 'gone') {
      this.#core.log.info('peer.left', 'another worker is leaving', { instance });
    }
  }

  /** An owner that was never seen, but had not been given up by an earlier leader: what is left of its delay runs (R26). */
  missing(instance: InstanceId, delayMs: number): void {
    if (this.#charts.has(instance)) return;
    this.#chartOf(instance).send({ type: 'peer.vanished', delayMs });
  }

  /** True while the splits of a vanished worker wait for it. */
  isAway(instance: InstanceId): boolean {
    return this.#charts.get(instance)?.isIn('withheld') === true;
  }

  /** Workers that are away, and for how long, in milliseconds. */
  away(): { instance: InstanceId; awayForMs: number }[] {
    const nowMs = this.#core.clock.nowMs();
    return [...this.#charts]
      .filter(([, chart]) => chart.isIn('withheld'))
      .map(([instance, chart]) => ({ instance, awayForMs: nowMs - chart.sinceMs }));
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

  /** States of the others by instance, for status. */
  states(): { instance: string; state: string }[] {
    return [...this.#charts]
      .filter(([instance]) => instance !== this.#core.me)
      .map(([instance, chart]) => ({ instance, state: chart.state }));
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
    const chart = this.#core.charts.start(this.#machine, 'peer', instance, { instance });
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
