import { describe, expect, test } from '@jest/globals';
import { jobKeys } from '../../../src/records/keys.ts';
import {
  finalPlan,
  holdUntilAsked,
  ids,
  LEASE_MS,
  type Surroundings,
} from '../../support/fleet.ts';
import { fleet, startFleet } from '../../support/scenario.ts';

const BIG = 'x'.repeat(1024 * 1024);

function warningsOf(around: Surroundings): string[] {
  return around.lines
    .filter(({ event }) => event === 'record.ignored')
    .map(({ fields }) => String(fields.key).replace(/^.*\/job\//, ''));
}

/** Rewrites a stored record by hand. */
async function edit(key: string, change: (record: Record<string, unknown>) => void): Promise<void> {
  const entry = fleet.store.dump(key).find((one) => one.key === key)!;
  const record = JSON.parse(entry.value) as Record<string, unknown>;
  change(record);
  await fleet.store.put(key, JSON.stringify(record), entry.session);
}

const raw = (key: string): Record<string, unknown> =>
  JSON.parse(fleet.store.dump(key).find((one) => one.key === key)!.value) as Record<
    string,
    unknown
  >;

describe('two jobs in one store', () => {
  test('names that are prefixes of others - keep splits, members and leaders apart', async () => {
    await startFleet();
    const ofJob = (job: string) => ({ job, planner: finalPlan(ids(4, `${job}-s`), job) });
    const etl = fleet.seam('w-1', ofJob('etl'));
    const etl10 = fleet.seam('w-10', ofJob('etl'));
    const second = fleet.seam('w-1', ofJob('etl-2'));
    await fleet.until(
      'all hold',
      () => etl.held.size === 2 && etl10.held.size === 2 && second.held.size === 4,
    );
    expect([...etl.held.keys(), ...etl10.held.keys()].sort()).toEqual(ids(4, 'etl-s'));
    expect([...second.held.keys()].sort()).toEqual(ids(4, 'etl-2-s'));
    expect(etl.coordinator.status().peers.map(({ instance }) => instance)).toEqual(['w-10']);
    expect(second.coordinator.status().peers).toEqual([]);
    for (const job of ['etl', 'etl-2']) {
      expect(fleet.store.dump(jobKeys(fleet.prefix, job).leader)).toHaveLength(1);
    }
    const before = [...etl10.held].map(([id, { epoch }]) => `${id}@${epoch}`);
    void etl.coordinator.stop();
    await fleet.until('w-10 holds all', () => etl10.held.size === 4, 10_000);
    await fleet.advance(3 * LEASE_MS);
    // Stopping w-1 took nothing from w-10, and nothing from the other job's w-1.
    expect(etl10.events.filter(({ type }) => type === 'lost')).toEqual([]);
    expect([...etl10.held].map(([id, { epoch }]) => `${id}@${epoch}`)).toEqual(
      expect.arrayContaining(before),
    );
    expect(second.events.map(({ type }) => type)).not.toContain('lost');
    expect(second.held.size).toBe(4);
    expect([etl, etl10, second].flatMap(warningsOf)).toEqual([]);
  });
});

describe('strangers under our prefix', () => {
  test('junk keys - cost one warning each and nothing else (R42)', async () => {
    await startFleet();
    const { root } = fleet.keys;
    const junk: Record<string, string> = {
      'splits/zzz/lock/1': 'junk',
      'splits/a b': BIG,
      'leases/zzz/lock': '',
      'leases/ünï': BIG,
      'workers/w/1': '{}',
      'parked/..': 'x',
      'control/cordoned': '',
      'control/unheard/of/it': '1',
    };
    for (const [key, value] of Object.entries(junk)) await fleet.store.put(root + key, value);
    const a = fleet.seam('a');
    await fleet.until('a holds all', () => a.held.size === 4);
    const later: Record<string, string> = { 'leases/later/x': 'junk', 'workers/late r': BIG };
    for (const [key, value] of Object.entries(later)) await fleet.store.put(root + key, value);
    await fleet.advance(6 * LEASE_MS);
    await fleet.store.put(`${root}leases/later/x`, 'junk again');
    await fleet.advance(6 * LEASE_MS);
    expect(warningsOf(a).sort()).toEqual([...Object.keys(junk), ...Object.keys(later)].sort());
    expect(a.held.size).toBe(4);
    expect(a.lines.filter(({ level }) => level === 'error')).toEqual([]);
    for (const [key, value] of Object.entries(junk)) {
      expect(fleet.store.dump(root + key)[0]?.value).toBe(value);
    }
    await Promise.all(
      [...a.held.keys()].map((id) => a.coordinator.commit(id, { watermark: 1, completed: true })),
    );
    await fleet.until('the verdict', () => a.verdict !== null);
    expect(a.verdict).toMatchObject({ kind: 'complete', completed: 4 });
  });

  test('unreadable records of others - presence, assignment, lease, leader, parked - are warned about once and left alone (R42)', async () => {
    await startFleet();
    const { keys } = fleet;
    const name = (kind: 'presence' | 'assignment' | 'lease' | 'parked', id: string): string =>
      keys[kind](id as never);
    await fleet.store.put(name('presence', 'ghost'), '{"schema":1}');
    await fleet.store.put(name('assignment', 'a'), '');
    await fleet.store.put(name('lease', 's1'), 'not json');
    await fleet.store.put(name('parked', 's2'), '[]');
    const a = fleet.seam('a');
    await fleet.until('a holds the rest', () => a.held.size === 3);
    await fleet.advance(4 * LEASE_MS);
    expect([...a.held.keys()].sort()).toEqual(['s2', 's3', 's4']);
    expect(warningsOf(a).sort()).toEqual(['assign/a', 'leases/s1', 'parked/s2', 'workers/ghost']);
    // Somebody may hold s1; nobody knows who. Its lease is not touched.
    expect(fleet.store.dump(name('lease', 's1'))[0]?.value).toBe('not json');
    expect(fleet.store.dump(name('presence', 'ghost'))[0]?.value).toBe('{"schema":1}');
    // The assignment was decided anew over the unreadable one.
    expect(fleet.assignment('a')?.splits).toHaveLength(4);
    await fleet.store.remove(name('lease', 's1'));
    await fleet.until('a holds all', () => a.held.size === 4, 3_000);
  });

  test('an unreadable leader - counts as somebody who leads: nobody stands until it is gone (R42)', async () => {
    await startFleet();
    await fleet.store.put(fleet.keys.leader, 'junk');
    await fleet.store.put(
      fleet.keys.plan,
      JSON.stringify({
        schema: 1,
        minReader: 1,
        fingerprint: 'plan:v1',
        generation: 3,
        finality: 'open',
        sealed: false,
        planned: 0,
        cursor: null,
        requeues: 0,
        verdict: null,
        by: { instance: 'x', nonce: 'n', write: 1 },
      }),
    );
    const a = fleet.seam('a');
    await fleet.advance(5 * LEASE_MS);
    expect(a.coordinator.status()).toMatchObject({ presence: 'present', leader: 'following' });
    expect(warningsOf(a)).toEqual(['leader']);
    await fleet.store.remove(fleet.keys.leader);
    await fleet.until('a leads', () => fleet.leader() === 'a', 2_000);
    expect(fleet.plan()?.generation).toBe(4);
  });
});

describe('the plan', () => {
  test.each([
    ['unreadable', 'E_RECORD_CORRUPT', () => 'junk'],
    ['empty', 'E_RECORD_CORRUPT', () => ''],
    [
      'of a newer format',
      'E_RECORD_NEWER',
      (value: string) => value.replace('"minReader":1', '"minReader":2'),
    ],
    [
      'of an unknown finality',
      'E_RECORD_CORRUPT',
      (value: string) => value.replace('"final"', '"rolling"'),
    ],
    [
      'of another configuration',
      'E_FINGERPRINT_MISMATCH',
      (value: string) => value.replace('plan:v1', 'plan:v9'),
    ],
  ])(
    'a plan %s - is fatal with a clear error, for who runs and for who joins (R42)',
    async (_, code, damage) => {
      await startFleet();
      const a = fleet.worker('a', holdUntilAsked);
      await fleet.until('a holds all', () => fleet.leasesOf('a').length === 4);
      const { value } = fleet.store.dump(fleet.keys.plan)[0]!;
      await fleet.store.put(fleet.keys.plan, damage(value));
      await fleet.until('a ends', () => a.run.state !== 'pending');
      expect(a.run.error).toMatchObject({ code, kind: 'fatal' });
      const b = fleet.worker('b', holdUntilAsked);
      await fleet.until('b ends', () => b.run.state !== 'pending');
      expect(b.run.error).toMatchObject({ code, kind: 'fatal' });
      // Nobody repairs what nobody understands.
      expect(fleet.store.dump(fleet.keys.plan)[0]?.value).toBe(damage(value));
      for (const id of ['s1', 's2', 's3', 's4'])
        expect(fleet.split(id)).toMatchObject({ owner: null, attempts: 0 });
    },
  );
});

describe('versions side by side', () => {
  test('a split of a newer format - is left alone with one warning and blocks the verdict (R42)', async () => {
    await startFleet();
    const first = fleet.seam('first');
    await fleet.until('planned', () => first.held.size === 4);
    void first.coordinator.stop();
    await fleet.until('gone', () => first.clock.pendingTimers === 0);
    const { keys } = fleet;
    await edit(keys.split('s1' as never), (record) => (record.minReader = 2));
    await edit(keys.split('s2' as never), (record) => (record.status = 'archived'));
    await fleet.store.put(keys.split('s3' as never), 'junk');
    const texts = ['s1', 's2', 's3'].map(
      (id) => fleet.store.dump(keys.split(id as never))[0]!.value,
    );
    const a = fleet.seam('a');
    await fleet.until('a holds the other', () => a.held.has('s4'));
    await a.coordinator.commit('s4', { watermark: 1, completed: true });
    await fleet.advance(10 * LEASE_MS);
    expect(a.verdict).toBeNull();
    expect(fleet.plan()?.verdict).toBeNull();
    expect(fleet.leasesOf('a')).toEqual([]);
    expect(
      ['s1', 's2', 's3'].map((id) => fleet.store.dump(keys.split(id as never))[0]!.value),
    ).toEqual(texts);
    const warned = warningsOf(a).filter((key) => key.startsWith('splits/'));
    expect(warned.sort()).toEqual(['splits/s1', 'splits/s2', 'splits/s3']);
    // What was repaired by hand is found by the next leader, at the latest.
    await edit(keys.split('s1' as never), (record) => (record.minReader = 1));
    await fleet.store.remove(keys.leader);
    await fleet.until('s1 is claimed', () => a.held.has('s1'), 30_000);
  });

  test('fields of a newer version - survive claim, commit, release, election and publication', async () => {
    await startFleet();
    const first = fleet.seam('first');
    await fleet.until('planned', () => first.held.size === 4);
    void first.coordinator.stop();
    await fleet.until('gone', () => first.clock.pendingTimers === 0);
    const split = fleet.keys.split('s1' as never);
    await edit(split, (record) => {
      record.colour = { red: 1 };
      record.schema = 2;
    });
    await edit(fleet.keys.plan, (record) => {
      record.region = 'north';
      record.sealed = false;
    });
    const a = fleet.seam('a');
    await fleet.until('a holds all', () => a.held.size === 4);
    const survives = (key: string, fields: object): void => {
      expect(raw(key)).toMatchObject(fields);
    };
    const colour = { colour: { red: 1 }, schema: 2, minReader: 1 };
    survives(split, { ...colour, owner: 'a' });
    await a.coordinator.commit('s1', { watermark: 7 });
    survives(split, { ...colour, watermark: '7' });
    await a.coordinator.giveUp('s1');
    survives(split, { ...colour, owner: null });
    await fleet.until('a takes it again', () => fleet.lease('s1') !== null, 30_000);
    await fleet.advance(20);
    await a.coordinator.fail('s1', 'no');
    survives(split, { ...colour, owner: null, attempts: 1 });
    await fleet.until('a takes it again', () => fleet.lease('s1') !== null, 30_000);
    await fleet.advance(20);
    await a.coordinator.commit('s1', { watermark: 9, completed: true });
    survives(split, { ...colour, status: 'completed' });
    // Elected and published over it: generation and seal moved, the field stayed.
    survives(fleet.keys.plan, { region: 'north', sealed: true, generation: 2 });
    for (const id of ['s2', 's3', 's4'])
      await a.coordinator.commit(id, { watermark: 1, completed: true });
    await fleet.until('the verdict', () => a.verdict !== null);
    survives(fleet.keys.plan, { region: 'north', generation: 2, verdict: { kind: 'complete' } });
  });

  test('a lease deleted by hand - ends the tenancy at once and it is claimed anew: never two live handlers (R15)', async () => {
    await startFleet({ planner: finalPlan(['s1']) });
    let live = 0;
    let most = 0;
    const a = fleet.worker('a', async (grant) => {
      live += 1;
      most = Math.max(most, live);
      await holdUntilAsked(grant);
      live -= 1;
    });
    const b = fleet.worker('b', holdUntilAsked);
    await fleet.until('held', () => live === 1 || fleet.leasesOf('b').length === 1);
    for (let round = 0; round < 5; round += 1) {
      const epoch = fleet.split('s1')!.epoch;
      await fleet.store.remove(fleet.keys.lease('s1' as never));
      await fleet.until('claimed anew', () => fleet.split('s1')!.epoch !== epoch, LEASE_MS / 3);
      await fleet.advance(200);
    }
    expect(most).toBeLessThanOrEqual(1);
    expect(fleet.split('s1')?.attempts).toBe(0);
    expect([a.run.state, b.run.state]).toEqual(['pending', 'pending']);
  });

  test('a split record deleted by hand - is named in an error and never silently complete (R21)', async () => {
    await startFleet();
    const a = fleet.seam('a');
    await fleet.until('a holds all', () => a.held.size === 4);
    await fleet.store.remove(fleet.keys.split('s1' as never));
    await fleet.until('a noticed', () => !a.held.has('s1'), 20_000);
    for (const id of ['s2', 's3', 's4'])
      await a.coordinator.commit(id, { watermark: 1, completed: true });
    await fleet.advance(6 * LEASE_MS);
    expect(a.verdict).toBeNull();
    expect(a.lines.some(({ level, message }) => level === 'warn' && message.includes('s1'))).toBe(
      true,
    );
    await fleet.operator().requeue('s1');
    await fleet.until('a holds it', () => a.held.has('s1'), 30_000);
    await a.coordinator.commit('s1', { watermark: 1, completed: true });
    await fleet.until('the verdict', () => a.verdict !== null);
  });

  test('the plan deleted by hand - is put back by its leader, one generation on (R42)', async () => {
    await startFleet();
    const a = fleet.seam('a');
    await fleet.until('a holds all', () => a.held.size === 4);
    await fleet.store.remove(fleet.keys.plan);
    await fleet.until('the plan is back', () => fleet.plan()?.sealed === true, 5_000);
    expect(fleet.plan()).toMatchObject({ generation: 2, planned: 4, verdict: null });
    expect(a.events.filter(({ type }) => type === 'lost')).toEqual([]);
  });
});
