/** A quarter of the simulated fleets that every test run sees; `npm run simulate` runs more of them, and longer ones. */
import { describe, expect, test } from '@jest/globals';
import { keepsItsPromises, seedsFrom } from './support/runs.ts';

const RUNS = 74;

describe('simulated fleets', () => {
  test('fleets under faults - keep every promise (1 of 4)', async () => {
    const tally = await keepsItsPromises(seedsFrom(1_000, RUNS));
    expect(tally.runs).toBe(RUNS);
    expect(tally.commits).toBeGreaterThan(10 * RUNS);
    expect(tally.takeovers).toBeGreaterThan(RUNS);
  }, 180_000);
});
