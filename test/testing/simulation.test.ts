import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { scenarioOf } from '../../src/testing/simulation/draw.ts';
import { runScenario } from '../../src/testing/simulation/runner.ts';
import { ACT_WEIGHTS, type Scenario } from '../../src/testing/simulation/scenario.ts';
import { shrink, smallerScenarios } from '../../src/testing/simulation/shrink.ts';
import { keepsItsPromises, run, seedsFrom } from './support/runs.ts';
import { scenarios } from './support/scenarios.ts';
import { KEPT_SCENARIOS, KEPT_SEEDS } from './support/kept.ts';

describe('simulation', () => {
  test('full size - is 3 to 7 workers, 5 to 60 splits and every kind of act, with 200 faults and more in the middle', async () => {
    const drawn = seedsFrom(1, 400).map((seed) => scenarioOf(seed));
    const counts = drawn.map(({ workers, splits }) => [workers.length, splits.length] as const);
    expect(Math.min(...counts.map(([workers]) => workers))).toBe(3);
    expect(Math.max(...counts.map(([workers]) => workers))).toBe(7);
    expect(Math.min(...counts.map(([, splits]) => splits))).toBe(5);
    expect(Math.max(...counts.map(([, splits]) => splits))).toBeGreaterThan(50);
    const kinds = new Set(drawn.flatMap(({ acts }) => acts.map((act) => act.do)));
    expect([...kinds].sort()).toEqual(Object.keys(ACT_WEIGHTS).sort());
    const tally = await keepsItsPromises(seedsFrom(1, 4), 'full');
    const struck = Object.values(tally.faults).reduce((sum, count) => sum + count, 0);
    expect(struck).toBeGreaterThan(4 * 200);
  });

  test('a seed - gives the same run each time, to the byte', async () => {
    for (const seed of [5, 6]) {
      const [first, second] = [
        await runScenario(scenarioOf(seed)),
        await runScenario(scenarioOf(seed)),
      ];
      expect(JSON.stringify(second.report)).toBe(JSON.stringify(first.report));
      expect(JSON.stringify(second.happenings)).toBe(JSON.stringify(first.happenings));
      expect(JSON.stringify(second.world.store.history())).toBe(
        JSON.stringify(first.world.store.history()),
      );
    }
  });

  test('a scenario - is plain JSON, and runs the same from its text', async () => {
    const scenario = scenarioOf(3, 'small');
    const copy = JSON.parse(JSON.stringify(scenario)) as Scenario;
    expect(await run(copy)).toEqual(await run(scenario));
  });

  test('kept seeds - that once broke a promise keep it', async () => {
    await keepsItsPromises(KEPT_SEEDS, 'full');
  });

  test.each(KEPT_SCENARIOS)('kept scenario - %s', async (_name, scenario) => {
    expect((await run(scenario)).violations).toEqual([]);
  });

  test('fleets of a new seed each time - keep every promise', async () => {
    await fc.assert(
      fc.asyncProperty(scenarios('small'), async (scenario) => {
        const { violations } = await run(scenario);
        expect({
          replay: `npm run simulate -- --size small --seed ${scenario.seed}`,
          violations,
        }).toEqual({
          replay: expect.any(String),
          violations: [],
        });
      }),
      { numRuns: 4 },
    );
  }, 90_000);
});

describe('shrinking', () => {
  /** Fails while worker 1 crashes and split s2 is planned. */
  const fails = async ({ acts, splits }: Scenario): Promise<boolean> =>
    acts.some((act) => act.do === 'crash') && splits.some(({ id }) => id === 's2');

  test('shrink - leaves one act, one split and one worker of a failure that needs no more', async () => {
    const { scenario, tries } = await shrink(scenarioOf(11), fails, 2_000);
    expect(scenario.acts.map((act) => act.do)).toEqual(['crash']);
    expect(scenario.splits.map(({ id }) => id)).toEqual(['s2']);
    expect(scenario.workers).toHaveLength(1);
    expect([scenario.latencyMs, scenario.expiryLagMs, scenario.planRuns]).toEqual([0, 0, 1]);
    expect(tries).toBeLessThan(300);
  });

  test('shrink - gives up when it has tried often enough', async () => {
    expect((await shrink(scenarioOf(11), fails, 3)).tries).toBe(3);
  });

  test('smaller scenarios - name no worker that is not there', () => {
    for (const seed of seedsFrom(1, 20)) {
      for (const { acts, workers } of smallerScenarios(scenarioOf(seed, 'small'))) {
        const named = acts.flatMap((act) => ('worker' in act ? [act.worker] : []));
        expect(Math.max(0, ...named)).toBeLessThan(workers.length);
      }
    }
  });

  test('fast-check - shrinks a scenario by the same steps', () => {
    const result = fc.check(
      fc.property(scenarios('small'), ({ acts }) => !acts.some((act) => act.do === 'calls')),
      { seed: 1, numRuns: 20, endOnFailure: false },
    );
    const [smallest] = result.counterexample!;
    expect(smallest.acts.map((act) => act.do)).toEqual(['calls']);
    expect([smallest.workers.length, smallest.splits.length]).toEqual([1, 1]);
  });
});
