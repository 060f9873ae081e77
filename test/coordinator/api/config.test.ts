import { afterEach, describe, expect, test } from '@jest/globals';
import { DELAY_MS_MAX } from '../../../src/base/clock.ts';
import { createWorker, type LeaseholdError, type WorkerConfig } from '../../../src/index.ts';
import { OPTIONS, resolveConfig, type Violation } from '../../../src/coordinator/api/config.ts';
import { finalPlan, Fleet, watched } from '../../support/fleet.ts';

const IDENTITY = { job: 'job', prefix: 'leasehold', instanceId: 'w-1', fingerprint: 'p' };

let fleet: Fleet | undefined;
afterEach(async () => {
  await fleet?.close();
  fleet = undefined;
});

function violationsOf(
  given: Readonly<Record<string, unknown>>,
  identity: Partial<Record<keyof typeof IDENTITY, unknown>> = {},
): readonly Violation[] {
  try {
    resolveConfig(given, { ...IDENTITY, ...identity });
    return [];
  } catch (error) {
    const { code, message, details } = error as LeaseholdError;
    expect(code).toBe('E_CONFIG_INVALID');
    const violations = details.violations as readonly Violation[];
    // The message alone must do: it names option, value and rule of each.
    for (const { option, value, rule } of violations) {
      expect(message).toContain(`${option} = ${value}: ${rule}`);
    }
    return violations;
  }
}

const named = (violations: readonly Violation[]): string[] =>
  violations.map(({ option }) => option);

/** The shortest options that break no relation. */
const LOOSE = { leaseDurationMs: 1_000, opTimeoutMs: 50, replanIntervalMs: DELAY_MS_MAX };

describe('defaults', () => {
  test('config - without options is as documented', () => {
    expect(resolveConfig({}, IDENTITY)).toEqual({
      leaseDurationMs: 15_000,
      opTimeoutMs: 5_000,
      maxAttempts: 4,
      maxInFlight: 8,
      replanIntervalMs: 60_000,
      reconcileIntervalMs: 30_000,
      startupMaxAttempts: 8,
      rebalanceDelayMs: 10_000,
      drainDeadlineMs: 10_000,
    });
  });

  test('config - defaults follow the options they hang on', () => {
    expect(resolveConfig({ leaseDurationMs: 4_001 }, IDENTITY).opTimeoutMs).toBe(2_000);
    expect(resolveConfig({ leaseDurationMs: 300_000 }, IDENTITY)).toMatchObject({
      opTimeoutMs: 5_000,
      replanIntervalMs: 300_000,
    });
    expect(
      resolveConfig({ leaseDurationMs: 60_000, opTimeoutMs: 30_000 }, IDENTITY).drainDeadlineMs,
    ).toBe(30_000);
    expect(resolveConfig({ maxInFlight: undefined }, IDENTITY).maxInFlight).toBe(8);
  });

  test('config - the table of options names each with the default it has', () => {
    const defaults = resolveConfig({}, IDENTITY);
    expect(OPTIONS.map(({ name }) => name).sort()).toEqual(Object.keys(defaults).sort());
    for (const { name, min, max, meaning } of OPTIONS) {
      expect(defaults[name]).toBeGreaterThanOrEqual(min);
      expect(defaults[name]).toBeLessThanOrEqual(max);
      expect(meaning).toMatch(/\.$/);
    }
  });
});

describe('bounds', () => {
  test.each(OPTIONS.map((option) => [option.name, option] as const))(
    'config - %s takes its least and its greatest value and nothing beyond (R43, R44)',
    (name, { min, max, unit }) => {
      const rest =
        name === 'leaseDurationMs' ? { opTimeoutMs: 50, replanIntervalMs: DELAY_MS_MAX } : LOOSE;
      const withValue = (value: unknown): readonly Violation[] =>
        violationsOf({ ...rest, drainDeadlineMs: DELAY_MS_MAX, [name]: value });
      // Bounds alone: the relations have tests of their own.
      const beyondBounds = (value: unknown): boolean =>
        withValue(value).some(({ option, rule }) => option === name && /from/.test(rule));
      expect(beyondBounds(min)).toBe(false);
      expect(beyondBounds(max)).toBe(false);
      for (const bad of [min - 1, max + 1, -1, NaN, Infinity, -Infinity, '5', null, 5n, {}]) {
        const violations = withValue(bad).filter(({ option }) => option === name);
        expect(violations).toHaveLength(1);
        expect(violations[0]!.rule).toContain(`${min} to ${max}`);
      }
      if (unit === 'count') expect(named(withValue(min + 0.5))).toEqual([name]);
    },
  );

  test('config - 60 days is the longest time, and 60 days and one millisecond is refused', () => {
    expect(DELAY_MS_MAX).toBe(60 * 86_400_000);
    const longest: WorkerConfig = {
      leaseDurationMs: DELAY_MS_MAX,
      opTimeoutMs: DELAY_MS_MAX / 2,
      maxAttempts: 1,
      maxInFlight: 4_096,
      replanIntervalMs: DELAY_MS_MAX,
      reconcileIntervalMs: DELAY_MS_MAX,
      startupMaxAttempts: 1,
      rebalanceDelayMs: DELAY_MS_MAX,
      drainDeadlineMs: DELAY_MS_MAX,
    };
    expect(resolveConfig({ ...longest }, IDENTITY)).toEqual(longest);
    const times = OPTIONS.filter(({ unit }) => unit === 'ms').map(({ name }) => name);
    const over = Object.fromEntries(times.map((name) => [name, DELAY_MS_MAX + 1]));
    expect(named(violationsOf(over))).toEqual(times);
  });
});

describe('relations', () => {
  test.each([
    [
      'leaseDurationMs',
      { leaseDurationMs: 9_999, opTimeoutMs: 5_000 },
      'at least twice opTimeoutMs (5000)',
    ],
    ['leaseDurationMs', { opTimeoutMs: 8_000 }, 'at least twice opTimeoutMs (8000)'],
    ['replanIntervalMs', { replanIntervalMs: 14_999 }, 'at least leaseDurationMs (15000)'],
    ['drainDeadlineMs', { drainDeadlineMs: 4_999 }, 'at least opTimeoutMs (5000)'],
    ['drainDeadlineMs', { drainDeadlineMs: 0 }, 'at least opTimeoutMs (5000)'],
  ])('config - %s %j is refused', (option, given, rule) => {
    const violations = violationsOf(given);
    expect(named(violations)).toEqual([option]);
    expect(violations[0]!.rule).toContain(rule);
  });

  test('config - the limit of each relation is allowed, and a drain may outlast the lease', () => {
    const limits = { leaseDurationMs: 10_000, opTimeoutMs: 5_000, replanIntervalMs: 10_000 };
    expect(violationsOf({ ...limits, drainDeadlineMs: 5_000 })).toEqual([]);
    expect(violationsOf({ ...limits, drainDeadlineMs: 1_000_000 })).toEqual([]);
    expect(violationsOf({ rebalanceDelayMs: 0, maxInFlight: 0 })).toEqual([]);
  });
});

describe('violations', () => {
  test('config - all of them are reported together: bounds, relations, unknown names, identity, fingerprint (R44)', () => {
    const violations = violationsOf(
      {
        maxInFlight: -1,
        rebalanceDelayMs: Infinity,
        replanIntervalMs: 1_000,
        leaseDuration: 5,
        drainDeadlineMs: 10,
      },
      { job: 'a/b', instanceId: '', prefix: '/x/', fingerprint: '' },
    );
    expect(named(violations).sort()).toEqual(
      [
        'drainDeadlineMs',
        'instanceId',
        'job',
        'leaseDuration',
        'maxInFlight',
        'planner.fingerprint()',
        'prefix',
        'rebalanceDelayMs',
        'replanIntervalMs',
      ].sort(),
    );
  });

  test('config - one mistake is one violation: what hangs on a refused value is not reported as well', () => {
    for (const leaseDurationMs of [NaN, Infinity, -1, '9000', 61 * 86_400_000]) {
      expect(named(violationsOf({ leaseDurationMs }))).toEqual(['leaseDurationMs']);
    }
    expect(named(violationsOf({ opTimeoutMs: 10_000_000_000 }))).toEqual(['opTimeoutMs']);
    expect(named(violationsOf({ leaseDurationMs: NaN, opTimeoutMs: 9_000 }))).toEqual([
      'leaseDurationMs',
    ]);
  });

  test('config - an unknown option is named with the options there are', () => {
    const [violation] = violationsOf({ leaseMs: 9_000 });
    expect(violation).toMatchObject({ option: 'leaseMs', value: '9000' });
    for (const { name } of OPTIONS) expect(violation!.rule).toContain(name);
    expect(violationsOf({ leaseMs: undefined })).toEqual([]);
  });

  test.each([
    ['a slash', 'w/1'],
    ['a space', 'w 1'],
    ['letters beyond ASCII', 'wörker'],
    ['nothing', ''],
    ['129 bytes', 'w'.repeat(129)],
    ['dots', '..'],
    ['a number', 7],
    ['null', null],
  ])('config - a job or instance id with %s is refused with the value (R43)', (_, id) => {
    expect(named(violationsOf({}, { job: id }))).toEqual(['job']);
    expect(named(violationsOf({}, { instanceId: id }))).toEqual(['instanceId']);
    expect(violationsOf({}, { instanceId: id })[0]!.rule.length).toBeGreaterThan(10);
  });

  test('config - ids of 128 letters, digits, _ and - are taken; prefixes may have parts', () => {
    const id = 'aZ0_-'.repeat(26).slice(0, 128);
    expect(violationsOf({}, { job: id, instanceId: id, prefix: 'prod/eu-1/v2.0' })).toEqual([]);
    for (const prefix of ['', 'a/', 'a b', 'ä', 5, 'x'.repeat(257)]) {
      expect(named(violationsOf({}, { prefix }))).toEqual(['prefix']);
    }
  });

  test.each([
    ['an empty one', ''],
    ['a number', 5],
    ['a promise', Promise.resolve('p')],
    ['none', undefined],
  ])('config - a fingerprint that is %s is refused at construction', (_, fingerprint) => {
    fleet = new Fleet();
    const { store } = fleet;
    const planner = { ...finalPlan([]), fingerprint: () => fingerprint as string };
    expect(() => createWorker({ job: 'a b', store, planner })).toThrow(
      expect.objectContaining({
        code: 'E_CONFIG_INVALID',
        message: expect.stringMatching(/job = .*planner\.fingerprint\(\) = /),
      }),
    );
    expect(store.stats.requests.read).toBe(0);
  });

  test('config - an instance id left open is drawn at random, and is another one each time', () => {
    fleet = new Fleet();
    const { store } = fleet;
    const make = (): string =>
      createWorker({ job: 'j', store, planner: finalPlan([]), instanceId: undefined }).instanceId;
    const [one, two] = [make(), make()];
    expect(one).toMatch(/^worker-[a-z0-9]{12}$/);
    expect(one).not.toBe(two);
  });
});

describe('very long times', () => {
  test('60 days of everything - a worker starts, holds, drains and stops', async () => {
    fleet = new Fleet({
      config: {
        leaseDurationMs: DELAY_MS_MAX,
        opTimeoutMs: DELAY_MS_MAX / 2,
        replanIntervalMs: DELAY_MS_MAX,
        reconcileIntervalMs: DELAY_MS_MAX,
        rebalanceDelayMs: DELAY_MS_MAX,
        drainDeadlineMs: DELAY_MS_MAX,
      },
    });
    const a = fleet.seam('a');
    const b = fleet.seam('b');
    const world = fleet;
    await fleet.until('both hold', () => a.held.size + b.held.size === 4, 5_000);
    await fleet.until(
      'two each',
      () => {
        for (const id of a.asked) void a.coordinator.releaseDrained([id]).catch(() => undefined);
        return a.held.size === 2 && b.held.size === 2;
      },
      5_000,
    );
    await fleet.advance(60_000);
    await a.coordinator.giveUp([...a.held.keys()][0]!);
    await fleet.advance(1_000);
    const stop = watched(a.coordinator.stop());
    await fleet.advance(1_000);
    expect(stop.state).toBe('pending');
    for (const id of a.asked) void a.coordinator.releaseDrained([id]);
    await fleet.until('a is gone', () => stop.state === 'resolved', 1_000);
    const leaving = watched(b.coordinator.release([...b.held.keys()]));
    await world.until('b is gone', () => leaving.state === 'resolved', 1_000);
  });
});
