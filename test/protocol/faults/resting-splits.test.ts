import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { SplitId } from '../../../src/base/ids.ts';
import { RestingSplits } from '../../../src/protocol/faults/resting-splits.ts';

const idOf = (number: number): SplitId => `s${number}` as SplitId;

test('resting splits - wake when their rest ends and not before, after any puts and removals', () => {
  const steps = fc.array(
    fc.oneof(
      fc.record({ put: fc.nat(12), endsAtMs: fc.nat(40) }),
      fc.record({ remove: fc.nat(12) }),
      fc.record({ wakeAtMs: fc.nat(40) }),
    ),
    { maxLength: 200 },
  );
  fc.assert(
    fc.property(steps, (done) => {
      const resting = new RestingSplits();
      const model = new Map<SplitId, number>();
      for (const step of done) {
        if ('put' in step) {
          resting.put(idOf(step.put), step.endsAtMs);
          model.set(idOf(step.put), step.endsAtMs);
        } else if ('remove' in step) {
          resting.remove(idOf(step.remove));
          model.delete(idOf(step.remove));
        } else {
          const due = [...model].filter(([, endsAtMs]) => endsAtMs <= step.wakeAtMs);
          const woken = resting.ended(step.wakeAtMs);
          expect([...woken].sort()).toEqual(due.map(([id]) => id).sort());
          const ends = woken.map((id) => model.get(id)!);
          expect(ends).toEqual([...ends].sort((a, b) => a - b));
          for (const [id] of due) model.delete(id);
        }
        expect(resting.size).toBe(model.size);
        expect([...model.keys()].every((id) => resting.has(id))).toBe(true);
        const next = Math.min(...model.values());
        expect(resting.nextEndMs).toBe(next === Infinity ? null : next);
      }
    }),
  );
});
