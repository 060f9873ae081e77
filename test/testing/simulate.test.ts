import { describe, expect, test } from '@jest/globals';
import { careful, careless, planner } from '../../examples/simulation/orders.ts';
import {
  simulate,
  type SimulatedHandler,
  type SimulationOptions,
} from '../../src/testing/index.ts';

/** The options with which a simulation is refused, by name. */
async function refusedFor(options: object): Promise<readonly string[]> {
  const error = await simulate({ planner, handler: careful, ...options }).then(
    () => undefined,
    (reason: unknown) => reason as { code: string; details: { violations: { option: string }[] } },
  );
  expect(error?.code).toBe('E_CONFIG_INVALID');
  return error!.details.violations.map(({ option }) => option);
}

describe('simulate', () => {
  test('a handler that writes after its grant was lost - is found, with the seed that shows it again', async () => {
    const { violations } = await simulate({ planner, handler: careless, runs: 20 });
    expect(violations[0]!.check).toBe('write after loss');
    expect(violations[0]!.text).toMatch(/^the handler of \w+ at epoch \d+ wrote order \d+ of \w+ /);
    const again = await simulate({ planner, handler: careless, seed: violations[0]!.seed });
    expect(again.violations).toEqual(violations);
  });

  test('the same handler, looking first - keeps every promise', async () => {
    const { runs, violations, faults, commits } = await simulate({
      planner,
      handler: careful,
      runs: 5,
      faultsMs: 15_000,
    });
    expect({ runs, violations }).toEqual({ runs: 5, violations: [] });
    expect(commits).toBeGreaterThan(5 * 20);
    expect(Object.keys(faults).length).toBeGreaterThan(10);
  });

  test('without faults - every split is worked through once, and none is taken over', async () => {
    const worked: string[] = [];
    const handler: SimulatedHandler = async (grant, { sleep, instance, clock, random }) => {
      await sleep(random.next() * 100);
      worked.push(`${grant.split.id} ${clock.nowMs() > 0} ${instance.slice(0, 7)}`);
      await grant.complete({ watermark: 1 });
    };
    const report = await simulate({ planner, handler, faults: [], faultsMs: 1_000 });
    expect(worked.sort()).toEqual(
      ['east', 'north', 'south', 'west'].map((id) => `${id} true worker-`),
    );
    expect(report).toMatchObject({ runs: 1, commits: 4, takeovers: 0, faults: {}, violations: [] });
  });

  test('one kind of fault - is the only one that strikes', async () => {
    const report = await simulate({
      planner,
      handler: careful,
      faults: ['crash'],
      faultsMs: 5_000,
    });
    expect(Object.keys(report.faults)).toEqual(['crash']);
  });

  test('a handler that kills its process, and one that blocks it - cost what they cost a fleet', async () => {
    let killed = 0;
    let blocked = 0;
    const handler: SimulatedHandler = async (grant, { kill, block, sleep }) => {
      if (grant.split.id === 'north' && killed < 1) {
        killed += 1;
        await kill();
      }
      if (grant.split.id === 'south' && blocked < 1) {
        blocked += 1;
        await block(5_000);
      }
      await sleep(10);
      if (!grant.lost.aborted) await grant.complete({ watermark: 1 });
    };
    const report = await simulate({ planner, handler, faults: [], faultsMs: 20_000 });
    expect(report).toMatchObject({ faults: { kill: 1, block: 1 }, violations: [] });
    expect(report.takeovers).toBeGreaterThanOrEqual(1);
  });

  test('a handler that never ends - is a job without a verdict', async () => {
    const handler: SimulatedHandler = (grant) =>
      new Promise((resolve) => {
        grant.lost.addEventListener('abort', () => resolve());
      });
    const options = { planner, handler, faults: [], faultsMs: 0, splitMs: 0 } as const;
    const { violations } = await simulate(options);
    expect(violations.map(({ check }) => check)).toContain('liveness');
    expect((await simulate({ ...options, finality: 'open', planner: open })).violations).toEqual(
      [],
    );
  });

  test('bad options - are refused all at once, by name', async () => {
    const options = {
      seed: -1,
      runs: 0,
      workers: 2.5,
      faults: ['crash', 'flood'],
      faultsMs: -1,
      splitMs: Number.NaN,
      finality: 'ajar',
      handler: 'run',
      planner: {},
      config: { leaseDurationMs: 10, opTimeoutMS: 5 },
    };
    expect(await refusedFor(options)).toEqual([
      'seed',
      'runs',
      'workers',
      'faultsMs',
      'splitMs',
      'faults',
      'finality',
      'handler',
      'planner',
      'opTimeoutMS',
      'leaseDurationMs',
    ]);
    expect(await refusedFor({ workers: -3 })).toEqual(['workers']);
  });
});

const open: SimulationOptions['planner'] = {
  fingerprint: () => 'open:v1',
  plan: () => ({ splits: [{ id: 'a', descriptor: '' }], finality: 'open' }),
};
