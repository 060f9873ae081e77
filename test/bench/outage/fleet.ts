/**
 * A fleet of real workers with the default options, on the memory store and the virtual clock, to which happens what a case
 * says: to what its handlers call, to its hosts, to its processes, or to single splits.
 */
import { hash32 } from '../../../src/base/hash.ts';
import { seededRandom } from '../../../src/base/random.ts';
import { type VirtualClock, virtualClock } from '../../../src/base/virtual-clock.ts';
import type { Planner } from '../../../src/coordinator/api/api.ts';
import type { Grant } from '../../../src/driver/grant.ts';
import { createWorker, type Worker } from '../../../src/driver/worker.ts';
import { jobKeys, KEY_PREFIXES } from '../../../src/records/keys.ts';
import { presenceCodec, splitCodec, type SplitStatus } from '../../../src/records/records.ts';
import { type MemoryStore, memoryStore } from '../../../src/store/memory.ts';
import type { OutageCase, Poison, Trouble } from './cases.ts';
import { Mortal } from './mortal.ts';

const JOB = 'job';
const PREFIX = 'outage';
const SEED = 1;
/** How soon a supervisor starts a process again. */
const RESTART_MS = 2_000;
/** How long it is looked at what else happens, once everything is found that is to be found. */
const LOOKS_ON_MS = 180_000;

/** A prime: lengths in no order. */
const SPREAD = 7_919;

interface Process extends Mortal {
  readonly slot: number;
  readonly worker: Worker;
}

/** One split as the case has it. */
interface SplitSight {
  readonly index: number;
  readonly poison: Poison | undefined;
  /** When a handler had it for the first time. */
  firstMs: number | null;
  /** When it was set aside. */
  parkedMs: number | null;
}

/** What came of a case. */
export interface Outcome {
  readonly poison: number;
  readonly poisonFound: number;
  /** The longest that it took to find one; null when none was found. */
  readonly foundMs: number | null;
  /** Splits set aside that are no poison. */
  readonly innocent: number;
  /** Splits that are neither poison nor done, where all of them were to be. */
  readonly unfinished: number;
  /** Null when nothing was in trouble, or work never went on. */
  readonly resumedMs: number | null;
}

export class OutageFleet {
  readonly #case: OutageCase;
  readonly #clock: VirtualClock = virtualClock();
  readonly #store: MemoryStore;
  readonly #keys = jobKeys(PREFIX, JOB);
  readonly #splits = new Map<string, SplitSight>();
  readonly #processes: Process[] = [];
  /** Splits that have progressed since the trouble was over. */
  readonly #resumed = new Set<string>();
  #resumedMs: number | null = null;
  /** How many have to, until work has gone on: as many as there were lanes for. */
  #toResume: number | null = null;
  #done = 0;
  #lives = 0;
  #found = 0;
  #lastFoundMs = 0;
  #hasVerdict = false;

  constructor(one: OutageCase) {
    this.#case = one;
    this.#store = memoryStore({ clock: this.#clock, historyRevisionsMax: 1_000 });
    const poison = new Map(one.poison?.map((poison) => [poison.split, poison]));
    for (let index = 0; index < one.splits; index += 1) {
      this.#splits.set(`s${index}`, {
        index,
        poison: poison.get(index),
        firstMs: null,
        parkedMs: null,
      });
    }
  }

  /** Runs the case until the job has its verdict, or the time of the case is up. */
  async run(): Promise<Outcome> {
    const { workers, trouble, untilMs } = this.#case;
    this.#watchParked();
    for (let slot = 0; slot < workers; slot += 1) this.#spawn(slot, 0);
    if (trouble?.kind === 'crashes') this.#crashAgainAndAgain(trouble);
    await this.#clock.until(() => this.#isOver(), untilMs);
    const outcome = this.#outcome();
    for (const process of this.#processes) process.die();
    await this.#store.close();
    return outcome;
  }

  get #nowMs(): number {
    return this.#clock.nowMs();
  }

  #isOver(): boolean {
    const { trouble, endsWhenFound = false, poison = [] } = this.#case;
    const endMs = trouble === undefined ? 0 : endOf(trouble);
    if (trouble !== undefined && this.#toResume === null && this.#nowMs >= endMs) {
      this.#toResume = Math.min(this.#lanes(), this.#unfinished());
    }
    if (this.#hasVerdict || !endsWhenFound) return this.#hasVerdict;
    const isFound = this.#found >= poison.length;
    return isFound && this.#nowMs >= Math.max(this.#lastFoundMs, endMs) + LOOKS_ON_MS;
  }

  /** As many as the workers say that they have. */
  #lanes(): number {
    return this.#store.dump(this.#keys.root + KEY_PREFIXES.workers).reduce((sum, { value }) => {
      const decoded = presenceCodec.decode(value);
      return decoded.kind === 'record' ? sum + decoded.record.maxInFlight : sum;
    }, 0);
  }

  #unfinished(): number {
    const parked = [...this.#splits.values()].filter(
      ({ poison, parkedMs }) => poison !== undefined || parkedMs !== null,
    );
    return this.#splits.size - this.#done - parked.length;
  }

  #spawn(slot: number, life: number): void {
    const { sameIds = true } = this.#case;
    const mortal = new Mortal(this.#clock, this.#store);
    const worker = createWorker({
      job: JOB,
      prefix: PREFIX,
      store: mortal.store,
      instanceId: sameIds ? `w${slot}` : `w${slot}-${life}`,
      planner: this.#planner(),
      clock: mortal.clock,
      random: seededRandom(hash32(SEED, `worker ${slot} ${life}`)),
      config: this.#case.config ?? {},
    });
    const process: Process = Object.assign(mortal, { slot, worker });
    this.#processes[slot] = process;
    worker
      .run((grant) => this.#handle(process, grant))
      .then(
        () => {
          this.#hasVerdict = true;
        },
        () => {
          // A supervisor starts what fails again, as it does what dies.
          if (!process.isDead) this.#kill(process);
        },
      );
  }

  #kill(process: Process): void {
    if (process.isDead) return;
    process.die();
    const { slot } = process;
    this.#lives += 1;
    const life = this.#lives;
    this.#clock.setTimeout(() => {
      this.#spawn(slot, life);
    }, RESTART_MS);
  }

  #planner(): Planner {
    const { splits, isEndless = false } = this.#case;
    return {
      fingerprint: () => 'outage',
      plan: () => ({
        splits: Array.from({ length: splits }, (_, index) => ({
          id: `s${index}`,
          descriptor: `rows of ${index}`,
        })),
        finality: isEndless ? 'open' : 'final',
      }),
    };
  }

  async #handle(process: Process, grant: Grant): Promise<void> {
    const { stepMs, isEndless = false } = this.#case;
    const split = this.#splits.get(grant.split.id)!;
    const steps = this.#stepsOf(split);
    split.firstMs ??= this.#nowMs;
    const sleep = (ms: number): Promise<void> => sleepOn(process.clock, ms, grant.lost);
    for (let at = Number(grant.progress?.watermark ?? 0n); isEndless || at < steps; at += 1) {
      await this.#poison(process, split, at, sleep);
      await this.#fail(process, split, sleep);
      await sleep(stepMs);
      await this.#fail(process, split, sleep);
      if (grant.lost.aborted) return;
      await grant.commit({ watermark: at + 1 });
      this.#progressed(grant.split.id);
      if (grant.draining.requested) return;
    }
    await grant.complete();
    this.#done += 1;
  }

  #stepsOf({ index }: SplitSight): number {
    const { steps, splits, isSpread = false } = this.#case;
    if (!isSpread) return steps;
    const share = ((index * SPREAD) % splits) / splits;
    return Math.max(1, Math.round(steps * (0.2 + 1.6 * share)));
  }

  async #poison(
    process: Process,
    { poison }: SplitSight,
    at: number,
    sleep: (ms: number) => Promise<void>,
  ): Promise<void> {
    if (poison === undefined || at < (poison.atStep ?? 0)) return;
    await sleep(poison.afterMs);
    if (poison.by === 'failure') throw new Error('cannot be read');
    this.#kill(process);
    await new Promise(() => undefined);
  }

  /** Fails while what it calls is away. */
  async #fail(
    process: Process,
    split: SplitSight,
    sleep: (ms: number) => Promise<void>,
  ): Promise<void> {
    const { trouble } = this.#case;
    if (trouble === undefined || trouble.kind === 'crashes' || !this.#isOn(trouble)) return;
    const strikes =
      trouble.kind === 'downstream'
        ? trouble.of === 'all' || split.index % 2 === 1
        : process.slot === trouble.worker;
    if (!strikes) return;
    await sleep(trouble.failsAfterMs);
    throw new Error('connect ECONNREFUSED');
  }

  #isOn(trouble: Trouble): boolean {
    return this.#nowMs >= trouble.atMs && this.#nowMs < endOf(trouble);
  }

  #crashAgainAndAgain(trouble: Extract<Trouble, { kind: 'crashes' }>): void {
    const crash = (slot: number): void => {
      if (!this.#isOn(trouble)) return;
      this.#kill(this.#processes[slot]!);
      this.#clock.setTimeout(() => {
        crash(slot);
      }, RESTART_MS + trouble.lifeMs);
    };
    for (const slot of trouble.workers) {
      this.#clock.setTimeout(() => {
        crash(slot);
      }, trouble.atMs);
    }
  }

  #progressed(id: string): void {
    if (this.#toResume === null || this.#resumedMs !== null) return;
    this.#resumed.add(id);
    if (this.#resumed.size < this.#toResume) return;
    this.#resumedMs = this.#nowMs - endOf(this.#case.trouble!);
  }

  #watchParked(): void {
    const prefix = this.#keys.root + KEY_PREFIXES.parked;
    this.#store.watch({ prefix }, this.#store.revision).subscribe({
      next: (event) => {
        if (event.kind !== 'changes') return;
        for (const { key, entry } of event.changes) {
          const split = this.#splits.get(key.slice(prefix.length));
          if (entry === null || split === undefined) continue;
          split.parkedMs = this.#nowMs;
          if (split.poison === undefined) continue;
          this.#found += 1;
          this.#lastFoundMs = this.#nowMs;
        }
      },
    });
  }

  #outcome(): Outcome {
    const { isEndless = false, endsWhenFound = false, trouble } = this.#case;
    const endMs = trouble === undefined ? 0 : endOf(trouble);
    let found = 0;
    let foundMs: number | null = null;
    const innocent: string[] = [];
    let unfinished = 0;
    const stored = this.#statuses();
    for (const [id, { poison, firstMs, parkedMs }] of this.#splits) {
      const status = stored.get(id);
      if (poison === undefined) {
        if (status === 'quarantined') innocent.push(id);
        else if (status !== 'completed' && !isEndless && !endsWhenFound) unfinished += 1;
      } else if (status === 'quarantined') {
        found += 1;
        const tookMs = parkedMs! - Math.max(firstMs!, endMs);
        foundMs = Math.max(foundMs ?? 0, Math.round(tookMs));
      }
    }
    return {
      poison: this.#case.poison?.length ?? 0,
      poisonFound: found,
      foundMs,
      innocent: innocent.length,
      unfinished,
      resumedMs: this.#resumedMs === null ? null : Math.round(this.#resumedMs),
    };
  }

  #statuses(): Map<string, SplitStatus> {
    const prefix = this.#keys.root + KEY_PREFIXES.splits;
    const statuses = new Map<string, SplitStatus>();
    for (const { key, value } of this.#store.dump(prefix)) {
      const decoded = splitCodec.decode(value);
      if (decoded.kind === 'record') {
        statuses.set(key.slice(prefix.length), decoded.record.status);
      }
    }
    return statuses;
  }
}

/** When it is over. */
function endOf({ atMs, forMs }: Trouble): number {
  return atMs + forMs;
}

/** Waits, at most until a signal fires. */
function sleepOn(
  clock: Pick<VirtualClock, 'setTimeout' | 'clearTimeout'>,
  ms: number,
  signal: AbortSignal,
): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const end = (): void => {
      clock.clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = clock.setTimeout(end, ms);
    signal.addEventListener('abort', end);
  });
}
