import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { describe, expect, test } from '@jest/globals';

const ROOT = path.resolve(import.meta.dirname, '../..');

/** A simulation that would fail a test of its own: jest hears of the rejection too. */
const CARELESS = `
  import { simulate } from './src/testing/index.ts';
  import { planner } from './examples/simulation/orders.ts';
  const handler = async (grant) => {
    if (grant.split.id === 'north') void Promise.reject(new Error('nobody hears of it'));
    await grant.complete({ watermark: 1 });
  };
  const { violations } = await simulate({ planner, handler, faults: [], faultsMs: 100 });
  console.log(JSON.stringify(violations));
`;

/** Runs the command from its sources; threads need it compiled. */
function simulate(...args: string[]) {
  return run(process.execPath, ['--import', 'tsx', 'test/tools/simulate.ts', ...args]);
}

function run(command: string, args: readonly string[]) {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd: ROOT, encoding: 'utf8' });
  return { status, stdout, stderr };
}

describe('npm run simulate', () => {
  test('--json - prints one report of all runs and nothing else', () => {
    const options = ['--runs', '3', '--size', 'small', '--json'];
    const { status, stdout } = run('npm', [
      'run',
      '--silent',
      'simulate',
      '--',
      ...options,
      '--jobs',
      '2',
    ]);
    const report = JSON.parse(stdout) as Record<string, unknown>;
    expect(Object.keys(report)).toEqual([
      'runs',
      'events',
      'commits',
      'takeovers',
      'faults',
      'violations',
    ]);
    expect(report).toMatchObject({ runs: 3, violations: [] });
    expect(status).toBe(0);
    expect(simulate(...options, '--jobs', '1').stdout).toBe(stdout);
  }, 120_000);

  test('--seed - replays one run', () => {
    const { status, stdout } = simulate('--seed', '2', '--size', 'small');
    expect(stdout).toContain('no promise was broken');
    expect(status).toBe(0);
  });

  test('a rejection that no handler catches - is a violation of the run', () => {
    const { stdout } = run(process.execPath, [
      '--import',
      'tsx',
      '--input-type=module',
      '-e',
      CARELESS,
    ]);
    expect(JSON.parse(stdout)).toMatchObject([{ seed: 1, check: 'uncaught' }]);
    expect(stdout).toContain('nobody hears of it');
  });

  test.each([
    [['--runs', 'many'], '--runs many: must be a whole number from 1 to 10000000'],
    [['--seed', '-1'], '--seed'],
    [['--jobs', '0'], '--jobs 0: must be a whole number from 1 to 256'],
    [['--size', 'vast'], '--size vast: must be full or small'],
    [['--from', '4294967295', '--runs', '2'], '--from 4294967295: seeds end at 4294967295'],
    [['--fast'], "Unknown option '--fast'"],
  ])('%j - is refused with the usage', (args, message) => {
    const { status, stdout, stderr } = simulate(...args);
    expect([status, stdout]).toEqual([2, '']);
    expect(stderr).toContain(message);
    expect(stderr).toContain('npm run simulate -- [options]');
  });
});
