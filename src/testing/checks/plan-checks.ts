/** What leaders store must be what their planners have answered to them, in the same generation (R19, R21, R22). */
import type { LeaderRecord, PlanRecord } from '../../records/records.ts';
import type { Version } from './key-states.ts';
import { type Broken, broken } from './process-checks.ts';
import type { Happening } from './time-line.ts';

/** All answers of one generation. */
interface Answers {
  readonly splits: Set<string>;
  isFinal: boolean;
}

export class PlanChecker {
  readonly #answers = new Map<number, Answers>();
  readonly #planned = new Set<string>();
  #generation = 0;

  /** Takes an answer of a planner in. */
  heard({ generation, splits, finality }: Extract<Happening, { kind: 'planned' }>): void {
    const answers = this.#answers.get(generation) ?? { splits: new Set(), isFinal: false };
    this.#answers.set(generation, answers);
    for (const split of splits) answers.splits.add(split);
    answers.isFinal ||= finality === 'final';
  }

  /** What is wrong with a version of a leader, a spec or a plan. */
  *read({ kind, id, before, after, entry }: Version): Generator<Broken> {
    if (after === undefined || entry.isByHand === true) return;
    // A run whose planners are not on its time line.
    const isUnheard = this.#answers.size === 0;
    const answers = this.#answers.get(this.#generation);
    if (kind === 'leader') this.#generation = (after.record as LeaderRecord).generation;
    else if (kind === 'specs') {
      this.#planned.add(id);
      if (isUnheard || answers?.splits.has(id) === true) return;
      yield broken(
        'plan',
        `${id} was stored in generation ${this.#generation}, whose planner has not listed it`,
      );
    } else if (kind === 'plan') {
      const isSealed = (after.record as PlanRecord).sealed;
      const wasSealed = (before?.record as PlanRecord | undefined)?.sealed === true;
      if (isUnheard || !isSealed || wasSealed) return;
      if (answers?.isFinal !== true) {
        yield broken(
          'plan',
          `sealed in generation ${this.#generation}, whose planner has given no final answer`,
        );
      }
      const missing = [...(answers?.splits ?? [])].filter((split) => !this.#planned.has(split));
      if (missing.length > 0) {
        yield broken('plan', `sealed before ${missing.join(', ')} was stored`);
      }
    }
  }
}
