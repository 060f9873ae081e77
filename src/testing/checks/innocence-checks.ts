/**
 * Nobody pays for another's fault: what shared outages and dying processes do to a split that does no wrong itself never sets it
 * aside. Counted anew from who claimed what and when, and from nothing that records say about failures and deaths.
 */
import { compareWatermarks } from '../../protocol/tenancy-records.ts';
import type { SplitRecord } from '../../records/records.ts';
import type { TimedVersion } from './key-states.ts';
import {
  type Broken,
  broken,
  type Innocents,
  type ProcessChecker,
  type Promises,
} from './process-checks.ts';

/** So many processes have to die with a split while it is on trial. */
const TRIALS = 3;
/** Or so many in a row, none of them on trial for sure: one that dies only of bad luck has had a lot of it. */
const DEATHS = 6;
/** A trial is held in a process that has lived this many times as long as those that were lost, up to so many leases. */
const LIVES = 2;
const LEASES = 4;
/** Clocks run this much apart at most, and a claim takes its time. */
const SLACK = 0.9;

interface Tenancy {
  readonly nonce: string;
  readonly begunAtMs: number;
  /** How long its process had lived by then. */
  readonly agedMs: number;
  readonly from: string | null;
  hasProgressed: boolean;
}

interface Past {
  tenancy: Tenancy | null;
  /** Processes that ended with it in hand, since one handed it back in order after progress. */
  deaths: number;
  /** Those of them that can have been trials, since the last progress. */
  trials: number;
  /** The longest of the lives that were lost. */
  lifeMs: number;
}

export class InnocenceChecker {
  readonly #innocents: Innocents;
  readonly #leaseMs: number;
  readonly #processes: ProcessChecker;
  readonly #pasts = new Map<string, Past>();

  constructor({ innocents, leaseMs }: Promises, processes: ProcessChecker) {
    this.#innocents = innocents ?? { ofFailures: new Set(), ofDeaths: new Set() };
    this.#leaseMs = leaseMs;
    this.#processes = processes;
  }

  /** Another store: what happened in the old one is not known to it. */
  replaced(): void {
    this.#pasts.clear();
  }

  /** What is wrong with one version. */
  *read({ kind, id, before, after, atMs, entry }: TimedVersion): Generator<Broken> {
    if (kind !== 'splits') return;
    const record = after?.record as SplitRecord | undefined;
    const previous = before?.record as SplitRecord | undefined;
    if (record === undefined || previous === undefined || entry.isByHand === true) {
      this.#pasts.delete(id);
      return;
    }
    const past = this.#pastOf(id);
    if (record.status === 'quarantined') {
      if (previous.status === 'runnable') yield* this.#setAside(id, previous, past, atMs);
      this.#pasts.delete(id);
    } else if (record.epoch !== previous.epoch) {
      this.#claimed(past, previous, record, atMs);
    } else if (record.owner === null) {
      if (past.tenancy?.hasProgressed === true) past.deaths = 0;
      past.tenancy = null;
    } else if (past.tenancy !== null) {
      const hasRisen = compareWatermarks(record.watermark, past.tenancy.from) > 0;
      past.tenancy.hasProgressed ||= hasRisen;
      if (hasRisen) past.trials = 0;
    }
  }

  *#setAside(id: string, previous: SplitRecord, past: Past, atMs: number): Iterable<Broken> {
    if (previous.owner === null) {
      if (!this.#innocents.ofFailures.has(id)) return;
      yield broken('innocent', `${id} was set aside for failures that were not its own`);
      return;
    }
    this.#died(past, atMs);
    if (!this.#innocents.ofDeaths.has(id)) return;
    if (past.trials >= TRIALS || past.deaths >= DEATHS) return;
    yield broken(
      'innocent',
      `${id} was set aside after ${past.deaths} deaths, of which ${past.trials} can have been trials`,
    );
  }

  #claimed(past: Past, previous: SplitRecord, record: SplitRecord, atMs: number): void {
    const { nonce } = record;
    if (nonce === null) return;
    // Who takes its own back has not died.
    if (previous.owner !== null && previous.nonce !== nonce) this.#died(past, atMs);
    past.tenancy = {
      nonce,
      begunAtMs: atMs,
      agedMs: atMs - (this.#processes.bornAtMs(nonce) ?? atMs),
      from: record.watermark,
      hasProgressed: false,
    };
  }

  #died(past: Past, atMs: number): void {
    const { tenancy } = past;
    if (tenancy === null) return;
    const leastMs = Math.min(LIVES * past.lifeMs, LEASES * this.#leaseMs) * SLACK;
    const isOnTrial = past.deaths > 0 && tenancy.agedMs >= leastMs;
    if (isOnTrial && !tenancy.hasProgressed) past.trials += 1;
    past.deaths += 1;
    // A lease is all that those who come after can be sure of.
    const heldMs = Math.min(atMs - tenancy.begunAtMs, this.#leaseMs);
    past.lifeMs = Math.max(past.lifeMs, tenancy.agedMs + heldMs);
    past.tenancy = null;
  }

  #pastOf(id: string): Past {
    const known = this.#pasts.get(id);
    if (known !== undefined) return known;
    const past: Past = { tenancy: null, deaths: 0, trials: 0, lifeMs: 0 };
    this.#pasts.set(id, past);
    return past;
  }
}
