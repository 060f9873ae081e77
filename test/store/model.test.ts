/**
 * Random histories of the memory store against the model, step by step and then as a whole: every answer, every past state
 * that is kept, and every watch from every revision. fast-check prints the seed that replays a failure.
 */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { type Revision, revisionOf } from '../../src/base/decimals.ts';
import { InvariantViolation, isLeaseholdError } from '../../src/base/errors.ts';
import { virtualClock } from '../../src/base/virtual-clock.ts';
import { memoryStore, type MemoryStore } from '../../src/store/memory.ts';
import { type Batch, type Compare, inRange, type Key, type Range } from '../../src/store/port.ts';
import { readAll } from '../../src/store/read-all.ts';
import { Model } from './model.ts';
import { CALL, record, type Recording, session } from './support.ts';

const KEYS: readonly Key[] = ['a', 'b', 'b/1', 'b/2', 'c'];
const RANGES: readonly Range[] = [
  { prefix: '' },
  { prefix: 'b' },
  { prefix: 'b/' },
  { keys: ['a', 'b/2'] },
  { keys: ['c'] },
];

const anyKey = fc.constantFrom(...KEYS);
const anySession = fc.constantFrom('s1', 's2', 's3').map(session);

/** A compare; `aim` says what it is compared with once the state is known. */
const anyCompare = fc.record({
  key: anyKey,
  target: fc.constantFrom('createRevision', 'modRevision', 'session'),
  aim: fc.constantFrom('now', 'now', 'now', 'absent', 'other'),
});
type DrawnCompare = typeof anyCompare extends fc.Arbitrary<infer Value> ? Value : never;

const anyWrite = fc.oneof(
  { weight: 3, arbitrary: fc.record({ put: anyKey, value: fc.constantFrom('x', 'y') }) },
  { weight: 2, arbitrary: fc.record({ put: anyKey, value: fc.constant('z'), under: anySession }) },
  { weight: 1, arbitrary: fc.record({ delete: anyKey }) },
);
const anyTxn = fc.record({
  compares: fc.array(anyCompare, { maxLength: 2 }),
  writes: fc.uniqueArray(anyWrite, {
    maxLength: 3,
    selector: (write) => ('put' in write ? write.put : write.delete),
  }),
  onConflict: fc.array(anyKey, { maxLength: 3 }),
});
const anyStep = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('transact' as const),
      guard: fc.array(anyCompare, { maxLength: 1 }),
      txns: fc.array(anyTxn, { maxLength: 3 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('open' as const),
      id: anySession,
      ttlMs: fc.constantFrom(50, 100),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('keepAlive' as const), id: anySession }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('close' as const), id: anySession }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('advance' as const),
      durationMs: fc.constantFrom(0, 25, 50, 75),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('compact' as const), back: fc.nat(3) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('watch' as const),
      range: fc.constantFrom(...RANGES),
      back: fc.integer({ min: -2, max: 4 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('read' as const),
      range: fc.constantFrom(...RANGES),
      back: fc.integer({ min: -1, max: 4 }),
      pageEntriesMax: fc.integer({ min: 1, max: 3 }),
      after: fc.option(fc.constantFrom('', ...KEYS, 'z'), { nil: undefined }),
      sinceBack: fc.option(fc.nat(6), { nil: undefined }),
    }),
  },
);
type Step = typeof anyStep extends fc.Arbitrary<infer Value> ? Value : never;
type DrawnBatch = Step & { do: 'transact' };

/** A batch for the store, with compares aimed at what the model holds now. */
function aimed({ guard, txns }: DrawnBatch, model: Model): Batch {
  const aim = ({ key, target, aim: at }: DrawnCompare): Compare => {
    const entry = model.state.get(key);
    if (target === 'session') {
      const other = session('s2');
      return {
        key,
        target,
        equals: at === 'now' ? (entry?.session ?? null) : at === 'other' ? other : null,
      };
    }
    const now = entry?.[target] ?? ('0' as Revision);
    const equals = at === 'now' ? now : at === 'absent' ? ('0' as Revision) : revisionOf(2);
    return { key, target, equals };
  };
  return {
    guard: guard.map(aim),
    txns: txns.map(({ compares, writes, onConflict }) => ({
      compares: compares.map(aim),
      writes: writes.map((write) =>
        'put' in write
          ? { put: write.put, value: write.value, session: 'under' in write ? write.under : null }
          : write,
      ),
      onConflict,
    })),
  };
}

/** The answer of a store, or the name of its error. */
async function answerOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.catch((error: unknown) => {
    if (isLeaseholdError(error)) return error.code;
    if (error instanceof InvariantViolation) return 'InvariantViolation';
    throw error;
  });
}

interface OpenWatch {
  readonly range: Range;
  readonly from: number;
  readonly recording: Recording;
}

/** A store and its model, stepped together. */
function pair() {
  const clock = virtualClock();
  const store = memoryStore({ clock, keepAudit: true });
  const model = new Model();
  const watches: OpenWatch[] = [];

  async function read({ range, back, pageEntriesMax, ...step }: Step & { do: 'read' }) {
    const at = model.newest - back;
    const { after, sinceBack } = step;
    const since = sinceBack === undefined ? 0 : Math.max(0, model.newest - sinceBack);
    const read = {
      atRevision: revisionOf(at),
      limit: pageEntriesMax,
      ...(after === undefined ? {} : { after }),
      ...(sinceBack === undefined ? {} : { minModRevision: revisionOf(since) }),
    };
    if (at < 1) return;
    const page = await store.read(range, read, CALL);
    if (at < model.compacted || at > model.newest) {
      expect(page.kind).toBe('compacted');
      return;
    }
    const inside = [...model.states[at]!.values()]
      .filter(({ key }) => inRange(range, key) && (after === undefined || key > after))
      .sort((a, b) => (a.key < b.key ? -1 : 1));
    const wanted = inside.filter(({ modRevision }) => Number(modRevision) >= since);
    expect(page).toEqual({
      kind: 'page',
      entries: wanted.slice(0, pageEntriesMax),
      more: wanted.length > pageEntriesMax,
      count: inside.length,
      revision: read.atRevision,
    });
  }

  async function watch({ range, back }: Step & { do: 'watch' }): Promise<void> {
    const from = model.newest - back;
    if (from < 1) return;
    const recording = record(store.watch(range, revisionOf(from)));
    if (from > model.compacted && from <= model.newest + 1) {
      watches.push({ range, from, recording });
      return;
    }
    await clock.settle();
    const revision = revisionOf(model.compacted);
    const ending = from <= model.compacted ? { kind: 'compacted', revision } : { kind: 'reset' };
    expect(recording.events).toEqual([ending]);
    expect(recording.isComplete).toBe(true);
  }

  async function step(drawn: Step): Promise<void> {
    switch (drawn.do) {
      case 'transact': {
        const drawnBatch = aimed(drawn, model);
        const expected = model.transact(drawnBatch);
        expect(await answerOf(store.transact(drawnBatch, CALL))).toEqual(expected);
        break;
      }
      case 'open': {
        const ttlMs = model.open(drawn.id, drawn.ttlMs);
        expect(await store.openSession(drawn.id, drawn.ttlMs, CALL)).toEqual({ ttlMs });
        break;
      }
      case 'keepAlive': {
        const ttlMs = model.keepAlive(drawn.id);
        const expected = typeof ttlMs === 'number' ? { ttlMs } : ttlMs;
        expect(await answerOf(store.keepAlive(drawn.id, CALL))).toEqual(expected);
        break;
      }
      case 'close':
        model.end(drawn.id);
        await store.closeSession(drawn.id, CALL);
        break;
      case 'advance':
        model.advance(drawn.durationMs);
        await clock.advance(drawn.durationMs);
        break;
      case 'compact': {
        const at = Math.max(1, model.newest - drawn.back);
        model.compacted = Math.max(model.compacted, at);
        store.compact(revisionOf(at));
        break;
      }
      case 'watch':
        await watch(drawn);
        break;
      case 'read':
        await read(drawn);
        break;
    }
    expect(store.revision).toBe(model.revision);
  }
  return { clock, store, model, watches, step };
}

const history = fc.array(anyStep, { maxLength: 60, size: 'max' });

describe('store model', () => {
  test('store model - every answer and every open watch agrees with the model', async () => {
    await fc.assert(
      fc.asyncProperty(history, async (steps) => {
        const { clock, store, model, watches, step } = pair();
        for (const drawn of steps) await step(drawn);
        await clock.settle();
        for (const { range, from, recording } of watches) {
          const expected = model.eventsSince(from, (key) => inRange(range, key));
          expect(recording.events).toEqual(expected);
        }
        expect(new Set(store.liveSessions)).toEqual(new Set(model.sessions.map(({ id }) => id)));
        expect(clock.pendingTimers).toBe(model.sessions.length);
      }),
      { numRuns: 300 },
    );
  });

  test('store model - a watch from any revision that is kept hears exactly the suffix', async () => {
    await fc.assert(
      fc.asyncProperty(history, async (steps) => {
        const { clock, store, model, step } = pair();
        for (const drawn of steps) await step(drawn);
        for (const range of RANGES) {
          const recordings: Recording[] = [];
          for (let from = model.compacted + 1; from <= model.newest + 1; from += 1) {
            recordings.push(record(store.watch(range, revisionOf(from))));
          }
          await clock.settle();
          recordings.forEach(({ events }, index) => {
            const from = model.compacted + 1 + index;
            expect(events).toEqual(model.eventsSince(from, (key) => inRange(range, key)));
          });
        }
      }),
    );
  });

  test('store model - a store restored from a snapshot answers as the one that it was taken of', async () => {
    const timeless = history.map((steps) => steps.filter((step) => step.do !== 'advance'));
    await fc.assert(
      fc.asyncProperty(history, timeless, async (steps, later) => {
        const { clock, store, model, step } = pair();
        for (const drawn of steps) await step(drawn);
        const restored = memoryStore({ clock });
        restored.restore(store.snapshot());
        expect(restored.snapshot()).toEqual(store.snapshot());
        const oldest = model.newest;
        for (const drawn of later) {
          const both = async (call: (one: MemoryStore) => Promise<unknown>): Promise<void> => {
            const [expected, actual] = [
              await answerOf(call(store)),
              await answerOf(call(restored)),
            ];
            expect(actual).toEqual(expected);
          };
          if (drawn.do === 'transact') {
            const drawnBatch = aimed(drawn, model);
            model.transact(drawnBatch);
            await both((one) => one.transact(drawnBatch, CALL));
          } else if (drawn.do === 'close') {
            model.end(drawn.id);
            await both((one) => one.closeSession(drawn.id, CALL));
          } else if (drawn.do === 'read') {
            const at = Math.max(oldest, model.newest - drawn.back);
            const limit = drawn.pageEntriesMax;
            await both((one) => one.read(drawn.range, { atRevision: revisionOf(at), limit }, CALL));
          } else if (drawn.do === 'compact') {
            for (const one of [store, restored]) one.compact();
          }
        }
        expect(restored.snapshot()).toEqual(store.snapshot());
      }),
    );
  });

  test('store model - every revision that is kept reads as it was, and the audit tells them all', async () => {
    await fc.assert(
      fc.asyncProperty(history, fc.integer({ min: 1, max: 4 }), async (steps, pageEntriesMax) => {
        const { store, model, step } = pair();
        for (const drawn of steps) await step(drawn);
        for (let at = Math.max(1, model.compacted); at <= model.newest; at += 1) {
          const page = await store.read({ prefix: '' }, { atRevision: revisionOf(at) }, CALL);
          const entries = [...model.states[at]!.values()].sort((a, b) => (a.key < b.key ? -1 : 1));
          expect(page).toMatchObject({ kind: 'page', entries });
        }
        const all = await readAll(store, { prefix: '' }, { ...CALL, pageEntriesMax });
        expect(all).toEqual({ entries: store.dump(), revision: model.revision });

        const told = model.states.slice(2).flatMap((_, index) =>
          model.changesAt(index + 2).map(({ key, modRevision, entry }) => ({
            revision: modRevision,
            key,
            value: entry?.value ?? null,
            session: entry?.session ?? null,
            replaced: model.states[index + 1]!.get(key) ?? null,
          })),
        );
        expect(store.history()).toMatchObject(told);
        expect(store.history()).toHaveLength(told.length);
      }),
    );
  });
});
