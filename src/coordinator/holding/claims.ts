/**
 * Claims: reads the splits this worker waits for, and claims them in order while lanes are free (T7).
 *
 * Rules: R1, R3, R12, R28, R30, R31, R40, R48. A claim that lands is held only if the lease shows under the current session.
 */
import { type Revision } from '../../base/decimals.ts';
import type { SessionId, SplitId } from '../../base/ids.ts';
import { hasJustFailed, restEndsAtMs, restOf } from '../../protocol/faults/failures.ts';
import {
  type ClaimDecision,
  type ClaimKind,
  compareCandidates,
  decideClaim,
} from '../../protocol/claim.ts';
import { isHeld, settleClaim } from '../../protocol/settle.ts';
import { claimedRecord } from '../../protocol/tenancy-records.ts';
import { claimTxn } from '../../protocol/transactions.ts';
import type { Stamp } from '../../records/codec.ts';
import {
  leaseCodec,
  type LeaseRecord,
  specCodec,
  type SplitRecord,
  splitCodec,
} from '../../records/records.ts';
import type { Entry, Txn } from '../../store/port.ts';
import { NO_GUARD, type WriteAnswer } from '../link/batcher.ts';
import { Wake } from '../loop/wake.ts';
import type { Core } from '../link/core.ts';
import { keepReading } from '../link/reading.ts';
import type { Tenancy } from './tenancy.ts';
import { Trials } from './trials.ts';

/** What claims ask of the map of tenancies. */
export interface ClaimHooks {
  /** True when no death of a process ended the tenancy that this record shows (R48). */
  isNoDeath(split: SplitId, record: SplitRecord): boolean;
  /** How long this process has lived, since its loop last stalled its session away. */
  agedMs(): number;
  /** When this worker saw the split's lease go; undefined when it did not. */
  leaseGoneAtMs(split: SplitId): number | undefined;
  /** The split has ended for good; nobody needs to claim it. */
  ended(tenancy: Tenancy): void;
  /** A claim landed and was not held: its tenancy never started a handler (R31). */
  neverStarted(split: SplitId, record: SplitRecord): void;
}

const READ_SPLITS_MAX = 100;

interface SentClaim {
  readonly session: SessionId;
  readonly record: SplitRecord;
  readonly lease: string;
  readonly stamp: Stamp;
  /** How long the split had rested for a failure. */
  readonly restedMs: number;
}

export class Claims {
  readonly #core: Core;
  readonly #hooks: ClaimHooks;
  readonly #wake: Wake;
  /** Suspects, one at a time (R48). */
  readonly trials: Trials;

  constructor(core: Core, hooks: ClaimHooks) {
    this.#core = core;
    this.#hooks = hooks;
    this.#wake = new Wake(core);
    this.trials = new Trials(core, hooks.agedMs, this.#wake);
  }

  /** Reads what must be read, and sends the claims that lanes are free for. `waiting`: tenancies that await. */
  advance(waiting: readonly Tenancy[], freeLanes: number): void {
    this.#read(waiting.filter((tenancy) => this.#isWorthReading(tenancy)));
    const session = this.#core.session.id;
    if (session === null || freeLanes <= 0) return;
    const candidates: { id: SplitId; claim: ClaimKind; tenancy: Tenancy }[] = [];
    for (const tenancy of waiting) {
      if (!tenancy.known.isKnown) continue;
      const decision = this.#decide(tenancy, session);
      if (decision?.kind === 'ended') this.#hooks.ended(tenancy);
      if (decision?.kind !== 'claim') continue;
      candidates.push({ id: tenancy.split, claim: decision.claim, tenancy });
    }
    let lanes = freeLanes;
    for (const { tenancy } of candidates.sort(compareCandidates)) {
      if (lanes <= 0) return;
      // Of several suspects the first one has the process to itself.
      if (this.#decide(tenancy, session)?.kind !== 'claim') continue;
      // Handing out and claiming is checked against the deadline, at this moment (R10).
      if (!this.#core.session.isValid()) return;
      tenancy.send({ type: 'claim.due' });
      lanes -= 1;
    }
  }

  /**
   * A record is read when its split is named, with the spec, and again when it may be free: while another instance has the
   * lease, its record changes without end. A reading on its way may be older than the release that was just seen, so the
   * next one does not wait for it.
   */
  #isWorthReading(tenancy: Tenancy): boolean {
    if (!tenancy.known.isOutdated) return false;
    const lease = this.#core.view.leases.get(tenancy.split);
    const isTaken = lease !== undefined && lease.record.owner !== this.#core.me;
    return !isTaken || tenancy.known.spec === null;
  }

  /** Sends the claim that the chart asked for. */
  send(tenancy: Tenancy): void {
    const session = this.#core.session.id;
    if (session === null) this.#lost(tenancy);
    else this.#put(tenancy, session);
  }

  /** True for a split that the leader sets aside, as far as is known here. */
  isCondemned(tenancy: Tenancy): boolean {
    const session = this.#core.session.id;
    if (session === null || !tenancy.known.isKnown || tenancy.known.record === null) return false;
    return this.#decide(tenancy, session)?.kind === 'condemned';
  }

  /** True when what is known of the split keeps this worker from claiming it: it rests, is a suspect, or is condemned. */
  isKeptOut(tenancy: Tenancy): boolean {
    const session = this.#core.session.id;
    if (session === null || tenancy.known.record === null) return false;
    const decision = this.#decide(tenancy, session);
    return decision === null || decision.kind === 'condemned';
  }

  /** What claiming would be now; null while it has to wait. */
  #decide(tenancy: Tenancy, session: SessionId): ClaimDecision | null {
    const core = this.#core;
    const { split } = tenancy;
    const record = tenancy.known.record!;
    if (core.view.unreadableLeases.has(split)) return null;
    const seen = core.view.leases.get(split);
    const lease = seen === undefined ? null : { owner: seen.record.owner, session: seen.session };
    const decision = decideClaim(
      { record, lease },
      { instance: core.me, session },
      {
        isNoDeath: this.#hooks.isNoDeath(split, record),
        leaseDurationMs: core.config.leaseDurationMs,
      },
    );
    if (decision.kind !== 'claim') return decision;
    const isDue =
      !this.#isResting(tenancy, record) && this.trials.mayTry(tenancy, decision.suspicion);
    return isDue ? decision : null;
  }

  /** Nobody claims a split that rests (R40). */
  #isResting(tenancy: Tenancy, record: SplitRecord): boolean {
    const rest = restOf(record);
    if (rest === null) return false;
    const { clock } = this.#core;
    const nowMs = clock.nowMs();
    const leaseGoneAtMs = this.#hooks.leaseGoneAtMs(tenancy.split) ?? null;
    const sight = {
      leaseGoneAtMs,
      nowMs: tenancy.known.foundAtMs,
      wallMs: tenancy.known.foundWallMs,
    };
    const leftMs = restEndsAtMs(rest, sight) - nowMs;
    if (leftMs <= 0) return false;
    this.#wake.in(leftMs);
    return true;
  }

  #read(tenancies: readonly Tenancy[]): void {
    for (let start = 0; start < tenancies.length; start += READ_SPLITS_MAX) {
      this.#readSome(tenancies.slice(start, start + READ_SPLITS_MAX));
    }
  }

  #readSome(tenancies: readonly Tenancy[]): void {
    const { keys, gate } = this.#core;
    const wanted: string[] = [];
    const reading = {};
    for (const tenancy of tenancies) {
      tenancy.known.reads(reading);
      wanted.push(keys.split(tenancy.split));
      if (tenancy.known.spec === null) wanted.push(keys.spec(tenancy.split));
    }
    const awaited = (): Tenancy[] => tenancies.filter(({ known }) => known.isReadBy(reading));
    keepReading(this.#core, {
      read: () => gate.readKeys(wanted),
      take: ({ entries }) => {
        for (const tenancy of awaited()) this.#take(tenancy, entries);
      },
      isWanted: () => awaited().length > 0,
    });
  }

  #take(tenancy: Tenancy, entries: ReadonlyMap<string, Entry>): void {
    const { keys } = this.#core;
    const entry = entries.get(keys.split(tenancy.split)) ?? null;
    const specEntry = entries.get(keys.spec(tenancy.split));
    if (specEntry !== undefined) {
      const decoded = specCodec.decode(specEntry.value);
      if (decoded.kind !== 'record') {
        this.#leaveAlone(tenancy, specEntry.key, decoded.reason);
        return;
      }
      tenancy.known.spec = decoded.record;
    } else if (tenancy.known.spec === null) {
      this.#leaveAlone(tenancy, keys.spec(tenancy.split), 'the spec is missing');
      return;
    }
    this.#adopt(tenancy, entry);
  }

  /** Takes a record found in the store as the one to decide on; false when it cannot be. */
  #adopt(tenancy: Tenancy, entry: Entry | null): boolean {
    const key = this.#core.keys.split(tenancy.split);
    if (entry === null) {
      this.#leaveAlone(tenancy, key, 'the record is missing');
      return false;
    }
    const decoded = splitCodec.decode(entry.value);
    if (decoded.kind !== 'record') {
      this.#leaveAlone(tenancy, key, decoded.reason);
      return false;
    }
    if (decoded.record.status === 'unknown') {
      this.#leaveAlone(tenancy, key, 'the status is of a newer version');
      return false;
    }
    tenancy.known.found(decoded.record, entry.modRevision, this.#core.clock);
    return true;
  }

  /** A split that cannot be read here is left alone, with one warning (R42). */
  #leaveAlone(tenancy: Tenancy, key: string, reason: string): void {
    tenancy.known.fails(reason);
    this.#core.warnings.warn(key, `is left alone: ${reason}`);
  }

  #put(tenancy: Tenancy, session: SessionId): void {
    const core = this.#core;
    const decision = this.#decide(tenancy, session);
    if (decision?.kind !== 'claim') {
      this.#lost(tenancy);
      return;
    }
    const { split } = tenancy;
    const found = tenancy.known.record!;
    const restedMs = hasJustFailed(found) ? (restOf(found)?.ms ?? 0) : 0;
    const record = claimedRecord(found, {
      owner: core.me,
      nonce: core.nonce,
      suspicion: decision.suspicion,
      agedMs: this.#hooks.agedMs(),
    });
    this.trials.claims(tenancy, decision.suspicion);
    const stamp = core.stamp();
    const lease: LeaseRecord = {
      owner: core.me,
      nonce: core.nonce,
      epoch: record.epoch,
      state: 'owned',
    };
    const encoded = leaseCodec.encode(lease, stamp);
    const sent: SentClaim = { session, record, lease: encoded, stamp, restedMs };
    const txn = this.#txn(split, sent, tenancy.known.revision);
    core.batcher.enqueue({
      name: 'claim',
      isSessionBound: true,
      guard: NO_GUARD,
      build: () => txn,
      // The claim settles until its session is confirmed gone; then it can no longer land (R1).
      matters: () => core.session.id === session,
      answered: (answer) => {
        this.#onAnswer(tenancy, sent, answer);
      },
    });
  }

  #txn(split: SplitId, { session, record, lease, stamp }: SentClaim, revision: Revision): Txn {
    const { keys, view } = this.#core;
    const replaces = view.entry(keys.lease(split));
    const values = { split: splitCodec.encode(record, stamp), lease };
    return claimTxn(keys, split, values, { revision, replaces, session });
  }

  #onAnswer(tenancy: Tenancy, sent: SentClaim, answer: WriteAnswer): void {
    switch (answer.kind) {
      case 'committed':
        this.#landed(tenancy, sent, answer.revision);
        return;
      case 'conflict':
        this.#onConflict(tenancy, sent, answer);
        return;
      case 'refused':
        if (answer.error.kind !== 'fenced') this.#core.fatal(answer.error);
        // A session opened since is another one.
        else this.#core.session.gone(sent.session);
        this.#lost(tenancy);
        return;
      case 'abandoned':
      case 'guardFailed':
        // It may land yet, under a session that is given up; no handler will have run in it (R31).
        this.#hooks.neverStarted(tenancy.split, sent.record);
        this.#lost(tenancy);
        return;
    }
  }

  #onConflict(tenancy: Tenancy, sent: SentClaim, answer: WriteAnswer & { kind: 'conflict' }): void {
    const [splitEntry = null, leaseEntry = null] = answer.found;
    const leaseNow = { entry: leaseEntry, revision: answer.revision };
    const epochBefore = tenancy.known.record?.epoch;
    const decoded = splitEntry === null ? null : splitCodec.decode(splitEntry.value);
    const meaning = settleClaim({ stamp: sent.stamp, epochBefore }, decoded);
    if (meaning === 'landed') {
      this.#landed(tenancy, sent, splitEntry!.modRevision, leaseNow);
      return;
    }
    this.#core.view.found(this.#core.keys.lease(tenancy.split), leaseEntry, answer.revision);
    if (!this.#adopt(tenancy, splitEntry)) {
      this.#lost(tenancy);
      return;
    }
    const { session } = this.#core;
    if (meaning === 'again' && session.id === sent.session && session.isValid()) {
      this.#put(tenancy, sent.session);
      return;
    }
    this.#lost(tenancy);
  }

  #landed(
    tenancy: Tenancy,
    sent: SentClaim,
    revision: Revision,
    leaseNow?: { entry: Entry | null; revision: Revision },
  ): void {
    const { view, keys, session } = this.#core;
    const key = keys.lease(tenancy.split);
    view.wrote(key, sent.lease, revision, sent.session);
    if (leaseNow !== undefined) view.found(key, leaseNow.entry, leaseNow.revision);
    this.#core.mailbox.requestDecision();
    tenancy.known.wrote(sent.record, revision);
    tenancy.known.outdate();
    const shown = view.leases.get(tenancy.split);
    // Landed is not held: the lease must show under the session this worker has now (R3).
    const isOurs = isHeld(shown, session.id, ({ epoch }) => epoch === sent.record.epoch);
    if (isOurs && session.isValid()) {
      tenancy.began(sent.record, revision, sent.session, sent.restedMs);
      tenancy.send({ type: 'claim.won' });
      this.trials.began(tenancy, sent.record);
    } else {
      this.#hooks.neverStarted(tenancy.split, sent.record);
      tenancy.send({ type: 'claim.lost' });
    }
  }

  #lost(tenancy: Tenancy): void {
    tenancy.send({ type: 'claim.lost' });
    this.#core.mailbox.requestDecision();
  }
}
