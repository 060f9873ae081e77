/** Names that are mistyped, or that would share keys: refused, and nothing is left behind. */
import { describe, expect, test } from '@jest/globals';
import {
  createOperator,
  createWorker,
  isLeaseholdError,
  type Operator,
} from '../../../src/index.ts';
import type { Epoch } from '../../../src/base/decimals.ts';
import type { InstanceId, SplitId } from '../../../src/base/ids.ts';
import { leaseCodec, type LeaseRecord } from '../../../src/records/records.ts';
import { jobKeys, KEY_PREFIXES, parseKey } from '../../../src/records/keys.ts';
import { finalPlan, ids, JOB, LEASE_MS, type SeamWorker } from '../../support/fleet.ts';
import { fleet, startFleet } from '../../support/scenario.ts';

const ACTS: readonly (readonly [string, (operator: Operator) => Promise<unknown>])[] = [
  ['pause', (operator) => operator.pause()],
  ['resume', (operator) => operator.resume()],
  ['cordon', (operator) => operator.cordon('a')],
  ['uncordon', (operator) => operator.uncordon('a')],
  ['drain', (operator) => operator.drain('a')],
  ['undrain', (operator) => operator.undrain('a')],
  ['requeue', (operator) => operator.requeue('s1')],
  ['requeueAll', (operator) => operator.requeueAll()],
];
const OF_INSTANCES = ['cordon', 'uncordon', 'drain', 'undrain'] as const;

async function working(...instances: readonly string[]): Promise<SeamWorker[]> {
  await startFleet({ planner: finalPlan(ids(4)) });
  const seams = instances.map((id) => fleet.seam(id));
  await fleet.until('all held', () => seams.reduce((sum, { held }) => sum + held.size, 0) === 4);
  return seams;
}

describe('an operator', () => {
  test.each(ACTS)(
    'an act on a job that is not there - is refused with its name and leaves nothing: %s (R29, R57)',
    async (_, act) => {
      await working('a');
      const { store, prefix } = fleet;
      const { revision } = store;
      for (const options of [
        { job: 'jib', prefix },
        { job: JOB, prefix: `${prefix}-2` },
      ]) {
        const operator = createOperator({ ...options, store: store });
        const { job } = options;
        await expect(act(operator)).rejects.toMatchObject({
          code: 'E_JOB_UNKNOWN',
          details: { job },
        });
        await expect(act(operator)).rejects.toThrow(job);
      }
      expect(store.revision).toBe(revision);
    },
  );

  test.each(OF_INSTANCES)(
    'an act on an instance that nothing is known of - is refused with the one that may be meant: %s (R29, R57)',
    async (act) => {
      await working('host-7');
      const { revision } = fleet.store;
      const operator = fleet.operator();
      for (const instance of ['hots-7', 'host-77']) {
        const refused = operator[act](instance);
        await expect(refused).rejects.toMatchObject({ code: 'E_INSTANCE_UNKNOWN', kind: 'usage' });
        await expect(refused).rejects.toThrow('did you mean host-7?');
      }
      for (const instance of ['', 'a/b', undefined, 7]) {
        await expect(operator[act](instance as string)).rejects.toMatchObject({
          code: 'E_ID_INVALID',
        });
      }
      expect(fleet.store.revision).toBe(revision);
    },
  );

  test('an instance - that is present, assigned, away or under control may be acted on (R29, R57)', async () => {
    await working('a');
    const { store, keys } = fleet;
    const operator = fleet.operator();
    const known = {
      assigned: keys.assignment('assigned' as InstanceId),
      away: keys.away('away' as InstanceId),
      cordoned: keys.cordoned('cordoned' as InstanceId),
    };
    for (const [instance, key] of Object.entries(known)) {
      await store.put(key, '{}');
      await operator.drain(instance);
      await operator.drain(instance);
      await operator.undrain(instance);
      await store.remove(key);
      await expect(operator.drain(instance)).rejects.toMatchObject({ code: 'E_INSTANCE_UNKNOWN' });
    }
    expect(store.dump(`${keys.root}control/`)).toEqual([]);
  });

  test('a control key - that an older version left where no job is can be taken away (R57)', async () => {
    await working('a');
    const { store, prefix } = fleet;
    const keys = jobKeys(prefix, 'jib');
    await store.put(keys.paused, '{}');
    const operator = createOperator({ job: 'jib', prefix, store: store });
    await operator.resume();
    expect(store.dump(keys.root)).toEqual([]);
    await expect(operator.resume()).rejects.toMatchObject({ code: 'E_JOB_UNKNOWN' });
  });
});

describe('keys put by hand', () => {
  test('a lease on no session - is said once, because it never ends by itself (R42)', async () => {
    await startFleet({ planner: finalPlan(['s0', 's1']) });
    const { keys, store } = fleet;
    const key = keys.lease('s0' as SplitId);
    const by = { instance: 'ghost', nonce: 'g', write: 1 };
    const lease = {
      owner: 'ghost',
      nonce: 'g',
      epoch: '9' as Epoch,
      state: 'owned',
    } as LeaseRecord;
    await store.put(key, leaseCodec.encode(lease, by));
    const a = fleet.seam('a');
    await fleet.until('s1 is held', () => a.held.has('s1'));
    await fleet.advance(5 * LEASE_MS);
    const lines = a.lines.filter(({ fields }) => fields.key === key);
    expect(lines).toMatchObject([{ level: 'warn', event: 'record.ignored' }]);
    expect(lines[0]!.message).toContain('hangs on no session');
    expect(a.held.has('s0')).toBe(false);
    await store.remove(key);
    await fleet.until('s0 is held', () => a.held.has('s0'));
  });
});

describe('prefixes inside others', () => {
  const planner = finalPlan([]);

  function isRefused(prefix: string, job: string): boolean {
    try {
      createWorker({ job, prefix, planner, store: fleet.store });
      createOperator({ job, prefix, store: fleet.store });
      return false;
    } catch (error) {
      if (!isLeaseholdError(error)) throw error;
      expect(error.code).toBe('E_CONFIG_INVALID');
      expect(error.message).toMatch(/prefix = .*must not lie among the/);
      return true;
    }
  }

  test('a job - whose keys would lie among those of another is refused (R57)', async () => {
    await startFleet();
    const kinds = Object.values(KEY_PREFIXES).map((kind) => kind.slice(0, -1));
    for (const kind of kinds) {
      expect(isRefused('p/j', kind)).toBe(true);
      expect(isRefused(`p/j/${kind}`, 'job')).toBe(true);
      expect(isRefused(`p/j/${kind}/deeper`, 'job')).toBe(true);
      // There is no job whose kind this could be.
      expect(isRefused('leasehold', kind)).toBe(false);
      expect(isRefused(kind, 'job')).toBe(false);
      expect(isRefused(`v2.0/b.c`, kind)).toBe(false);
    }
    expect(isRefused('p/j', 'orders')).toBe(false);
    expect(isRefused('p/j/k/l', 'orders')).toBe(false);
  });

  test('no two jobs that are taken - share a key, whatever their prefixes (R57)', async () => {
    await startFleet();
    const parts = ['p', 'j', 'leases', 'control', 'plan'];
    const names = parts.flatMap((a) => parts.flatMap((b) => [[a], [a, b]]));
    const jobs = names.flatMap((prefix) => parts.map((job) => ({ prefix: prefix.join('/'), job })));
    const taken = jobs.filter(({ prefix, job }) => !isRefused(prefix, job));
    expect(taken.length).toBeGreaterThan(jobs.length / 2);
    const instance = 'leases' as InstanceId;
    const shared: object[] = [];
    for (const inner of taken) {
      const keys = jobKeys(inner.prefix, inner.job);
      const written = [
        keys.plan,
        keys.leader,
        keys.paused,
        keys.presence(instance),
        keys.cordoned(instance),
        keys.assignment(instance),
      ];
      for (const outer of taken) {
        if (outer.prefix === inner.prefix && outer.job === inner.job) continue;
        const others = jobKeys(outer.prefix, outer.job);
        const known = written.filter((key) => parseKey(others, key).kind !== 'alien');
        if (known.length > 0) shared.push({ inner, outer, known });
      }
    }
    expect(shared).toEqual([]);
  });
});
