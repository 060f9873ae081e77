/**
 * One worker's whole life over the memory store: it joins a job that another worker leads, finds it without leader and plan,
 * plans, divides and works, is paused, loses its plan, ends the job and leaves. Whatever is to go wrong goes wrong on the way.
 */
import type { PlanAnswer, Planner } from '../../../../src/coordinator/api/api.ts';
import type { WorkerConfig } from '../../../../src/coordinator/api/config.ts';
import type { StoreCall } from '../../../../src/store/faults.ts';
import { Stage } from '../stage.ts';
import { Recorder } from './recorder.ts';

/** When what happens, in milliseconds of the life. */
export const TIMES = {
  orphaned: 3_000,
  paused: 12_000,
  resumed: 13_000,
  planLost: 16_000,
  done: 34_000,
  /** Nothing of what went wrong before fails any more. */
  healed: 60_000,
  doneAgain: 63_000,
  leaving: 100_000,
  over: 160_000,
} as const;

const CHECK_MS = 8_000;
const SPLITS = ['s1', 's2'];

export interface LifeOptions {
  readonly config?: Partial<WorkerConfig>;
  readonly plan?: () => PlanAnswer;
  /** A service that does nothing of what it is asked. */
  readonly isDeaf?: boolean;
}

const finalPlan = (): PlanAnswer => ({
  splits: SPLITS.map((id) => ({ id, descriptor: id })),
  finality: 'final',
});

export class Life {
  readonly recorder = new Recorder();
  readonly stage: Stage;
  /** Held splits by epoch. */
  readonly #held = new Map<string, string>();
  readonly #isDeaf: boolean;
  isOver = false;

  constructor({ config, plan = finalPlan, isDeaf = false }: LifeOptions = {}) {
    this.#isDeaf = isDeaf;
    const planner: Planner = { fingerprint: () => 'plan:v1', plan };
    this.stage = new Stage({
      config: { reconcileIntervalMs: CHECK_MS, startupMaxAttempts: 1_000, ...config },
      planner,
      replace: this.recorder.replace,
    });
    const { probe, worker, hand } = this.stage;
    this.recorder.probe = probe;
    worker.listen((event) => {
      if (event.type === 'gained') this.#held.set(event.split.id, event.epoch);
      else if (event.type === 'lost') this.#held.delete(event.splitId);
      else if (event.type === 'revokeRequested') this.#drain(event.splitId);
      else if (event.type === 'revokeCancelled' && !isDeaf) worker.resumeIntake(event.splitId);
    });
    hand.plan({ planned: 0, sealed: false, finality: 'open' });
    hand.lead();
  }

  /** Lets the whole life pass; `trouble` may begin at `fromMs`, and ends `forMs` later. */
  async live(trouble: () => void, { fromMs, healedMs }: Span): Promise<void> {
    const { stage } = this;
    const { hand, keys, worker, client } = stage;
    if (fromMs === 0) trouble();
    const acts: [number, () => void][] = [
      ...(fromMs === 0 ? [] : [[fromMs, trouble] as [number, () => void]]),
      [healedMs, () => client.clearRules()],
      [
        TIMES.orphaned,
        () => {
          hand.remove(keys.plan);
          hand.remove(keys.leader);
        },
      ],
      [TIMES.paused, () => hand.wish(keys.paused)],
      [TIMES.resumed, () => hand.remove(keys.paused)],
      [TIMES.planLost, () => hand.remove(keys.plan)],
      [TIMES.planLost + 1, () => worker.handlerOutlives('x')],
      [TIMES.done, () => this.#complete()],
      [TIMES.doneAgain, () => this.#complete()],
      [TIMES.leaving, () => void worker.stop().then(() => (this.isOver = true))],
    ];
    stage.start();
    for (const [atMs, act] of acts.toSorted(([a], [b]) => a - b)) {
      await stage.clock.advance(Math.max(0, atMs - stage.clock.nowMs()));
      act();
    }
    await stage.until(() => this.isOver, TIMES.over - TIMES.leaving);
  }

  /** The next transaction of this kind finds that somebody wrote between. */
  conflictOn(picks: (call: StoreCall) => boolean): void {
    const { store } = this.stage;
    this.#once(picks, (call) => {
      if (call.kind !== 'transact') return;
      for (const { key } of call.batch.txns.flatMap(({ compares }) => compares)) {
        const entry = this.stage.entry(key);
        if (entry !== undefined) store.put(key, entry.value, entry.session);
      }
    });
  }

  /** The sessions of this worker are gone when its next call of this kind comes. */
  loseSessionsOn(picks: (call: StoreCall) => boolean): void {
    const { store } = this.stage;
    this.#once(picks, () => {
      for (const session of store.liveSessions) store.expireSession(session);
    });
  }

  #once(picks: (call: StoreCall) => boolean, act: (call: StoreCall) => void): void {
    let isDue = true;
    const watches = (call: StoreCall): boolean => {
      if (isDue && picks(call)) {
        isDue = false;
        act(call);
      }
      return false;
    };
    this.stage.client.when(watches).delay(0);
  }

  #drain(split: string): void {
    if (this.#isDeaf || split !== SPLITS[0]) return;
    queueMicrotask(() => {
      this.#held.delete(split);
      this.stage.worker.releaseDrained([split]).catch(() => undefined);
    });
  }

  #complete(): void {
    for (const split of this.#held.keys()) {
      this.stage.worker.commit(split, { watermark: 9, completed: true }).catch(() => undefined);
    }
  }
}

/** When something goes wrong, and when nothing does any more. */
export interface Span {
  readonly fromMs: number;
  readonly healedMs: number;
}
