/**
 * What must hold between the handlers of a fleet and the store: checked on the time line of its processes and on the
 * history of the store, read together in one pass.
 */
import type { AssignmentRecord, LeaseRecord, SplitRecord } from '../../records/records.ts';
import { compareWatermarks } from '../../protocol/tenancy-records.ts';
import type { TimedVersion, Version } from './key-states.ts';
import { PlanChecker } from './plan-checks.ts';
import { type Broken, broken, ProcessChecker, type Promises } from './process-checks.ts';
import { SetAsideChecker } from './set-aside-checks.ts';
import type { Happening } from './time-line.ts';

export type { Broken, Promises } from './process-checks.ts';

interface TenancyState {
  readonly process: number;
  /** The store in which it was claimed; another one may have taken its place since. */
  readonly life: number;
  readonly split: string;
  readonly epoch: string;
  readonly grantedAtMs: number;
  readonly asked: Set<string>;
  /** The highest watermark that it began at or asked for. */
  highest: string | null;
  isLost: boolean;
  /** The handler has ended the tenancy itself, and only waits for the answer. */
  isEnding: boolean;
  /** The handler has called the split done. */
  isDone: boolean;
}

/** What the store holds of one epoch of a split. */
interface EpochState {
  /** The process that claimed it. */
  readonly nonce: string | null;
  readonly claimedWatermark: string | null;
  watermark: string | null;
  isCompleted: boolean;
}

type HappeningOf<Kind extends Happening['kind']> = Extract<Happening, { kind: Kind }>;

/** One pass over a run. */
export class TimeLineChecker {
  readonly #processes: ProcessChecker;
  readonly #tenancies: TenancyState[] = [];
  /** Tenancies of each split whose handler has not returned. */
  readonly #open = new Map<string, TenancyState[]>();
  readonly #epochs = new Map<string, EpochState>();
  readonly #records = new Map<string, SplitRecord>();
  readonly #leases = new Map<string, LeaseRecord>();
  readonly #plan = new PlanChecker();
  readonly #setAside: SetAsideChecker;
  /** The splits of each instance by its last assignment, deleted or not. */
  readonly #assigned = new Map<string, ReadonlySet<string>>();
  /** `<instance> <split>`: an assignment has named it, and a later one has not. */
  readonly #unassigned = new Set<string>();
  #isAtRest = false;
  /** Counts the stores that have stood in this place. */
  #life = 0;

  constructor(promises: Promises) {
    this.#processes = new ProcessChecker(promises);
    this.#setAside = new SetAsideChecker(promises);
  }

  /** What is wrong with the writes of one revision. */
  *read(versions: readonly TimedVersion[]): Generator<Broken> {
    for (const version of versions) {
      if (this.#isAtRest && MOVES.has(version.kind)) {
        yield broken('rest', `${version.entry.key} was written though nothing had to move`);
      }
      yield* this.#plan.read(version);
      yield* this.#setAside.read(version);
      if (version.kind === 'plan') this.#processes.planned(version);
      else if (version.kind === 'assign') this.#takeAssignment(version);
      else if (version.kind === 'splits') yield* this.#takeSplit(version);
      else if (version.kind === 'leases') yield* this.#takeLease(version);
    }
  }

  /** What is wrong with one happening, after everything that was written before it was read. */
  *heard(happening: Happening): Generator<Broken> {
    switch (happening.kind) {
      case 'crashed':
        this.#forget(happening.process);
        yield* this.#processes.heard(happening);
        return;
      case 'granted':
        yield* this.#granted(happening);
        return;
      case 'lost':
        this.#tenancies[happening.tenancy]!.isLost = true;
        return;
      case 'fenced':
        yield* this.#fenced(happening);
        return;
      case 'returned':
        this.#returned(happening.tenancy);
        return;
      case 'asked':
        this.#asked(happening);
        return;
      case 'accepted':
        yield* this.#accepted(happening);
        return;
      case 'refused':
        return;
      case 'planned':
        this.#plan.heard(happening, this.#processes.get(happening.process).nonce);
        return;
      case 'replaced':
        this.#replaced();
        yield* this.#processes.heard(happening);
        return;
      case 'askedBack':
        yield* this.#askedBack(happening);
        return;
      case 'wrote': {
        const { split, epoch, isLost } = this.#tenancies[happening.tenancy]!;
        if (!isLost) return;
        yield broken(
          'write after loss',
          `the handler of ${split} at epoch ${epoch} wrote ${happening.what} after its grant was lost`,
        );
        return;
      }
      case 'rests':
        yield* this.#rests();
        this.#isAtRest = true;
        return;
      case 'restIsOver':
        this.#isAtRest = false;
        return;
      case 'uncaught':
        yield broken('uncaught', happening.text);
        return;
      default:
        yield* this.#processes.heard(happening);
    }
  }

  *#granted(happening: HappeningOf<'granted'>): Iterable<Broken> {
    const { split, epoch, process } = happening;
    const one = this.#processes.get(process);
    const what = `${one.instance} was granted ${split} at epoch ${epoch}`;
    const life = this.#lifeOf(split, epoch, one.nonce);
    const tenancy: TenancyState = {
      process,
      life,
      split,
      epoch,
      grantedAtMs: happening.atMs,
      asked: new Set(),
      highest: happening.watermark,
      isLost: false,
      isEnding: false,
      isDone: false,
    };
    this.#tenancies[happening.tenancy] = tenancy;
    const others = this.#open.get(split) ?? [];
    this.#open.set(split, [...others, tenancy]);
    this.#processes.worked(process);
    if (one.state === 'gone') yield broken('after leaving', `${what} after it had left`);
    for (const other of others) yield* this.#overlap(other, tenancy, what);
    const state = this.#epochs.get(`${life} ${split} ${epoch}`);
    if (state === undefined) {
      yield broken('grant', `${what}, which nobody has claimed`);
    } else if (state.claimedWatermark !== happening.watermark) {
      yield broken(
        'resume',
        `${what} at ${happening.watermark}, and the record was at ${state.claimedWatermark}`,
      );
    }
    if (life !== this.#life) return;
    const record = this.#records.get(split);
    const isCurrent = record?.epoch === epoch && record.nonce === one.nonce;
    if (!isCurrent && this.#processes.isSound(one, happening.atMs)) {
      yield broken('grant', `${what}, but the record is at ${record?.epoch} of ${record?.owner}`);
    }
  }

  /** Two handlers of one split at once (invariant 3). */
  *#overlap(other: TenancyState, tenancy: TenancyState, what: string): Iterable<Broken> {
    if (other.process === tenancy.process) {
      yield broken('twin handlers', `${what} while its handler of epoch ${other.epoch} still runs`);
      return;
    }
    // Two stores give the same split away twice; who has it of the old one hears of that in time (R8).
    if (other.life !== tenancy.life) return;
    const owner = this.#processes.get(other.process);
    if (other.isLost || other.isEnding || !this.#processes.isSound(owner, other.grantedAtMs))
      return;
    yield broken('overlap', `${what} while ${owner.instance} holds it at epoch ${other.epoch}`);
  }

  /** Only another epoch fences an owner: its own record never does, not even the completed one (R2, R4). */
  *#fenced({ process, split }: HappeningOf<'fenced'>): Iterable<Broken> {
    const { instance, nonce } = this.#processes.get(process);
    const record = this.#records.get(split);
    const tenancy = this.#tenancies.findLast(
      (one) => one.process === process && one.split === split,
    );
    if (tenancy?.life !== this.#life) return;
    const isItsOwn = record?.nonce === nonce && record.epoch === tenancy.epoch;
    if (!isItsOwn || record.status === 'quarantined') return;
    yield broken(
      'fenced by itself',
      `${instance} gave up ${split} as fenced, and the record at epoch ${record.epoch} is its own`,
    );
  }

  /** Only an assignment without a split takes it away: that there is none says nothing (R25). */
  *#askedBack({ tenancy, reason }: HappeningOf<'askedBack'>): Iterable<Broken> {
    const { process, split, life } = this.#tenancies[tenancy]!;
    if (life !== this.#life) return;
    const { instance } = this.#processes.get(process);
    if (reason !== 'unassigned' || this.#unassigned.has(`${instance} ${split}`)) return;
    yield broken(
      'asked back',
      `${instance} was asked for ${split}, which no assignment has taken from it`,
    );
  }

  #takeAssignment({ id: instance, after }: Version): void {
    if (after === undefined) return;
    const splits = new Set<string>((after.record as AssignmentRecord).splits);
    for (const split of this.#assigned.get(instance) ?? []) {
      if (!splits.has(split)) this.#unassigned.add(`${instance} ${split}`);
    }
    this.#assigned.set(instance, splits);
  }

  #asked({ tenancy, what, watermark }: HappeningOf<'asked'>): void {
    const one = this.#tenancies[tenancy]!;
    if (watermark !== null) {
      one.asked.add(watermark);
      if (compareWatermarks(watermark, one.highest) >= 0) one.highest = watermark;
      else this.#processes.get(one.process).hasFallenBack = true;
    }
    if (what !== 'commit') one.isEnding = true;
    if (what === 'complete') one.isDone = true;
  }

  *#accepted(happening: HappeningOf<'accepted'>): Iterable<Broken> {
    const { split, epoch, life, process } = this.#tenancies[happening.tenancy]!;
    const what = `a ${happening.what} of ${split} at epoch ${epoch}`;
    if (happening.isLate) yield broken('late', `${what} was accepted after the loss`);
    const { nonce } = this.#processes.get(process);
    // Accepted by the store that it was claimed in, or by one that was restored with it.
    const states = this.#statesSince(life, `${split} ${epoch}`).filter(
      (state, index) => index === 0 || state.nonce === nonce,
    );
    const { watermark } = happening;
    const isStored = states.some(
      (state) => watermark === null || compareWatermarks(state.watermark, watermark) >= 0,
    );
    if (!isStored)
      yield broken('durable', `${what} to ${watermark} was accepted and is not stored`);
    if (happening.what === 'complete' && !states.some(({ isCompleted }) => isCompleted)) {
      yield broken('durable', `${what} was accepted, and the split is not completed`);
    }
  }

  /** At rest every split that can run is in the hands of a handler, and every lease has one. */
  *#rests(): Iterable<Broken> {
    for (const [split, { status }] of this.#records) {
      if (status === 'runnable' && !this.#leases.has(split)) {
        yield broken('rest', `${split} can run, and nobody owns it`);
      }
    }
    for (const [split, lease] of this.#leases) {
      const isHeld = (this.#open.get(split) ?? []).some(
        (tenancy) =>
          tenancy.epoch === lease.epoch &&
          !tenancy.isLost &&
          this.#processes.get(tenancy.process).nonce === lease.nonce,
      );
      if (!isHeld) {
        yield broken(
          'rest',
          `${lease.owner} renews the lease of ${split} and has no handler for it`,
        );
      }
    }
  }

  *#takeSplit({ id, before, after, entry }: Version): Iterable<Broken> {
    const record = after?.record as SplitRecord | undefined;
    if (record === undefined) {
      this.#records.delete(id);
      return;
    }
    this.#records.set(id, record);
    const previous = before?.record as SplitRecord | undefined;
    const name = `${this.#life} ${id} ${record.epoch}`;
    const begun: EpochState = {
      nonce: record.nonce,
      claimedWatermark: record.watermark,
      watermark: record.watermark,
      isCompleted: record.status === 'completed',
    };
    // Restored: its owner may not know yet, and go on.
    if (entry.isByHand === true && !this.#epochs.has(name)) this.#epochs.set(name, begun);
    if (previous === undefined || entry.isByHand === true) return;
    if (record.epoch !== previous.epoch) {
      this.#epochs.set(name, begun);
      return;
    }
    const state = this.#epochs.get(name);
    if (state === undefined) return;
    const tenancy = (this.#open.get(id) ?? []).find(
      ({ epoch, life }) => epoch === record.epoch && life === this.#life,
    );
    if (record.status === 'completed') {
      state.isCompleted = true;
      if (tenancy?.isDone === false) {
        yield broken('invented', `${id} was completed, which no handler asked for`);
      }
    }
    if (record.watermark === previous.watermark) return;
    state.watermark = record.watermark;
    const wasAsked = tenancy === undefined || tenancy.asked.has(record.watermark!);
    if (!wasAsked) {
      yield broken(
        'invented',
        `${id} was written at ${record.watermark}, which no handler asked for`,
      );
    }
  }

  *#takeLease({ id, before, after, cause, entry }: TimedVersion): Iterable<Broken> {
    const lease = after?.record as LeaseRecord | undefined;
    if (lease !== undefined) {
      this.#leases.set(id, lease);
      return;
    }
    this.#leases.delete(id);
    if (cause !== 'sessionEnd' || entry.isByHand === true) return;
    const gone = before?.record as LeaseRecord | undefined;
    for (const tenancy of this.#open.get(id) ?? []) {
      if (tenancy.epoch !== gone?.epoch || tenancy.isLost || tenancy.isEnding) continue;
      if (tenancy.life !== this.#life) continue;
      const owner = this.#processes.get(tenancy.process);
      if (!this.#processes.isSound(owner, tenancy.grantedAtMs)) continue;
      yield broken(
        'late loss',
        `the lease of ${id} at epoch ${gone.epoch} ran out before ${owner.instance} was told of the loss`,
      );
    }
  }

  /** What the old store held says nothing about the new one. */
  #replaced(): void {
    this.#life += 1;
    this.#records.clear();
    this.#leases.clear();
    this.#assigned.clear();
    this.#plan.replaced();
    this.#setAside.replaced();
  }

  /** The newest store in which a process has claimed a split at an epoch; the present one when none is known. */
  #lifeOf(split: string, epoch: string, nonce: string): number {
    for (let life = this.#life; life >= 0; life -= 1) {
      if (this.#epochs.get(`${life} ${split} ${epoch}`)?.nonce === nonce) return life;
    }
    return this.#life;
  }

  /** What each store from `life` on holds of an epoch. */
  #statesSince(life: number, name: string): EpochState[] {
    const states: EpochState[] = [];
    for (let one = life; one <= this.#life; one += 1) {
      const state = this.#epochs.get(`${one} ${name}`);
      if (state !== undefined) states.push(state);
    }
    return states;
  }

  #returned(number: number): void {
    const tenancy = this.#tenancies[number]!;
    const left = (this.#open.get(tenancy.split) ?? []).filter((one) => one !== tenancy);
    this.#open.set(tenancy.split, left);
  }

  /** The handlers of a process died with it. */
  #forget(process: number): void {
    for (const [split, tenancies] of this.#open) {
      this.#open.set(
        split,
        tenancies.filter((tenancy) => tenancy.process !== process),
      );
    }
  }
}

/** What moves ownership. */
const MOVES: ReadonlySet<string> = new Set(['leases', 'assign', 'workers', 'leader']);
