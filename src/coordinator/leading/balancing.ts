/**
 * The leader's division of the work: who should hold what, written as assignments (T6).
 *
 * Rules: R16, R25-R29. A decision follows a change at once after quiet, then at most every 200 ms. It looks at the splits
 * that somebody owns, leases or is named for, and at as many of the others as there is room for: not at the whole plan.
 */
import type { LeaderEvent } from '../../../machines/leader/leader.events.ts';
import type { Timer } from '../../base/clock.ts';
import { ABSENT, compareDecimals } from '../../base/decimals.ts';
import type { InstanceId, SplitId } from '../../base/ids.ts';
import { assign, type AssignableSplit, currentOwner } from '../../protocol/assign.ts';
import { failBackoffMs, hasJustFailed } from '../../protocol/attempts.ts';
import {
  NO_REFUSALS,
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
import { isLostNow } from './split-reader.ts';
import type { Term } from './term.ts';

const DECISION_INTERVAL_MS = 200;

export class Balancing {
  readonly #core: Core;
  readonly #peers: Peers;
  readonly #seed: number;
  readonly #send: (event: LeaderEvent) => void;
  #decidedAtMs = -Infinity;
  #refusals: RefusalState = NO_REFUSALS;
  #lookTimer: Timer | undefined;

  constructor(core: Core, peers: Peers, seed: number, send: (event: LeaderEvent) => void) {
    this.#core = core;
    this.#peers = peers;
    this.#seed = seed;
    this.#send = send;
  }

  /** A term begins: the first decision is due. */
  begin(): void {
    this.#refusals = NO_REFUSALS;
    this.inputsChanged();
  }

  /** The term is over. */
  stop(): void {
    if (this.#lookTimer !== undefined) this.#core.clock.clearTimeout(this.#lookTimer);
    this.#lookTimer = undefined;
  }

  inputsChanged(): void {
    const sinceMs = this.#core.clock.nowMs() - this.#decidedAtMs;
    this.#send({ type: 'inputs.changed', delayMs: Math.max(0, DECISION_INTERVAL_MS - sinceMs) });
  }

  /** Decides, and writes the assignments whose content changed; the chart hears when all are answered. */
  balance(term: Term): void {
    this.#decidedAtMs = this.#core.clock.nowMs();
    const { view, me } = this.#core;
    // A leader whose own presence was deleted is there all the same: it decides once it is announced again (R15), or is
    // gone as any other worker would be.
    const isThere = view.presences.has(me) || this.#peers.isGone(me);
    const mayDecide = !view.isPaused && isThere;
    const writes = mayDecide ? this.#decide(term) : [];
    void Promise.all(writes).then((landed) => {
      this.#core.mailbox.post(() => {
        if (term.isOver) return;
        this.#send({ type: 'assignments.written' });
        // Somebody else wrote an assignment: what it says now is decided on again.
        if (landed.includes(false)) this.inputsChanged();
      });
    });
  }

  #decide(term: Term): Promise<boolean>[] {
    const members = this.#peers.members();
    const wanted = this.#wanted(term, members);
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

  #wanted(term: Term, members: readonly Member[]): ReadonlyMap<InstanceId, readonly SplitId[]> {
    const { view } = this.#core;
    const assignees = this.#assignees(members);
    const barred = this.#look(term, members, assignees);
    const instances = members.map(({ instance, presence }) => ({
      id: instance,
      maxInFlight: view.drained.has(instance) ? 0 : presence.record.maxInFlight,
      cordoned: view.cordoned.has(instance),
    }));
    const live = new Set(members.map((member) => member.instance));
    const engaged = this.#engaged(term, assignees, barred);
    const owned: OwnedSplit[] = [];
    const splits: AssignableSplit[] = [];
    let idleCount = 0;
    for (const split of engaged.values()) {
      if (split.owner === null) idleCount += 1;
      const leaseOwner = view.leases.get(split.id)?.record.owner ?? null;
      // One more claim would be one too many: out of the pool (R28).
      if (!view.leases.has(split.id) && isLostNow(this.#core, this.#peers, split)) continue;
      const recordOwner = leaseOwner ?? split.owner;
      owned.push({ id: split.id, owner: recordOwner });
      const published = assignees.get(split.id) ?? null;
      const owner = currentOwner({ published, leaseOwner, recordOwner }, (id) => live.has(id));
      const names = barred.get(split.id);
      splits.push({
        id: split.id,
        weight: split.weight,
        owner,
        ...(names === undefined ? {} : { barred: names }),
      });
    }
    const withheld = withheldSplits(owned, (instance) => this.#peers.isAway(instance));
    const free = freeSlots(instances, splits, withheld);
    // Some of those that nobody owns are engaged all the same: named, or barred.
    for (const { id, weight } of term.index.heaviestIdle(free === 0 ? 0 : free + idleCount)) {
      if (!engaged.has(id)) splits.push({ id, weight, owner: null });
    }
    return assign({ instances, splits, withheld, seed: this.#seed }).byInstance;
  }

  /** The splits that can run and that somebody owns, leases, is named or barred for. */
  #engaged(
    term: Term,
    assignees: ReadonlyMap<SplitId, InstanceId>,
    barred: ReadonlyMap<SplitId, readonly InstanceId[]>,
  ): ReadonlyMap<SplitId, IndexedSplit> {
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
  ): ReadonlyMap<SplitId, readonly InstanceId[]> {
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
        unclaimed: this.#unclaimed(term, assignees, nowMs),
        paused: view.isPaused,
        leaseDurationMs: config.leaseDurationMs,
      },
      nowMs,
    );
    this.#refusals = looked.state;
    this.#lookAgain(looked.nextDueMs === null ? null : looked.nextDueMs - nowMs);
    return looked.barred;
  }

  *#unclaimed(
    term: Term,
    assignees: ReadonlyMap<SplitId, InstanceId>,
    nowMs: number,
  ): IterableIterator<UnclaimedName> {
    const { view, config } = this.#core;
    for (const [id, instance] of assignees) {
      const split = term.index.get(id);
      if (split?.status !== 'runnable' || view.leases.has(id)) continue;
      const backoffMs = hasJustFailed(split)
        ? failBackoffMs(split.attempts, config.leaseDurationMs)
        : 0;
      const isBackingOff = nowMs - (split.leaseGoneAtMs ?? -Infinity) < backoffMs;
      yield { split: id, instance, isBackingOff };
    }
  }

  #lookAgain(afterMs: number | null): void {
    this.stop();
    if (afterMs === null) return;
    this.#lookTimer = this.#core.after(Math.max(0, afterMs), () => {
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

function isSame(a: readonly SplitId[], b: readonly SplitId[]): boolean {
  return a.length === b.length && a.every((split, index) => split === b[index]);
}
