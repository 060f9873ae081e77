/** What a leader reads before it decides anything: who was assigned what, then every split, once (R24). */
import { isLeaseholdError } from '../../base/errors.ts';
import { KEY_PREFIXES } from '../../records/keys.ts';
import type { Range } from '../../store/port.ts';
import type { Core } from '../link/core.ts';
import { RangeWatcher } from '../link/range-watcher.ts';
import type { SplitReader } from './split-reader.ts';
import type { Term } from './term.ts';

const READ_RETRY_MS = 200;

export class TermOpening {
  readonly #core: Core;
  readonly #term: Term;
  readonly #reader: SplitReader;
  readonly #ready: () => void;
  readonly #assignments: RangeWatcher;
  #isLoading = false;

  constructor(core: Core, term: Term, reader: SplitReader, ready: () => void) {
    this.#core = core;
    this.#term = term;
    this.#reader = reader;
    this.#ready = ready;
    const range: Range = { prefix: core.keys.root + KEY_PREFIXES.assign };
    this.#assignments = new RangeWatcher(range, core.gate, core.clock, {
      onListing: (entries, revision) => {
        core.view.list(range, entries, revision);
        this.#load();
      },
      onChanges: (changes) => {
        for (const change of changes) core.view.apply(change);
      },
      // The follower's own watches hear of it too.
      onReset: () => undefined,
    });
  }

  start(): void {
    this.#core.mailbox.connect(this.#assignments.messages);
    this.#assignments.start();
  }

  /** The backstop for lost events on `assign/`. */
  relist(): void {
    this.#assignments.relist();
  }

  close(): void {
    this.#assignments.close();
  }

  /** Reads every split, then says that the term is ready. */
  #load(): void {
    const { gate, keys, mailbox, clock } = this.#core;
    const term = this.#term;
    if (term.isOver || this.#isLoading) return;
    gate.readAll({ prefix: keys.root + KEY_PREFIXES.splits }).then(
      ({ entries }) => {
        mailbox.post(() => {
          if (term.isOver || this.#isLoading) return;
          this.#isLoading = true;
          void this.#reader.load(entries).then((isLoaded) => {
            mailbox.post(() => {
              if (!isLoaded || term.isOver) return;
              term.isReady = true;
              this.#ready();
            });
          });
        });
      },
      (error: unknown) => {
        if (!isLeaseholdError(error)) throw error;
        clock.setTimeout(() => {
          mailbox.post(() => {
            this.#load();
          });
        }, READ_RETRY_MS);
      },
    );
  }
}
