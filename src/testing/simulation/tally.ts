/** Adds the reports of many runs up. */
import type { RunReport } from './runner.ts';
import type { SimulationViolation } from './violation.ts';

/** A broken promise, and the run that broke it. */
export interface RunViolation extends SimulationViolation {
  readonly seed: number;
}

/** What came of many runs. JSON. */
export interface Tally {
  readonly runs: number;
  readonly events: number;
  readonly commits: number;
  readonly takeovers: number;
  readonly faults: Readonly<Record<string, number>>;
  readonly violations: readonly RunViolation[];
}

export const NO_RUNS: Tally = {
  runs: 0,
  events: 0,
  commits: 0,
  takeovers: 0,
  faults: {},
  violations: [],
};

/** One run as a tally. */
export function tallyOf({ seed, events, commits, takeovers, ...report }: RunReport): Tally {
  const violations = report.violations.map((violation) => ({ seed, ...violation }));
  return { runs: 1, events, commits, takeovers, faults: report.faults, violations };
}

/** Two tallies as one, whichever comes first. */
export function added(a: Tally, b: Tally): Tally {
  const faults: Record<string, number> = {};
  for (const kind of [...new Set([...Object.keys(a.faults), ...Object.keys(b.faults)])].sort()) {
    faults[kind] = (a.faults[kind] ?? 0) + (b.faults[kind] ?? 0);
  }
  return {
    runs: a.runs + b.runs,
    events: a.events + b.events,
    commits: a.commits + b.commits,
    takeovers: a.takeovers + b.takeovers,
    faults,
    violations: [...a.violations, ...b.violations].sort((one, two) => one.seed - two.seed),
  };
}
