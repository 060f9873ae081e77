/**
 * What one worker believes about its job: every watched key, read into records, at its newest known revision.
 *
 * Level-triggered: listeners are told what changed, but decide on what the view shows now. Keys of an unknown shape and
 * unreadable records are reported once each (R42).
 */
import type { Revision } from '../../base/decimals.ts';
import type { InstanceId, SessionId, SplitId } from '../../base/ids.ts';
import type { Codec, RecordBase, Stamp } from '../../records/codec.ts';
import { type JobKeys, type KeyName, parseKey } from '../../records/keys.ts';
import {
  type AssignmentRecord,
  assignmentCodec,
  type LeaderRecord,
  leaderCodec,
  type LeaseRecord,
  leaseCodec,
  type ParkedRecord,
  parkedCodec,
  type PlanRecord,
  planCodec,
  type PresenceRecord,
  presenceCodec,
} from '../../records/records.ts';
import type { Change, Entry, Range } from '../../store/port.ts';
import { KnownKeys } from './known-keys.ts';
import type { StoreAge } from './store-age.ts';
import type { Warnings } from './warnings.ts';

/** A record as it stands in the store. */
export interface Seen<T> {
  readonly record: T;
  readonly stamp: Stamp;
  readonly createRevision: Revision;
  readonly modRevision: Revision;
  readonly session: SessionId | null;
}

/** The plan as seen: a record, or why there is none to go by. */
export type PlanView =
  | { readonly kind: 'unknown' | 'absent' }
  | { readonly kind: 'seen'; readonly plan: Seen<PlanRecord> }
  | { readonly kind: 'unreadable'; readonly isNewer: boolean; readonly reason: string };

/** Told of each key that changed, after the view shows it. */
export interface ViewListener {
  changed(name: KeyName, change: Change): void;
  /** Follows how far the store has come. */
  readonly age: StoreAge;
}

export class FleetView {
  readonly keys: JobKeys;
  /** The keys behind it. */
  readonly known = new KnownKeys();
  readonly #listener: ViewListener;
  readonly #warnings: Warnings;

  plan: PlanView = { kind: 'unknown' };
  leader: Seen<LeaderRecord> | null = null;
  /** True when a leader key is there that cannot be read: somebody leads, nobody knows who. */
  isLeaderUnreadable = false;
  isPaused = false;
  readonly presences = new Map<InstanceId, Seen<PresenceRecord>>();
  readonly leases = new Map<SplitId, Seen<LeaseRecord>>();
  /** Leases that cannot be read: somebody holds the split. */
  readonly unreadableLeases = new Set<SplitId>();
  readonly parked = new Map<SplitId, Seen<ParkedRecord>>();
  readonly assignments = new Map<InstanceId, Seen<AssignmentRecord>>();
  readonly cordoned = new Set<InstanceId>();
  readonly drained = new Set<InstanceId>();

  constructor(keys: JobKeys, warnings: Warnings, listener: ViewListener) {
    this.keys = keys;
    this.#warnings = warnings;
    this.#listener = listener;
  }

  /** Takes a full reading of a range in. */
  list(range: Range, entries: readonly Entry[], revision: Revision): void {
    for (const entry of entries) this.#compare(entry, revision);
    this.learn(range, this.known.changesOf(range, entries, revision), revision);
  }

  /** Takes in all that was not known of a range as of `revision`. */
  learn(range: Range, changes: readonly Change[], revision: Revision): void {
    for (const change of changes) this.apply(change);
    this.known.listed(range, revision);
  }

  /** Takes one change in, from a watch, a listing or an answer of our own; older ones are dropped (R9). */
  apply(change: Change): void {
    this.#listener.age.saw(change.modRevision);
    if (!this.known.apply(change)) return;
    const name = parseKey(this.keys, change.key);
    this.#update(name, change);
    this.#listener.changed(name, change);
  }

  /** Takes in what a write of this worker left at `key`: a value under a session, or nothing. */
  wrote(
    key: string,
    value: string | null,
    revision: Revision,
    session: SessionId | null = null,
  ): void {
    const createRevision = this.known.get(key)?.createRevision ?? revision;
    const entry =
      value === null ? null : { key, value, createRevision, modRevision: revision, session };
    this.apply({ key, modRevision: revision, entry });
  }

  /** Takes in what a conflict found at `key` when the store stood at `revision`. */
  found(key: string, entry: Entry | null, revision: Revision): void {
    if (entry !== null) this.#compare(entry, revision);
    this.apply({ key, modRevision: entry?.modRevision ?? revision, entry });
  }

  /** The key as last seen, whatever it holds. */
  entry(key: string): Entry | null {
    return this.known.get(key);
  }

  /** Forgets everything (R8). */
  clear(): void {
    this.#listener.age.forget();
    this.known.clear();
    this.plan = { kind: 'unknown' };
    this.leader = null;
    this.isLeaderUnreadable = false;
    this.isPaused = false;
    for (const map of [this.presences, this.leases, this.parked, this.assignments]) map.clear();
    for (const set of [this.unreadableLeases, this.cordoned, this.drained]) set.clear();
  }

  #compare(entry: Entry, revision: Revision): void {
    if (this.known.contradicts(entry, revision)) this.#listener.age.wentBack();
  }

  #update(name: KeyName, change: Change): void {
    const { entry } = change;
    switch (name.kind) {
      case 'plan':
        this.#updatePlan(entry);
        return;
      case 'leader':
        this.leader = this.#read(leaderCodec, entry);
        this.isLeaderUnreadable = entry !== null && this.leader === null;
        return;
      case 'paused':
        this.isPaused = entry !== null;
        return;
      case 'presence':
        set(this.presences, name.instance, this.#read(presenceCodec, entry));
        return;
      case 'assignment':
        set(this.assignments, name.instance, this.#read(assignmentCodec, entry));
        return;
      case 'parked':
        set(this.parked, name.split, this.#read(parkedCodec, entry));
        return;
      case 'lease': {
        const lease = this.#read(leaseCodec, entry);
        set(this.leases, name.split, lease);
        toggle(this.unreadableLeases, name.split, entry !== null && lease === null);
        return;
      }
      case 'cordoned':
        toggle(this.cordoned, name.instance, entry !== null);
        return;
      case 'drained':
        toggle(this.drained, name.instance, entry !== null);
        return;
      case 'spec':
      case 'split':
      case 'away':
        // Not followed: one commit must not cost its watchers anything.
        return;
      case 'alien':
        if (entry !== null)
          this.#warnings.warn(change.key, 'is not a key of this job; it is left alone');
        return;
    }
  }

  #updatePlan(entry: Entry | null): void {
    if (entry === null) {
      this.plan = { kind: 'absent' };
      return;
    }
    const decoded = planCodec.decode(entry.value);
    if (decoded.kind === 'record' && decoded.record.finality !== 'unknown') {
      this.plan = { kind: 'seen', plan: seen(decoded.record, decoded.stamp, entry) };
      return;
    }
    const reason =
      decoded.kind === 'record' ? 'plan.finality is of a newer version' : decoded.reason;
    this.plan = { kind: 'unreadable', isNewer: decoded.kind !== 'junk', reason };
  }

  #read<T extends RecordBase>(codec: Codec<T>, entry: Entry | null): Seen<T> | null {
    if (entry === null) return null;
    const decoded = codec.decode(entry.value);
    if (decoded.kind === 'record') return seen(decoded.record, decoded.stamp, entry);
    this.#warnings.warn(entry.key, decoded.reason);
    return null;
  }
}

function seen<T>(record: T, stamp: Stamp, entry: Entry): Seen<T> {
  const { createRevision, modRevision, session } = entry;
  return { record, stamp, createRevision, modRevision, session };
}

function set<K, V>(map: Map<K, V>, key: K, value: V | null): void {
  if (value === null) map.delete(key);
  else map.set(key, value);
}

function toggle<K>(keys: Set<K>, key: K, isIn: boolean): void {
  if (isIn) keys.add(key);
  else keys.delete(key);
}
