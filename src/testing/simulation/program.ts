/** What the workers of a simulation run: a planner and a handler, with what the simulation adds to a grant. */
import type { Planner } from '../../coordinator/api/api.ts';
import type { Grant } from '../../driver/grant.ts';
import type { Clock } from '../../base/clock.ts';
import type { Random } from '../../base/random.ts';

/** What a handler has beside its grant; may be taken apart. Time and chance come from here and from nowhere else. */
export interface HandlerContext {
  /** Instance id of the process that it runs in. */
  readonly instance: string;
  /** The clock of its process: it can be frozen, run fast or slow, and its wall clock can be wrong. */
  readonly clock: Clock;
  readonly random: Random;
  /**
   * Resolves after `ms` milliseconds on the clock of the process; never, when the process dies first.
   *
   * @param signal  Ends it early when it fires; it resolves then too.
   */
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>;
  /** Tells that the handler writes to another system now. After `grant.lost` fired that is a violation. */
  readonly wrote: (what: string) => void;
  /** The whole process is blocked from the next `await` on, as by a busy loop; resolves when it is over. */
  readonly block: (ms: number) => Promise<void>;
  /** The process dies on the spot: nothing of it runs any more. Never resolves. */
  readonly kill: () => Promise<never>;
}

/** Works on one split for one tenancy, inside a simulation. */
export type SimulatedHandler = (grant: Grant, context: HandlerContext) => Promise<void> | void;

/** What all workers of a simulation run. */
export interface Program {
  /** Called once for each process. `clock` is that of the process. */
  readonly planner: (clock: Clock) => Planner;
  readonly handler: SimulatedHandler;
}
