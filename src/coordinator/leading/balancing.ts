/**
 * The leader's division of the work: who should hold what, written as assignments (T6).
 *
 * Rules: R16, R25-R29, R40, R48, R49. A decision follows a change at once after quiet, then at most every 200 ms. It looks at the splits
 * that somebody owns, leases or is named for, and at as many of the others as there is room for: not at the whole plan.
 */
import type { LeaderEvent } from '../../../machines/leader/leader.events.ts';
import type { Timer } from '../../base/clock.ts';
import { ABSENT, compareDecimals } from '../../base/decimals.ts';
import type { InstanceId, SplitId } from '../../base/ids.ts';
import { assign, type AssignableSplit, currentOwner } from '../../protocol/assign.ts';
import {
  isCondemned,
  isSuspect,
  suspicionAfterDeath,
  trialAgeMs,
} from '../../protocol/faults/suspicion.ts';
import { placeSuspects, type SuspectSplit } from '../../protocol/faults/trials.ts';
import {
  NO_REFUSALS,
  type Refusals,
  type RefusalState,
  type UnclaimedName,
  updateRefusals,
} from '../../protocol/refusals.ts';
import { type OwnedSplit, withheldSplits } from '../../protocol/withheld.ts';
import { assignmentCodec } from '../../records/records.ts';
import type { Core } from '../link/core.ts';
import { freeSlots } from '../../protocol/idle-splits.ts';
import type { Member, Peers } from '../membership/peers.ts';
import type { IndexedSplit } from './split-index.ts';
import type { FailureWatch } from './failure-watch.ts';
import { isOwnerGoneNow } from './split-reader.ts';
import type { Term } from './term.ts';
import { UnplacedWatch } from './unplaced-watch.ts';

const DECISION_INTERVAL_MS = 200;
/** A split that rests no longer than this keeps its name, while nobody waits for the place. */
const SHORT_REST_MS = 1_000;

/** What a decision starts from. */
interface Pool {
  readonly term: Term;
  readonly members: readonly Member[];
  /** Whom each split was last named for, among those that are there. */
  readonly assignees: ReadonlyMap<SplitId, InstanceId>;
  readonly barred: ReadonlyMap<SplitId, readonly InstanceId[]>;
}

/** Those of it that somebody owns, leases, or is named or barred for. */
interface Engaged {
  readonly splits: AssignableSplit[];
  readonly owned: OwnedSplit[];
  /** They rest, but only for a moment, and somebody is named for them. */
  readonly short: AssignableSplit[];
  readonly suspects: SuspectSplit[];
  /** Instances that have a suspect in hand. */
  readonly trying: Set<InstanceId>;
  readonly ids: ReadonlySet<SplitId>;
  /** Those that are idle in the index. */
  idleCount: number;
}

export class Balancing {
  readonly #core: Core;
  readonly #peers: Peers;
  readonly #seed: number;
  readonly #send: (event: LeaderEvent) => void;
  /** What has no place, for status. */
  readonly unplaced: UnplacedWatch;
  #decidedAtMs = -Infinity;
  #refusals: RefusalState = NO_REFUSALS;
  #lookTimer: Timer | undefined;

  constructor(core: Core, peers: Peers, seed: number, send: (event: LeaderEvent) => void) {
    this.#core = core;
    this.#peers = peers;
    this.#seed = seed;
    this.#send = send;
    this.unplaced = new UnplacedWatch(core, peers);
  }

  /** A term begins: the first decision is due. */
  begin(): void {
    this.#refusals = NO_REFUSALS;
    this.inputsChanged();
  }

  /** The term is over. */
  stop(): void {
    this.unplaced.stop();
    this.#stopLooking();
  }

  #stopLooking(): void {
    if (this.#lookTimer !== undefined) this.#core.clock.clearTimeout(this.#lookTimer);
    this.#lookTimer = undefined;
  }

  inputsChanged(): void {
    const sinceMs = this.#core.clock.nowMs() - this.#decidedAtMs;
    this.#send({ type: 'inputs.changed', delayMs: Math.max(0, DECISION_INTERVAL_MS - sinceMs) });
  }

  /** Decides, and writes the assignments whose content changed; the chart hears when all are answered. */
  balance(term: Term, failures: FailureWatch): void {
    this.#decidedAtMs = this.#core.clock.nowMs();
    const { view, me } = this.#core;
    // A leader whose own presence was deleted is there all the same: it decides once it is announced again (R15), or is
    // gone as any other worker would be.
    const isThere = view.presences.has(me) || this.#peers.isGone(me);
    const mayDecide = !view.isPaused && isThere;
    const writes = mayDecide ? this.#decide(term, failures) : [];
    this.#core.mailbox.hear(Promise.all(writes), (landed) => {
      this.#core.mailbox.post(() => {
        if (term.isOver) return;
        this.#send({ type: 'assignments.written' });
        // Somebody else wrote an assignment: what it says now is decided on again.
        if (landed.includes(false)) this.inputsChanged();
      });
    });
  }

  #decide(term: Term, failures: FailureWatch): Promise<boolean>[] {
    const members = this.#peers.members();
    const wanted = this.#wanted(term, failures, members);
    const { assignments } = this.#core.view;
    const writes: Promise<boolean>[] = [];
    let moved = 0;
    for (const [instance, splits] of wanted) {
      const published = assignments.get(instance)?.record.splits;
      if (published !== undefined && isSame(published, splits)) continue;
      const before = new Set(published);
      moved += splits.filter((split) => !before.has(split)).length;
      writes.push(this.#write(term, instance, splits));
    }
    for (const instance of assignments.keys()) {
      if (!wanted.has(instance) && this.#peers.isGone(instance)) {
        writes.push(this.#write(term, instance, null));
      }
    }
    if (writes.length > 0) {
      const fields = { members: members.length, moved, generation: term.generation };
      this.#core.log.info('assignment.published', 'divided the work', fields);
    }
    return writes;
  }

  #wanted(
    term: Term,
    failures: FailureWatch,
    members: readonly Member[],
  ): ReadonlyMap<InstanceId, readonly SplitId[]> {
    const { view } = this.#core;
    const restEndMs = term.index.wake();
    const assignees = this.#assignees(members);
    const named = countBy(assignees.values());
    const looked = this.#look(term, members, assignees);
    const shunned = failures.look(members, named, looked.barred);
    const pool: Pool = { term, members, assignees, barred: shunned.barred };
    const instances = members.map(({ instance, presence }) => ({
      id: instance,
      maxInFlight: view.drained.has(instance) ? 0 : presence.record.maxInFlight,
      cordoned: view.cordoned.has(instance) || shunned.instances.has(instance),
    }));
    const engaged = this.#engaged(pool);
    const trialDueMs = this.#placeSuspects(pool, engaged, named);
    const { splits, owned, short, ids } = engaged;
    const withheld = withheldSplits(owned, (instance) => this.#peers.isAway(instance));
    const free = freeSlots(instances, splits, withheld);
    // Some of those that nobody owns are engaged all the same: named, or barred.
    const waiting = term.index.idleCount - engaged.idleCount + countUnowned(splits);
    if (waiting + short.length <= free) splits.push(...short);
    for (const { id, weight, rank } of term.index.heaviestIdle(
      free === 0 ? 0 : free + engaged.idleCount,
    )) {
      if (!ids.has(id)) splits.push({ id, weight, rank, owner: null });
    }
    this.#lookAgain([looked.nextDueMs, shunned.nextDueMs, restEndMs, trialDueMs]);
    const { byInstance, unassigned } = assign({ instances, splits, withheld, seed: this.#seed });
    const suspects = engaged.suspects.map(({ id }) => id);
    const decision = { instances, splits, unassigned, withheld, suspects };
    this.unplaced.decided(term.index, decision, restEndMs);
    return byInstance;
  }

  #engaged(pool: Pool): Engaged {
    const { view } = this.#core;
    const { term, members, assignees, barred } = pool;
    const { index } = term;
    const live = new Set(members.map(({ instance }) => instance));
    const found = this.#engagedSplits(pool);
    const engaged: Engaged = {
      splits: [],
      owned: [],
      short: [],
      suspects: [],
      trying: new Set(),
      ids: new Set(found.keys()),
      idleCount: 0,
    };
    for (const split of found.values()) {
      const { id, weight, restEndsAtMs: rank } = split;
      const leaseOwner = view.leases.get(id)?.record.owner ?? null;
      const named = assignees.get(id) ?? null;
      if (leaseOwner !== null && isSuspect(split.suspicion)) engaged.trying.add(leaseOwner);
      // Out of the pool until it was set aside (R28).
      if (leaseOwner === null && split.isRefusedForGood) continue;
      const recordOwner = leaseOwner ?? split.owner;
      const owner = currentOwner({ published: named, leaseOwner, recordOwner }, (one) =>
        live.has(one),
      );
      const names = barred.get(id);
      const one = {
        id,
        weight,
        owner,
        rank: Math.ceil(rank),
        ...(names === undefined ? {} : { barred: names }),
      };
      if (leaseOwner === null && index.isResting(split)) {
        const leftMs = rank - this.#core.clock.nowMs();
        if (named !== null && leftMs <= SHORT_REST_MS) engaged.short.push(one);
        continue;
      }
      const suspicion = leaseOwner === null ? this.#suspicionOf(split) : null;
      if (isSuspect(suspicion)) {
        engaged.suspects.push({ id, suspicion: suspicion!, named, barred: names ?? [] });
        continue;
      }
      if (split.owner === null) engaged.idleCount += 1;
      engaged.owned.push({ id, owner: recordOwner });
      engaged.splits.push(one);
    }
    for (const { id, suspicion } of index.suspects()) {
      if (engaged.ids.has(id)) continue;
      engaged.suspects.push({ id, suspicion: suspicion!, named: null, barred: [] });
    }
    return engaged;
  }

  /** What is to be thought of a split without a lease (R48). */
  #suspicionOf(split: IndexedSplit): IndexedSplit['suspicion'] {
    if (split.owner === null) return split.suspicion;
    if (this.#peers.isAway(split.owner)) return null;
    if (!isOwnerGoneNow(this.#core, this.#peers, split)) return null;
    return suspicionAfterDeath(split, this.#core.config.leaseDurationMs);
  }

  /** Puts the suspects that may be tried into the pool, each for one instance alone; tells when more may be. */
  #placeSuspects(
    { term, members, assignees }: Pool,
    { suspects, trying, splits }: Engaged,
    named: ReadonlyMap<InstanceId, number>,
  ): number | null {
    if (suspects.length === 0) return null;
    const { view, clock } = this.#core;
    const open = suspects.filter(({ suspicion }) => !isCondemned(suspicion));
    const hosts = members.map(({ instance, presence }) => {
      const { maxInFlight } = presence.record;
      const isOut = view.cordoned.has(instance) || view.drained.has(instance);
      return {
        instance,
        isFree: !isOut && maxInFlight > 0 && !trying.has(instance),
        hasRoom: (named.get(instance) ?? 0) < maxInFlight,
        aliveForMs: this.#peers.aliveForMs(instance),
      };
    });
    const { hosts: placed, dueInMs } = placeSuspects(open, hosts);
    for (const [id, instance] of placed) {
      const { weight, restEndsAtMs, leaseGoneAtMs } = term.index.get(id)!;
      const owner = assignees.get(id) === instance ? instance : null;
      const barred = members.map((member) => member.instance).filter((one) => one !== instance);
      const rank = Math.ceil(Math.max(restEndsAtMs, leaseGoneAtMs ?? 0));
      splits.push({ id, weight, owner, barred, rank });
    }
    return dueInMs === null ? null : clock.nowMs() + dueInMs;
  }

  /** The splits that can run and that somebody owns, leases, is named or barred for. */
  #engagedSplits({ term, assignees, barred }: Pool): ReadonlyMap<SplitId, IndexedSplit> {
    const engaged = new Map<SplitId, IndexedSplit>();
    for (const split of term.index.owned()) engaged.set(split.id, split);
    for (const ids of [this.#core.view.leases, assignees, barred]) {
      for (const id of ids.keys()) {
        const split = term.index.get(id);
        if (split?.status === 'runnable') engaged.set(id, split);
      }
    }
    return engaged;
  }

  /**
   * Whom each split was last named for, among those that are there. A worker that came back may still be named for what
   * was given to another meanwhile: then the newer word counts.
   */
  #assignees(members: readonly Member[]): Map<SplitId, InstanceId> {
    const assignees = new Map<SplitId, InstanceId>();
    const published = members.flatMap(({ instance }) => {
      const assignment = this.#core.view.assignments.get(instance);
      return assignment === undefined ? [] : [{ instance, assignment }];
    });
    published.sort((a, b) => compareDecimals(a.assignment.modRevision, b.assignment.modRevision));
    for (const { instance, assignment } of published) {
      for (const split of assignment.record.splits) assignees.set(split, instance);
    }
    return assignees;
  }

  /** Finds names that are left unclaimed, and whom not to name for them (R27). */
  #look(
    term: Term,
    members: readonly Member[],
    assignees: ReadonlyMap<SplitId, InstanceId>,
  ): Refusals {
    const { view, config, clock } = this.#core;
    const leaseCounts = new Map<string, number>();
    for (const { session } of view.leases.values()) {
      if (session !== null) leaseCounts.set(session, (leaseCounts.get(session) ?? 0) + 1);
    }
    const nowMs = clock.nowMs();
    const looked = updateRefusals(
      this.#refusals,
      {
        instances: new Map(
          members.map(({ instance, presence }) => [
            instance,
            {
              announcement: presence.modRevision,
              maxInFlight: presence.record.maxInFlight,
              leaseCount: leaseCounts.get(presence.record.session) ?? 0,
              refuses: presence.record.refuses,
            },
          ]),
        ),
        unclaimed: this.#unclaimed(term, assignees),
        paused: view.isPaused,
        leaseDurationMs: config.leaseDurationMs,
      },
      nowMs,
    );
    this.#refusals = looked.state;
    return looked;
  }

  *#unclaimed(
    term: Term,
    assignees: ReadonlyMap<SplitId, InstanceId>,
  ): IterableIterator<UnclaimedName> {
    const { view } = this.#core;
    for (const [id, instance] of assignees) {
      const split = term.index.get(id);
      if (split?.status !== 'runnable' || view.leases.has(id)) continue;
      const isBackingOff = term.index.isResting(split) || this.#isTooYoung(split, instance);
      yield { split: id, instance, isBackingOff };
    }
  }

  /** What this leader may take for a live owner’s split can be a suspect to who is named for it (R48). */
  #isTooYoung(split: IndexedSplit, instance: InstanceId): boolean {
    if (split.owner === null) return false;
    const suspicion = suspicionAfterDeath(split, this.#core.config.leaseDurationMs);
    return isSuspect(suspicion) && this.#peers.aliveForMs(instance) < trialAgeMs(suspicion);
  }

  /** Looks again when time alone changes something next. */
  #lookAgain(dueMs: readonly (number | null)[]): void {
    this.#stopLooking();
    const nextMs = Math.min(...dueMs.map((due) => due ?? Infinity));
    if (nextMs === Infinity) return;
    this.#lookTimer = this.#core.after(Math.max(0, nextMs - this.#core.clock.nowMs()), () => {
      this.inputsChanged();
    });
  }

  /** Writes one assignment, or deletes it when `splits` is null; false when somebody else had changed it. */
  #write(term: Term, instance: InstanceId, splits: readonly SplitId[] | null): Promise<boolean> {
    const { keys, view } = this.#core;
    const key = keys.assignment(instance);
    const equals = view.entry(key)?.modRevision ?? ABSENT;
    const value =
      splits === null
        ? null
        : assignmentCodec.encode(
            // Fields of a newer version stay (R42).
            { ...view.assignments.get(instance)?.record, generation: term.generation, splits },
            this.#core.stamp(),
          );
    return term.put('assign', key, value, { equals });
  }
}

function countBy(instances: Iterable<InstanceId>): ReadonlyMap<InstanceId, number> {
  const counts = new Map<InstanceId, number>();
  for (const instance of instances) counts.set(instance, (counts.get(instance) ?? 0) + 1);
  return counts;
}

function countUnowned(splits: readonly AssignableSplit[]): number {
  let count = 0;
  for (const { owner } of splits) if (owner === null) count += 1;
  return count;
}

function isSame(a: readonly SplitId[], b: readonly SplitId[]): boolean {
  return a.length === b.length && a.every((split, index) => split === b[index]);
}
