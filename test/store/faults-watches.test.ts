/** The watches of a client whose connection goes wrong: cut, slow, repeating, partitioned, frozen, but without a gap. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { revisionOf } from '../../src/base/decimals.ts';
import { looksAt } from '../../src/store/faults.ts';
import type { WatchEvent } from '../../src/store/port.ts';
import { CALL, clientOf, expectCode, put, record, type Recording, write } from './support.ts';

const ALL = { prefix: '' };
const FIRST = revisionOf(2);

/** Revisions of the changes told, and the kinds of whatever else was. */
function told({ events }: { events: readonly WatchEvent[] }): string[] {
  return events.map((event) => (event.kind === 'changes' ? event.revision : event.kind));
}

describe('faulty watches', () => {
  test('faulty watches - a watch that was cut resumes without a gap', async () => {
    const { client, server, clock } = clientOf();
    const cut = record(client.watch({ prefix: 'a' }, FIRST));
    const whole = record(client.watch(ALL, FIRST));
    server.put('a', '1');
    await clock.settle();
    client.cutWatches(
      100,
      looksAt((at) => at === 'a'),
    );
    server.put('a', '2');
    server.put('a', '3');
    await clock.advance(99);
    expect([told(cut), told(whole)]).toEqual([['2'], ['2', '3', '4']]);
    expect([client.openWatches, server.openWatches]).toEqual([2, 1]);
    await clock.advance(1);
    server.put('a', '4');
    await clock.settle();
    expect([told(cut), told(whole)]).toEqual([
      ['2', '3', '4', '5'],
      ['2', '3', '4', '5'],
    ]);
  });

  test('faulty watches - of two cuts the longer one counts', async () => {
    const { client, server, clock } = clientOf();
    const watch = record(client.watch(ALL, FIRST));
    client.cutWatches(100);
    client.cutWatches(50);
    server.put('a', '1');
    await clock.advance(99);
    expect(told(watch)).toEqual([]);
    await clock.advance(1);
    expect(told(watch)).toEqual(['2']);
  });

  test('faulty watches - delayed events keep their order', async () => {
    const { client, server, clock } = clientOf();
    const watch = record(client.watch(ALL, FIRST));
    client.when('watch').delayEvents(100, { times: 1 });
    client.when('watch').delayEvents(30, { times: 1 });
    server.put('a', '1');
    server.put('a', '2');
    server.put('a', '3');
    await clock.advance(99);
    expect(told(watch)).toEqual([]);
    await clock.advance(1);
    expect(told(watch)).toEqual(['2', '3', '4']);
    server.put('a', '4');
    await clock.settle();
    expect(told(watch)).toHaveLength(4);
  });

  test('faulty watches - events on their way are lost with the connection and told again', async () => {
    const { client, server, clock } = clientOf();
    const watch = record(client.watch(ALL, FIRST));
    client.when('watch').delayEvents(100, { times: 2 });
    server.put('a', '1');
    server.put('a', '2');
    await clock.advance(50);
    client.cutWatches(200);
    await clock.advance(199);
    expect(told(watch)).toEqual([]);
    await clock.advance(1);
    expect(told(watch)).toEqual(['2', '3']);
  });

  test('faulty watches - a cut right after a late event loses those that were to follow it', async () => {
    const { client, server, clock } = clientOf();
    const watch = record(client.watch(ALL, FIRST));
    for (const delayMs of [20, 10, 30]) client.when('watch').delayEvents(delayMs, { times: 1 });
    for (const value of ['1', '2', '3']) server.put('a', value);
    await clock.advance(20);
    expect(told(watch)).toEqual(['2', '3']);
    client.cutWatches(100);
    await clock.advance(99);
    expect(told(watch)).toEqual(['2', '3']);
    await clock.advance(1);
    expect(told(watch)).toEqual(['2', '3', '4']);
  });

  test('faulty watches - events can be repeated, late if need be', async () => {
    const { client, server, clock } = clientOf();
    const watch = record(client.watch(ALL, FIRST));
    client.when('watch').duplicateEvents(0, { times: 1 });
    client.when('watch').duplicateEvents(100, { times: 1 });
    for (const value of ['1', '2', '3']) server.put('a', value);
    await clock.advance(100);
    expect(told(watch)).toEqual(['2', '2', '3', '4', '3']);
  });

  test('faulty watches - a partition holds events back until it heals', async () => {
    for (const side of ['both', 'answers'] as const) {
      const { client, server, clock } = clientOf();
      const open = record(client.watch(ALL, FIRST));
      client.partition({ side });
      const opened = record(client.watch(ALL, FIRST));
      server.put('a', '1');
      await clock.advance(1000);
      expect([told(open), told(opened), server.openWatches]).toEqual([[], [], 0]);
      client.heal();
      await clock.settle();
      expect([told(open), told(opened)]).toEqual([['2'], ['2']]);
    }
  });

  test('faulty watches - a partition of the requests spares watches that are open', async () => {
    const { client, server, clock } = clientOf();
    const open = record(client.watch(ALL, FIRST));
    client.partition({ side: 'requests' });
    const opened = record(client.watch(ALL, FIRST));
    server.put('a', '1');
    await clock.settle();
    expect([told(open), told(opened)]).toEqual([['2'], []]);
    client.heal();
    await clock.settle();
    expect([told(open), told(opened)]).toEqual([['2'], ['2']]);
  });

  test('faulty watches - history that was compacted meanwhile is told as such', async () => {
    const { client, server, clock } = clientOf();
    const watch = record(client.watch(ALL, FIRST));
    client.cutWatches(100);
    server.put('a', '1');
    server.put('a', '2');
    server.compact();
    await clock.advance(100);
    expect([told(watch), watch.isComplete, client.openWatches]).toEqual([['compacted'], true, 0]);
  });

  test('faulty watches - a reset is told, also when the new cluster has caught up meanwhile', async () => {
    const { client, server, clock } = clientOf();
    const open = record(client.watch(ALL, FIRST));
    const cut = record(client.watch({ prefix: 'cut' }, FIRST));
    client.cutWatches(
      100,
      looksAt((at) => at === 'cut'),
    );
    client.freeze();
    const leaving = record(client.watch(ALL, FIRST));
    server.put('a', '1');
    await clock.settle();
    server.reset();
    for (const value of ['1', '2', '3']) server.put('cut', value);
    await clock.advance(100);
    client.thaw();
    await clock.settle();
    expect([told(open), told(cut), told(leaving)]).toEqual([['2', 'reset'], ['reset'], ['reset']]);
    expect([open, cut, leaving].every(({ isComplete }) => isComplete)).toBe(true);
    expect([client.openWatches, server.openWatches]).toEqual([0, 0]);
  });

  test('faulty watches - what arrives at a frozen client waits, in order over all watches', async () => {
    const { client, server, clock } = clientOf();
    const order: string[] = [];
    const follow = (name: string, prefix: string) =>
      client.watch({ prefix }, FIRST).subscribe({
        next: (event) => {
          order.push(`${name}${event.kind === 'changes' ? event.revision : event.kind}`);
        },
      });
    follow('x', 'a');
    follow('y', '');
    client.freeze();
    for (const key of ['a', 'b', 'a']) server.put(key, '1');
    server.compact();
    await clock.advance(1000);
    expect(order).toEqual([]);
    client.thaw();
    expect(order).toEqual([]);
    await clock.settle();
    expect(order).toEqual(['x2', 'y2', 'y3', 'x4', 'y4']);
  });

  test('faulty watches - one that is denied is refused once, and goes on without a gap when it is accepted', async () => {
    const { client, server, clock } = clientOf();
    const open = record(client.watch({ prefix: 'a' }, FIRST));
    const other = record(client.watch({ prefix: 'b' }, FIRST));
    server.put('a', '1');
    await clock.settle();
    const rule = client.when(looksAt((at) => at.startsWith('a'))).deny();
    const opened = record(client.watch({ keys: ['a'] }, FIRST));
    expect([told(open), told(opened)]).toEqual([['2'], []]);
    await clock.settle();
    expect([told(open), told(opened)]).toEqual([['2', 'refused'], ['refused']]);
    const [event] = opened.events;
    expect(event?.kind === 'refused' && event.error).toMatchObject({ code: 'E_STORE_DENIED' });

    server.put('a', '2');
    server.put('b', '2');
    client.cutWatches(10);
    await clock.advance(100);
    expect([told(open), told(other), server.openWatches]).toEqual([['2', 'refused'], ['4'], 1]);
    rule.remove();
    expect(told(open)).toHaveLength(2);
    await clock.settle();
    expect(told(open)).toEqual(['2', 'refused', 'accepted', '3']);
    expect(told(opened)).toEqual(['refused', 'accepted', '2', '3']);
    server.put('a', '3');
    client.clearRules();
    await clock.settle();
    expect([told(open).at(-1), told(opened).length, open.isComplete]).toEqual(['5', 5, false]);
  });

  test('faulty watches - two rules that deny last as long as the longer one', async () => {
    const { client, clock } = clientOf();
    const watch = record(client.watch(ALL, FIRST));
    const [first, second] = [client.when('watch').deny(), client.when('any').deny({ times: 1 })];
    await clock.settle();
    first.remove();
    await clock.settle();
    expect(told(watch)).toEqual(['refused']);
    await expectCode(client.read(ALL, {}, CALL), 'E_STORE_DENIED');
    await clock.settle();
    expect([told(watch), second.hits]).toEqual([['refused', 'accepted'], 1]);
  });

  test('faulty watches - a client that hears nothing is not told that it is denied, and a refusal that is over is none', async () => {
    const { client, server, clock } = clientOf();
    const watch = record(client.watch(ALL, FIRST));
    client.partition();
    client.when('watch').deny();
    await clock.settle();
    expect(told(watch)).toEqual([]);
    client.clearRules();
    client.heal();
    server.put('a', '1');
    await clock.settle();
    expect(told(watch)).toEqual(['2']);

    client.freeze();
    const rule = client.when('watch').deny();
    await clock.settle();
    client.thaw();
    await clock.settle();
    expect(told(watch)).toEqual(['2', 'refused']);
    server.reset();
    rule.remove();
    await clock.settle();
    expect([told(watch), watch.isComplete]).toEqual([['2', 'refused', 'reset'], true]);
  });

  test('faulty watches - whoever is told of a refusal may end the watch, and open another', async () => {
    const { client, server, clock } = clientOf();
    const kinds: string[] = [];
    const follow = (): void => {
      const subscription = client.watch(ALL, FIRST).subscribe({
        next: ({ kind }) => {
          kinds.push(kind);
          if (kind === 'changes' || kinds.length > 4) return;
          subscription.unsubscribe();
          follow();
        },
      });
    };
    follow();
    const rule = client.when('watch').deny();
    await clock.settle();
    rule.remove();
    server.put('a', '1');
    await clock.settle();
    expect(kinds).toEqual([
      'refused',
      'refused',
      'refused',
      'refused',
      'refused',
      'accepted',
      'changes',
    ]);
    expect([client.openWatches, server.openWatches]).toEqual([1, 1]);
  });

  test('faulty watches - a watch that was ended is forgotten everywhere', async () => {
    const { client, server, clock } = clientOf();
    client.when('watch').delayEvents(50);
    const ended = record(client.watch(ALL, FIRST));
    const cut = record(client.watch(ALL, FIRST));
    server.put('a', '1');
    await clock.settle();
    ended.stop();
    client.cutWatches(10);
    cut.stop();
    await clock.advance(100);
    expect([told(ended), told(cut)]).toEqual([[], []]);
    expect([client.openWatches, server.openWatches, clock.pendingTimers]).toEqual([0, 0, 0]);
  });
});

const anyStep = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('put' as const), key: fc.constantFrom('a', 'b') }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('advance' as const), ms: fc.nat(60) }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant('watch' as const), prefix: fc.constantFrom('', 'a') }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('cut' as const), ms: fc.nat(80) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('slow' as const), ms: fc.nat(50) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('partition' as const),
      side: fc.constantFrom('both' as const, 'requests' as const, 'answers' as const),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom('heal' as const, 'freeze' as const, 'thaw' as const),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('deny' as const, 'allow' as const) }) },
);

test('faulty watches - whatever happens to the connection, each revision is told once, in order', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(anyStep, { maxLength: 50, size: 'max' }),
      fc.nat(),
      async (steps, seed) => {
        const { client, server, another, clock } = clientOf({ seed });
        const writer = another();
        const watches: { prefix: string; from: number; recording: Recording }[] = [];
        for (const step of steps) {
          if (step.do === 'put') await write(writer, put(step.key, '1'));
          else if (step.do === 'advance') await clock.advance(step.ms);
          else if (step.do === 'cut') client.cutWatches(step.ms);
          else if (step.do === 'slow') client.when('watch').delayEvents([0, step.ms], { times: 3 });
          else if (step.do === 'partition') client.partition({ side: step.side });
          else if (step.do === 'watch') {
            const from = Number(server.revision);
            const recording = record(client.watch({ prefix: step.prefix }, revisionOf(from)));
            watches.push({ prefix: step.prefix, from, recording });
          } else if (step.do === 'deny') client.when('watch').deny();
          else if (step.do === 'allow') client.clearRules();
          else client[step.do]();
        }
        client.heal();
        client.thaw();
        client.clearRules();
        await clock.advance(1000);
        for (const { prefix, from, recording } of watches) {
          const written = server.history(prefix).map(({ revision }) => revision);
          const all = told(recording);
          const changes = all.filter((what) => what !== 'refused' && what !== 'accepted');
          expect(changes).toEqual(written.filter((revision) => Number(revision) >= from));
          // By turns, and nothing in between.
          expect(all.join(' ')).toMatch(/^((\d+|refused accepted)( |$))*$/);
        }
        expect(clock.pendingTimers).toBe(0);
      },
    ),
    { numRuns: 300 },
  );
});
