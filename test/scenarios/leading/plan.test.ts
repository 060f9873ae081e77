import { describe, expect, test } from '@jest/globals';
import { SCHEMA } from '../../../src/records/codec.ts';
import type { PlanAnswer, PlannedSplit, Planner, PlanRequest } from '../../../src/index.ts';
import { ids, LEASE_MS, type Surroundings } from '../../support/fleet.ts';
import {
  completeAll,
  deferred,
  eventsOf,
  idsUnder,
  versionsOfPlan,
  versionsOfSplit,
  writesOf,
} from '../../support/observed.ts';
import { fleet, startFleet } from '../../support/scenario.ts';

const REPLAN_MS = LEASE_MS;

/** A planner that gives one answer after the other, the last one again and again; `asked` keeps its requests. */
function plannerInSteps(answers: readonly PlanAnswer[]): {
  planner: Planner;
  asked: PlanRequest[];
} {
  const asked: PlanRequest[] = [];
  const planner: Planner = {
    fingerprint: () => 'plan:v1',
    plan: (request) => {
      asked.push(request);
      return answers[Math.min(asked.length, answers.length) - 1]!;
    },
  };
  return { planner, asked };
}

function planned(...splits: readonly (string | PlannedSplit)[]): PlannedSplit[] {
  return splits.map((split) => (typeof split === 'string' ? { id: split, descriptor: '' } : split));
}

function textOf(bytes: Uint8Array | null): string | null {
  return bytes === null ? null : Buffer.from(bytes).toString();
}

function warningsOf(worker: Surroundings, about: string): string[] {
  return worker.lines
    .filter(({ level, message }) => level === 'warn' && message.includes(about))
    .map(({ message }) => message);
}

describe('an open plan', () => {
  test('an open plan - is asked again each interval with its own cursor, until it is final (R22)', async () => {
    const { planner, asked } = plannerInSteps([
      { splits: planned('s0', 's1'), finality: 'open', cursor: 'page 1' },
      { splits: planned('s0', 's1', 's2'), finality: 'open', cursor: new Uint8Array([0, 255, 7]) },
      { splits: planned('s3'), finality: 'open' },
      { splits: planned('s0'), finality: 'final' },
    ]);
    await startFleet({ planner, config: { replanIntervalMs: REPLAN_MS } });
    const a = fleet.seam('a');
    await fleet.until('four runs', () => asked.length === 4, 5 * REPLAN_MS);
    await fleet.advance(5 * REPLAN_MS);
    expect(asked).toHaveLength(4);
    expect(asked.slice(0, 2).map(({ cursor }) => textOf(cursor))).toEqual([null, 'page 1']);
    // A run without a cursor keeps the last one.
    expect(asked.slice(2).map(({ cursor }) => [...cursor!])).toEqual([
      [0, 255, 7],
      [0, 255, 7],
    ]);
    expect(fleet.plan()).toMatchObject({ finality: 'final', sealed: true, planned: 4 });
    // Splits that are no longer listed stay.
    expect(idsUnder(fleet, 'specs')).toEqual(ids(4));
    expect(a.held.size).toBe(4);
  });

  test('a replan - stores unknown ids only: what is stored keeps its weight and descriptor (R21)', async () => {
    const { planner, asked } = plannerInSteps([
      { splits: [{ id: 's0', descriptor: 'first', weight: 3 }], finality: 'open' },
      {
        splits: [
          { id: 's0', descriptor: 'second', weight: 9 },
          { id: 's1', descriptor: 'new', weight: 2 },
        ],
        finality: 'final',
      },
    ]);
    await startFleet({ planner, config: { replanIntervalMs: REPLAN_MS } });
    const a = fleet.seam('a');
    await fleet.until('s1', () => a.held.has('s1'));
    expect(asked).toHaveLength(2);
    expect(writesOf(fleet, `${fleet.keys.root}specs/`)).toHaveLength(2);
    const splits = eventsOf(a, 'gained').map(({ split }) => [
      split.id,
      textOf(split.descriptor),
      split.weight,
    ]);
    expect(splits).toEqual([
      ['s0', 'first', 3],
      ['s1', 'new', 2],
    ]);
  });

  test('a replan that finds nothing new - writes nothing at all (R25)', async () => {
    const { planner, asked } = plannerInSteps([
      { splits: planned('s0', 's1'), finality: 'open', cursor: 'c' },
    ]);
    await startFleet({ planner, config: { replanIntervalMs: REPLAN_MS } });
    const a = fleet.seam('a');
    await fleet.until('both held', () => a.held.size === 2);
    await fleet.advance(1_000);
    const before = fleet.store.revision;
    const runs = asked.length;
    await fleet.advance(5 * REPLAN_MS);
    expect(asked.length).toBeGreaterThanOrEqual(runs + 4);
    expect(fleet.store.revision).toBe(before);
  });

  test('a new leader - enumerates an unsealed plan again from its cursor, a sealed one never (R22)', async () => {
    const { planner, asked } = plannerInSteps([
      { splits: planned('s0'), finality: 'open', cursor: 'half way' },
      { splits: planned('s1'), finality: 'final' },
    ]);
    await startFleet({ planner });
    const a = fleet.seam('a');
    await fleet.until('s0', () => a.held.size === 1 && fleet.plan()?.cursor !== null);
    fleet.seam('b');
    a.crash();
    await fleet.until('sealed', () => fleet.plan()?.sealed === true, 2 * LEASE_MS);
    expect(asked.map(({ cursor, generation }) => [textOf(cursor), generation])).toEqual([
      [null, 1],
      ['half way', 2],
    ]);
    await fleet.store.remove(fleet.keys.leader);
    await fleet.until('a third term', () => fleet.plan()?.generation === 3, LEASE_MS);
    await fleet.advance(2 * LEASE_MS);
    expect(asked).toHaveLength(2);
    expect(fleet.plan()?.planned).toBe(2);
  });

  test('an empty open plan - gets no verdict, an empty final one is complete (R22, R23)', async () => {
    const { planner } = plannerInSteps([
      { splits: [], finality: 'open' },
      { splits: [], finality: 'open' },
      { splits: [], finality: 'final' },
    ]);
    await startFleet({ planner, config: { replanIntervalMs: REPLAN_MS } });
    const a = fleet.seam('a');
    await fleet.advance(REPLAN_MS + 2_000);
    expect(a.verdict).toBeNull();
    await fleet.until('the verdict', () => a.verdict !== null, 2 * REPLAN_MS);
    expect(a.verdict).toEqual({
      kind: 'complete',
      completed: 0,
      quarantined: 0,
      quarantinedIds: [],
    });
  });
});

describe('seeded progress', () => {
  test('a seed - is where the first tenancy starts, and no commit may fall below it (R38)', async () => {
    const seed = { watermark: 40n, state: 'offset 40' };
    const { planner } = plannerInSteps([
      { splits: [{ id: 's0', descriptor: '', seed }], finality: 'final' },
    ]);
    await startFleet({ planner });
    const a = fleet.seam('a');
    await fleet.until('s0', () => a.held.has('s0'));
    const progress = a.held.get('s0')!;
    expect(progress.watermark).toBe(40n);
    expect(textOf(progress.state)).toBe('offset 40');
    const refused = a.coordinator.commit('s0', { watermark: 39 });
    await expect(refused).rejects.toMatchObject({ code: 'E_WATERMARK_REGRESSION' });
    expect(fleet.split('s0')?.watermark).toBe('40');
  });

  test('a seed - never overwrites what is stored, neither progress nor an earlier seed (R21)', async () => {
    const seeded = (watermark: number): PlannedSplit[] => [
      { id: 's0', descriptor: '', seed: { watermark } },
      { id: 's1', descriptor: '', seed: { watermark } },
    ];
    const { planner, asked } = plannerInSteps([
      { splits: seeded(40), finality: 'open' },
      { splits: seeded(90), finality: 'final' },
    ]);
    await startFleet({ planner, config: { replanIntervalMs: REPLAN_MS } });
    const a = fleet.seam('a');
    await fleet.until('both held', () => a.held.size === 2);
    const committed = a.coordinator.commit('s0', { watermark: 50 });
    await fleet.until('a second run', () => asked.length === 2);
    await committed;
    // A new leader knows no id from memory; what is stored stays all the same.
    await fleet.store.remove(fleet.keys.leader);
    await fleet.advance(LEASE_MS);
    expect(fleet.split('s0')?.watermark).toBe('50');
    expect(fleet.split('s1')?.watermark).toBe('40');
  });

  test('a seed that is completed - is terminal: never run, and counted in the verdict', async () => {
    const { planner } = plannerInSteps([
      {
        splits: [
          { id: 'done', descriptor: '', seed: { watermark: 9, completed: true } },
          { id: 'open', descriptor: '' },
        ],
        finality: 'final',
      },
    ]);
    await startFleet({ planner });
    const a = fleet.seam('a');
    completeAll(a);
    await fleet.until('the verdict', () => a.verdict !== null);
    expect(a.verdict).toMatchObject({ kind: 'complete', completed: 2 });
    expect(eventsOf(a, 'gained').map(({ split }) => split.id)).toEqual(['open']);
    expect(versionsOfSplit(fleet, 'done')).toHaveLength(1);
  });
});

describe('an invalid plan', () => {
  const ok = { id: 'ok', descriptor: '' };
  const INVALID: readonly (readonly [string, unknown, RegExp])[] = [
    ['an id listed twice', { splits: [ok, ok], finality: 'final' }, /listed twice/],
    ['weight 0', { splits: [ok, { ...ok, id: 'x', weight: 0 }], finality: 'final' }, /weight.*0/],
    ['weight 1.5', { splits: [{ ...ok, weight: 1.5 }], finality: 'final' }, /weight.*1\.5/],
    ['weight NaN', { splits: [{ ...ok, weight: NaN }], finality: 'final' }, /weight.*NaN/],
    ['weight 2^53', { splits: [{ ...ok, weight: 2 ** 53 }], finality: 'final' }, /weight/],
    [
      'a descriptor of 64 KiB and a byte',
      { splits: [ok, { id: 'x', descriptor: 'd'.repeat(64 * 1024 + 1) }], finality: 'final' },
      /descriptor.*65537/,
    ],
    ['an empty id', { splits: [{ ...ok, id: '' }], finality: 'final' }, /split id/],
    ['an id with a slash', { splits: [ok, { ...ok, id: 'a/b' }], finality: 'final' }, /a\/b/],
    ['an id of 129 bytes', { splits: [{ ...ok, id: 'i'.repeat(129) }], finality: 'final' }, /128/],
    ['an id of two dots', { splits: [ok, { ...ok, id: '..' }], finality: 'final' }, /\.\./],
    ['an id with a space', { splits: [ok, { ...ok, id: 'w 1' }], finality: 'final' }, /w 1/],
    ['an id beyond ASCII', { splits: [ok, { ...ok, id: 'wörker' }], finality: 'final' }, /wörker/],
    ['a number for an id', { splits: [{ ...ok, id: 7 }], finality: 'final' }, /split id/],
    [
      'a seed without a watermark',
      { splits: [{ ...ok, seed: { completed: true } }], finality: 'final' },
      /seed watermark/,
    ],
    [
      'a seed whose watermark is no whole number',
      { splits: [{ ...ok, seed: { watermark: 0.5 } }], finality: 'final' },
      /seed watermark/,
    ],
    ['a finality that is misspelt', { splits: [ok], finality: 'finall' }, /finality.*finall/],
    ['no finality', { splits: [ok] }, /finality/],
    ['splits that are no list', { splits: 3, finality: 'final' }, /iterable/],
    ['nothing', undefined, /must be an object/],
    [
      'a cursor that is too long',
      { splits: [ok], finality: 'open', cursor: 'c'.repeat(64 * 1024 + 1) },
      /cursor/,
    ],
  ];

  test.each(INVALID)(
    'a plan with %s - is refused as a whole, and reported (R43)',
    async (_, plan, rule) => {
      const planner = { fingerprint: () => 'plan:v1', plan: () => plan as PlanAnswer };
      await startFleet({ planner });
      const a = fleet.seam('a');
      await fleet.until('the failure', () => eventsOf(a, 'plannerFailed').length > 0);
      const [failure] = eventsOf(a, 'plannerFailed');
      expect(failure).toMatchObject({ isFatal: true });
      expect(failure!.reason).toMatch(rule);
      expect(a.coordinator.status().lastError).toMatch(rule);
      await fleet.advance(1_000);
      expect(idsUnder(fleet, 'specs')).toEqual([]);
      expect(idsUnder(fleet, 'splits')).toEqual([]);
      expect(fleet.plan()).toMatchObject({ sealed: false, planned: 0, cursor: null });
    },
  );

  test('an invalid plan - names every broken rule at once (R43)', async () => {
    const plan = {
      splits: [ok, ok, { id: 'x', descriptor: '', weight: 0 }],
      finality: 'maybe',
    } as unknown as PlanAnswer;
    await startFleet({ planner: { fingerprint: () => 'plan:v1', plan: () => plan } });
    const a = fleet.seam('a');
    await fleet.until('the failure', () => eventsOf(a, 'plannerFailed').length > 0);
    const { reason } = eventsOf(a, 'plannerFailed')[0]!;
    for (const rule of [/^E_PLAN_INVALID: /, /maybe/, /listed twice/, /weight/])
      expect(reason).toMatch(rule);
  });

  test('the largest weight and an id of 128 bytes - are stored as they are (R43)', async () => {
    const id = 'i'.repeat(128);
    const { planner } = plannerInSteps([
      {
        splits: [{ id, descriptor: 'd'.repeat(64 * 1024), weight: 2 ** 53 - 1 }],
        finality: 'final',
      },
    ]);
    await startFleet({ planner });
    const a = fleet.seam('a');
    await fleet.until('it is held', () => a.held.has(id));
    expect(eventsOf(a, 'gained')[0]!.split.weight).toBe(2 ** 53 - 1);
  });
});

describe('half a split', () => {
  /** Starts a leader whose planner waits, so that a test can spoil the store first. */
  async function spoilt(spoil: () => Promise<void>) {
    const go = deferred();
    const planner: Planner = {
      fingerprint: () => 'plan:v1',
      plan: async () => {
        await go.promise;
        return { splits: planned('s0', 'half', 's1'), finality: 'final' };
      },
    };
    await startFleet({ planner });
    const a = fleet.seam('a');
    completeAll(a);
    await fleet.until('a leads', () => eventsOf(a, 'leadershipGained').length === 1);
    await fleet.advance(1_000);
    await spoil();
    go.resolve();
    await fleet.until('the others end', () => fleet.split('s1')?.status === 'completed');
    await fleet.advance(3 * LEASE_MS);
    return a;
  }
  const by = { instance: 'hand', nonce: 'hand', write: 1 };
  const record = (fields: object): string =>
    JSON.stringify({ schema: SCHEMA, minReader: SCHEMA, ...fields, by });
  const split = record({
    epoch: '3',
    status: 'completed',
    owner: null,
    nonce: null,
    attempts: 0,
    weight: 1,
    watermark: '5',
    state: null,
    lastFailure: null,
  });

  test('a spec without its record - blocks the verdict by name, and a requeue repairs it (R21)', async () => {
    const a = await spoilt(async () => {
      await fleet.store.put(
        `${fleet.keys.root}specs/half`,
        record({ weight: 4, descriptor: Buffer.from('kept').toString('base64') }),
      );
    });
    expect(a.verdict).toBeNull();
    expect(warningsOf(a, 'splits/half')).toHaveLength(1);
    // Never seeded again by itself: that could reset a fence.
    expect(fleet.split('half')).toBeNull();
    const { revision } = fleet.store;
    const requeued = fleet.operator().requeue('half');
    await fleet.until('the verdict', () => a.verdict !== null, LEASE_MS);
    await requeued;
    expect(a.verdict).toMatchObject({ kind: 'complete', completed: 3 });
    const [first] = versionsOfSplit(fleet, 'half');
    expect(first?.record).toMatchObject({ epoch: revision, weight: 4, status: 'runnable' });
    const gained = eventsOf(a, 'gained').filter(({ split: { id } }) => id === 'half');
    expect(gained.map(({ split: { descriptor } }) => textOf(descriptor))).toEqual(['kept']);
  });

  test('a record without its spec - blocks the verdict by name, even a completed one (R21)', async () => {
    const a = await spoilt(async () => {
      await fleet.store.put(`${fleet.keys.root}splits/half`, split);
    });
    expect(a.verdict).toBeNull();
    expect(warningsOf(a, 'specs/half')).toHaveLength(1);
    expect(idsUnder(fleet, 'specs')).toEqual(['s0', 's1']);
    expect(versionsOfSplit(fleet, 'half')).toHaveLength(1);
    expect(versionsOfPlan(fleet).filter(({ record: { verdict } }) => verdict !== null)).toEqual([]);
  });

  test('half a split - disturbs no other split of its batch (R21)', async () => {
    const a = await spoilt(async () => {
      await fleet.store.put(`${fleet.keys.root}splits/half`, split);
    });
    const completed = ['s0', 's1'].map((id) => fleet.split(id)?.status);
    expect(completed).toEqual(['completed', 'completed']);
    expect(fleet.plan()?.sealed).toBe(true);
    expect(a.coordinator.status().presence).toBe('present');
  });
});
