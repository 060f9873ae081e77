/**
 * What happens to the store itself: keys deleted by hand, another store in its place, watches that are cut or repeat
 * themselves, compaction, a full disk, and stores that lie (R7 to R9, R15, R42).
 */
import { describe, expect, test } from '@jest/globals';
import type { InstanceId, SplitId } from '../../../src/base/ids.ts';
import { createWorker, type Handler, type Store } from '../../../src/index.ts';
import type { Txn, TxnOutcome } from '../../../src/store/port.ts';
import {
  completeAtOnce,
  CONFIG,
  finalPlan,
  type HandledWorker,
  holdUntilAsked,
  ids,
  JOB,
  LEASE_MS,
  lost,
  type Surroundings,
  watched,
} from '../../support/fleet.ts';
import { landings, transaction, violations } from '../../support/faults.ts';
import { fleet, startFleet } from '../../support/scenario.ts';
import { readPage } from '../../store/support.ts';
import { codeOf, eventsOf, pass } from '../../support/observed.ts';

const TICK_MS = LEASE_MS / 3;

/** What has been told so far does not count. */
function forget(...workers: readonly Surroundings[]): void {
  for (const { events } of workers) events.length = 0;
}

function assignments() {
  return fleet.store.dump(`${fleet.keys.root}assign/`);
}

/** A handler that holds until it is told that the job may end, and how to tell it. */
function heldBack(): { handler: Handler; finish: () => void } {
  let finish!: () => void;
  const isOver = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const handler: Handler = async (grant) => {
    await Promise.race([isOver, grant.draining.whenRequested(), lost(grant)]);
    if (!grant.draining.requested && !grant.lost.aborted) await grant.complete({ watermark: 1 });
  };
  return { handler, finish };
}

describe('a key deleted by hand', () => {
  test('presence - is announced again, and nothing moves (R15)', async () => {
    await startFleet();
    const a = fleet.worker('a', holdUntilAsked);
    const b = fleet.worker('b', holdUntilAsked);
    // In the store, and heard of: an answer may be late.
    const holdsTwo = ({ id, worker }: HandledWorker): boolean =>
      fleet.leasesOf(id).length === 2 &&
      worker.status().tenancies.filter(({ state }) => state === 'held.owned').length === 2;
    await fleet.until('two each', () => [a, b].every(holdsTwo));
    await fleet.advance(1_000);
    forget(a, b);
    const before = assignments();
    const key = fleet.keys.presence('b' as InstanceId);
    const session = fleet.store.dump(key)[0]!.session;
    await fleet.store.remove(key);
    await fleet.until('there again', () => fleet.store.dump(key).length === 1, 100);
    await fleet.advance(3 * LEASE_MS);
    expect(fleet.store.dump(key)[0]!.session).toBe(session);
    for (const worker of [a, b]) {
      expect(eventsOf(worker, 'gained')).toEqual([]);
      expect(eventsOf(worker, 'lost')).toEqual([]);
    }
    expect(assignments()).toEqual(before);
  });

  test('presence - of the leader, announced again late: it moves nothing meanwhile (R15)', async () => {
    await startFleet();
    const a = fleet.worker('a', holdUntilAsked);
    await fleet.until('a leads', () => fleet.leader() === 'a');
    const b = fleet.worker('b', holdUntilAsked);
    await fleet.until('two each', () => ['a', 'b'].every((id) => fleet.leasesOf(id).length === 2));
    await fleet.advance(1_000);
    forget(a, b);
    const before = assignments();
    a.client.when(transaction('announce')).delay(1_000, { times: 1 });
    await fleet.store.remove(fleet.keys.presence('a' as InstanceId));
    await fleet.advance(2 * LEASE_MS);
    expect([...eventsOf(a, 'revokeRequested'), ...eventsOf(b, 'gained')]).toEqual([]);
    expect(assignments()).toEqual(before);
  });

  test('leader - is deposed, another term begins, and nothing moves (R15, R25)', async () => {
    await startFleet();
    const a = fleet.worker('a', holdUntilAsked);
    const b = fleet.worker('b', holdUntilAsked);
    await fleet.until('two each', () => ['a', 'b'].every((id) => fleet.leasesOf(id).length === 2));
    forget(a, b);
    const before = assignments();
    await fleet.store.remove(fleet.keys.leader);
    await fleet.until('a new term', () => fleet.plan()?.generation === 2, LEASE_MS);
    await fleet.advance(3 * LEASE_MS);
    expect([a, b].flatMap((one) => eventsOf(one, 'leadershipLost'))).toHaveLength(1);
    expect(fleet.plan()?.generation).toBe(2);
    for (const worker of [a, b]) {
      expect(eventsOf(worker, 'gained')).toEqual([]);
      expect(eventsOf(worker, 'lost')).toEqual([]);
    }
    expect(assignments()).toEqual(before);
  });

  test('lease - the tenancy ends as starved, and the same worker claims again without an attempt (R15, R31)', async () => {
    await startFleet({ planner: finalPlan(['s1']) });
    const a = fleet.seam('a');
    await fleet.until('held', () => a.held.has('s1'));
    const b = fleet.seam('b');
    await fleet.advance(1_000);
    const commit = a.coordinator.commit('s1', { watermark: 4 }, '1');
    await fleet.advance(0);
    await commit;
    await fleet.store.remove(fleet.keys.lease('s1' as SplitId));
    await fleet.until('again', () => eventsOf(a, 'gained').length === 2, 1_000);
    expect(eventsOf(a, 'lost')).toMatchObject([{ reason: 'starved', epoch: '1' }]);
    await fleet.advance(2 * LEASE_MS);
    expect(fleet.split('s1')).toMatchObject({ epoch: '2', attempts: 0, owner: 'a' });
    expect(eventsOf(a, 'gained')[1]).toMatchObject({ progress: { watermark: 4n } });
    expect(eventsOf(b, 'gained')).toEqual([]);
    expect(violations(fleet.store)).toEqual([]);
  });

  test('lease - five times in a row: it is claimed anew each time, and never has two live handlers (R15)', async () => {
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

  test('assignment - is written again with the same content, and nothing moves (R25)', async () => {
    await startFleet();
    const a = fleet.worker('a', holdUntilAsked);
    const b = fleet.worker('b', holdUntilAsked);
    await fleet.until('two each', () => ['a', 'b'].every((id) => fleet.leasesOf(id).length === 2));
    await fleet.advance(1_000);
    forget(a, b);
    const before = fleet.assignment('b')!.splits;
    await fleet.store.remove(fleet.keys.assignment('b' as InstanceId));
    await fleet.until('written', () => fleet.assignment('b') !== null, 500);
    await fleet.advance(2 * LEASE_MS);
    expect(fleet.assignment('b')!.splits).toEqual(before);
    for (const worker of [a, b]) {
      expect(eventsOf(worker, 'gained')).toEqual([]);
      expect(eventsOf(worker, 'revokeRequested')).toEqual([]);
      expect(eventsOf(worker, 'lost')).toEqual([]);
    }
  });

  test('plan - its leader puts it back one generation on, and the job still ends (R42)', async () => {
    await startFleet();
    const { handler, finish } = heldBack();
    const a = fleet.worker('a', handler);
    const b = fleet.worker('b', handler);
    await fleet.until('sealed', () => fleet.plan()?.sealed === true);
    await fleet.until('all held', () => fleet.store.dump(`${fleet.keys.root}leases/`).length === 4);
    await fleet.store.remove(fleet.keys.plan);
    await fleet.until('sealed again', () => fleet.plan()?.sealed === true, LEASE_MS);
    expect(fleet.plan()?.generation).toBe(2);
    finish();
    await fleet.until('the end', () => [a, b].every(({ run }) => run.state !== 'pending'));
    expect(a.run.value).toMatchObject({ kind: 'complete', completed: 4 });
    expect(b.run.value).toMatchObject({ kind: 'complete', completed: 4 });
    for (const worker of [a, b]) expect(eventsOf(worker, 'lost')).toEqual([]);
  });

  test('plan - with splits there and nobody leading it is missed for good (R42)', async () => {
    await startFleet();
    const a = fleet.worker('a', holdUntilAsked);
    await fleet.until('sealed', () => fleet.plan()?.sealed === true);
    void a.worker.stop();
    await fleet.until('left', () => a.run.state !== 'pending');
    await fleet.store.remove(fleet.keys.plan);
    const b = fleet.worker('b', holdUntilAsked);
    await fleet.until('refused', () => b.run.state !== 'pending');
    expect(codeOf(b.run)).toBe('E_RECORD_MISSING');
    expect((b.run.error as Error).message).toContain(fleet.keys.plan);
    expect(fleet.plan()).toBeNull();
  });

  test('split - its owner is fenced with one warning, and no verdict is given (R2, R39, R42)', async () => {
    await startFleet({ planner: finalPlan(['s1', 's2']) });
    const a = fleet.seam('a');
    await fleet.until('both', () => a.held.size === 2);
    const key = fleet.keys.split('s1' as SplitId);
    await fleet.store.remove(key);
    const commit = watched(a.coordinator.commit('s1', { watermark: 1 }));
    await fleet.advance(100);
    expect(codeOf(commit)).toBe('E_FENCED');
    expect(eventsOf(a, 'lost')).toMatchObject([{ splitId: 's1', reason: 'fenced' }]);
    void a.coordinator.commit('s2', { watermark: 1, completed: true });
    await fleet.advance(6 * LEASE_MS);
    expect(a.lines.filter(({ fields }) => fields.key === key)).toHaveLength(1);
    expect(fleet.plan()?.verdict).toBeNull();
    expect(a.verdict).toBeNull();
    expect(fleet.lease('s1')).toBeNull();
  });

  test('split - an owner that writes nothing hears of it at the next reconcile (R39)', async () => {
    await startFleet({ planner: finalPlan(['s1']) });
    const a = fleet.seam('a');
    await fleet.until('held', () => a.held.size === 1);
    await fleet.store.remove(fleet.keys.split('s1' as SplitId));
    await fleet.until('fenced', () => a.held.size === 0, 1.2 * CONFIG.reconcileIntervalMs!);
    expect(eventsOf(a, 'lost')).toMatchObject([{ splitId: 's1', reason: 'fenced' }]);
  });
});

describe('a store that was replaced', () => {
  test('reset - everything is lost as starved, the plan is made anew, and the same workers finish it (R8)', async () => {
    await startFleet({ ownStore: true, planner: finalPlan(ids(6)) });
    const { handler, finish } = heldBack();
    const workers = ['a', 'b', 'c'].map((id) => fleet.worker(id, handler));
    await fleet.until('two each', () => workers.every(({ id }) => fleet.leasesOf(id).length === 2));
    const [one] = fleet.leasesOf('a');
    await fleet.store.reset();
    await fleet.until('planned', () => fleet.plan()?.sealed === true, 2 * LEASE_MS);
    for (const worker of workers) {
      const reasons = eventsOf(worker, 'lost').map((event) => 'reason' in event && event.reason);
      expect(reasons).toEqual(['starved', 'starved']);
      expect(eventsOf(worker, 'sessionLost')).toMatchObject([{ reason: 'reset' }]);
    }
    await fleet.until('held again', () =>
      workers.every(({ id }) => fleet.leasesOf(id).length === 2),
    );
    expect(fleet.split(one!)).toMatchObject({ epoch: '1', attempts: 0 });
    finish();
    await fleet.until('the end', () => workers.every(({ run }) => run.state !== 'pending'));
    for (const { run } of workers) {
      expect(run.value).toMatchObject({ kind: 'complete', completed: 6 });
    }
    expect(violations(fleet.store)).toEqual([]);
  });

  test('reset - a commit on its way is refused, and nothing of the old epoch is written (R8)', async () => {
    await startFleet({ ownStore: true, planner: finalPlan(['s1']) });
    const a = fleet.seam('a');
    await fleet.until('held', () => a.held.size === 1);
    a.client.when(transaction('commit')).loseBefore({ times: 1 });
    const commit = watched(a.coordinator.commit('s1', { watermark: 50 }));
    await fleet.advance(50);
    await fleet.store.reset();
    await fleet.until('held again', () => eventsOf(a, 'gained').length === 2, 2 * LEASE_MS);
    await fleet.advance(2_000);
    expect(codeOf(commit)).toBe('E_FENCED');
    expect(eventsOf(a, 'gained')[1]).toMatchObject({ progress: null, epoch: '1' });
    expect(fleet.split('s1')?.watermark).toBeNull();
  });
});

describe('watches', () => {
  test('cut over a compaction - the worker acts on what is there afterwards (R9)', async () => {
    await startFleet({ ownStore: true, planner: finalPlan(['s1', 's2']) });
    const a = fleet.seam('a');
    await fleet.until('both', () => a.held.size === 2);
    const b = fleet.seam('b');
    await fleet.until('one asked', () => a.asked.size === 1);
    await a.coordinator.releaseDrained([...a.asked]);
    await fleet.until('one each', () => b.held.size === 1);
    b.client.cutWatches(1_500);
    await fleet.operator().drain('b');
    await fleet.operator().pause();
    await fleet.operator().resume();
    await fleet.store.compact();
    await fleet.advance(1_000);
    expect(b.asked.size).toBe(0);
    await fleet.until('asked', () => b.asked.size === 1, 1_000);
    expect(eventsOf(b, 'revokeRequested')).toMatchObject([{ reason: 'unassigned' }]);
    await b.coordinator.releaseDrained([...b.asked]);
    await fleet.until('a has both', () => fleet.leasesOf('a').length === 2);
    expect(eventsOf(b, 'lost')).toEqual([]);
  });

  test.each([
    ['late', (one: Surroundings) => one.client.when('watch').delayEvents([0, 3_000])],
    ['repeated', (one: Surroundings) => one.client.when('watch').duplicateEvents([0, 5_000])],
  ])('%s events - the job ends, every split in order and once', async (_, strike) => {
    await startFleet({ ownStore: true, planner: finalPlan(ids(9)) });
    const handler: Handler = async (grant) => {
      for (const watermark of [1, 2, 3]) {
        await Promise.race([pass(fleet, 700), grant.draining.whenRequested(), lost(grant)]);
        if (grant.draining.requested) return;
        await grant.commit({ watermark: Number(grant.progress?.watermark ?? 0) + watermark });
      }
      await grant.complete({ watermark: 100 });
    };
    const workers = ['a', 'b', 'c'].map((id) => fleet.worker(id, handler));
    const rules = workers.map(strike);
    await fleet.until('the end', () => workers.every(({ run }) => run.state !== 'pending'));
    for (const { run } of workers) {
      expect(run.value).toMatchObject({ kind: 'complete', completed: 9 });
    }
    for (const rule of rules) expect(rule.hits).toBeGreaterThan(0);
    expect(landings(fleet.store, 'complete')).toHaveLength(9);
    expect(workers.flatMap((worker) => eventsOf(worker, 'lost'))).toEqual([]);
    expect(violations(fleet.store)).toEqual([]);
  });
});

describe('a store without space', () => {
  test('full - commits wait and land once in order, nothing is lost and nobody resigns (R7, R18)', async () => {
    await startFleet({ planner: finalPlan(['s1', 's2']) });
    const a = fleet.seam('a');
    const b = fleet.seam('b');
    await fleet.until('one each', () => a.held.size === 1 && b.held.size === 1);
    await fleet.advance(1_000);
    const seams = [a, b];
    const rules = seams.map(({ client }) => client.when('transact').refuse('E_STORE_FULL'));
    const waiting = seams.flatMap(({ coordinator, held }) => {
      const [id] = [...held.keys()];
      return [1, 2, 3].map((watermark) => watched(coordinator.commit(id!, { watermark })));
    });
    // Something for the leader to write, too.
    await fleet.operator().drain('z');
    await fleet.store.remove(fleet.keys.assignment('b' as InstanceId));
    await fleet.advance(5 * LEASE_MS);
    expect(waiting.map(({ state }) => state)).toEqual(waiting.map(() => 'pending'));
    for (const rule of rules) expect(rule.hits).toBeGreaterThan(3);
    for (const { client } of seams) client.clearRules();
    await fleet.until('written', () => waiting.every(({ state }) => state === 'resolved'), 3_000);
    for (const seam of seams) {
      expect(eventsOf(seam, 'lost')).toEqual([]);
      expect(eventsOf(seam, 'leadershipLost')).toEqual([]);
      const [id] = [...seam.held.keys()];
      const marks = landings(fleet.store, 'commit', id).map(
        ({ value }) => (JSON.parse(value!) as { watermark: string }).watermark,
      );
      expect(marks).toEqual(marks.toSorted());
      expect(marks.at(-1)).toBe('3');
      void seam.coordinator.commit(id!, { watermark: 4, completed: true });
    }
    await fleet.until('the verdict', () => a.verdict?.kind === 'complete');
    expect(fleet.plan()?.generation).toBe(1);
    expect(violations(fleet.store)).toEqual([]);
  });
});

describe('a store that lies', () => {
  type Lie = (store: Store, txn: Txn) => Promise<TxnOutcome>;

  const call = { timeoutMs: 1_000 };
  const equals = (txn: Txn): string => txn.compares[0]?.equals ?? '';
  const isDelete = (txn: Txn): boolean => 'delete' in txn.writes[0]!;
  /** Tries a transaction without its compares. */
  const blindly: Lie = (store, txn) => tryOne(store, { ...txn, compares: [] });
  /** Tries a transaction; a success is told as a conflict. */
  const denied: Lie = async (store, txn) => {
    const { revision } = await tryOne(store, txn);
    return { kind: 'conflict', found: [null], revision };
  };
  /** Tries a transaction; a conflict is told, and written all the same. */
  const leaking: Lie = async (store, txn) => {
    const outcome = await tryOne(store, txn);
    if (outcome.kind === 'conflict') await blindly(store, txn);
    return outcome;
  };
  /** Tells that a transaction was carried out, and does nothing. */
  const idle: Lie = async (store) => {
    const { revision } = await readPage(store, { prefix: '' });
    return { kind: 'committed', revision };
  };
  const unbound: Lie = (store, txn) =>
    tryOne(store, { ...txn, writes: txn.writes.map((write) => ({ ...write, session: null })) });

  async function tryOne(store: Store, txn: Txn): Promise<TxnOutcome> {
    const outcome = await store.transact({ guard: [], txns: [txn] }, call);
    if (outcome.kind !== 'tried') throw new Error('a batch without a guard is tried');
    return outcome.outcomes[0]!;
  }

  /** Lies about the transactions on keys of the probe that `when` picks by what they compare and what is stored. */
  const about =
    (when: (txn: Txn, stored: string) => boolean, lie: Lie) =>
    (store: Store): Store => ({
      ...openly(store),
      transact: async (batch, options) => {
        const keys = batch.txns.map((txn) => txn.onConflict[0] ?? '');
        if (!keys.every((key) => key.includes('/probe/'))) return store.transact(batch, options);
        const found = await readPage(store, { keys });
        const revisions = new Map(found.entries.map((entry) => [entry.key, entry.modRevision]));
        const outcomes: TxnOutcome[] = [];
        for (const [index, txn] of batch.txns.entries()) {
          const isPicked = when(txn, revisions.get(keys[index]!) ?? '0');
          outcomes.push(await (isPicked ? lie : tryOne)(store, txn));
        }
        return { kind: 'tried', outcomes, revision: outcomes.at(-1)!.revision };
      },
    });
  const isRight = (txn: Txn, stored: string): boolean => equals(txn) === stored;
  const isCreate = (txn: Txn): boolean => !isDelete(txn) && equals(txn) === '0';
  const isUpdate = (txn: Txn): boolean => !isDelete(txn) && equals(txn) !== '0';
  const lostCreate = (txn: Txn, stored: string): boolean => isCreate(txn) && stored !== '0';
  const lostUpdate = (txn: Txn, stored: string): boolean => isUpdate(txn) && equals(txn) !== stored;
  const wonDelete = (txn: Txn, stored: string): boolean => isDelete(txn) && isRight(txn, stored);

  const LIES: readonly (readonly [rule: string, lie: (store: Store) => Store])[] = [
    ['a create of an absent key wins', about((txn, at) => isCreate(txn) && at === '0', denied)],
    ['a create of a present key loses', about(lostCreate, blindly)],
    ['a create of a present key loses and changes nothing', about(lostCreate, leaking)],
    [
      'an update at the right revision wins',
      about((txn, at) => isUpdate(txn) && isRight(txn, at), denied),
    ],
    ['an update at a stale revision loses', about(lostUpdate, blindly)],
    ['an update at a stale revision loses and changes nothing', about(lostUpdate, leaking)],
    [
      'a delete at a stale revision loses',
      about((txn, at) => isDelete(txn) && !isRight(txn, at), blindly),
    ],
    [
      'a delete at a stale revision loses and changes nothing',
      about((txn, at) => isDelete(txn) && !isRight(txn, at), leaking),
    ],
    ['a delete at the right revision wins', about(wonDelete, denied)],
    ['a delete at the right revision wins', about(wonDelete, idle)],
    ['a key shows the session it hangs on', about((txn) => !isDelete(txn), unbound)],
    [
      'a closed session takes its keys along',
      (store) => ({ ...openly(store), closeSession: () => Promise.resolve() }),
    ],
  ];

  function openly(store: Store): Store {
    return {
      name: store.name,
      openSession: (...args) => store.openSession(...args),
      keepAlive: (...args) => store.keepAlive(...args),
      closeSession: (...args) => store.closeSession(...args),
      read: (...args) => store.read(...args),
      transact: (...args) => store.transact(...args),
      watch: (...args) => store.watch(...args),
      close: () => store.close(),
    };
  }

  async function outcomeWith(store: Store) {
    const worker = createWorker({
      job: JOB,
      prefix: fleet.prefix,
      store,
      instanceId: 'a',
      planner: finalPlan(['s1']),
      config: CONFIG,
      clock: fleet.clock,
      random: fleet.random(),
    });
    const run = watched(worker.run(completeAtOnce));
    await fleet.until('the end', () => run.state !== 'pending');
    await fleet.advance(2 * TICK_MS);
    return run;
  }

  test.each(LIES)('%s - is refused by name before anything is owned', async (rule, lie) => {
    await startFleet();
    const run = await outcomeWith(lie(fleet.store));
    expect(codeOf(run)).toBe('E_STORE_UNSUPPORTED');
    expect(run.error).toMatchObject({ details: { rule } });
    expect((run.error as Error).message).toContain(rule);
    // The end of the probe runs beside the joining, which finds the plan or puts it.
    const shared = fleet.store.history().filter(({ key }) => !key.includes('/probe/'));
    const isLast = rule === 'a closed session takes its keys along';
    expect(shared.map(({ key }) => key)).toEqual(isLast ? [fleet.keys.plan] : []);
  });

  test('an honest one - passes the probe and leaves nothing of it behind', async () => {
    await startFleet();
    const run = await outcomeWith(openly(fleet.store));
    expect(run.value?.kind).toBe('complete');
    expect(fleet.store.dump(`${fleet.keys.root}probe/`)).toEqual([]);
  });
});

describe('another configuration', () => {
  test('fingerprint - a worker of another one is refused, and both are printed', async () => {
    await startFleet({ planner: finalPlan(['s1'], 'orders:v1') });
    const a = fleet.worker('a', holdUntilAsked);
    await fleet.until('held', () => fleet.leasesOf('a').length === 1);
    const b = fleet.worker('b', holdUntilAsked, { planner: finalPlan(['s1'], 'orders:v2') });
    await fleet.until('refused', () => b.run.state !== 'pending');
    expect(codeOf(b.run)).toBe('E_FINGERPRINT_MISMATCH');
    expect((b.run.error as Error).message).toContain('"orders:v1"');
    expect((b.run.error as Error).message).toContain('"orders:v2"');
    await fleet.advance(LEASE_MS);
    expect(a.run.state).toBe('pending');
    expect(eventsOf(a, 'lost')).toEqual([]);
    expect(fleet.store.history(fleet.keys.presence('b' as InstanceId))).toEqual([]);
  });
});
