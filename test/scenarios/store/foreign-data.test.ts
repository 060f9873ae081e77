import { describe, expect, test } from '@jest/globals';
import { jobKeys } from '../../../src/records/keys.ts';
import {
  finalPlan,
  type HandledWorker,
  holdUntilAsked,
  LEASE_MS,
  type Surroundings,
  watched,
  type WorkerSetup,
} from '../../support/fleet.ts';
import { fleet, startFleet, startRecorded } from '../../support/scenario.ts';
import { eventsOf } from '../../support/observed.ts';

const BIG = 'x'.repeat(1024 * 1024);

function warningsOf(around: Surroundings): string[] {
  return around.lines
    .filter(({ event }) => event === 'record.ignored')
    .map(({ fields }) => String(fields.key).replace(/^.*\/job\//, ''));
}

/** Keys that a worker warned about, below the jobs of this test. */
function warnedKeys({ lines }: Surroundings): string[] {
  return lines
    .filter(({ level, fields }) => level === 'warn' && fields.key !== undefined)
    .map(({ fields }) => String(fields.key).replace(/^test\//, ''));
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

describe('names that begin with others', () => {
  const SPLITS = ['s', 's-1', 's-10', 's-1-', 's_1'];

  test('names that begin with others - jobs, workers and splits keep apart, strangers between them cost one warning each', async () => {
    // The time line tells splits apart by their ids alone: those of two jobs may not be compared.
    startRecorded({}, 'grant', 'overlap');
    const strangers: Record<string, string> = {
      'etl/splits/zzz/lock/1': 'junk',
      'etl/leases/zzz/lock/1': '',
      'etl/workers/w-1/x': BIG,
      'etl/splits/s-1/': '',
      'etl-2/splits/zzz/lock/1': 'junk',
    };
    for (const [key, value] of Object.entries(strangers))
      await fleet.store.put(`test/${key}`, value);
    // Beside the jobs: nobody's business.
    const beside = [
      'test/etl',
      'test/etl-',
      'test/etl-20/splits/s',
      'test/et/plan',
      'tes',
      'test2',
    ];
    for (const key of beside) await fleet.store.put(key, BIG);
    const held = new Map<string, Set<string>>();
    const start = (job: string, id: string): HandledWorker => {
      const splits = SPLITS.map((split) => ({ id: split, descriptor: `${job} ${split}` }));
      const setup: WorkerSetup = { job, planner: finalPlan(splits, job) };
      const mine = new Set<string>();
      held.set(`${job} ${id}`, mine);
      return fleet.worker(
        id,
        async (grant) => {
          const { descriptor, id: split } = grant.split;
          expect(new TextDecoder().decode(descriptor)).toBe(`${job} ${split}`);
          mine.add(split);
          await grant.draining.whenRequested();
          mine.delete(split);
        },
        setup,
      );
    };
    const one = start('etl', 'w-1');
    const ten = start('etl', 'w-10');
    const other = start('etl-2', 'w-1');
    const countOf = (name: string): number => held.get(name)!.size;
    const areHeld = (): boolean =>
      countOf('etl w-1') + countOf('etl w-10') === 5 && countOf('etl-2 w-1') === 5;
    await fleet.until('all held', areHeld, 5_000);
    await fleet.advance(2_000);
    const kept = [...held.get('etl w-10')!];
    const asked = eventsOf(ten, 'revokeRequested').length;
    const peersOf = ({ worker }: HandledWorker) =>
      worker.status().peers.map(({ instance }) => instance);
    expect([one, ten, other].map(peersOf)).toEqual([['w-10'], ['w-1'], []]);
    const leaders = ['etl', 'etl-2'].map((job) => {
      const [entry] = fleet.store.dump(jobKeys('test', job).leader);
      return (JSON.parse(entry!.value) as { nonce: string }).nonce;
    });
    const nonces = [one, ten, other].map(({ worker }) => worker.status().nonce);
    expect(nonces.slice(0, 2)).toContain(leaders[0]);
    expect(leaders[1]).toBe(nonces[2]);

    const stopped = watched(one.worker.stop());
    await fleet.until('w-10 holds all', () => countOf('etl w-10') === 5, 3_000);
    await fleet.advance(3 * LEASE_MS);
    expect(stopped.state).toBe('resolved');
    expect([...held.get('etl w-10')!]).toEqual(expect.arrayContaining(kept));
    expect(eventsOf(ten, 'revokeRequested')).toHaveLength(asked);
    for (const worker of [ten, other]) expect(eventsOf(worker, 'lost')).toEqual([]);
    expect(countOf('etl-2 w-1')).toBe(5);
    expect(eventsOf(other, 'gained')).toHaveLength(5);

    const ofJob = (job: string) =>
      Object.keys(strangers).filter((key) => key.startsWith(`${job}/`));
    expect(warnedKeys(ten).sort()).toEqual(ofJob('etl').sort());
    expect(warnedKeys(other)).toEqual(ofJob('etl-2'));
    for (const [key, value] of Object.entries(strangers)) {
      expect(fleet.store.dump(`test/${key}`)[0]!.value).toBe(value);
    }
    for (const key of beside) {
      expect(fleet.entry(key)!.value).toBe(BIG);
    }
    for (const { lines } of [one, ten, other]) {
      expect(lines.filter(({ level }) => level === 'error')).toEqual([]);
    }
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
});
