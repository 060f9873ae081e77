import { describe, expect, test } from '@jest/globals';
import {
  createOperator,
  type Operator,
  type PlanAnswer,
  type Planner,
} from '../../../src/index.ts';
import { faultyStore, type FaultyStore } from '../../../src/store/faults.ts';
import { finalPlan, ids, JOB, LEASE_MS, type SeamWorker } from '../../support/fleet.ts';
import {
  completeAll,
  eventsOf,
  handBackAll,
  heldBy,
  idsUnder,
  versionsOfPlan,
  versionsOfSplit,
  writesOf,
} from '../../support/observed.ts';
import { fleet, startFleet } from '../../support/scenario.ts';

/** Two workers that hold half of eight splits each, and hand back what is asked of them. */
async function pair(planner: Planner = finalPlan(ids(8))): Promise<[SeamWorker, SeamWorker]> {
  await startFleet({ planner, config: { replanIntervalMs: LEASE_MS } });
  const a = fleet.seam('a');
  const b = fleet.seam('b');
  for (const worker of [a, b]) handBackAll(worker);
  await fleet.until('4 and 4', () => a.held.size === 4 && b.held.size === 4);
  await fleet.advance(1_000);
  return [a, b];
}

/** An operator whose connection goes wrong. */
function shakyOperator(): { operator: Operator; client: FaultyStore } {
  const { prefix } = fleet;
  const random = fleet.random();
  const client = faultyStore(fleet.store, { clock: fleet.clock, random });
  return { operator: createOperator({ job: JOB, prefix, store: client, random }), client };
}

describe('a paused job', () => {
  test('a pause - drains everybody and lets nobody claim; going on moves nothing (R29)', async () => {
    const [a, b] = await pair();
    const before = [heldBy(a), heldBy(b)];
    const assigned = writesOf(fleet, `${fleet.keys.root}assign/`).length;
    await fleet.operator().pause();
    await fleet.until('nothing is held', () => a.held.size + b.held.size === 0, 1_000);
    const reasons = [a, b].flatMap((worker) =>
      eventsOf(worker, 'revokeRequested').map(({ reason }) => reason),
    );
    expect(reasons).toEqual(ids(8).map(() => 'paused'));
    await fleet.advance(5 * LEASE_MS);
    expect(idsUnder(fleet, 'leases')).toEqual([]);
    expect(a.coordinator.status().isPaused).toBe(true);
    await fleet.operator().resume();
    await fleet.until('all held again', () => a.held.size + b.held.size === 8, 2_000);
    expect([heldBy(a), heldBy(b)]).toEqual(before);
    await fleet.advance(2 * LEASE_MS);
    expect(writesOf(fleet, `${fleet.keys.root}assign/`)).toHaveLength(assigned);
    expect(ids(8).map((id) => fleet.split(id)?.attempts)).toEqual(ids(8).map(() => 0));
  });

  test('a paused job - is planned on, and nobody new is served before it goes on (R29)', async () => {
    const answers: PlanAnswer[] = [];
    const planner: Planner = {
      fingerprint: () => 'plan:v1',
      plan: () => {
        const count = 8 + answers.length;
        const answer: PlanAnswer = {
          splits: ids(count).map((id) => ({ id, descriptor: '' })),
          finality: count > 10 ? 'final' : 'open',
        };
        answers.push(answer);
        return answer;
      },
    };
    const [a, b] = await pair(planner);
    await fleet.operator().pause();
    await fleet.until('sealed', () => fleet.plan()?.sealed === true, 5 * LEASE_MS);
    expect(idsUnder(fleet, 'splits')).toHaveLength(11);
    const c = fleet.seam('c');
    await fleet.advance(2 * LEASE_MS);
    expect(c.held.size).toBe(0);
    expect(idsUnder(fleet, 'leases')).toEqual([]);
    await fleet.operator().resume();
    await fleet.until('all run', () => a.held.size + b.held.size + c.held.size === 11, LEASE_MS);
    expect(c.held.size).toBeGreaterThan(0);
  });

  test('a pause and a resume - are idempotent (R29)', async () => {
    await pair();
    const operator = fleet.operator();
    await operator.resume();
    await operator.pause();
    const raised = fleet.store.revision;
    await operator.pause();
    expect(fleet.store.revision).toBe(raised);
    await operator.resume();
    await operator.resume();
    expect(fleet.store.dump(`${fleet.keys.root}control/`)).toEqual([]);
  });
});

describe('a cordoned instance', () => {
  test('a cordoned instance - keeps what it has and gets nothing new (R29)', async () => {
    const [a, b] = await pair();
    const before = heldBy(a);
    const asked = eventsOf(a, 'revokeRequested').length;
    await fleet.operator().cordon('a');
    const c = fleet.seam('c');
    handBackAll(c);
    await fleet.until('c is served', () => c.held.size > 0, LEASE_MS);
    void b.coordinator.stop();
    await fleet.until('c has the rest', () => c.held.size === 4, LEASE_MS);
    await fleet.advance(2 * LEASE_MS);
    expect(heldBy(a)).toEqual(before);
    expect(eventsOf(a, 'revokeRequested')).toHaveLength(asked);
    void c.coordinator.stop();
    await fleet.advance(LEASE_MS);
    // Nobody else is there: they wait.
    expect(heldBy(a)).toEqual(before);
    expect(idsUnder(fleet, 'leases')).toHaveLength(4);
    await fleet.operator().uncordon('a');
    await fleet.until('a has all', () => a.held.size === 8, LEASE_MS);
  });
});

describe('a drained instance', () => {
  test('a drained instance - hands everything back, stays in the fleet, and is served again after it (R29)', async () => {
    const [a, b] = await pair();
    await fleet.operator().drain('a');
    await fleet.until('b has all', () => b.held.size === 8, LEASE_MS);
    expect(fleet.leasesOf('a')).toEqual([]);
    expect(fleet.assignment('a')?.splits).toEqual([]);
    await fleet.advance(3 * LEASE_MS);
    expect(a.coordinator.status().presence).toBe('present');
    expect(eventsOf(a, 'lost')).toEqual([]);
    expect(ids(8).map((id) => fleet.split(id)?.attempts)).toEqual(ids(8).map(() => 0));
    await fleet.operator().undrain('a');
    await fleet.until('4 and 4', () => a.held.size === 4 + 0 && b.held.size === 4, LEASE_MS);
  });
});

describe('control keys', () => {
  test('unknown control keys - mean nothing, and are named in one warning each (R29, R42)', async () => {
    const [a, b] = await pair();
    const before = [heldBy(a), heldBy(b)];
    const asked = eventsOf(a, 'revokeRequested').length;
    const strangers = ['frozen', 'paused2', 'paused/a', 'cordoned', 'cordoned/a/b', 'evicted/a'];
    for (const name of strangers) await fleet.store.put(`${fleet.keys.root}control/${name}`, '{}');
    await fleet.advance(3 * LEASE_MS);
    expect([heldBy(a), heldBy(b)]).toEqual(before);
    expect(eventsOf(a, 'revokeRequested')).toHaveLength(asked);
    for (const name of strangers) {
      const warnings = a.lines.filter(
        ({ fields }) => fields.key === `${fleet.keys.root}control/${name}`,
      );
      expect(warnings).toHaveLength(1);
    }
  });

  test('a wish for an instance that is not there - waits for it (R29)', async () => {
    const [a, b] = await pair();
    await fleet.operator().drain('c');
    const c = fleet.seam('c');
    await fleet.advance(2 * LEASE_MS);
    expect(c.held.size).toBe(0);
    expect(a.held.size + b.held.size).toBe(8);
  });
});

describe('a requeue', () => {
  /** One worker, and one split that is quarantined. */
  async function withQuarantined(): Promise<SeamWorker> {
    await startFleet({ planner: finalPlan(['good', 'bad']), config: { maxAttempts: 1 } });
    const a = fleet.seam('a');
    await fleet.until('both held', () => a.held.size === 2);
    const committed = a.coordinator.commit('bad', { watermark: 3, state: 'where it stopped' });
    await fleet.advance(10);
    await committed;
    const failed = a.coordinator.fail('bad', 'broken');
    await fleet.until('quarantined', () => idsUnder(fleet, 'parked').length === 1);
    await failed;
    return a;
  }

  test('a requeued split - runs again from its progress, with all its attempts and a higher epoch (T15)', async () => {
    const a = await withQuarantined();
    a.held.delete('bad');
    await fleet.operator().requeue('bad');
    await fleet.until('it runs', () => a.held.has('bad'), LEASE_MS);
    expect(a.held.get('bad')).toMatchObject({ watermark: 3n, epoch: '3' });
    expect(fleet.split('bad')).toMatchObject({ status: 'runnable', attempts: 0, watermark: '3' });
    expect(idsUnder(fleet, 'parked')).toEqual([]);
    expect(fleet.plan()?.requeues).toBe(1);
  });

  test.each([
    ['nobody planned', 'nobody', 'E_SPLIT_UNKNOWN'],
    ['that runs', 'good', 'E_SPLIT_NOT_QUARANTINED'],
    ['whose id is none', 'a/b', 'E_ID_INVALID'],
  ])('a requeue of a split %s - is a clear error and writes nothing (T15)', async (_, id, code) => {
    await withQuarantined();
    const { revision } = fleet.store;
    const refused = fleet.operator().requeue(id);
    await expect(refused).rejects.toMatchObject({ code });
    await expect(fleet.operator().requeue(id)).rejects.toThrow(id);
    expect(fleet.store.revision).toBe(revision);
  });

  test('a requeue of a completed split - is refused: what is done stays done (T15)', async () => {
    await startFleet({ planner: finalPlan(['s0']) });
    const a = fleet.seam('a');
    completeAll(a);
    await fleet.until('the verdict', () => a.verdict !== null);
    const refused = fleet.operator().requeue('s0');
    await expect(refused).rejects.toMatchObject({
      code: 'E_SPLIT_NOT_QUARANTINED',
      details: { split: 's0', status: 'completed' },
    });
    expect(fleet.plan()?.verdict).not.toBeNull();
  });
});

describe('an operator with a bad connection', () => {
  test.each([1, 3])(
    'acts whose answers are lost %i times - happen exactly once (R1)',
    async (losses) => {
      const [a, b] = await pair();
      const { operator, client } = shakyOperator();
      const control = (): string[] =>
        fleet.store
          .dump(`${fleet.keys.root}control/`)
          .map(({ key }) => key.slice(fleet.keys.root.length));
      client.when('transact').loseAfter({ times: losses });
      await operator.pause();
      expect(control()).toEqual(['control/paused']);
      client.when('transact').loseAfter({ times: losses });
      await operator.cordon('a');
      client.when('transact').loseAfter({ times: losses });
      await operator.drain('b');
      expect(control()).toEqual(['control/cordoned/a', 'control/drained/b', 'control/paused']);
      for (const act of [
        () => operator.resume(),
        () => operator.uncordon('a'),
        () => operator.undrain('b'),
      ]) {
        client.when('transact').loseAfter({ times: losses });
        await act();
      }
      expect(control()).toEqual([]);
      const writes = writesOf(fleet, `${fleet.keys.root}control/`);
      expect(writes).toHaveLength(6);
      await fleet.until('all held', () => a.held.size + b.held.size === 8, 3 * LEASE_MS);
    },
  );

  test.each([
    ['it leads', 'a'],
    ['it follows', 'b'],
  ])(
    'a requeue that its owner hears nothing of (%s) - of a split set aside and put back between two looks: it runs again (R24)',
    async (_, owner) => {
      await startFleet({
        ownStore: true,
        planner: finalPlan(['s0', 's1']),
        config: { maxAttempts: 1 },
      });
      const a = fleet.seam('a');
      await fleet.until('a leads', () => fleet.leader() === 'a');
      const b = fleet.seam('b');
      for (const worker of [a, b]) handBackAll(worker);
      await fleet.until('one each', () => a.held.size === 1 && b.held.size === 1);
      const worker = owner === 'a' ? a : b;
      const [split] = worker.held.keys();
      worker.client.cutWatches(1_000);
      // The other one that leads reads late, and so finds nothing changed.
      if (worker !== a) a.client.when('read').delay(500, { times: 1 });
      await worker.coordinator.fail(split!, 'poison');
      expect(fleet.split(split!)?.status).toBe('quarantined');
      await fleet.operator().requeue(split!);
      await fleet.store.compact();
      // The watches come back, and then a tick: long before the leader would look for another owner (R27).
      await fleet.until('it runs', () => fleet.lease(split!) !== null, LEASE_MS / 2);
      expect(fleet.split(split!)).toMatchObject({ status: 'runnable', attempts: 0 });
    },
  );

  test('a requeue whose answer is lost - is not done twice (R1, T15)', async () => {
    await startFleet({ planner: finalPlan(['good', 'bad']), config: { maxAttempts: 1 } });
    const a = fleet.seam('a');
    await fleet.until('both held', () => a.held.size === 2);
    void a.coordinator.fail('bad', 'broken');
    await fleet.until('quarantined', () => idsUnder(fleet, 'parked').length === 1);
    const { operator, client } = shakyOperator();
    client.when('transact').loseAfter({ times: 2 });
    await operator.requeue('bad');
    await fleet.advance(1_000);
    expect(versionsOfPlan(fleet).at(-1)?.record.requeues).toBe(1);
    const requeued = versionsOfSplit(fleet, 'bad').filter(
      ({ record }) =>
        record.status === 'runnable' && record.lastFailure !== null && record.epoch === '2',
    );
    expect(requeued).toHaveLength(1);
  });

  test('a requeue whose answer is lost until the split runs again - is no error (R1, T15)', async () => {
    await startFleet({ planner: finalPlan(['good', 'bad']), config: { maxAttempts: 1 } });
    const a = fleet.seam('a');
    await fleet.until('both held', () => a.held.size === 2);
    void a.coordinator.fail('bad', 'broken');
    await fleet.until('quarantined', () => idsUnder(fleet, 'parked').length === 1);
    const { operator, client } = shakyOperator();
    client.when('transact').loseAfter({ times: 1, atTimeout: true });
    const requeued = operator.requeue('bad');
    await fleet.until('it runs', () => fleet.lease('bad') !== null, 2_000);
    await fleet.advance(5_000);
    await expect(requeued).resolves.toBeUndefined();
    expect(fleet.plan()?.requeues).toBe(1);
  });

  test('an act that never gets through - is an error, not a silence (R1)', async () => {
    await pair();
    const { operator, client } = shakyOperator();
    client.when('transact').loseBefore();
    await expect(operator.pause()).rejects.toMatchObject({ code: 'E_OUTCOME_UNKNOWN' });
    client.when('read').refuse('E_STORE_UNREACHABLE');
    await expect(operator.resume()).rejects.toMatchObject({ code: 'E_STORE_UNREACHABLE' });
  });
});
