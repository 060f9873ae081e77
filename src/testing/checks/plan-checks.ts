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
  /** By the leader's generation and process: in another store the same generation may come again. */
  readonly #answers = new Map<string, Answers>();
  readonly #planned = new Set<string>();
  #generation = 0;
  #leader = '';
  /** False for a run whose planners are not on its time line. */
  #hasHeard = false;

  /** Takes an answer of a planner in; `nonce` names its process. */
  heard(
    { generation, splits, finality }: Extract<Happening, { kind: 'planned' }>,
    nonce: string,
  ): void {
    this.#hasHeard = true;
    const leader = `${generation} ${nonce}`;
    const answers = this.#answers.get(leader) ?? { splits: new Set(), isFinal: false };
    this.#answers.set(leader, answers);
    for (const split of splits) answers.splits.add(split);
    answers.isFinal ||= finality === 'final';
  }

  /** Another store: nothing is planned in it, and nobody leads but who led in what was restored, with the answers of then. */
  replaced(): void {
    this.#planned.clear();
    this.#generation = 0;
    this.#leader = '';
  }

  /** What is wrong with a version of a leader, a spec or a plan. */
  *read({ kind, id, before, after, entry }: Version): Generator<Broken> {
    if (after === undefined) return;
    if (kind === 'leader') {
      const { generation, nonce } = after.record as LeaderRecord;
      this.#generation = generation;
      this.#leader = `${generation} ${nonce}`;
    }
    if (kind === 'specs') this.#planned.add(id);
    if (entry.isByHand === true) return;
    const isUnheard = !this.#hasHeard;
    const answers = this.#answers.get(this.#leader);
    if (kind === 'specs') {
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
