/** What once broke a promise, and must not again. */
import type {
  Scenario,
  ScenarioSplit,
  ScenarioWorker,
} from '../../../src/testing/simulation/scenario.ts';

/** Seeds of full size. A change of what is drawn makes other scenarios of them; those below stay as they are. */
export const KEPT_SEEDS: readonly number[] = [25, 45, 138];

/** The smallest scenarios that showed a mistake, by what it was. */
export const KEPT_SCENARIOS: [name: string, scenario: Scenario][] = [
  [
    'a leader that has not heard of a claim at the cap tries to set the split aside again and again',
    {
      ...scenarioOf(1),
      config: { ...config(3_000), maxAttempts: 2 },
      workers: [worker('w0', 0, 0), worker('w1', 4, 500), worker('w2', 4, 3_000)],
      splits: [split({ steps: 2, stepMs: 60_000 })],
      durationMs: 20_000,
      acts: [
        { atMs: 4_000, do: 'crash', worker: 1, restartAfterMs: null, as: 'same' },
        {
          atMs: 8_000,
          do: 'events',
          worker: 0,
          fault: 'delayEvents',
          chance: 1,
          forMs: 10_000,
          spanMs: 10_000,
        },
      ],
    },
  ],
  [
    'a session is given back to the store before its handlers hear of the loss',
    {
      ...scenarioOf(37),
      config: config(2_800),
      workers: [worker('w0', 5, 4_877), worker('w1', 5, 188)],
      splits: [split({ steps: 18, stepMs: 536 })],
      durationMs: 10_564,
      acts: [{ atMs: 8_272, do: 'partition', worker: 1, forMs: 2_078, side: 'both', silent: true }],
    },
  ],
  [
    'a split that is set aside and put back while both events are late is never served again',
    {
      ...scenarioOf(459),
      config: { ...config(3_000), maxAttempts: 2, reconcileIntervalMs: 3_000 },
      workers: [worker('w0', 4, 0)],
      finality: 'open',
      splits: [{ ...split({ steps: 9, stepMs: 500 }), poison: 'throws' }],
      durationMs: 20_000,
      acts: [
        { atMs: 100, do: 'requeue', forMs: 18_000, afterMs: 50 },
        {
          atMs: 200,
          do: 'events',
          worker: 0,
          fault: 'delayEvents',
          chance: 1,
          forMs: 19_000,
          spanMs: 8_000,
        },
      ],
    },
  ],
];

function scenarioOf(seed: number): Scenario {
  return {
    seed,
    config: {},
    latencyMs: 0,
    expiryLagMs: 0,
    workers: [],
    finality: 'final',
    planRuns: 1,
    planner: [],
    splits: [],
    splitMs: 0,
    durationMs: 0,
    faultsMin: 0,
    acts: [],
  };
}

function config(leaseDurationMs: number): Scenario['config'] {
  return {
    leaseDurationMs,
    opTimeoutMs: 1_000,
    rebalanceDelayMs: 3_000,
    drainDeadlineMs: 3_000,
    replanIntervalMs: 3_000,
  };
}

function worker(id: string, maxInFlight: number, startAtMs: number): ScenarioWorker {
  return { id, maxInFlight, startAtMs, clockRate: 1, wallOffsetMs: 0 };
}

function split(fields: Pick<ScenarioSplit, 'steps' | 'stepMs'>): ScenarioSplit {
  return { id: 's0', weight: 1, drainMs: 0, poison: 'none', misdeeds: [], ...fields };
}
