/** What a leader reads before it decides anything: who was assigned what, then every split, once (R24). */
import { KEY_PREFIXES } from '../../records/keys.ts';
import type { Core } from '../link/core.ts';
import { FollowedRange, followEffects, type FollowMachine } from '../link/followed-range.ts';
import type { AwayNotes } from './away-notes.ts';
import type { SplitReader } from './split-reader.ts';
import type { Term } from './term.ts';

/** Effects of the range of assignments, for all terms of one worker. */
export class AssignmentsWatch {
  range: FollowedRange | null = null;
  readonly machine: FollowMachine = followEffects(() => this.range ?? undefined);
}

/** What of a term is filled when it opens. */
export interface TermParts {
  readonly term: Term;
  readonly reader: SplitReader;
  readonly away: AwayNotes;
  readonly watch: AssignmentsWatch;
}

export class TermOpening {
  readonly #core: Core;
  readonly #term: Term;
  readonly #reader: SplitReader;
  readonly #ready: () => void;
  readonly #away: AwayNotes;
  readonly #watch: AssignmentsWatch;
  /** Splits are read once, after the first listing of the assignments. */
  #step: 'assignments' | 'splits' = 'assignments';

  constructor(core: Core, { term, reader, away, watch }: TermParts, ready: () => void) {
    this.#core = core;
    this.#term = term;
    this.#reader = reader;
    this.#ready = ready;
    this.#away = away;
    this.#watch = watch;
  }

  start(): void {
    const name = KEY_PREFIXES.assign;
    const range = new FollowedRange(
      { ...this.#core, gate: this.#core.leaderGate },
      { range: { prefix: this.#core.keys.root + name }, name },
      {
        listed: () => {
          this.#term.worked('reading assignments');
          if (this.#step === 'assignments') this.#load();
        },
        failed: () => {
          this.#term.failed('reading assignments');
        },
        // The watches of what all follow hear of it too.
        reset: () => undefined,
      },
    );
    this.#watch.range = range;
    range.begin(this.#watch.machine);
  }

  /** The backstop for lost events on `assign/`. */
  check(): void {
    this.#watch.range?.check();
  }

  close(): void {
    this.#watch.range?.close();
    this.#watch.range = null;
  }

  /** Reads who is missing and every split, then says that the term is ready. */
  #load(): void {
    this.#step = 'splits';
    this.#term.run(
      () => Promise.all([this.#away.read(), this.#reader.load()]),
      () => {
        this.#ready();
      },
    );
  }
}
