/**
 * What must hold of every history of a store, whatever happened in it: checked on the list of all versions of all keys,
 * and on nothing else.
 */
import type { LeaderRecord, PlanRecord, SplitRecord } from '../../records/records.ts';
import { byRevision, type HistoryEntry, KeyStates, type Version } from './key-states.ts';

export type { HistoryEntry } from './key-states.ts';

const EPHEMERAL: ReadonlySet<string> = new Set(['leases', 'workers', 'leader']);

/** Never deleted: what is planned stays planned, and what is done stays done. */
const PERMANENT: ReadonlySet<string> = new Set(['specs', 'splits']);

/** Deleted in the ordinary course, and put anew where nothing is. */
const REPEATABLE: ReadonlySet<string> = new Set(['assign', 'workers']);

/** Everything that is wrong with a history, oldest first; empty when nothing is. */
export function historyViolations(history: Iterable<HistoryEntry>): string[] {
  const states = new KeyStates();
  const checker = new HistoryChecker(states);
  const found: string[] = [];
  for (const entries of byRevision(history)) found.push(...checker.read(states.take(entries)));
  return found;
}

/** One pass over a history. */
export class HistoryChecker {
  readonly #states: KeyStates;
  /** Stamps of the writes of each key in its present life. */
  readonly #stamps = new Map<string, Set<string>>();
  readonly #owners = new Map<string, string>();
  readonly #leaders = new Map<string, string>();

  constructor(states: KeyStates) {
    this.#states = states;
  }

  /** What is wrong with the versions of one revision. */
  *read(versions: readonly Version[]): Generator<string, void, undefined> {
    for (const version of versions) {
      const { entry } = version;
      if (entry.isByHand === true) {
        // Taken away by hand, a key may be written as it was by a write that is repeated.
        this.#stamps.delete(nameOf(version));
        continue;
      }
      // What compares with an absent key alone may land once more when its key is gone again: the leader takes such an
      // assignment away, and such a presence ends with its session.
      if (REPEATABLE.has(version.kind) && entry.value === null) {
        this.#stamps.delete(nameOf(version));
      }
      for (const problem of this.#problems(version)) {
        yield `${entry.cluster} ${entry.key} @${entry.revision}: ${problem}`;
      }
    }
  }

  *#problems(version: Version): Iterable<string> {
    const { entry, kind, after } = version;
    if (entry.value === null && PERMANENT.has(kind)) yield 'deleted';
    if (after === undefined) return;
    if (this.#hasLanded(version)) yield 'the same write landed twice';
    if (EPHEMERAL.has(kind) !== (entry.session !== null)) yield 'on the wrong session';
    switch (kind) {
      case 'splits':
        yield* this.#splitProblems(version);
        return;
      case 'leases': {
        const split = this.#states.get(`${version.root}splits/${version.id}`)?.record;
        if ((split as SplitRecord | undefined)?.status === 'completed') {
          yield 'leased after its completion';
        }
        return;
      }
      case 'specs':
      case 'assign':
        yield* this.#leaderProblems(version);
        return;
      case 'plan':
        yield* this.#planProblems(version);
        return;
      default:
    }
  }

  #hasLanded(version: Version): boolean {
    const { instance, nonce, write } = version.after!.stamp;
    const stamp = `${instance} ${nonce} ${write}`;
    const name = nameOf(version);
    const stamps = this.#stamps.get(name);
    if (stamps === undefined) {
      this.#stamps.set(name, new Set([stamp]));
      return false;
    }
    const isKnown = stamps.has(stamp);
    stamps.add(stamp);
    return isKnown;
  }

  *#splitProblems(version: Version): Iterable<string> {
    const after = version.after!.record as SplitRecord;
    const before = version.before?.record as SplitRecord | undefined;
    if (before !== undefined) {
      yield* splitChanges(before, after);
      const isOfNeither = !isOwner(version, before) && !isOwner(version, after);
      // An operator requeues (T15); a leader quarantines what a dead owner left (T12).
      if (isOfNeither && before.status !== 'quarantined') yield* this.#leaderProblems(version);
    }
    if (after.owner === null) return;
    const epoch = `${nameOf(version)} ${after.epoch}`;
    const owner = JSON.stringify([after.owner, after.nonce]);
    if ((this.#owners.get(epoch) ?? owner) !== owner) yield 'two owners in one epoch';
    this.#owners.set(epoch, owner);
  }

  *#planProblems(version: Version): Iterable<string> {
    const plan = version.after!.record as PlanRecord;
    // The first worker there makes the plan (T1), at generation 0; nobody leads yet.
    if (plan.generation === 0) return;
    const previous = version.before?.record as PlanRecord | undefined;
    if (previous !== undefined) {
      if (plan.generation < previous.generation) yield 'the generation fell';
      if (plan.requeues < previous.requeues) yield 'a requeue was forgotten';
      // An operator requeues (T15).
      if (plan.requeues > previous.requeues && plan.generation === previous.generation) return;
    }
    yield* this.#leaderProblems(version);
  }

  /** Only who leads writes this, and one process leads in a generation. */
  *#leaderProblems(version: Version): Iterable<string> {
    const { record, stamp } = version.after!;
    const { instance, nonce } = stamp;
    const leader = this.#states.get(`${version.root}leader`)?.record as LeaderRecord | undefined;
    if (leader?.owner !== instance || leader.nonce !== nonce) {
      yield `written by ${instance}, who does not lead`;
      return;
    }
    const { generation } = record as { generation?: number };
    if (generation !== undefined && generation !== leader.generation) {
      yield `written for generation ${generation} in generation ${leader.generation}`;
    }
    const name = `${version.root}${leader.generation}`;
    const writer = JSON.stringify([instance, nonce]);
    if ((this.#leaders.get(name) ?? writer) !== writer) yield 'two leaders in one generation';
    this.#leaders.set(name, writer);
  }
}

function* splitChanges(before: SplitRecord, after: SplitRecord): Iterable<string> {
  const rise = BigInt(after.epoch) - BigInt(before.epoch);
  if (rise < 0n || rise > 1n) yield `the epoch went by ${rise}`;
  const isNewOwner =
    after.owner !== null && (after.owner !== before.owner || after.nonce !== before.nonce);
  if (isNewOwner && rise === 0n) yield 'a new owner in an old epoch';
  const isLower =
    before.watermark !== null &&
    (after.watermark === null || BigInt(after.watermark) < BigInt(before.watermark));
  if (isLower) yield 'the watermark fell';
  if (before.status === 'completed') yield 'written after its completion';
}

/** True when the writer of a version owns the split by this record. */
function isOwner(version: Version, { owner, nonce }: SplitRecord): boolean {
  const { stamp } = version.after!;
  return owner === stamp.instance && nonce === stamp.nonce;
}

function nameOf({ entry }: Version): string {
  return `${entry.cluster} ${entry.key}`;
}
