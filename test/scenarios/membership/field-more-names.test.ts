/** Field reports about names: some begin with others, some cannot be stored, and some keys are of strangers. */
import { afterEach, describe, expect, test } from '@jest/globals';
import { createWorker } from '../../../src/driver/worker.ts';
import { jobKeys } from '../../../src/records/keys.ts';
import { memoryStore } from '../../../src/store/memory.ts';
import { violations } from '../../support/faults.ts';
import {
  finalPlan,
  type HandledWorker,
  LEASE_MS,
  type Surroundings,
  watched,
  type WorkerSetup,
} from '../../support/fleet.ts';
import { idsUnder } from '../../support/observed.ts';
import { RecordedFleet } from '../../support/recorded.ts';
import { eventsOf } from '../../support/sources.ts';

let fleet: RecordedFleet;
/** The time line tells splits apart by their ids alone: those of two jobs may not be compared. */
let mixed: string[] = [];
afterEach(async () => {
  await fleet.closeSound(...mixed);
  mixed = [];
  expect(violations(fleet.store)).toEqual([]);
});

/** Keys that a worker warned about, below the jobs of this test. */
function warnedKeys({ lines }: Surroundings): string[] {
  return lines
    .filter(({ level, fields }) => level === 'warn' && fields.key !== undefined)
    .map(({ fields }) => String(fields.key).replace(/^test\//, ''));
}

describe('names that begin with others', () => {
  const SPLITS = ['s', 's-1', 's-10', 's-1-', 's_1'];

  test('names that begin with others - jobs, workers and splits keep apart, strangers between them cost one warning each', async () => {
    fleet = new RecordedFleet();
    mixed = ['grant', 'overlap'];
    const big = 'x'.repeat(1024 * 1024);
    const strangers: Record<string, string> = {
      'etl/splits/zzz/lock/1': 'junk',
      'etl/leases/zzz/lock/1': '',
      'etl/workers/w-1/x': big,
      'etl/splits/s-1/': '',
      'etl-2/splits/zzz/lock/1': 'junk',
    };
    for (const [key, value] of Object.entries(strangers)) fleet.store.put(`test/${key}`, value);
    // Beside the jobs: nobody's business.
    const beside = [
      'test/etl',
      'test/etl-',
      'test/etl-20/splits/s',
      'test/et/plan',
      'tes',
      'test2',
    ];
    for (const key of beside) fleet.store.put(key, big);
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
      expect(fleet.store.dump(key).find((entry) => entry.key === key)!.value).toBe(big);
    }
    for (const { lines } of [one, ten, other]) {
      expect(lines.filter(({ level }) => level === 'error')).toEqual([]);
    }
  });
});

describe('names that cannot be stored', () => {
  const BAD: readonly (readonly [string, string])[] = [
    ['a slash', 'w/1'],
    ['a space', 'w 1'],
    ['two dots', '..'],
    ['letters beyond ASCII', 'wörker'],
    ['300 characters', 'x'.repeat(300)],
  ];

  test.each(BAD)('an instance or job with %s - is refused at construction, by name', (_, id) => {
    fleet = new RecordedFleet();
    const store = memoryStore({ clock: fleet.clock });
    for (const [option, named] of [
      ['instanceId', { job: 'job', instanceId: id }],
      ['job', { job: id, instanceId: 'w-1' }],
    ] as const) {
      expect(() => createWorker({ store, planner: finalPlan([]), ...named })).toThrow(
        expect.objectContaining({
          code: 'E_CONFIG_INVALID',
          message: expect.stringContaining(option),
        }),
      );
    }
    expect(store.stats.requests.transact).toBe(0);
  });

  test.each(BAD)(
    'a split with %s - is refused at planning with the id, and nothing is stored',
    async (_, id) => {
      fleet = new RecordedFleet({ planner: finalPlan(['good', id]) });
      const a = fleet.worker('a', () => undefined);
      await fleet.until('the failure', () => eventsOf(a, 'plannerFailed').length > 0, 5_000);
      const { reason, isFatal } = eventsOf(a, 'plannerFailed')[0]!;
      expect(isFatal).toBe(true);
      expect(reason).toContain('E_PLAN_INVALID');
      expect(reason).toContain(id.slice(0, 20));
      await fleet.advance(LEASE_MS);
      expect(idsUnder(fleet, 'specs')).toEqual([]);
      expect(idsUnder(fleet, 'splits')).toEqual([]);
    },
  );
});
