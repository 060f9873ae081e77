/** Runs of simulated fleets as tests want them: a failure says how to see it again. */
import { expect } from '@jest/globals';
import { scenarioOf, type ScenarioSize } from '../../../src/testing/simulation/draw.ts';
import { runScenario } from '../../../src/testing/simulation/runner.ts';
import type { Scenario } from '../../../src/testing/simulation/scenario.ts';
import { added, NO_RUNS, type Tally, tallyOf } from '../../../src/testing/simulation/tally.ts';

/** Runs the scenarios of some seeds; fails with the command that replays the first one that breaks a promise. */
export async function keepsItsPromises(
  seeds: Iterable<number>,
  size: ScenarioSize = 'small',
): Promise<Tally> {
  let tally = NO_RUNS;
  for (const seed of seeds) tally = added(tally, await run(scenarioOf(seed, size)));
  const [first] = tally.violations;
  const option = size === 'full' ? '' : ` --size ${size}`;
  const replay = first === undefined ? '' : `npm run simulate -- --seed ${first.seed}${option}`;
  expect({ replay, violations: tally.violations }).toEqual({ replay: '', violations: [] });
  return tally;
}

export async function run(scenario: Scenario): Promise<Tally> {
  return tallyOf((await runScenario(scenario)).report);
}

/** `count` seeds from `first` on. */
export function seedsFrom(first: number, count: number): number[] {
  return Array.from({ length: count }, (_, index) => first + index);
}
