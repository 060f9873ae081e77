/** The planner and the handler of a generated scenario: what they do is in the scenario, split by split. */
import { fatalPlannerError } from '../../coordinator/api/planner-error.ts';
import type { PlanAnswer, Planner } from '../../coordinator/api/api.ts';
import type { Grant } from '../../driver/grant.ts';
import type { Clock } from '../../base/clock.ts';
import type { HandlerContext, Program } from './program.ts';
import type { Misdeed, ScenarioSplit } from './scenario.ts';
import type { World } from './world.ts';

/** Steps a calm handler takes before it completes. */
const CALM_STEP_MS = 20;

/** What the workers of a generated scenario run. */
export function scriptedProgram(world: World): Program {
  const script = new Script(world);
  return {
    planner: (clock) => script.planner(clock),
    handler: (grant, context) => script.handle(grant, context),
  };
}

class Script {
  readonly #world: World;
  readonly #splits = new Map<string, ScenarioSplit>();
  /** Tenancies of each split so far. */
  readonly #tenancies = new Map<string, number>();
  #plannerRuns = 0;
  #answers = 0;

  constructor(world: World) {
    this.#world = world;
    for (const split of world.scenario.splits) this.#splits.set(split.id, split);
  }

  planner(clock: Clock): Planner {
    return {
      fingerprint: () => 'simulation:v1',
      plan: async ({ signal }) => {
        const run = this.#world.isCalm
          ? undefined
          : this.#world.scenario.planner[this.#plannerRuns++];
        if (run === undefined) return this.#answer();
        this.#world.strike(`planner ${run.outcome}${run.delayMs > 0 ? ' late' : ''}`);
        await new Promise<void>((resolve) => {
          const timer = clock.setTimeout(resolve, run.delayMs);
          if (run.ignoresSignal) return;
          signal.addEventListener('abort', () => {
            clock.clearTimeout(timer);
            resolve();
          });
        });
        if (run.outcome === 'throws') throw new Error('the planner threw');
        if (run.outcome === 'fails') throw fatalPlannerError('the planner failed for good');
        return this.#answer();
      },
    };
  }

  /** The splits come bit by bit; a plan is final only once all of them are there. */
  #answer(): PlanAnswer {
    const { splits, planRuns, finality } = this.#world.scenario;
    this.#answers += 1;
    const share = this.#world.isCalm ? 1 : Math.min(1, this.#answers / planRuns);
    const listed = splits.slice(0, Math.ceil(splits.length * share));
    return {
      splits: listed.map(({ id, weight }) => ({ id, weight, descriptor: id })),
      finality: share === 1 ? finality : 'open',
    };
  }

  async handle(grant: Grant, context: HandlerContext): Promise<void> {
    const split = this.#splits.get(grant.split.id)!;
    const count = this.#tenancies.get(split.id) ?? 0;
    this.#tenancies.set(split.id, count + 1);
    const work = new Work(grant, context, split);
    if (split.poison !== 'none') await this.#poison(work);
    const misdeed = split.misdeeds[count];
    for (let step = 0; !grant.lost.aborted; step += 1) {
      if (misdeed?.afterSteps === step && !this.#world.isCalm) {
        const isOver = await this.#misbehave(misdeed, work);
        if (isOver) return;
      }
      if (this.#world.isCalm && this.#world.scenario.finality === 'open') {
        // In the calm of an open plan nothing ends any more: the handlers hold what they have.
        await this.#hold(grant, context);
        return;
      }
      const isOver = await this.#step(work);
      if (isOver) return;
    }
  }

  /** One step of the work, and the hand-over when it is asked for. True when the tenancy is over with it. */
  async #step(work: Work): Promise<boolean> {
    const { grant, context, split } = work;
    const { isCalm } = this.#world;
    await context.sleep(isCalm ? CALM_STEP_MS : split.stepMs);
    if (grant.draining.requested && !isCalm) await context.sleep(split.drainMs);
    if (grant.lost.aborted) return true;
    const isAsked = grant.draining.requested;
    const isLast = this.#world.isCalm || work.watermark + 1n >= BigInt(split.steps);
    if (isLast && !isAsked) {
      await work.complete();
      return true;
    }
    await work.commit();
    return isAsked;
  }

  async #poison(work: Work): Promise<never> {
    const { context, split } = work;
    this.#world.strike(`poison that ${split.poison}`);
    // No progress: it saves no attempt (R31).
    await work.standStill();
    if (split.poison === 'kills' && !this.#world.isCalm) await context.kill();
    throw new Error('poison');
  }

  async #hold(grant: Grant, context: HandlerContext): Promise<void> {
    while (!grant.lost.aborted && !grant.draining.requested) {
      await grant.draining.whenRequested();
      await context.sleep(0);
    }
  }

  /** True when the tenancy is over with it. */
  async #misbehave(misdeed: Misdeed, work: Work): Promise<boolean> {
    const { grant, context } = work;
    this.#world.strike(`handler ${misdeed.do}`);
    switch (misdeed.do) {
      case 'throw':
        throw new Error('the handler threw');
      case 'return':
        return true;
      case 'giveUp':
        await grant.release();
        return true;
      case 'stall':
        await context.sleep(misdeed.forMs);
        return false;
      case 'block':
        await context.block(misdeed.forMs);
        return false;
      case 'kill':
        return context.kill();
      case 'fallBack':
        await work.fallBack();
        return false;
      case 'deaf':
        await this.#beDeaf(misdeed.forMs, work);
        return false;
    }
  }

  /** Works on whatever it is told: what it commits after the loss must be refused. */
  async #beDeaf(forMs: number, work: Work): Promise<void> {
    const { context, split } = work;
    const endMs = context.clock.nowMs() + forMs;
    while (context.clock.nowMs() < endMs && !this.#world.isCalm) {
      await context.sleep(split.stepMs);
      await work.commit().catch(() => undefined);
    }
  }
}

/** The work of one tenancy. */
class Work {
  readonly grant: Grant;
  readonly context: HandlerContext;
  readonly split: ScenarioSplit;
  watermark: bigint;

  constructor(grant: Grant, context: HandlerContext, split: ScenarioSplit) {
    this.grant = grant;
    this.context = context;
    this.split = split;
    this.watermark = grant.progress?.watermark ?? 0n;
  }

  commit(): Promise<void> {
    return this.grant.commit(this.#next());
  }

  complete(): Promise<void> {
    return this.grant.complete(this.#next());
  }

  /** Commits what was committed once more. */
  async standStill(): Promise<void> {
    await this.grant.commit({ watermark: this.watermark });
  }

  /** Commits less than was committed: that must be refused, and changes nothing. */
  async fallBack(): Promise<void> {
    if (this.watermark === 0n) return;
    await this.grant.commit({ watermark: this.watermark - 1n }).catch(() => undefined);
  }

  #next(): { watermark: bigint; state: string } {
    this.watermark += 1n;
    return { watermark: this.watermark, state: `to ${this.watermark}` };
  }
}
