/** The time line of a run: what its processes and handlers did, with the revision of the store at which it happened. */
import type { RevokeReason, Verdict } from '../../coordinator/api/api.ts';

/** How a process stands to the world: only a running one can keep its promises. */
export type Disturbance =
  /** Stopped on the spot. */
  | 'frozen'
  /** Frozen, and its monotonic clock with it. */
  | 'suspended'
  /** A session or a key of it was taken away by hand. */
  | 'robbed';

/** One thing that happened. `process` and `tenancy` count from 0. */
export type Happening = { readonly atMs: number; readonly revision: number } & (
  | {
      readonly kind: 'started';
      readonly process: number;
      readonly instance: string;
      readonly nonce: string;
    }
  | { readonly kind: 'crashed'; readonly process: number }
  | { readonly kind: 'disturbed'; readonly process: number; readonly by: Disturbance }
  | { readonly kind: 'thawed'; readonly process: number }
  | { readonly kind: 'leads' | 'leadsNoMore'; readonly process: number }
  | { readonly kind: 'stopAsked'; readonly process: number }
  /** `code`: of the error it ended with. */
  | {
      readonly kind: 'left';
      readonly process: number;
      readonly verdict: Verdict | null;
      readonly code: string | null;
    }
  | {
      readonly kind: 'granted';
      readonly tenancy: number;
      readonly process: number;
      readonly split: string;
      readonly epoch: string;
      readonly watermark: string | null;
    }
  | { readonly kind: 'lost'; readonly tenancy: number }
  /** A process gives up a split because somebody else has it. */
  | { readonly kind: 'fenced'; readonly process: number; readonly split: string }
  | { readonly kind: 'returned'; readonly tenancy: number; readonly error: string | null }
  | {
      readonly kind: 'asked';
      readonly tenancy: number;
      readonly what: 'commit' | 'complete' | 'fail' | 'release';
      readonly watermark: string | null;
    }
  | {
      readonly kind: 'accepted';
      readonly tenancy: number;
      readonly what: 'commit' | 'complete' | 'fail' | 'release';
      readonly watermark: string | null;
      /** It was asked for after the loss of the grant. */
      readonly isLate: boolean;
    }
  | {
      readonly kind: 'refused';
      readonly tenancy: number;
      readonly what: 'commit' | 'complete' | 'fail' | 'release';
      readonly code: string;
    }
  /** A handler wrote somewhere else. */
  | { readonly kind: 'wrote'; readonly tenancy: number; readonly what: string }
  /** Its planner answered a request of that generation. */
  | {
      readonly kind: 'planned';
      readonly process: number;
      readonly generation: number;
      readonly splits: readonly string[];
      readonly finality: 'open' | 'final';
    }
  /** The handler is asked to hand its split back. */
  | { readonly kind: 'askedBack'; readonly tenancy: number; readonly reason: RevokeReason | null }
  /** The store does not let it do something, for a while. */
  | { readonly kind: 'denied'; readonly process: number }
  /** Another store has taken the place of the one before, after so many writes to all of them. */
  | { readonly kind: 'replaced'; readonly writes: number }
  /** Nothing moves any more, and nothing may until it is over: the faults have stopped and there is nothing to do. */
  | { readonly kind: 'rests' | 'restIsOver' }
  /** Nobody caught it. */
  | { readonly kind: 'uncaught'; readonly process: number | null; readonly text: string }
);

type Told<One> = One extends Happening ? Omit<One, 'atMs' | 'revision'> : never;

/** Collects the time line. */
export class Recorder {
  readonly happenings: Happening[] = [];
  readonly #nowMs: () => number;
  readonly #revision: () => number;

  constructor(nowMs: () => number, revision: () => number) {
    this.#nowMs = nowMs;
    this.#revision = revision;
  }

  /** Adds what happens now. */
  note(told: Told<Happening>): void {
    this.happenings.push({
      atMs: this.#nowMs(),
      revision: this.#revision(),
      ...told,
    });
  }
}
