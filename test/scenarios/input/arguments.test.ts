/** Every argument of every public function, wrong in every way: refused by name, at once, and nothing crashes later. */
import { setImmediate } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import {
  createCoordinator,
  createOperator,
  createWorker,
  fatalPlannerError,
  isLeaseholdError,
  memoryStore,
  type ProgressInput,
} from '../../../src/index.ts';
import { etcdStore } from '../../../src/store/etcd/index.ts';
import {
  faultyStore,
  seededRandom,
  simulate,
  virtualClock,
  workerClock,
} from '../../../src/testing/index.ts';
import { finalPlan, holdUntilAsked, type SeamWorker, watched } from '../../support/fleet.ts';
import { fleet, startFleet } from '../../support/scenario.ts';

/** Callers without types hand in anything. */
type Loose = (...args: readonly unknown[]) => unknown;

const planner = finalPlan(['s1']);
const store = memoryStore();
const good = { job: 'job', store, planner };
const revoked = Proxy.revocable({}, {});
revoked.revoke();

/** What each function that takes options is given beside the option that is wrong. */
const FUNCTIONS: Readonly<Record<string, { readonly make: Loose; readonly options: object }>> = {
  createWorker: { make: createWorker as Loose, options: good },
  createCoordinator: { make: createCoordinator as Loose, options: good },
  createOperator: { make: createOperator as Loose, options: { job: 'job', store } },
  memoryStore: { make: memoryStore as Loose, options: {} },
  etcdStore: { make: etcdStore as Loose, options: { endpoints: ['http://etcd-0:2379'] } },
  virtualClock: { make: virtualClock as Loose, options: {} },
  workerClock: {
    make: (options) => (workerClock as Loose)(virtualClock(), options),
    options: {},
  },
  faultyStore: {
    make: (options) => (faultyStore as Loose)(store, options),
    options: { clock: virtualClock(), random: seededRandom(1) },
  },
};

/** Names of the options that a call is refused for; empty when it is accepted. */
async function refusedFor(call: () => unknown): Promise<string[]> {
  try {
    await call();
    return [];
  } catch (error) {
    if (!isLeaseholdError(error)) throw error;
    expect(error).toMatchObject({ code: 'E_CONFIG_INVALID', kind: 'usage' });
    const violations = error.details.violations as {
      option: string;
      value: string;
      rule: string;
    }[];
    for (const { option, value, rule } of violations) {
      expect(error.message).toContain(`${option} = ${value}: ${rule}`);
      expect(rule.length).toBeGreaterThan(10);
      expect(value.length).toBeLessThanOrEqual(120);
    }
    return violations.map(({ option }) => option);
  }
}

/** What ends a process by itself. */
const uncaught: unknown[] = [];
const note = (error: unknown): void => {
  uncaught.push(error);
};
beforeEach(() => {
  process.on('uncaughtException', note).on('unhandledRejection', note);
});
afterEach(async () => {
  await setImmediate();
  process.off('uncaughtException', note).off('unhandledRejection', note);
  expect(uncaught.splice(0)).toEqual([]);
});

describe('options', () => {
  test.each(Object.entries(FUNCTIONS))(
    '%s - refuses what is no plain object, by name (R56)',
    async (_, { make }) => {
      const bad: readonly unknown[] = [null, 'x', 7, [], new Map(), revoked.proxy, () => good];
      for (const given of bad) expect(await refusedFor(() => make(given))).toEqual(['options']);
    },
  );

  test.each(Object.entries(FUNCTIONS))(
    '%s - refuses a name that is no option, and says which may be meant (R56)',
    async (_, { make, options }) => {
      expect(await refusedFor(() => make({ ...options, nosuch: 1 }))).toEqual(['nosuch']);
      expect(await refusedFor(() => make({ ...options, nosuch: undefined }))).toEqual([]);
    },
  );

  test('a worker - is told all that is wrong with it at once, with what to do (R43, R44, R56)', async () => {
    const wrong = {
      job: 'a/b',
      store: 'http://etcd-0:2379',
      planner: { plan: (): null => null },
      prefix: 'x/',
      instanceId: '',
      logger: { info: (): void => undefined },
      config: { maxInFlight: -1, leaseDuration: 5 },
      host: 5,
      inspect: 'yes',
      clock: {},
      random: Math.random,
      stroe: store,
      maxInFlight: 4,
    };
    for (const make of [createWorker, createCoordinator] as readonly unknown[]) {
      const call = (): unknown => (make as Loose)(wrong);
      expect((await refusedFor(call)).sort()).toEqual(
        [
          ...Object.keys(wrong).filter((name) => name !== 'config'),
          'leaseDuration',
          'maxInFlight',
        ].sort(),
      );
      expect(call).toThrow('etcdStore({ endpoints: ["http://etcd-0:2379"] })');
      expect(call).toThrow('did you mean store?');
      expect(call).toThrow('it is given as config.maxInFlight');
      expect(call).toThrow('did you mean leaseDurationMs?');
      expect(call).toThrow('it lacks debug, warn, error');
    }
    expect(await refusedFor(() => (createWorker as Loose)())).toEqual(['options']);
    expect(await refusedFor(() => (createWorker as Loose)({}))).toEqual([
      'job',
      'store',
      'planner',
    ]);
  });

  test.each([
    [
      'that throws',
      () => {
        throw new Error('no such file');
      },
      /no such file/,
    ],
    [
      'that throws nothing',
      () => {
        throw undefined as unknown;
      },
      /undefined/,
    ],
    ['of 2 MiB', () => 'x'.repeat(2 ** 21), /65536 bytes, got 2097152/],
    ['that is a promise', () => Promise.resolve('p'), /string/],
  ] as const)(
    'a fingerprint %s - is refused at construction (R43, R56)',
    async (_, fingerprint, rule) => {
      const call = (): unknown =>
        (createWorker as Loose)({ ...good, planner: { ...planner, fingerprint } });
      expect(await refusedFor(call)).toEqual(['planner.fingerprint()']);
      expect(call).toThrow(rule);
    },
  );

  test('a getter that throws - is named, and nothing else is (R56)', async () => {
    const given = {
      ...good,
      get host(): string {
        throw new Error('no host today');
      },
    };
    const call = (): unknown => createWorker(given);
    expect(await refusedFor(call)).toEqual(['host']);
    expect(call).toThrow('no host today');
  });

  test('an operator - is checked like a worker: prefix, timeout, job, name (R56)', async () => {
    const make = createOperator as Loose;
    for (const prefix of ['', 'x/', 'a b', 5, null]) {
      expect(await refusedFor(() => make({ job: 'job', store, prefix }))).toEqual(['prefix']);
    }
    for (const opTimeoutMs of [0, 49, -1, Number.NaN, Infinity, '5', 61 * 86_400_000]) {
      expect(await refusedFor(() => make({ job: 'job', store, opTimeoutMs }))).toEqual([
        'opTimeoutMs',
      ]);
    }
    const wrong = { job: '', store: null, name: 'a b', random: 5, timeoutMs: 5 };
    expect((await refusedFor(() => make(wrong))).sort()).toEqual(Object.keys(wrong).sort());
  });

  test('requeueAll - rejects what is no filter (R56)', async () => {
    const operator = createOperator({ job: 'job', store });
    const call = (options: unknown) => () => (operator.requeueAll.bind(operator) as Loose)(options);
    expect(await refusedFor(call({ filter: 'all' }))).toEqual(['filter']);
    expect(await refusedFor(call({ fliter: () => true }))).toEqual(['fliter']);
    expect(await refusedFor(call(null))).toEqual(['options of requeueAll']);
  });

  test('simulate - rejects with all that is wrong, and runs nothing (R56)', async () => {
    const call = (options: unknown) => () => (simulate as Loose)(options);
    expect(await refusedFor(call(undefined))).toEqual(['options']);
    expect(await refusedFor(call({ handler: 5, plannr: planner }))).toEqual([
      'plannr',
      'planner',
      'handler',
    ]);
    expect(
      await refusedFor(call({ planner, handler: holdUntilAsked, faults: 'crash', config: 5 })),
    ).toEqual(['faults', 'config']);
  });

  test('parts for tests - refuse what they are not made of (R56)', async () => {
    expect(await refusedFor(() => (workerClock as Loose)({}, {}))).toEqual(['world']);
    expect(await refusedFor(() => (faultyStore as Loose)('x', {}))).toEqual(['inner']);
    expect(await refusedFor(() => (seededRandom as Loose)('x'))).toEqual(['seed']);
    const client = faultyStore(store, { clock: virtualClock(), random: seededRandom(1) });
    expect(await refusedFor(() => (client.when as Loose)('reads'))).toEqual(['matcher']);
    const memory = { historyRevisionsMax: 0, expiryLagMsMax: 5, clock: 7 };
    expect(await refusedFor(() => (memoryStore as Loose)(memory))).toEqual([
      'clock',
      'historyRevisionsMax',
      'random',
    ]);
  });

  test('fatalPlannerError - takes whatever was caught for its message', () => {
    const error = (fatalPlannerError as Loose)(new Error('no such bucket'));
    expect(error).toMatchObject({ code: 'E_PLANNER_FAILED', message: 'no such bucket' });
  });
});

describe('calls', () => {
  test('run - rejects what is no handler or no signal, and starts nothing (R56)', async () => {
    await startFleet();
    const worker = createWorker({ ...good, store: fleet.store, clock: fleet.clock });
    /** Within the same turn: a run that has begun would not end by itself. */
    const refused = async (...args: readonly unknown[]): Promise<string[]> => {
      const outcome = watched((worker.run.bind(worker) as Loose)(...args) as Promise<unknown>);
      await fleet.advance(0);
      expect(outcome.state).toBe('rejected');
      return refusedFor(() => Promise.reject(outcome.error));
    };
    for (const handler of ['nope', undefined, null, {}, Promise.resolve()]) {
      expect(await refused(handler)).toEqual(['handler']);
    }
    expect(await refused(holdUntilAsked, { signal: new AbortController() })).toEqual(['signal']);
    expect(await refused('nope', { singal: AbortSignal.abort() })).toEqual(['handler', 'singal']);
    await fleet.advance(1_000);
    expect(fleet.plan()).toBeNull();
    // It was not used up by that.
    const outcome = watched(worker.run(async (grant) => grant.complete()));
    await fleet.until('the verdict', () => outcome.state === 'resolved');
  });

  const BAD_PROGRESS: readonly (readonly [string, unknown])[] = [
    ['nothing', undefined],
    ['null', null],
    ['a number', 5],
    ['no watermark', {}],
    ['a fraction', { watermark: 0.5 }],
    ['a text for a watermark', { watermark: '5' }],
    ['a state that is a list', { watermark: 5, state: [1] }],
    ['a state with half of a surrogate pair', { watermark: 5, state: 'a\uD800' }],
    ['completed that is a text', { watermark: 5, completed: 'yes' }],
    ['a proxy that was revoked', revoked.proxy],
    [
      'a getter that throws',
      {
        get watermark(): number {
          throw new Error('lost it');
        },
      },
    ],
  ];

  test.each(BAD_PROGRESS)(
    'a commit of %s - is refused, writes nothing and leaves the split held (R43, R56)',
    async (_, bad) => {
      await startFleet({ planner });
      const seam = fleet.seam('a');
      await fleet.until('it holds', () => seam.held.size === 1);
      const epoch = seam.held.get('s1')!.epoch;
      const { revision } = fleet.store;
      for (const call of ['commit', 'complete'] as const) {
        if (call === 'complete' && bad === null) continue;
        const refused = watched(seam.coordinator[call]('s1', bad as ProgressInput, epoch));
        await fleet.advance(10);
        expect(refused.error).toMatchObject({ code: 'E_PROGRESS_INVALID', kind: 'usage' });
      }
      expect(fleet.store.revision).toBe(revision);
      const committed = watched(seam.coordinator.commit('s1', { watermark: 7 }, epoch));
      await fleet.until('it lands', () => committed.state === 'resolved', 1_000);
    },
  );

  test.each([
    ['a time that is none', { afterMs: Number.NaN }],
    ['a time below zero', { afterMs: -1 }],
    ['a text for a time', { afterMs: '5' }],
    ['a name that is no option', { aftrMs: 5 }],
    ['a list', []],
  ])(
    'a give-back or failure with %s - is refused, and the grant stays open (R56)',
    async (_, bad) => {
      await startFleet({ planner });
      const outcomes: unknown[] = [];
      const a = fleet.worker('a', async (grant) => {
        for (const call of [
          () => grant.release(bad as never),
          () => grant.fail('x', bad as never),
        ]) {
          outcomes.push(
            await call().then(
              () => 'accepted',
              (error: unknown) => (error as { code: string }).code,
            ),
          );
        }
        await grant.complete();
      });
      await fleet.until('the verdict', () => a.run.state === 'resolved', 10_000);
      expect(outcomes).toEqual(['E_CONFIG_INVALID', 'E_CONFIG_INVALID']);
      expect(a.run.value).toMatchObject({ kind: 'complete', completed: 1 });
      expect(fleet.split('s1')).toMatchObject({ lastFailure: null });
    },
  );

  test('a request on the seam - refuses what names no split, and a list that is none (R56)', async () => {
    await startFleet({ planner });
    const seam: SeamWorker = fleet.seam('a');
    await fleet.until('it holds', () => seam.held.size === 1);
    const epoch = seam.held.get('s1')!.epoch;
    const { coordinator } = seam;
    for (const id of [undefined, null, 7, {}, '', 'a/b', revoked.proxy]) {
      const splitId = id as string;
      for (const refused of [
        coordinator.commit(splitId, { watermark: 1 }, epoch),
        coordinator.complete(splitId, null, epoch),
        coordinator.fail(splitId, 'reason', epoch),
        coordinator.giveUp(splitId, epoch),
      ]) {
        await expect(refused).rejects.toMatchObject({ code: 'E_ID_INVALID' });
      }
    }
    const { store: own, clock, prefix } = fleet;
    const raw = createCoordinator({ ...good, job: 'other', prefix, store: own, clock });
    for (const list of ['s1', undefined, [7], {}]) {
      const ids = list as string[];
      await expect(raw.releaseDrained(ids, epoch)).rejects.toMatchObject({ kind: 'usage' });
      await expect(raw.release(ids)).rejects.toMatchObject({ kind: 'usage' });
    }
    expect(raw.status().charts.departure).toBe('staying');
    await raw.stop();
    expect(await refusedFor(() => (coordinator.listen as Loose)('x'))).toEqual(['listener']);
    await fleet.advance(1_000);
    expect(seam.held.size).toBe(1);
    expect(coordinator.status().charts.departure).toBe('staying');
  });
});
