/**
 * Claims: reads the splits this worker waits for, and claims them in order while lanes are free (T7).
 *
 * Rules: R1, R3, R12, R28, R30, R31, R40. A claim that lands is held only if the lease shows under the current session.
 */
import { type Revision } from '../../base/decimals.ts';
import type { SessionId, SplitId } from '../../base/ids.ts';
import { failBackoffMs, hasJustFailed } from '../../protocol/attempts.ts';
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
import type { Core } from '../link/core.ts';
import { keepReading } from '../link/reading.ts';
import type { Tenancy } from './tenancy.ts';

/** What claims ask of the map of tenancies. */
export interface ClaimHooks {
  /** True when a claim on this record consumes no attempt whatever its kind (R31). */
  waivesAttempt(split: SplitId, record: SplitRecord): boolean;
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
}

export class Claims {
  readonly #core: Core;
  readonly #hooks: ClaimHooks;
  #wakeAtMs = Infinity;

  constructor(core: Core, hooks: ClaimHooks) {
    this.#core = core;
    this.#hooks = hooks;
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
    for (const { tenancy } of candidates.sort(compareCandidates).slice(0, freeLanes)) {
      // Handing out and claiming is checked against the deadline, at this moment (R10).
      if (!this.#core.session.isValid()) return;
      tenancy.send({ type: 'claim.due' });
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

  /** True when only the attempts keep this worker from claiming. */
  isAtCap(tenancy: Tenancy): boolean {
    const session = this.#core.session.id;
    if (session === null || tenancy.known.record === null) return false;
    return this.#decide(tenancy, session)?.kind === 'atCap';
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
        maxAttempts: core.config.maxAttempts,
        waivesAttempt: this.#hooks.waivesAttempt(split, record),
      },
    );
    if (decision.kind === 'claim' && this.#isBackingOff(tenancy, record)) return null;
    return decision;
  }

  /** After a failure nobody claims for a while, counted from seeing the lease go (R40). */
  #isBackingOff(tenancy: Tenancy, record: SplitRecord): boolean {
    if (!hasJustFailed({ ...record, failedEpoch: record.lastFailure?.epoch ?? null })) return false;
    const backoffMs = failBackoffMs(record.attempts, this.#core.config.leaseDurationMs);
    const goneAtMs = this.#hooks.leaseGoneAtMs(tenancy.split) ?? tenancy.known.readAtMs;
    const leftMs = goneAtMs + backoffMs - this.#core.clock.nowMs();
    if (leftMs <= 0) return false;
    this.#wakeIn(leftMs);
    return true;
  }

  /** Makes a decision due; one timer is enough for all that wait. */
  #wakeIn(afterMs: number): void {
    const atMs = this.#core.clock.nowMs() + afterMs;
    if (atMs >= this.#wakeAtMs) return;
    this.#wakeAtMs = atMs;
    this.#core.after(afterMs, () => {
      this.#wakeAtMs = Infinity;
    });
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
    tenancy.known.found(decoded.record, entry.modRevision, this.#core.clock.nowMs());
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
    const record = claimedRecord(tenancy.known.record!, {
      owner: core.me,
      nonce: core.nonce,
      attempts: decision.attempts,
    });
    const stamp = core.stamp();
    const lease: LeaseRecord = {
      owner: core.me,
      nonce: core.nonce,
      epoch: record.epoch,
      state: 'owned',
    };
    const sent: SentClaim = { session, record, lease: leaseCodec.encode(lease, stamp), stamp };
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
      tenancy.began(sent.record, revision, sent.session);
      tenancy.send({ type: 'claim.won' });
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
