/**
 * Keeps the leader's index of splits right: reads records again after each lease delete and each third of a lease (R24),
 * and sets aside what has died too often (T12, R28).
 */
import type { SplitId } from '../../base/ids.ts';
import { isLost } from '../../protocol/attempts.ts';
import { expiredToQuarantine, parkedRecordFor } from '../../protocol/tenancy-records.ts';
import { setAsideTxn } from '../../protocol/transactions.ts';
import { KEY_PREFIXES, parseKey } from '../../records/keys.ts';
import { parkedCodec, type SplitRecord, splitCodec } from '../../records/records.ts';
import type { Change, Entry } from '../../store/port.ts';
import type { Core } from '../link/core.ts';
import type { Peers } from '../membership/peers.ts';
import type { IndexedSplit } from './split-index.ts';
import type { Term } from './term.ts';

const READ_SPLITS_MAX = 100;

export class SplitReader {
  readonly #core: Core;
  readonly #term: Term;
  readonly #peers: Peers;
  readonly #moved: () => void;
  readonly #due = new Set<SplitId>();
  readonly #quarantining = new Set<SplitId>();
  /** Nothing is read again before everything was read once. */
  #phase: 'loading' | 'idle' | 'reading' = 'loading';

  constructor(core: Core, term: Term, peers: Peers, moved: () => void) {
    this.#core = core;
    this.#term = term;
    this.#peers = peers;
    this.#moved = moved;
  }

  /** Reads every split once; nothing else is read until then. @throws `E_STOPPED` when the term is over. */
  async load(): Promise<void> {
    const term = this.#term;
    const prefix = this.#core.keys.root + KEY_PREFIXES.splits;
    for (;;) {
      const listed = await term.list('reading splits', { prefix }, {}, (entries) => {
        for (const entry of entries) this.#loadOne(entry);
      });
      if (listed !== 'compacted') break;
      term.index.clear();
    }
    const { leases } = this.#core.view;
    for (const [split, lease] of leases) term.index.leased(split, lease.record);
    for (const split of term.index.owned()) {
      if (!leases.has(split.id)) this.#due.add(split.id);
    }
    this.#read();
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
    if (this.#phase === 'idle') this.#read();
  }

  #loadOne(entry: Entry): void {
    const name = parseKey(this.#core.keys, entry.key);
    if (name.kind === 'split') this.#take(name.split, entry);
    else this.#core.warnings.warn(entry.key, 'is not a key of this job; it is left alone');
  }

  #read(): void {
    if (this.#term.isOver || this.#due.size === 0) {
      this.#phase = 'idle';
      return;
    }
    this.#phase = 'reading';
    // A moment later, so that what comes in one burst is read in one call.
    queueMicrotask(() => {
      const { leaderGate: gate, keys } = this.#core;
      const splits = [...this.#due].slice(0, READ_SPLITS_MAX);
      for (const split of splits) this.#due.delete(split);
      const names = splits.map((split) => keys.split(split));
      this.#term.run(
        () => this.#term.answered('reading splits', () => gate.readKeys(names)),
        ({ entries }) => {
          for (const split of splits) this.#reread(split, entries.get(keys.split(split)));
          this.#moved();
          this.#read();
        },
      );
    });
  }

  #reread(split: SplitId, entry: Entry | undefined): void {
    if (entry === undefined) {
      if (this.#term.index.has(split)) {
        this.#core.warnings.warn(
          this.#core.keys.split(split),
          'was deleted; its spec is left alone',
        );
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
      this.#core.warnings.warn(entry.key, `is left alone: ${decoded.reason}`);
      return null;
    }
    if (decoded.record.status === 'unknown') {
      this.#core.warnings.warn(entry.key, 'is left alone: its status is of a newer version');
      return null;
    }
    return decoded.record;
  }

  /** The owner died, and one more attempt would be too many: nobody claims it, the leader sets it aside (T12). */
  #quarantineIfDue(split: SplitId, record: SplitRecord, entry: Entry): void {
    const { view, keys } = this.#core;
    if (record.owner === null || this.#quarantining.has(split)) return;
    if (view.leases.has(split) || view.unreadableLeases.has(split)) return;
    // A live process that lost its session is away for a moment; it takes its split back for free (R31).
    const leaseGoneAtMs = this.#term.index.get(split)?.leaseGoneAtMs ?? null;
    const isAway = this.#peers.isAway(record.owner);
    if (isAway || !isLostNow(this.#core, this.#peers, { ...record, leaseGoneAtMs })) return;
    this.#quarantining.add(split);
    const next = expiredToQuarantine(record);
    const stamp = this.#core.stamp();
    void this.#term
      .write('quarantine', () => {
        const values = {
          split: splitCodec.encode(next, stamp),
          parked: parkedCodec.encode(parkedRecordFor(next), stamp),
        };
        return setAsideTxn(keys, split, values, entry.modRevision);
      })
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

/** Whether nobody can take a split any more, as this leader sees it (R28). */
export function isLostNow(
  { view, clock, config }: Core,
  peers: Peers,
  split: Pick<IndexedSplit, 'status' | 'owner' | 'nonce' | 'attempts' | 'leaseGoneAtMs'>,
): boolean {
  const presence = split.owner === null ? undefined : view.presences.get(split.owner);
  const announcedAtMs = split.owner === null ? -Infinity : peers.announcedAtMs(split.owner);
  // Watches of leases and of presences may come apart: who is still announced may be gone as well.
  const sinceMs = Math.max(announcedAtMs, split.leaseGoneAtMs ?? -Infinity);
  return isLost(
    split,
    { announcedNonce: presence?.record.nonce ?? null, waitedForMs: clock.nowMs() - sinceMs },
    config,
  );
}
