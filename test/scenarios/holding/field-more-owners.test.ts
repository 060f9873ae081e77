/** Field reports about claims that are answered late, leases that the store took away, and twins. */
import { afterEach, describe, expect, test } from '@jest/globals';
import type { InstanceId, SessionId, SplitId } from '../../../src/base/ids.ts';
import { seededRandom } from '../../../src/base/random.ts';
import { createWorker } from '../../../src/driver/worker.ts';
import { faultyStore } from '../../../src/store/faults.ts';
import { workerClock } from '../../../src/testing/worker-clock.ts';
import { transaction, violations } from '../../support/faults.ts';
import {
  CONFIG,
  finalPlan,
  Fleet,
  holdUntilAsked,
  ids,
  JOB,
  LEASE_MS,
  type Surroundings,
  watched,
} from '../../support/fleet.ts';
import { RecordedFleet } from '../../support/recorded.ts';
import { eventsOf, Journal, sessionOf, stepWorker } from '../../support/sources.ts';

let fleet: Fleet;
afterEach(async () => {
  if (fleet instanceof RecordedFleet) await fleet.closeSound();
  else await fleet.close();
  expect(violations(fleet.store)).toEqual([]);
});

const TICK_MS = 1_000;

/** Writes of keys that hang on a session, and calls that name it, after so many calls in all; by what they touch. */
function mentions({ client }: Surroundings, session: string, after: number): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { sequence, call } of client.log) {
    if (sequence <= after) continue;
    const puts = call.kind === 'transact' ? call.batch.txns.flatMap(({ writes }) => writes) : [];
    const named = puts.find((write) => 'put' in write && write.session === session);
    const isNamed = named !== undefined || ('id' in call && call.id === session);
    if (!isNamed) continue;
    const what = named !== undefined && 'put' in named ? named.put : call.kind;
    counts.set(what, (counts.get(what) ?? 0) + 1);
  }
  return counts;
}

describe('a claim that is answered late', () => {
  /** How a worker ceases to want what it claims. */
  type Change = 'un-named' | 'stopped' | 'aborted';

  /** A worker without a place in the fleet's list, which can be aborted. */
  function abortable(id: string) {
    const abort = new AbortController();
    const client = faultyStore(fleet.store, { clock: fleet.clock, random: seededRandom(90) });
    const worker = createWorker({
      job: JOB,
      prefix: 'test',
      store: client,
      instanceId: id,
      planner: finalPlan(['s1']),
      config: CONFIG,
      clock: workerClock(fleet.clock),
      random: seededRandom(91),
    });
    return { client, worker, abort };
  }

  test.each([
    ['un-named', 'delay'],
    ['un-named', 'delayAnswer'],
    ['stopped', 'delay'],
    ['stopped', 'delayAnswer'],
    ['aborted', 'delay'],
    ['aborted', 'delayAnswer'],
  ] as const satisfies readonly (readonly [Change, 'delay' | 'delayAnswer'])[])(
    'a claim in flight of a worker that is %s meanwhile (%s) - leaves nothing behind, and the next owner waits for no expiry',
    async (change, fault) => {
      fleet = new Fleet({ planner: finalPlan(['s1']) });
      const leader = fleet.seam('leader', { config: { maxInFlight: 0 } });
      await fleet.until('it leads', () => fleet.leader() === 'leader', 2_000);
      const { client, worker: a, abort } = abortable('a');
      let starts = 0;
      const rule = client.when(transaction('claim'))[fault](1_500, { times: 1 });
      const run = watched(
        a.run(
          (grant) => {
            starts += 1;
            return holdUntilAsked(grant);
          },
          { signal: abort.signal },
        ),
      );
      await fleet.until('a claims', () => rule.hits === 1, 2_000);
      const b = fleet.seam('b');
      await fleet.until('b is there', () => sessionOf(fleet, 'b') !== null, 1_000);
      const changedAtMs = fleet.clock.nowMs();
      let left: ReturnType<typeof watched> | null = null;
      if (change === 'un-named') await fleet.operator().drain('a');
      else if (change === 'stopped') left = watched(a.stop());
      else abort.abort(new Error('enough'));
      await fleet.advance(1_500 + 2 * TICK_MS);
      expect(fleet.leasesOf('a')).toEqual([]);
      expect(b.held.has('s1')).toBe(true);
      expect(fleet.clock.nowMs() - changedAtMs).toBeLessThan(LEASE_MS / 2);
      const session = fleet.store.dump(fleet.keys.lease('s1' as SplitId))[0]!.session;
      expect(session).toBe(sessionOf(fleet, 'b'));
      await fleet.advance(3 * LEASE_MS);
      // Nothing is put again, and no handler was started in vain.
      expect(fleet.leasesOf('b')).toEqual(['s1']);
      expect(eventsOf(b, 'lost')).toEqual([]);
      expect(starts).toBe(0);
      expect(eventsOf(leader, 'lost')).toEqual([]);
      if (left !== null) expect(left.state).toBe('resolved');
      if (change === 'aborted') expect(run.error).toMatchObject({ message: 'enough' });
      const leaving = watched(a.stop());
      await fleet.until('a has left', () => leaving.state === 'resolved', 10_000);
    },
  );
});

describe('leases that the store took away', () => {
  test('both sessions of a leader at once - everything is lost once, renewed once, and the next assignment counts it in', async () => {
    const world = new RecordedFleet({ planner: finalPlan(ids(4)) });
    fleet = world;
    const journal = new Journal();
    const a = stepWorker(world, 'a', journal);
    await fleet.until('a leads', () => fleet.leader() === 'a', 2_000);
    const b = stepWorker(world, 'b', journal);
    const areEven = (): boolean => ['a', 'b'].every((id) => fleet.leasesOf(id).length === 2);
    await fleet.until('two each', areEven, 5_000);
    await fleet.advance(LEASE_MS);
    const mine = fleet.leasesOf('a').sort();
    const epochs = mine.map((id) => BigInt(fleet.split(id)!.epoch));
    const worker = sessionOf(fleet, 'a')!;
    const leader = fleet.store.dump(fleet.keys.leader)[0]!.session!;
    expect(leader).not.toBe(worker);
    const revokedAtMs = fleet.clock.nowMs();
    world.recorder.note({ kind: 'disturbed', process: 0, by: 'robbed' });
    for (const session of [worker, leader]) fleet.store.expireSession(session as SessionId);
    await fleet.until('both lost', () => eventsOf(a, 'lost').length === 2, LEASE_MS / 3);
    const noticed = a.client.log.at(-1)!.sequence;
    await fleet.until('both again', () => journal.runningOn('a').length === 2, LEASE_MS / 3);
    expect(sessionOf(fleet, 'a')).not.toBe(worker);
    expect(journal.runningOn('a')).toEqual(mine);
    mine.forEach((id, index) => {
      expect(BigInt(fleet.split(id)!.epoch)).toBeGreaterThan(epochs[index]!);
      expect(fleet.split(id)?.attempts).toBe(0);
    });
    await fleet.until('somebody leads', () => fleet.leader() !== null, LEASE_MS);
    // The next assignment: a newcomer takes a share, and the robbed one keeps one.
    stepWorker(world, 'c', journal);
    const areThree = (): boolean => ['a', 'b', 'c'].every((id) => fleet.leasesOf(id).length > 0);
    await fleet.until('all three', areThree, 5_000);
    expect(fleet.assignment('a')?.splits.length).toBeGreaterThan(0);
    await fleet.advance(3 * LEASE_MS);
    expect(
      eventsOf(a, 'lost')
        .map(({ splitId }) => splitId)
        .sort(),
    ).toEqual(mine);
    expect(eventsOf(b, 'lost')).toEqual([]);
    expect(fleet.clock.nowMs()).toBeGreaterThan(revokedAtMs);
    for (const session of [worker, leader]) {
      for (const count of mentions(a, session, noticed).values()) expect(count).toBe(1);
    }
  });

  test.each([
    [1, true],
    [3, false],
    [2, true],
  ])(
    'renewals that are carried out and whose answers are lost, %i in a row (at the timeout: %s) - cost nothing',
    async (times, atTimeout) => {
      const world = new RecordedFleet({ planner: finalPlan(['s1', 's2']) });
      fleet = world;
      const a = fleet.worker('a', holdUntilAsked);
      await fleet.until('a holds both', () => fleet.leasesOf('a').length === 2, 5_000);
      await fleet.advance(LEASE_MS);
      const before = fleet.store.dump(fleet.keys.root);
      const session = sessionOf(fleet, 'a');
      const rule = a.client
        .when((call) => call.kind === 'keepAlive' && call.id === session)
        .loseAfter({ times, atTimeout });
      await fleet.advance(5 * LEASE_MS);
      expect(rule.hits).toBe(times);
      expect(fleet.store.dump(fleet.keys.root)).toEqual(before);
      expect(eventsOf(a, 'lost')).toEqual([]);
      expect(eventsOf(a, 'sessionLost')).toEqual([]);
      expect(eventsOf(a, 'leadershipLost')).toEqual([]);
    },
  );
});

describe('live twins among others', () => {
  test.each([
    ['while the first one leads', 'late'],
    ['at the very same instant', 'together'],
    ['while the first one is paused for two leases', 'paused'],
  ] as const)(
    'live twins among others - started %s: one ends for good, the rest of the fleet works on',
    async (_, when) => {
      const world = new RecordedFleet({ planner: finalPlan(ids(8)), config: { maxInFlight: 4 } });
      fleet = world;
      const journal = new Journal();
      const start = (id: string) => stepWorker(world, id, journal);
      const first = start('w-1');
      if (when !== 'together') {
        await fleet.until('the first leads', () => fleet.leader() === 'w-1', 2_000);
        await fleet.until('it has four', () => journal.runningOn('w-1').length === 4, 5_000);
      }
      const others = ['w-2', 'w-3'].map(start);
      if (when !== 'together') {
        const isFull = (): boolean => fleet.store.dump(`${fleet.keys.root}leases/`).length === 8;
        await fleet.until('all held', isFull, 5_000);
        await fleet.advance(2_000);
      }
      if (when === 'paused') first.freeze();
      const second = start('w-1');
      if (when === 'paused') {
        await fleet.advance(2 * LEASE_MS);
        first.thaw();
      }
      const twins = [first, second];
      const isOver = (): boolean => twins.some(({ run }) => run.state !== 'pending');
      await fleet.until('one twin ends', isOver, LEASE_MS);
      await fleet.advance(20);
      const [dead, survivor] = first.run.state === 'pending' ? [second, first] : [first, second];
      expect(dead.run.error).toMatchObject({
        code: 'E_INSTANCE_ID_TAKEN',
        details: { instanceId: 'w-1' },
      });
      const calls = dead.client.counts;
      const lost = eventsOf(survivor, 'lost').length;
      await fleet.until('all held', () => fleet.leasesOf('w-1').length >= 2, 3 * LEASE_MS);
      await fleet.advance(4 * LEASE_MS);
      // It does not try again, and nothing more of it reaches the store.
      expect(dead.client.counts).toEqual(calls);
      expect(survivor.run.state).toBe('pending');
      expect(eventsOf(survivor, 'lost')).toHaveLength(lost);
      expect(fleet.store.dump(`${fleet.keys.root}leases/`)).toHaveLength(8);
      const { nonce } = survivor.worker.status();
      for (const id of fleet.leasesOf('w-1')) expect(fleet.lease(id)?.nonce).toBe(nonce);
      for (const other of others) {
        expect(other.run.state).toBe('pending');
        expect(eventsOf(other, 'lost')).toEqual([]);
      }
      const key = fleet.keys.presence('w-1' as InstanceId);
      expect(fleet.store.dump(key)).toHaveLength(1);
    },
  );
});
