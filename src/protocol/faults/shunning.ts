/**
 * Where a split that fails is not named again for a while, and which instances get nothing new, because what fails there may
 * be the fault of the instance (R49).
 *
 * One leader's memory, plain and bounded. Tests: test/protocol/faults.
 */
import type { InstanceId, SplitId } from '../../base/ids.ts';

const BAR_LEASES = 10;
const SICK_SPLITS = 3;
/** From so many failures on a split is tried where others progress, or do not: else nobody learns whose fault it is. */
const WITNESS_FROM = 2;
const SHUN_MS_MAX = 10 * 60_000;
/** Splits remembered for one instance; the oldest are forgotten first. */
const SPLITS_MAX = 1_000;

/** A failure that the leader has seen. */
export interface SeenFailure {
  readonly split: SplitId;
  readonly instance: InstanceId;
  /** Another split progressed there meanwhile (R31). */
  readonly counted: boolean;
  /** It has failed often enough to be tried at another instance. */
  readonly needsOther: boolean;
  /** How often it has failed in a row. */
  readonly failures: number;
}

/** An instance that is there. */
export interface Host {
  readonly instance: InstanceId;
  /** It may get splits: neither cordoned nor drained, and with lanes. */
  readonly isUsable: boolean;
  readonly hasRoom: boolean;
  /** It works on some split. */
  readonly isBusy: boolean;
  /** It has had a split for a while that does not fail, or has completed one lately. */
  readonly getsOn: boolean;
}

/** Whom not to name for what, and when to look again. */
export interface Shunned {
  /** Instances that a split is not named for. */
  readonly barred: ReadonlyMap<SplitId, readonly InstanceId[]>;
  /** Instances that get nothing new. */
  readonly instances: ReadonlySet<InstanceId>;
  /** When time alone changes the answer next; null when it does not. */
  readonly nextDueMs: number | null;
}

interface Trouble {
  /** Splits that failed there without a witness, and until when that counts. */
  readonly lonely: Map<SplitId, number>;
  /** Splits that should be tried elsewhere, and until when. */
  readonly elsewhere: Map<SplitId, number>;
  shunnedUntilMs: number | null;
  /** How often it was shunned in a row. */
  rounds: number;
}

export class Shunning {
  readonly #leaseMs: number;
  readonly #hosts = new Map<InstanceId, Trouble>();
  /** Splits to be tried beside others, and until when. */
  readonly #unwitnessed = new Map<SplitId, number>();

  constructor(leaseDurationMs: number) {
    this.#leaseMs = leaseDurationMs;
  }

  /** A split has failed. */
  failed(failure: SeenFailure, nowMs: number): void {
    const { split, instance, counted, needsOther, failures } = failure;
    if (counted) this.worked(instance);
    const trouble = this.#of(instance);
    const untilMs = nowMs + BAR_LEASES * this.#leaseMs;
    if (!counted) remember(trouble.lonely, split, untilMs);
    if (needsOther) remember(trouble.elsewhere, split, untilMs);
    if (failures >= WITNESS_FROM) remember(this.#unwitnessed, split, untilMs);
  }

  /** Something has progressed at an instance: what fails there is not its fault. */
  worked(instance: InstanceId): void {
    const trouble = this.#hosts.get(instance);
    if (trouble === undefined) return;
    trouble.lonely.clear();
    trouble.shunnedUntilMs = null;
    trouble.rounds = 0;
  }

  /** The split has ended. */
  forget(split: SplitId): void {
    this.#unwitnessed.delete(split);
    for (const { lonely, elsewhere } of this.#hosts.values()) {
      lonely.delete(split);
      elsewhere.delete(split);
    }
  }

  /** @param hosts  Every live instance; others are forgotten. */
  look(hosts: readonly Host[], nowMs: number): Shunned {
    const there = new Set(hosts.map(({ instance }) => instance));
    for (const instance of this.#hosts.keys()) {
      if (!there.has(instance)) this.#hosts.delete(instance);
    }
    for (const trouble of this.#hosts.values()) pass(trouble, nowMs);
    expire(this.#unwitnessed, nowMs);
    const sound = hosts.filter(
      ({ instance, isUsable }) => isUsable && (this.#hosts.get(instance)?.lonely.size ?? 0) === 0,
    );
    // Who has nothing to show is no proof: in an outage whoever was just given another chance looks sound.
    const hasProof = sound.some(({ getsOn }) => getsOn);
    const barred = new Map<SplitId, InstanceId[]>();
    const shunned = new Set<InstanceId>();
    for (const [instance, trouble] of this.#hosts) {
      if (this.#isShunned(trouble, hasProof, nowMs)) shunned.add(instance);
      if (sound.some(({ hasRoom }) => hasRoom)) {
        for (const split of trouble.lonely.keys()) add(barred, split, instance);
      }
      const hasOther = hosts.some(
        (host) => host.isUsable && host.hasRoom && host.instance !== instance,
      );
      if (!hasOther) continue;
      for (const split of trouble.elsewhere.keys()) add(barred, split, instance);
    }
    this.#barIdle(barred, hosts);
    return { barred, instances: shunned, nextDueMs: this.#nextDueMs() };
  }

  /** What fails again and again is not named where nothing else runs, while somewhere something does. */
  #barIdle(barred: Map<SplitId, InstanceId[]>, hosts: readonly Host[]): void {
    const busy = hosts.filter(({ isUsable, hasRoom, isBusy }) => isUsable && hasRoom && isBusy);
    if (busy.length === 0) return;
    const idle = hosts.filter(({ isBusy }) => !isBusy).map(({ instance }) => instance);
    for (const split of this.#unwitnessed.keys()) {
      const names = barred.get(split) ?? [];
      if (busy.every(({ instance }) => names.includes(instance))) continue;
      for (const instance of idle) add(barred, split, instance);
    }
  }

  /** Everything fails there, and elsewhere it does not. */
  #isShunned(trouble: Trouble, hasProof: boolean, nowMs: number): boolean {
    if (!hasProof) return false;
    if (trouble.shunnedUntilMs === null) {
      if (trouble.lonely.size < SICK_SPLITS) return false;
      trouble.shunnedUntilMs = nowMs + Math.min(SHUN_MS_MAX, this.#leaseMs * 2 ** trouble.rounds);
      trouble.rounds += 1;
    }
    return true;
  }

  #nextDueMs(): number | null {
    let dueMs = Infinity;
    for (const untilMs of this.#unwitnessed.values()) dueMs = Math.min(dueMs, untilMs);
    for (const { lonely, elsewhere, shunnedUntilMs } of this.#hosts.values()) {
      for (const untilMs of lonely.values()) dueMs = Math.min(dueMs, untilMs);
      for (const untilMs of elsewhere.values()) dueMs = Math.min(dueMs, untilMs);
      dueMs = Math.min(dueMs, shunnedUntilMs ?? Infinity);
    }
    return dueMs === Infinity ? null : dueMs;
  }

  #of(instance: InstanceId): Trouble {
    const known = this.#hosts.get(instance);
    if (known !== undefined) return known;
    const trouble = {
      lonely: new Map<SplitId, number>(),
      elsewhere: new Map<SplitId, number>(),
      shunnedUntilMs: null,
      rounds: 0,
    };
    this.#hosts.set(instance, trouble);
    return trouble;
  }
}

/** Time goes by: what is over is forgotten, and an instance that was shunned gets another chance. */
function pass(trouble: Trouble, nowMs: number): void {
  if (trouble.shunnedUntilMs !== null && trouble.shunnedUntilMs <= nowMs) {
    trouble.shunnedUntilMs = null;
    trouble.lonely.clear();
  }
  expire(trouble.lonely, nowMs);
  expire(trouble.elsewhere, nowMs);
}

function expire(splits: Map<SplitId, number>, nowMs: number): void {
  for (const [split, untilMs] of splits) if (untilMs <= nowMs) splits.delete(split);
}

function remember(splits: Map<SplitId, number>, split: SplitId, untilMs: number): void {
  splits.delete(split);
  splits.set(split, untilMs);
  if (splits.size <= SPLITS_MAX) return;
  const [oldest] = splits.keys();
  splits.delete(oldest!);
}

function add(barred: Map<SplitId, InstanceId[]>, split: SplitId, instance: InstanceId): void {
  const instances = barred.get(split);
  if (instances === undefined) barred.set(split, [instance]);
  else if (!instances.includes(instance)) instances.push(instance);
}
