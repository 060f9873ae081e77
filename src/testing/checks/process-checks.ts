/** What must hold of the processes of a fleet: who leads, how they leave, and which of them can know what they hold. */
import type { Verdict } from '../../coordinator/api/api.ts';
import type { PlanRecord } from '../../records/records.ts';
import type { Version } from './key-states.ts';
import type { Happening } from './time-line.ts';

/** One broken promise. */
export interface Broken {
  readonly check: string;
  readonly text: string;
}

/** What a fleet has promised, in milliseconds. */
export interface Promises {
  readonly leaseMs: number;
  /** The longest that a stop takes. */
  readonly stopMs: number;
  readonly rebalanceDelayMs: number;
}

/** A process as its time line shows it. */
export interface ProcessState {
  readonly instance: string;
  readonly nonce: string;
  state: 'running' | 'frozen' | 'dead' | 'gone';
  isLeading: boolean;
  /** Something was taken from it while it led: it need not hear of that before its watches come back. */
  isRobbedLeader: boolean;
  hasTwin: boolean;
  /** A handler of it has committed less than was committed: the source counts wrongly, and that ends a worker. */
  hasFallenBack: boolean;
  /** When it was last disturbed so that it cannot know what it holds; -Infinity for never. */
  disturbedAtMs: number;
  stopAskedAtMs: number | null;
  /** It has had a split, or led: it was there. */
  hasWorked: boolean;
}

type HappeningOf<Kind extends Happening['kind']> = Extract<Happening, { kind: Kind }>;

export class ProcessChecker {
  readonly #promises: Promises;
  readonly #processes = new Map<number, ProcessState>();
  readonly #verdicts = new Set<string>();
  /** Processes that were denied something before they began. */
  readonly #denied = new Set<number>();

  constructor(promises: Promises) {
    this.#promises = promises;
  }

  /** A process that has started. */
  get(process: number): ProcessState {
    return this.#processes.get(process)!;
  }

  /** True when nothing has kept a process from knowing what it holds, for long enough before `sinceMs`. */
  isSound(process: ProcessState, sinceMs: number): boolean {
    const { leaseMs } = this.#promises;
    return (
      process.state === 'running' &&
      !process.hasTwin &&
      process.disturbedAtMs < sinceMs - 2 * leaseMs
    );
  }

  /** It was given a split. */
  worked(process: number): void {
    this.get(process).hasWorked = true;
  }

  /** Takes a version of the plan in. */
  planned({ after }: Version): void {
    const plan = after?.record as PlanRecord | undefined;
    if (plan === undefined || plan.verdict === null) return;
    const { verdict } = plan;
    const { kind, completed, quarantined, ids } = verdict;
    this.#verdicts.add(JSON.stringify([kind, completed, quarantined, ids]));
  }

  /** What is wrong with one happening. */
  *heard(happening: Happening): Generator<Broken> {
    switch (happening.kind) {
      case 'started':
        this.#started(happening);
        return;
      case 'crashed':
        this.get(happening.process).state = 'dead';
        return;
      case 'disturbed':
        this.#disturbed(happening);
        return;
      case 'thawed':
        this.get(happening.process).state = 'running';
        this.get(happening.process).disturbedAtMs = happening.atMs;
        return;
      case 'leads':
        yield* this.#leads(happening.process, happening.atMs);
        return;
      case 'leadsNoMore':
        this.get(happening.process).isLeading = false;
        this.get(happening.process).isRobbedLeader = false;
        return;
      case 'stopAsked':
        this.get(happening.process).stopAskedAtMs = happening.atMs;
        return;
      case 'left':
        yield* this.#left(happening);
        return;
      case 'denied':
        this.#denied.add(happening.process);
        return;
      case 'replaced':
        // Nobody can know before it hears of it.
        for (const process of this.#processes.values()) process.disturbedAtMs = happening.atMs;
        return;
      default:
    }
  }

  #started({ process, instance, nonce }: HappeningOf<'started'>): void {
    let hasTwin = false;
    for (const other of this.#processes.values()) {
      const isAlive = other.state === 'running' || other.state === 'frozen';
      if (other.instance !== instance || !isAlive) continue;
      // What one of them takes from the other is theirs to settle (R14).
      hasTwin = true;
      other.hasTwin = true;
    }
    this.#processes.set(process, {
      instance,
      nonce,
      state: 'running',
      isLeading: false,
      isRobbedLeader: false,
      hasTwin,
      hasFallenBack: false,
      disturbedAtMs: -Infinity,
      stopAskedAtMs: null,
      hasWorked: false,
    });
  }

  #disturbed(happening: HappeningOf<'disturbed'>): void {
    const process = this.get(happening.process);
    if (happening.by === 'robbed') process.isRobbedLeader ||= process.isLeading;
    else process.state = 'frozen';
    process.disturbedAtMs = happening.atMs;
  }

  *#leads(process: number, atMs: number): Iterable<Broken> {
    const leader = this.get(process);
    leader.isLeading = true;
    leader.hasWorked = true;
    // Thawed a moment ago, it may hear first that it was elected, and then that this is over.
    if (!this.isSound(leader, atMs)) return;
    for (const [number, other] of this.#processes) {
      if (number === process || !other.isLeading || other.isRobbedLeader) continue;
      if (!this.isSound(other, atMs)) continue;
      yield broken('two leaders', `${leader.instance} leads while ${other.instance} still does`);
    }
  }

  *#left({ process, atMs, verdict, code }: HappeningOf<'left'>): Iterable<Broken> {
    const one = this.get(process);
    one.state = 'gone';
    one.isLeading = false;
    const isExpected =
      code === null ||
      code === 'E_STARTUP_EXHAUSTED' ||
      (code === 'E_STOPPED' && one.stopAskedAtMs !== null) ||
      (code === 'E_INSTANCE_ID_TAKEN' && one.hasTwin) ||
      // At the start a refusal is final; later it is waited out.
      (code === 'E_STORE_DENIED' && this.#denied.has(process) && !one.hasWorked) ||
      (code === 'E_WATERMARK_REGRESSION' && one.hasFallenBack);
    if (!isExpected) yield broken('failed', `${one.instance} ended with ${code}`);
    if (verdict !== null && !this.#verdicts.has(nameOf(verdict))) {
      const told = JSON.stringify(verdict);
      yield broken('verdict', `${one.instance} was told ${told}, which no plan said`);
    }
    const askedAtMs = one.stopAskedAtMs;
    if (askedAtMs === null || one.disturbedAtMs >= askedAtMs) return;
    if (atMs - askedAtMs > this.#promises.stopMs) {
      yield broken('stop', `${one.instance} took ${Math.round(atMs - askedAtMs)} ms to stop`);
    }
  }
}

export function broken(check: string, text: string): Broken {
  return { check, text };
}

function nameOf({ kind, completed, quarantined, quarantinedIds }: Verdict): string {
  return JSON.stringify([kind, completed, quarantined, quarantinedIds]);
}
