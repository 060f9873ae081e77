/** How splits change hands in order: by exits, restarts and moves, and when a handler hangs in its drain. */
import { describe, expect, test } from '@jest/globals';
import type { SplitId } from '../../../src/base/ids.ts';
import { fleet, startFleet } from '../../support/scenario.ts';
import { finalPlan, type HandledWorker, ids, type Outcome, watched } from '../../support/fleet.ts';
import { commitHeld, Journal, ownersOf, sleep, stepWorker } from '../../support/sources.ts';
import { eventsOf } from '../../support/observed.ts';

describe('a planned exit', () => {
  test('a planned exit - hands over as soon as the handlers have stopped, with nothing replayed', async () => {
    await startFleet({
      planner: finalPlan(ids(8)),
      config: { leaseDurationMs: 30_000, rebalanceDelayMs: 60_000 },
    });
    const journal = new Journal();
    const a = stepWorker(fleet, 'a', journal, { drainMs: 1_000 });
    stepWorker(fleet, 'b', journal, { drainMs: 1_000 });
    const isSettled = (): boolean =>
      journal.runningOn('a').length === 4 && journal.runningOn('b').length === 4;
    await fleet.until('4 and 4', isSettled, 10_000);
    await fleet.advance(5_000);
    const leaving = journal.runningOn('a');
    const stopped = watched(a.worker.stop());
    await fleet.advance(300);
    // Placed at once, while they are still being drained (R16).
    expect(journal.runningOn('a')).toEqual(leaving);
    expect(fleet.assignment('b')?.splits).toHaveLength(8);
    await fleet.until('b runs all', () => journal.runningOn('b').length === 8, 1_000 + 1_000);
    for (const id of leaving) {
      const end = journal.of(id, 'end').findLast(({ worker }) => worker === 'a');
      const start = journal.of(id, 'start').findLast(({ worker }) => worker === 'b');
      expect(start!.watermark).toBe(end!.watermark);
      expect(fleet.split(id)?.attempts).toBe(0);
    }
    await fleet.until('a has left', () => stopped.state === 'resolved', 2_000);
    expect(stopped.value).toMatchObject({ reason: 'stopped', released: leaving, forced: [] });
    expect(journal.overlaps).toEqual([]);
  });
});

describe('a rolling restart', () => {
  test('a rolling restart - under stable ids moves nothing', async () => {
    await startFleet({
      planner: finalPlan(ids(16)),
      config: { leaseDurationMs: 30_000, rebalanceDelayMs: 20_000 },
    });
    const journal = new Journal();
    const names = ['w-1', 'w-2', 'w-3', 'w-4'];
    const workers = new Map<string, HandledWorker>();
    const start = (name: string) => stepWorker(fleet, name, journal, { stepMs: 1_500 });
    for (const name of names) workers.set(name, start(name));
    const isSettled = (): boolean => names.every((name) => journal.runningOn(name).length === 4);
    await fleet.until('4 each', isSettled, 20_000);
    await fleet.advance(10_000);
    const before = new Map(names.map((name) => [name, journal.runningOn(name)]));
    const ownersBefore = new Map(ids(16).map((id) => [id, ownersOf(fleet, id).length]));
    const eventsBefore = new Map(names.map((name) => [name, workers.get(name)!.events.length]));

    for (const name of names) {
      workers.get(name)!.crash();
      journal.died(name);
      await fleet.advance(5_000);
      const attempts = before.get(name)!.map((id) => fleet.split(id)!.attempts);
      expect(attempts).toEqual([0, 0, 0, 0]);
      const restarted = start(name);
      const hasAll = (): boolean => journal.runningOn(name).length === 4;
      await fleet.until('it runs its splits again', hasAll, 2_000);
      expect(journal.runningOn(name)).toEqual(before.get(name));
      // A crash costs one attempt, until progress lands (R31).
      for (const id of before.get(name)!) expect(fleet.split(id)!.attempts).toBe(1);
      await fleet.advance(2_000);
      for (const id of before.get(name)!) expect(fleet.split(id)!.attempts).toBe(0);
      for (const other of names) {
        if (other === name) continue;
        const worker = workers.get(other)!;
        const since = { ...worker, events: worker.events.slice(eventsBefore.get(other)) };
        expect(eventsOf(since, 'lost')).toEqual([]);
        expect(eventsOf(since, 'revokeRequested')).toEqual([]);
      }
      workers.set(name, restarted);
      eventsBefore.set(name, 0);
    }
    await fleet.advance(31_000);
    for (const name of names) expect(journal.runningOn(name)).toEqual(before.get(name));
    for (const [name, splits] of before) {
      for (const id of splits) {
        expect(ownersOf(fleet, id).slice(ownersBefore.get(id))).toEqual([name]);
      }
    }
    expect(journal.overlaps).toEqual([]);
  });
});

describe('a planned move', () => {
  test('a planned move - asks first, lets the tail be committed, and only then starts the next owner', async () => {
    await startFleet({ planner: finalPlan(['s1', 's2']) });
    const events: { what: string; split: string; atMs: number }[] = [];
    const note = (what: string, split: string): void => {
      events.push({ what, split, atMs: fleet.clock.nowMs() });
    };
    const handled = new Map<string, number[]>();
    const run = (id: string) => {
      const worker = fleet.worker(id, async (grant) => {
        const split = grant.split.id;
        note(`${id} starts`, split);
        const items = handled.get(split) ?? [];
        handled.set(split, items);
        const first = Number(grant.progress?.watermark ?? 0n);
        // Seven items are processed, and nothing is committed before the drain.
        for (let item = first; item < first + 7; item += 1) items.push(item);
        await grant.draining.whenRequested();
        note(`${id} is asked`, split);
        await sleep(worker, 2_000);
        await grant.commit({ watermark: first + 7 });
        note(`${id} ends`, split);
      });
      return worker;
    };
    run('a');
    await fleet.until('a runs both', () => events.length === 2, 5_000);
    run('b');
    await fleet.until('b runs one', () => events.some(({ what }) => what === 'b starts'), 6_000);
    const split = events.find(({ what }) => what === 'b starts')!.split;
    const key = fleet.keys.split(split as SplitId);
    const written = (part: string, of: string): number =>
      fleet.store
        .history(of)
        .find(({ value }) => (part === '' ? value === null : (value?.includes(part) ?? false)))!
        .atMs;
    const order = events.filter((event) => event.split === split).map(({ what }) => what);
    expect(order).toEqual(['a starts', 'a is asked', 'a ends', 'b starts']);
    const at = (what: string): number =>
      events.find((event) => event.split === split && event.what === what)!.atMs;
    const committedAtMs = written('"watermark":"7"', key);
    const freedAtMs = written('', fleet.keys.lease(split as SplitId));
    expect(committedAtMs).toBe(at('a is asked') + 2_000);
    expect(freedAtMs).toBeGreaterThanOrEqual(committedAtMs);
    expect(at('b starts')).toBeGreaterThanOrEqual(freedAtMs);
    // B goes on with the item after A's last: none twice, none left out.
    expect(handled.get(split)).toEqual(Array.from({ length: 14 }, (_, item) => item));
    const revisions = fleet.store
      .history(fleet.keys.root)
      .filter(({ key: one }) => one === key || one === fleet.keys.lease(split as SplitId));
    const states = revisions.map(({ value }) =>
      value === null
        ? 'freed'
        : value.includes('"owner":"b"')
          ? 'b'
          : value.includes('"watermark":"7"')
            ? 'committed'
            : 'a',
    );
    expect(states.indexOf('committed')).toBeLessThan(states.indexOf('freed'));
    expect(states.indexOf('freed')).toBeLessThan(states.indexOf('b'));
  });
});

describe('a wedged drain', () => {
  test('a wedged drain - holds nothing up but its own split, and that only to the deadline', async () => {
    await startFleet({ planner: finalPlan(ids(4)) });
    const starts = new Map<string, number>();
    let wedged: string | null = null;
    let lateCommit: Outcome<void> | undefined;
    // The handler of the first split that is asked back never reacts, and commits at 60 s.
    const a = fleet.worker('a', async (grant) => {
      const { id } = grant.split;
      starts.set(id, (starts.get(id) ?? 0) + 1);
      await grant.commit({ watermark: 5 });
      await grant.draining.whenRequested();
      if (wedged !== null) return;
      wedged = id;
      await sleep(a, 60_000 - fleet.clock.nowMs());
      lateCommit = watched(grant.commit({ watermark: 9 }));
    });
    await fleet.until('a works on all', () => starts.size === 4, 5_000);
    await fleet.advance(2_000);
    const b = fleet.seam('b');
    await fleet.until('the other one is on b', () => b.held.size === 1, 1_000);
    const askedAtMs = fleet.clock.nowMs();
    const stuck = wedged!;
    expect(b.held.has(stuck)).toBe(false);
    await fleet.until('the wedged one is on b', () => b.held.has(stuck), 5_500);
    expect(fleet.clock.nowMs() - askedAtMs).toBeGreaterThan(5_000 - 1_000);
    expect(b.held.get(stuck)?.watermark).toBe(5n);
    expect(eventsOf(a, 'lost')).toMatchObject([{ splitId: stuck, reason: 'revoked' }]);

    commitHeld(b);
    await fleet.until('the wedged handler commits', () => lateCommit !== undefined);
    await fleet.advance(100);
    expect(fleet.clock.nowMs()).toBeGreaterThanOrEqual(60_000);
    expect(lateCommit).toMatchObject({ state: 'rejected', error: { code: 'E_FENCED' } });
    expect(fleet.split(stuck)).toMatchObject({ owner: 'b', watermark: '6' });
    // The others were started once and never interrupted.
    const stayed = ids(4).filter((id) => !b.held.has(id));
    expect(stayed).toHaveLength(2);
    for (const id of stayed) {
      expect(starts.get(id)).toBe(1);
      expect(ownersOf(fleet, id)).toEqual(['a']);
      expect(eventsOf(a, 'revokeRequested', id)).toEqual([]);
    }
  });
});
