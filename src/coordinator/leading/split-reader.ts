/**
 * Keeps the leader's index of splits right: reads records again after each lease delete and each third of a lease (R24),
 * and sets aside what has died too often (T12, R28).
 */
import { ABSENT } from '../../base/decimals.ts';
import { isLeaseholdError } from '../../base/errors.ts';
import type { SplitId } from '../../base/ids.ts';
import { isAtCap } from '../../protocol/attempts.ts';
import { expiredToQuarantine, parkedRecordFor } from '../../protocol/tenancy-records.ts';
import { parseKey } from '../../records/keys.ts';
import { parkedCodec, type SplitRecord, splitCodec } from '../../records/records.ts';
import type { Change, Entry } from '../../store/port.ts';
import type { Core } from '../link/core.ts';
import { nextTurn, PART_MAX } from '../loop/next-turn.ts';
import type { Peers } from '../membership/peers.ts';
import type { IndexedSplit } from './split-index.ts';
import type { Term } from './term.ts';

const READ_SPLITS_MAX = 100;
const READ_RETRY_MS = 200;

export class SplitReader {
  readonly #core: Core;
  readonly #term: Term;
  readonly #peers: Peers;
  readonly #moved: () => void;
  readonly #due = new Set<SplitId>();
  readonly #quarantining = new Set<SplitId>();
  #isLoaded = false;
  #isReading = false;

  constructor(core: Core, term: Term, peers: Peers, moved: () => void) {
    this.#core = core;
    this.#term = term;
    this.#peers = peers;
    this.#moved = moved;
  }

  /** Takes the first, full reading in, part by part; nothing else is read until then. False when the term is over. */
  async load(entries: readonly Entry[]): Promise<boolean> {
    for (let first = 0; first < entries.length; first += PART_MAX) {
      if (first > 0) await nextTurn(this.#core.clock);
      if (this.#term.isOver) return false;
      for (const entry of entries.slice(first, first + PART_MAX)) this.#loadOne(entry);
    }
    const { leases } = this.#core.view;
    for (const [split, lease] of leases) this.#term.index.leased(split, lease.record);
    this.#isLoaded = true;
    for (const split of this.#term.index.owned()) {
      if (!leases.has(split.id)) this.#due.add(split.id);
    }
    this.#read();
    return true;
  }

  /**
   * Runs each third of a lease: reads what is runnable, leaseless, and named or owned, and what is quarantined by its record
   * and not by its `parked/` key or the other way round: set aside and put back between two looks, it is never heard of.
   */
  tick(): void {
    const { view } = this.#core;
    const { index } = this.#term;
    const readUnleased = (split: SplitId): void => {
      if (!view.leases.has(split)) this.readSoon(split);
    };
    for (const split of index.owned()) readUnleased(split.id);
    for (const assignment of view.assignments.values()) {
      for (const split of assignment.record.splits) {
        if (index.get(split)?.status === 'runnable') readUnleased(split);
      }
    }
    for (const split of index.quarantined()) if (!view.parked.has(split)) this.readSoon(split);
    for (const split of view.parked.keys()) {
      if (index.get(split)?.status === 'runnable') this.readSoon(split);
    }
  }

  leaseChanged(split: SplitId, change: Change): void {
    const { index } = this.#term;
    const lease = this.#core.view.leases.get(split);
    if (change.entry === null) {
      index.unleased(split, this.#core.clock.nowMs());
      this.readSoon(split);
    } else if (lease !== undefined) {
      index.leased(split, lease.record);
      if (index.get(split)?.status !== 'runnable') this.readSoon(split);
    }
  }

  /** Reads a split's record soon, together with others. */
  readSoon(split: SplitId): void {
    this.#due.add(split);
    if (this.#isLoaded && !this.#isReading) this.#read();
  }

  #loadOne(entry: Entry): void {
    const name = parseKey(this.#core.keys, entry.key);
    if (name.kind === 'split') this.#take(name.split, entry);
    else this.#core.view.warn(entry.key, 'is not a key of this job; it is left alone');
  }

  #read(): void {
    const { gate, keys, mailbox, clock } = this.#core;
    if (this.#term.isOver || this.#due.size === 0) {
      this.#isReading = false;
      return;
    }
    this.#isReading = true;
    // A moment later, so that what comes in one burst is read in one call.
    queueMicrotask(() => {
      const splits = [...this.#due].slice(0, READ_SPLITS_MAX);
      for (const split of splits) this.#due.delete(split);
      gate.readKeys(splits.map((split) => keys.split(split))).then(
        ({ entries }) => {
          mailbox.post(() => {
            if (this.#term.isOver) return;
            for (const split of splits) this.#reread(split, entries.get(keys.split(split)));
            this.#moved();
            this.#read();
          });
        },
        (error: unknown) => {
          if (!isLeaseholdError(error)) throw error;
          for (const split of splits) this.#due.add(split);
          clock.setTimeout(() => {
            mailbox.post(() => {
              this.#read();
            });
          }, READ_RETRY_MS);
        },
      );
    });
  }

  #reread(split: SplitId, entry: Entry | undefined): void {
    if (entry === undefined) {
      if (this.#term.index.has(split)) {
        this.#core.view.warn(this.#core.keys.split(split), 'was deleted; its spec is left alone');
        this.#term.index.remove(split);
      }
      return;
    }
    const record = this.#take(split, entry);
    if (record !== null) this.#quarantineIfDue(split, record, entry);
  }

  #take(split: SplitId, entry: Entry): SplitRecord | null {
    const decoded = splitCodec.decode(entry.value);
    this.#term.index.put(split, decoded, entry.modRevision);
    if (decoded.kind !== 'record') {
      this.#core.view.warn(entry.key, `is left alone: ${decoded.reason}`);
      return null;
    }
    if (decoded.record.status === 'unknown') {
      this.#core.view.warn(entry.key, 'is left alone: its status is of a newer version');
      return null;
    }
    return decoded.record;
  }

  /** The owner died, and one more attempt would be too many: nobody claims it, the leader sets it aside (T12). */
  #quarantineIfDue(split: SplitId, record: SplitRecord, entry: Entry): void {
    const { view, keys, config } = this.#core;
    if (record.status !== 'runnable' || record.owner === null) return;
    if (view.leases.has(split) || view.unreadableLeases.has(split)) return;
    if (!isAtCap(record.attempts + 1, config.maxAttempts)) return;
    // A live process that lost its session is away for a moment; it takes its split back for free (R31).
    if (this.#peers.isAway(record.owner)) return;
    if (mayReturn(this.#core, this.#peers, record) || this.#quarantining.has(split)) return;
    this.#quarantining.add(split);
    const next = expiredToQuarantine(record);
    const stamp = this.#core.stamp();
    const splitKey = keys.split(split);
    void this.#term
      .write('quarantine', () => ({
        compares: [
          { key: splitKey, target: 'modRevision', equals: entry.modRevision },
          { key: keys.lease(split), target: 'createRevision', equals: ABSENT },
        ],
        writes: [
          { put: splitKey, value: splitCodec.encode(next, stamp), session: null },
          {
            put: keys.parked(split),
            value: parkedCodec.encode(parkedRecordFor(next), stamp),
            session: null,
          },
        ],
        onConflict: [],
      }))
      .then((answer) => {
        this.#quarantining.delete(split);
        if (this.#term.isOver) return;
        if (answer.kind === 'committed') {
          this.#term.index.set(split, next, answer.revision);
          this.#core.log.warn('split.quarantined', 'set a split aside', { split });
          this.#moved();
        }
        // A conflict is looked at again with the next tick: at once, it would go round for as long as a lease is unheard of.
      });
  }
}

/**
 * True while the process of the last claim is announced and may take its split back without spending an attempt: at most
 * one lease from its announcement (R28).
 */
export function mayReturn(
  core: Core,
  peers: Peers,
  split: Pick<SplitRecord | IndexedSplit, 'owner' | 'nonce'>,
): boolean {
  if (split.owner === null || split.nonce === null) return false;
  const presence = core.view.presences.get(split.owner);
  if (presence?.record.nonce !== split.nonce) return false;
  return core.clock.nowMs() - peers.announcedAtMs(split.owner) < core.config.leaseDurationMs;
}
