/** Scenarios for fast-check: drawn whole from one seed, shrunk by leaving parts of them out. */
import fc from 'fast-check';
import { scenarioOf, type ScenarioSize } from '../../../src/testing/simulation/draw.ts';
import type { Scenario } from '../../../src/testing/simulation/scenario.ts';
import { smallerScenarios } from '../../../src/testing/simulation/shrink.ts';

class ScenarioArbitrary extends fc.Arbitrary<Scenario> {
  readonly #size: ScenarioSize;

  constructor(size: ScenarioSize) {
    super();
    this.#size = size;
  }

  override generate(random: fc.Random): fc.Value<Scenario> {
    const seed = random.nextInt(0, 2 ** 32 - 1);
    return new fc.Value(scenarioOf(seed, this.#size), undefined);
  }

  override canShrinkWithoutContext(value: unknown): value is Scenario {
    return typeof value === 'object' && value !== null && 'acts' in value;
  }

  override shrink(scenario: Scenario): fc.Stream<fc.Value<Scenario>> {
    const smaller = fc.stream(smallerScenarios(scenario));
    return smaller.map((candidate) => new fc.Value(candidate, undefined));
  }
}

/** Any scenario of a size. */
export function scenarios(size: ScenarioSize): fc.Arbitrary<Scenario> {
  return new ScenarioArbitrary(size);
}
