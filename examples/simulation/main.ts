/** Finds the bug in `careless`: `node --import tsx examples/simulation/main.ts`. */
import { simulate } from '../../src/testing/index.ts';
import { careful, careless, planner } from './orders.ts';

for (const handler of [careless, careful]) {
  const { runs, takeovers, violations } = await simulate({ planner, handler, runs: 50 });
  console.log(`${handler.name}: ${runs} runs, ${takeovers} takeovers`);
  console.log(violations[0] ?? 'no promise was broken');
}
