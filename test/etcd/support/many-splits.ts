/** A plan that is too large to be written down in a test. */
import type { Planner } from '../../../src/index.ts';

const DESCRIPTOR_BYTES = 200;

/** A final plan of `count` splits, `m0` and so on; `asked` is called at each run. */
export function manySplits(count: number, asked: () => void): Planner {
  return {
    fingerprint: () => `many:${count}`,
    plan: () => {
      asked();
      return { splits: splitsOf(count), finality: 'final' };
    },
  };
}

function* splitsOf(count: number): Iterable<{ id: string; descriptor: string }> {
  for (let index = 0; index < count; index += 1) {
    const id = `m${index}`;
    yield { id, descriptor: id.padEnd(DESCRIPTOR_BYTES, '.') };
  }
}
