/**
 * What the generated paths are worth: a chart with any one mistake must fail them in the running worker.
 *
 * Of each mutant only the shortest paths that pass the place of the mistake are walked.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type AnyMachineSnapshot, initialTransition, transition } from 'xstate';
import type { ChartName } from '../../../machines/index.ts';
import { transitionName } from '../drive.ts';
import { type Mutant, mutantsOf } from './mutants.ts';
import type { Part, Path } from './parts/part.ts';
import { PARTS } from './parts/index.ts';
import { UNNOTICED } from './unnoticed.ts';
import { pathsOf, walk } from './walk.ts';

/** Paths tried on one mutant. */
const PATHS_MAX = 150;

interface Route {
  readonly part: Part;
  readonly path: Path;
  readonly transitions: ReadonlySet<string>;
}

function routesOf(name: ChartName): Route[] {
  const routes = PARTS[name].flatMap((part) =>
    pathsOf(part).map((path) => ({ part, path, transitions: transitionsOn(part, path) })),
  );
  return routes.toSorted((a, b) => a.path.length - b.path.length);
}

/** The transitions that a path takes in the pure chart. */
function transitionsOn({ chart, input }: Part, path: Path): Set<string> {
  const taken = new Set<string>();
  let at: AnyMachineSnapshot = initialTransition(chart.machine, input as never)[0];
  for (const event of path) {
    for (const one of chart.machine.getTransitionData(at, event)) taken.add(transitionName(one));
    at = transition(chart.machine, at, event)[0];
  }
  return taken;
}

/** A bug in a worker is thrown where nobody catches it, or goes round for ever; a mutant may well cause one. */
const crashes: unknown[] = [];
const { queueMicrotask: queue } = globalThis;
/** Far above what any path needs. */
const TURNS_MAX = 20_000;
let turns = 0;

beforeAll(() => {
  globalThis.queueMicrotask = (act) => {
    turns += 1;
    if (turns > TURNS_MAX) {
      crashes.push('it goes round for ever');
      return;
    }
    queue(() => {
      try {
        act();
      } catch (error) {
        crashes.push(error);
      }
    });
  };
});

afterAll(() => {
  globalThis.queueMicrotask = queue;
});

/** What a walk noticed; null when it noticed nothing. */
async function noticed({ transitions, replace }: Mutant, routes: readonly Route[]) {
  const passing = routes.filter(
    (route) => transitions.length === 0 || transitions.some((one) => route.transitions.has(one)),
  );
  const before = crashes.length;
  for (const { part, path } of passing.slice(0, PATHS_MAX)) {
    turns = 0;
    const { fault } = await walk(part, path, { replace });
    if (fault !== null) return fault;
    if (crashes.length > before) return String(crashes.at(-1));
  }
  return null;
}

describe.each(Object.keys(PARTS) as ChartName[])('mutants of %s', (name) => {
  test(`mutants - every mistake in ${name} fails a path`, async () => {
    const routes = routesOf(name);
    const unreachable = PARTS[name].flatMap((part) => part.unreachable ?? []);
    const isReachable = (mutant: Mutant): boolean =>
      !unreachable.some(({ transition: one }) => mutant.transitions.join() === one);
    const mutants = mutantsOf(name).filter(isReachable);
    const unnoticed: string[] = [];
    for (const mutant of mutants) {
      if ((await noticed(mutant, routes)) === null) unnoticed.push(mutant.name);
    }
    const caught = mutants.length - unnoticed.length;
    process.stdout.write(`${name}: ${caught}/${mutants.length} mistakes noticed\n`);
    expect(unnoticed.toSorted()).toEqual(Object.keys(UNNOTICED[name]).toSorted());
  }, 240_000);
});
