import { afterEach, describe, expect, test } from '@jest/globals';
import { completeAtOnce, finalPlan, Fleet, ids, LEASE_MS } from '../support/fleet.ts';

let fleet: Fleet;
afterEach(() => fleet.close());

describe('fleet', () => {
  test('racing workers - split the plan between them, hold still, and complete it together', async () => {
    fleet = new Fleet({ planner: finalPlan(ids(8)) });
    const a = fleet.seam('a');
    const b = fleet.seam('b');
    await fleet.until('4 and 4', () => a.held.size === 4 && b.held.size === 4);
    const held = [...a.held.keys(), ...b.held.keys()].sort();
    expect(held).toEqual(ids(8));
    await fleet.advance(2 * LEASE_MS);
    expect([...a.held.keys(), ...b.held.keys()].sort()).toEqual(ids(8));
    expect(a.events.filter((event) => event.type === 'lost')).toEqual([]);
    const commits = [a, b].flatMap((seam) =>
      [...seam.held.keys()].map((id) =>
        seam.coordinator.commit(id, { watermark: 100, completed: true }),
      ),
    );
    await fleet.until('the verdict', () => a.verdict !== null && b.verdict !== null);
    await Promise.all(commits);
    expect(a.verdict).toEqual({
      kind: 'complete',
      completed: 8,
      quarantined: 0,
      quarantinedIds: [],
    });
  });

  test('a single worker - runs its handler once per split and resolves to the verdict', async () => {
    fleet = new Fleet();
    const a = fleet.worker('a', completeAtOnce);
    await fleet.until('the end', () => a.run.state !== 'pending');
    expect(a.run.value?.kind).toBe('complete');
  });
});
