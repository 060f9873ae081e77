/**
 * Looks, once the faults are over, whether anybody or anything waits for nothing: each worker has joined within two leases or
 * says why not, and each split is worked on, or there is a reason that will pass.
 */
import type { Status } from '../../coordinator/status.ts';
import { KEY_PREFIXES } from '../../records/keys.ts';
import { leaseCodec, splitCodec } from '../../records/records.ts';
import { configOf, STARTUP_BACKOFF_MS } from './liveness.ts';
import type { SimulationViolation } from './violation.ts';
import type { SimulatedProcess } from './simulated-process.ts';
import type { World } from './world.ts';

/** Looks in a lease. */
const LOOKS = 4;
/** A slow clock takes longer for the same. */
const CLOCK_SLACK = 1.05;

interface Seen {
  readonly process: SimulatedProcess;
  readonly status: Status;
}

export class Progress {
  readonly broken: SimulationViolation[] = [];
  readonly #world: World;
  readonly #leaseMs: number;
  readonly #overAtMs: number;
  #lookAtMs: number;
  /** Since when a process has not been there, for no reason that it says. */
  readonly #outSinceMs = new Map<SimulatedProcess, number>();
  /** Since when a split has not been worked on, for no reason. */
  readonly #idleSinceMs = new Map<string, number>();
  /** The longest that anything has waited so far, as a share of what it may. */
  worst = 0;

  /** From the moment at which the faults are over. */
  constructor(world: World) {
    this.#world = world;
    this.#leaseMs = configOf(world.scenario).leaseDurationMs;
    this.#overAtMs = world.overAtMs;
    this.#lookAtMs = this.#overAtMs;
  }

  /** Looks at everything, now and then. */
  look(): void {
    const { clock } = this.#world;
    if (clock.nowMs() < this.#lookAtMs) return;
    this.#lookAtMs = clock.nowMs() + this.#leaseMs / LOOKS;
    const seen = this.#world.scenario.workers.flatMap((_, slot): Seen[] => {
      const process = this.#world.at(slot);
      const isThere = process?.state === 'running' && !process.isStopping;
      return isThere ? [{ process, status: process.worker.status() }] : [];
    });
    for (const one of seen) this.#lookAtWorker(one);
    this.#lookAtSplits(seen.filter(({ status }) => status.presence === 'present'));
  }

  #lookAtWorker({ process, status }: Seen): void {
    const { nowMs } = this.#now;
    const isExcused = status.presence === 'present' || reasonsOf(status).length > 0;
    if (isExcused) {
      this.#outSinceMs.set(process, nowMs);
      return;
    }
    const sinceMs = this.#outSinceMs.get(process) ?? this.#overAtMs;
    this.#outSinceMs.set(process, sinceMs);
    // A step of the start that failed just before is tried again after its pause.
    const boundMs = (2 * this.#leaseMs + STARTUP_BACKOFF_MS) * CLOCK_SLACK;
    this.#judge(nowMs - sinceMs, boundMs, () => {
      this.#outSinceMs.set(process, Infinity);
      return `${process.instance} has not joined ${round(nowMs - sinceMs)} ms after the last fault, and does not say why: ${text(status)}`;
    });
  }

  #lookAtSplits(present: readonly Seen[]): void {
    const { nowMs } = this.#now;
    const { store, keys } = this.#world;
    const owners = new Map<string, string>();
    const leases = `${keys.root}${KEY_PREFIXES.leases}`;
    for (const { key, value } of store.dump(leases)) {
      const lease = leaseCodec.decode(value);
      if (lease.kind === 'record') owners.set(key.slice(leases.length), lease.record.nonce);
    }
    const free = present.filter(({ process, status }) => {
      const held = status.tenancies.filter(({ state }) => /^(held|claiming)/.test(state));
      return held.length < this.#lanesOf(process);
    });
    const living = new Set(this.#world.alive().map(({ nonce }) => nonce));
    const splits = `${keys.root}${KEY_PREFIXES.splits}`;
    for (const { key, value } of store.dump(splits)) {
      const id = key.slice(splits.length);
      const split = splitCodec.decode(value);
      if (split.kind !== 'record' || split.record.status !== 'runnable') {
        this.#idleSinceMs.delete(id);
        continue;
      }
      const isWorkedOn = living.has(owners.get(id) ?? '');
      if (isWorkedOn || hasReason(id, { present, free })) {
        this.#idleSinceMs.set(id, nowMs);
        continue;
      }
      const sinceMs = this.#idleSinceMs.get(id) ?? this.#overAtMs;
      this.#idleSinceMs.set(id, sinceMs);
      this.#judge(nowMs - sinceMs, this.#idleBoundMs, () => {
        this.#idleSinceMs.set(id, Infinity);
        const who = present.map(({ status }) => text(status)).join('; ');
        return `nobody has worked on ${id} for ${round(nowMs - sinceMs)} ms, for no reason: ${value} ${who}`;
      });
    }
  }

  /**
   * The longest that a split may wait although somebody has a lane for it: for a leader, for the lease and the delay of who is
   * gone, for the pause after a failure, and for a worker that was named and cannot take it (R20, R26, R27, R40).
   */
  get #idleBoundMs(): number {
    const { scenario } = this.#world;
    const { rebalanceDelayMs, opTimeoutMs } = configOf(scenario);
    const leaseMs = this.#leaseMs + scenario.expiryLagMs;
    return (5 * leaseMs + rebalanceDelayMs + 2 * opTimeoutMs) * CLOCK_SLACK;
  }

  get #now(): { nowMs: number } {
    return { nowMs: this.#world.clock.nowMs() };
  }

  #lanesOf({ slot }: SimulatedProcess): number {
    return this.#world.scenario.workers[slot]!.maxInFlight;
  }

  #judge(waitedMs: number, boundMs: number, tell: () => string): void {
    if (waitedMs === -Infinity) return;
    this.worst = Math.max(this.worst, waitedMs / boundMs);
    if (waitedMs > boundMs) this.broken.push({ check: 'liveness', text: tell() });
  }
}

/** Why a split that nobody works on waits: no lane is free, nobody with a lane can take it, or nobody may lead for a while. */
function hasReason(
  id: string,
  { present, free }: { readonly present: readonly Seen[]; readonly free: readonly Seen[] },
): boolean {
  const isUnled = present.every(({ status }) => status.charts.leader === 'following.resting');
  return isUnled || free.every(({ status }) => status.refuses.includes(id));
}

/** What a worker says about why it is not there. */
function reasonsOf({ failing, charts, lastError }: Status): string[] {
  return [
    ...failing.map(({ call, message }) => `${call}: ${message}`),
    ...(charts.presence === 'rejoining.barred' ? ['refused'] : []),
    ...(lastError === null ? [] : [lastError]),
  ];
}

function text({ instanceId, charts, failing, tenancies, refuses }: Status): string {
  return JSON.stringify({ instanceId, ...charts, failing, tenancies, refuses });
}

function round(ms: number): number {
  return Math.round(ms);
}
