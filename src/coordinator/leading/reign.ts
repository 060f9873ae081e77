/** What belongs to one term of leadership, and ends with it. */
import type { Core } from '../link/core.ts';
import type { SessionKeeper } from '../link/session-keeper.ts';
import type { Peers } from '../membership/peers.ts';
import { AwayNotes } from './away-notes.ts';
import type { Elected } from './election.ts';
import { FailureWatch } from './failure-watch.ts';
import { ProbeSweep } from './probe-sweep.ts';
import { SplitReader } from './split-reader.ts';
import { Term, type TermHooks } from './term.ts';
import { type AssignmentsWatch, TermOpening } from './term-opening.ts';

/** The parts of one term. */
export interface Reign {
  readonly term: Term;
  readonly reader: SplitReader;
  readonly failures: FailureWatch;
  readonly opening: TermOpening;
  readonly away: AwayNotes;
  readonly sweep: ProbeSweep;
}

/** What a term tells the leadership. */
export interface ReignHooks extends TermHooks {
  /** What the balance depends on has moved. */
  moved(): void;
  /** Everything that must be known was read. */
  ready(): void;
}

/** Puts a term together; nothing is read before its opening starts. */
export function newReign(
  core: Core,
  {
    peers,
    session,
    watch,
  }: { readonly peers: Peers; readonly session: SessionKeeper; readonly watch: AssignmentsWatch },
  elected: Elected,
  hooks: ReignHooks,
): Reign {
  const term = new Term(core, session, elected, hooks);
  const failures = new FailureWatch(core, peers, term.index);
  const reader = new SplitReader(core, { term, peers, failures }, () => {
    hooks.moved();
  });
  const away = new AwayNotes(core, term, peers);
  const opening = new TermOpening(core, { term, reader, away, watch }, () => {
    hooks.ready();
  });
  return { term, reader, failures, opening, away, sweep: new ProbeSweep(core, term) };
}
