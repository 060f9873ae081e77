/**
 * What the leader makes of failures: which splits are set aside for theirs (R28), whom not to name for what fails, and who
 * gets nothing new because everything fails there (R49). It belongs to one term.
 */
import type { InstanceId, SplitId } from '../../base/ids.ts';
import {
  latelyMs,
  needsOtherSource,
  type SetAside,
  setAsideFor,
} from '../../protocol/faults/set-aside.ts';
import { type Host, type Shunned, Shunning } from '../../protocol/faults/shunning.ts';
import type { SplitRecord } from '../../records/records.ts';
import type { Core } from '../link/core.ts';
import type { Member, Peers } from '../membership/peers.ts';
import type { IndexedSplit, SplitIndex } from './split-index.ts';

/** Splits remembered as failing lately; the oldest are forgotten first. */
const FAILED_MAX = 4_096;

export class FailureWatch {
  readonly #core: Core;
  readonly #peers: Peers;
  readonly #index: SplitIndex;
  readonly #shunning: Shunning;
  readonly #failedAtMs = new Map<SplitId, number>();
  readonly #completed: RecentCount;
  /** Whom not to name for what, and how many splits each is named for: as the last decision found it. */
  #barred: ReadonlyMap<SplitId, readonly InstanceId[]> = new Map();
  #named: ReadonlyMap<InstanceId, number> = new Map();
  #busy: ReadonlySet<InstanceId> = new Set();
  #gettingOn: ReadonlySet<InstanceId> = new Set();
  readonly #completedAtMs = new Map<InstanceId, number>();

  constructor(core: Core, peers: Peers, index: SplitIndex) {
    this.#core = core;
    this.#peers = peers;
    this.#index = index;
    this.#shunning = new Shunning(core.config.leaseDurationMs);
    this.#completed = new RecentCount(latelyMs(core.config.retry));
  }

  /**
   * Takes in a record that was read again.
   *
   * @param before  What was known of the split until then.
   * @returns What is to be done about a split that has failed; null when nothing is.
   */
  read(split: SplitId, record: SplitRecord, before: IndexedSplit | undefined): SetAside | null {
    const nowMs = this.#core.clock.nowMs();
    if (record.status !== 'runnable') {
      this.#ended(split, record, before, nowMs);
      return null;
    }
    const { lastFailure, owner, epoch } = record;
    const hasFailed = owner === null && lastFailure?.epoch === epoch;
    const isFresh = hasFailed && before !== undefined && before.failedEpoch !== epoch;
    if (isFresh) this.#failed(split, record, nowMs);
    return hasFailed ? this.#judge(split, record, isFresh) : null;
  }

  /** Whom not to name for what, now. */
  look(
    members: readonly Member[],
    named: ReadonlyMap<InstanceId, number>,
    refused: ReadonlyMap<SplitId, readonly InstanceId[]>,
  ): Shunned {
    this.#named = named;
    this.#busy = new Set([...this.#core.view.leases.values()].map(({ record }) => record.owner));
    this.#gettingOn = this.#whoGetsOn(members);
    const hosts = members.map((member) => this.#host(member));
    const shunned = this.#shunning.look(hosts, this.#core.clock.nowMs());
    const barred = new Map(refused);
    for (const [split, instances] of shunned.barred) {
      barred.set(split, [...new Set([...(refused.get(split) ?? []), ...instances])].sort());
    }
    this.#barred = barred;
    return { ...shunned, barred };
  }

  #ended(
    split: SplitId,
    { status }: SplitRecord,
    before: IndexedSplit | undefined,
    nowMs: number,
  ): void {
    this.#failedAtMs.delete(split);
    this.#shunning.forget(split);
    if (status !== 'completed' || before?.status !== 'runnable') return;
    this.#completed.add(nowMs);
    if (before.owner === null) return;
    this.#completedAtMs.set(before.owner, nowMs);
    this.#shunning.worked(before.owner);
  }

  #failed(split: SplitId, record: SplitRecord, nowMs: number): void {
    const { by, counted, later } = record.lastFailure!;
    this.#failedAtMs.delete(split);
    this.#failedAtMs.set(split, nowMs);
    if (this.#failedAtMs.size > FAILED_MAX) {
      const [oldest] = this.#failedAtMs.keys();
      this.#failedAtMs.delete(oldest!);
    }
    if (later) return;
    const instance = by as InstanceId;
    const needsOther = needsOtherSource(record, this.#core.config.maxAttempts);
    const failures = record.failing?.failures ?? 0;
    this.#shunning.failed({ split, instance, counted, needsOther, failures }, nowMs);
  }

  #judge(split: SplitId, record: SplitRecord, isFresh: boolean): SetAside | null {
    const { view, config, clock } = this.#core;
    const nowMs = clock.nowMs();
    const index = this.#index;
    const plan = view.plan.kind === 'seen' ? view.plan.plan.record : null;
    const around = {
      eligible: this.#eligible(split),
      failingLately: this.#failingLately(nowMs),
      workingLately: view.leases.size + this.#completed.count(nowMs),
      isSealed: plan?.sealed === true && plan.finality === 'final',
      left: index.runnableCount,
      leftFailing: index.failingCount,
      leftFailingLeastMs: () => index.failingLeastMs(),
      completed: index.completedCount,
    };
    return setAsideFor(record, config.retry, around, isFresh);
  }

  /** Live instances that could be given the split. */
  #eligible(split: SplitId): InstanceId[] {
    const barred = this.#barred.get(split) ?? [];
    return this.#peers
      .members()
      .map((member) => this.#host(member))
      .filter(
        ({ instance, isUsable, hasRoom }) => isUsable && hasRoom && !barred.includes(instance),
      )
      .map(({ instance }) => instance);
  }

  #host({ instance, presence }: Member): Host {
    const { view } = this.#core;
    const { maxInFlight } = presence.record;
    return {
      instance,
      isUsable: maxInFlight > 0 && !view.cordoned.has(instance) && !view.drained.has(instance),
      hasRoom: (this.#named.get(instance) ?? 0) < maxInFlight,
      isBusy: this.#busy.has(instance),
      getsOn: this.#gettingOn.has(instance),
    };
  }

  /** Instances that have had a split for a lease that has not failed, or have completed one as lately. */
  #whoGetsOn(members: readonly Member[]): ReadonlySet<InstanceId> {
    const { clock, config } = this.#core;
    const sinceMs = clock.nowMs() - config.leaseDurationMs;
    const there = new Set(members.map(({ instance }) => instance));
    const gettingOn = new Set<InstanceId>();
    for (const [instance, atMs] of this.#completedAtMs) {
      if (!there.has(instance) || atMs < sinceMs) this.#completedAtMs.delete(instance);
      else gettingOn.add(instance);
    }
    for (const { owner, failing, leasedAtMs } of this.#index.owned()) {
      const isOld = leasedAtMs !== null && leasedAtMs <= sinceMs;
      if (owner !== null && isOld && failing === null) gettingOn.add(owner);
    }
    return gettingOn;
  }

  #failingLately(nowMs: number): number {
    const oldestMs = nowMs - latelyMs(this.#core.config.retry);
    for (const [split, atMs] of this.#failedAtMs) {
      if (atMs >= oldestMs) break;
      this.#failedAtMs.delete(split);
    }
    return this.#failedAtMs.size;
  }
}

/** How often something happened of late: in the present window, and as much of the one before as is still within reach. */
class RecentCount {
  readonly #windowMs: number;
  #startMs = 0;
  #present = 0;
  #before = 0;

  constructor(windowMs: number) {
    this.#windowMs = Math.max(1, windowMs);
  }

  add(nowMs: number): void {
    this.#roll(nowMs);
    this.#present += 1;
  }

  count(nowMs: number): number {
    this.#roll(nowMs);
    const left = 1 - (nowMs - this.#startMs) / this.#windowMs;
    return this.#present + this.#before * left;
  }

  #roll(nowMs: number): void {
    const passed = Math.floor((nowMs - this.#startMs) / this.#windowMs);
    if (passed <= 0) return;
    this.#before = passed === 1 ? this.#present : 0;
    this.#present = 0;
    this.#startMs += passed * this.#windowMs;
  }
}
