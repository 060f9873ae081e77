/**
 * Reads that may wait travel together, as one transaction of etcd: a process with many jobs looks at many small ranges, and
 * each call by itself costs more than what it asks for.
 *
 * One that fails for a reason of its own must not cost the others their answers: then each is asked for alone.
 */
import type { Clock, Timer } from '../../base/clock.ts';
import { isLeaseholdError } from '../../base/errors.ts';
import type { IRequestOp, ITxnResponse } from './etcd3.ts';

/** What is read: some ranges, at one revision. */
export interface RangesAsked {
  readonly operations: readonly IRequestOp[];
  readonly timeoutMs: number;
  /** Its answer may have one entry only, which is never refused for its size. */
  readonly isSingle: boolean;
}

/** The answers, one for each range. */
export type RangesFound = Pick<ITxnResponse, 'header' | 'responses'>;

/** Why nothing was found: see reader.ts. */
export type NotFound = 'compacted' | 'tooLarge';

type Ask = (asked: RangesAsked) => Promise<RangesFound | NotFound>;

interface Waiting extends RangesAsked {
  readonly endMs: number;
  readonly resolve: (found: Promise<RangesFound | NotFound>) => void;
}

/** Most operations that travel together, as etcd counts them. */
const OPERATIONS_MAX = 128;

export class SharedReads {
  readonly #ask: Ask;
  readonly #clock: Clock;
  #waiting: Waiting[] = [];
  #operations = 0;
  #timer: Timer | undefined;
  #leavesMs = Infinity;

  constructor(ask: Ask, clock: Clock) {
    this.#ask = ask;
    this.#clock = clock;
  }

  /** Answers when it has travelled, `patienceMs` from now at the latest. */
  ask(asked: RangesAsked, patienceMs: number): Promise<RangesFound | NotFound> {
    const { length } = asked.operations;
    if (this.#operations + length > OPERATIONS_MAX) this.leave();
    const nowMs = this.#clock.nowMs();
    return new Promise((resolve) => {
      this.#waiting.push({ ...asked, endMs: nowMs + asked.timeoutMs, resolve });
      this.#operations += length;
      if (nowMs + patienceMs >= this.#leavesMs) return;
      this.#clearTimer();
      this.#leavesMs = nowMs + patienceMs;
      this.#timer = this.#clock.setTimeout(() => {
        this.leave();
      }, patienceMs);
    });
  }

  /** Whoever waits travels now. */
  leave(): void {
    this.#clearTimer();
    const together = this.#waiting;
    this.#waiting = [];
    this.#operations = 0;
    const [first, ...others] = together;
    if (first === undefined) return;
    if (others.length === 0) first.resolve(this.#alone(first));
    else this.#together(together);
  }

  #alone(waiting: Waiting): Promise<RangesFound | NotFound> {
    return this.#ask({ ...waiting, timeoutMs: this.#leftMs(waiting) });
  }

  #together(all: readonly Waiting[]): void {
    const timeoutMs = Math.min(...all.map((waiting) => this.#leftMs(waiting)));
    const operations = all.flatMap((waiting) => waiting.operations);
    const answer = this.#ask({ operations, timeoutMs, isSingle: false });
    const isOwnFault = answer.then(
      (found) => typeof found === 'string',
      (error: unknown) => isLeaseholdError(error) && error.kind === 'fatal',
    );
    let position = 0;
    for (const waiting of all) {
      const start = position;
      position += waiting.operations.length;
      const end = position;
      const partOf = (found: RangesFound | NotFound): RangesFound | NotFound =>
        typeof found === 'string'
          ? found
          : { header: found.header, responses: found.responses.slice(start, end) };
      waiting.resolve(
        isOwnFault.then((isFault) => (isFault ? this.#alone(waiting) : answer.then(partOf))),
      );
    }
  }

  #leftMs({ endMs }: Waiting): number {
    return Math.max(1, endMs - this.#clock.nowMs());
  }

  #clearTimer(): void {
    if (this.#timer !== undefined) this.#clock.clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#leavesMs = Infinity;
  }
}
