/** A thread of `test/tools/simulate.ts`: runs the seeds that it is handed. */
import { parentPort } from 'node:worker_threads';
import { type ScenarioSize, scenarioOf } from '../../src/testing/simulation/draw.ts';
import { runScenario } from '../../src/testing/simulation/runner.ts';
import { added, NO_RUNS, type Tally, tallyOf } from '../../src/testing/simulation/tally.ts';

/** Seeds to run, the last one not included. */
export interface Job {
  readonly from: number;
  readonly to: number;
  readonly size: ScenarioSize;
}

/** Runs the scenarios of some seeds, one after the other. */
export async function runJob({ from, to, size }: Job): Promise<Tally> {
  // Errors are values here, made by the thousand; nobody reads far down their stacks.
  Error.stackTraceLimit = 5;
  let tally = NO_RUNS;
  for (let seed = from; seed < to; seed += 1) {
    tally = added(tally, tallyOf((await runScenario(scenarioOf(seed, size))).report));
  }
  return tally;
}

if (parentPort !== null) {
  const port = parentPort;
  port.on('message', (job: Job) => {
    void runJob(job).then((tally) => port.postMessage(tally));
  });
}
