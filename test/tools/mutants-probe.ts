/** Runs simulated fleets, seed after seed, until one breaks a promise; part of `test/tools/mutants.ts`, in a copy of the tree. */
import { scenarioOf } from '../../src/testing/simulation/draw.ts';
import { runScenario } from '../../src/testing/simulation/runner.ts';

/** What the probe prints. */
export interface Probe {
  /** Runs until the first broken promise, that one included; null when none was broken. */
  readonly runs: number | null;
  readonly check: string;
  readonly text: string;
}

const runsMax = Number(process.argv[2]);
const print = (probe: Probe): never => {
  console.log(JSON.stringify(probe));
  process.exit(0);
};

Error.stackTraceLimit = 3;
for (let seed = 1; seed <= runsMax; seed += 1) {
  // Who reads it knows how far it came, should this run never end.
  console.log(seed);
  // A promise that is broken so badly that the run itself ends in an error is broken too.
  const violations = await runScenario(scenarioOf(seed)).then(
    ({ report }) => report.violations,
    (error: unknown) => [{ check: 'crash', text: String(error) }],
  );
  const [first] = violations;
  if (first !== undefined)
    print({ runs: seed, check: first.check, text: first.text.slice(0, 300) });
}
print({ runs: null, check: '', text: '' });
