import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { SplitId } from '../../src/base/ids.ts';
import {
  decideVerdict,
  type VerdictDecision,
  type VerdictInput,
} from '../../src/protocol/verdict.ts';
import type { Decoded } from '../../src/records/codec.ts';
import type { PlanRecord, SplitRecord, SplitStatus } from '../../src/records/records.ts';
import { record } from './records.ts';

const stamp = { instance: 'w1', nonce: 'n', write: 1 };

const sealed: PlanRecord = {
  fingerprint: 'f',
  generation: 1,
  finality: 'final',
  sealed: true,
  planned: 3,
  cursor: null,
  requeues: 0,
  verdict: null,
};

type Found = SplitStatus | 'junk' | 'newer';

function decoded(found: Found): Decoded<SplitRecord> {
  if (found === 'junk' || found === 'newer') return { kind: found, reason: 'because' };
  return { kind: 'record', record: record({ status: found }), stamp };
}

function judge(
  splits: Readonly<Record<string, Found>>,
  options: Partial<VerdictInput> & { readonly plan?: PlanRecord } = {},
): VerdictDecision {
  const entries = Object.entries(splits).map(
    ([id, found]) => [id as SplitId, decoded(found)] as const,
  );
  return decideVerdict({
    plan: sealed,
    splits: entries,
    specs: { count: entries.length, ids: new Set(entries.map(([id]) => id)) },
    paused: false,
    ...options,
  });
}

function waiting(reason: string, ids: readonly string[] = []): unknown {
  return { kind: 'wait', reason, ids };
}

describe('verdict', () => {
  test('verdict - a job of which every split is completed is complete', () => {
    expect(judge({ a: 'completed', b: 'completed' })).toEqual({
      kind: 'verdict',
      verdict: { kind: 'complete', completed: 2, quarantined: 0, ids: [] },
    });
  });

  test('verdict - a quarantined split makes it stalled, and is named', () => {
    expect(judge({ b: 'quarantined', c: 'completed', a: 'quarantined' })).toEqual({
      kind: 'verdict',
      verdict: { kind: 'stalled', completed: 1, quarantined: 2, ids: ['a', 'b'] },
    });
  });

  test('verdict - a sealed plan without splits is complete', () => {
    expect(judge({})).toMatchObject({ verdict: { kind: 'complete', completed: 0 } });
  });

  test('verdict - waits for the last runnable split', () => {
    expect(judge({ b: 'runnable', c: 'completed', a: 'runnable' })).toEqual(
      waiting('runnable', ['a', 'b']),
    );
  });

  test('verdict - an unsealed or open plan, or one of unknown finality, gets none', () => {
    for (const plan of [
      { ...sealed, sealed: false },
      { ...sealed, finality: 'open' as const },
      { ...sealed, finality: 'unknown' as const },
    ]) {
      expect(judge({ a: 'completed' }, { plan })).toEqual(waiting('unsealed'));
    }
  });

  test('verdict - a paused job gets none', () => {
    expect(judge({ a: 'completed' }, { paused: true })).toEqual(waiting('paused'));
  });

  test('verdict - one that was given is not given again', () => {
    const verdict = { kind: 'stalled' as const, completed: 0, quarantined: 1, ids: [] };
    const plan = { ...sealed, verdict };
    expect(judge({ a: 'completed' }, { plan })).toEqual(waiting('decided'));
  });

  test('verdict - a split that cannot be read blocks it', () => {
    const splits = { a: 'completed', d: 'junk', c: 'newer', b: 'unknown', e: 'runnable' } as const;
    expect(judge(splits)).toEqual(waiting('unreadable', ['b', 'c', 'd']));
  });

  test('verdict - specs and splits that do not pair up block it, and are named where known', () => {
    const specs = { count: 2, ids: new Set(['a', 'x'] as SplitId[]) };
    expect(judge({ b: 'completed', a: 'completed' }, { specs })).toEqual(
      waiting('mismatch', ['b', 'x']),
    );
    expect(judge({ a: 'completed' }, { specs: { count: 2 } })).toEqual(waiting('mismatch'));
    expect(judge({ a: 'completed' }, { specs: { count: 1 } })).toMatchObject({ kind: 'verdict' });
    const miscounted = { count: 2, ids: new Set(['a'] as SplitId[]) };
    expect(judge({ a: 'completed' }, { specs: miscounted })).toEqual(waiting('mismatch'));
  });

  test('verdict - counts are exact and at most 1,000 ids are named, the lowest (R23)', () => {
    const ids = Array.from({ length: 2_500 }, (_, index) => `s${String(index).padStart(4, '0')}`);
    const splits = Object.fromEntries(ids.toReversed().map((id) => [id, 'quarantined' as const]));
    const decision = judge({ ...splits, done: 'completed' });
    expect(decision).toMatchObject({ verdict: { completed: 1, quarantined: 2_500 } });
    if (decision.kind === 'verdict') expect(decision.verdict.ids).toEqual(ids.slice(0, 1_000));
  });

  test('verdict - is given exactly when every split has ended, and counts them', () => {
    const anySplits = fc.dictionary(
      fc.stringMatching(/^[a-z]{1,3}$/),
      fc.constantFrom<Found>(
        'completed',
        'completed',
        'quarantined',
        'runnable',
        'unknown',
        'junk',
      ),
      { maxKeys: 8 },
    );
    fc.assert(
      fc.property(anySplits, (splits) => {
        const found = Object.values(splits);
        const countOf = (status: Found): number => found.filter((one) => one === status).length;
        const decision = judge(splits);
        const hasEnded = found.every((one) => one === 'completed' || one === 'quarantined');
        expect(decision.kind).toBe(hasEnded ? 'verdict' : 'wait');
        if (decision.kind !== 'verdict') return;
        expect(decision.verdict.kind).toBe(countOf('quarantined') > 0 ? 'stalled' : 'complete');
        expect(decision.verdict.completed).toBe(countOf('completed'));
        expect(decision.verdict.quarantined).toBe(countOf('quarantined'));
      }),
      { numRuns: 500 },
    );
  });
});
