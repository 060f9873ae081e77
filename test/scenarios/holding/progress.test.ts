import { describe, expect, test } from '@jest/globals';
import type { Grant } from '../../../src/index.ts';
import { transaction } from '../../support/faults.ts';
import { finalPlan, type HandledWorker, LEASE_MS, lost, watched } from '../../support/fleet.ts';
import { eventsOf } from '../../support/observed.ts';
import { fleet, startFleet } from '../../support/scenario.ts';

/** A worker whose grant the test holds in its own hands. */
async function granted(): Promise<{ a: HandledWorker; grant: Grant }> {
  await startFleet({ planner: finalPlan(['s1']) });
  const grants: Grant[] = [];
  const a = fleet.worker('a', async (grant) => {
    grants.push(grant);
    await lost(grant);
  });
  await fleet.until('the grant', () => grants.length === 1);
  return { a, grant: grants[0]! };
}

describe('progress', () => {
  test('a watermark that falls - fails its tenancy with its reason; the worker and its other splits go on (R38)', async () => {
    await startFleet({ planner: finalPlan(['s1', 's2']) });
    const grants: Grant[] = [];
    const a = fleet.worker('a', async (grant) => {
      grants.push(grant);
      await lost(grant);
    });
    await fleet.until('both', () => grants.length === 2);
    const grant = grants.find(({ split }) => split.id === 's1')!;
    await grant.commit({ watermark: 10 });
    // Below one that was accepted and not yet written counts too.
    a.client.when(transaction('commit')).delay(100, { times: 1 });
    const higher = watched(grant.commit({ watermark: 20 }));
    const lower = watched(grant.commit({ watermark: 19 }));
    const later = watched(grant.commit({ watermark: 21 }));
    await fleet.until('the failure', () => fleet.split('s1')?.attempts === 1);
    expect(lower.error).toMatchObject({ code: 'E_WATERMARK_REGRESSION', kind: 'usage' });
    expect((lower.error as Error).message).toMatch(/s1.*20.*19/);
    expect(higher.state).toBe('resolved');
    expect(later.error).toMatchObject({ code: 'E_FENCED' });
    expect(grant.lost.aborted).toBe(true);
    expect(fleet.split('s1')).toMatchObject({
      watermark: '20',
      owner: null,
      lastFailure: { reason: expect.stringMatching(/20.*19/), by: 'a' },
    });
    expect(eventsOf(a, 'lost')).toEqual([
      { type: 'lost', splitId: 's1', epoch: '1', reason: 'failed' },
    ]);
    await fleet.until('the next tenancy', () => grants.length === 3, LEASE_MS);
    expect(grants[2]!.progress?.watermark).toBe(20n);
    expect(a.run.state).toBe('pending');
    expect(fleet.split('s2')).toMatchObject({ owner: 'a', epoch: '1' });
  });

  test('a complete below what was committed - fails its tenancy, and the split is not completed (R36, R38)', async () => {
    const { a, grant } = await granted();
    await grant.commit({ watermark: 10 });
    const completed = watched(grant.complete({ watermark: 9 }));
    await fleet.until('the failure', () => fleet.split('s1')?.attempts === 1);
    expect(completed.error).toMatchObject({ code: 'E_WATERMARK_REGRESSION' });
    expect(fleet.split('s1')).toMatchObject({ status: 'runnable', watermark: '10' });
    expect(a.run.state).toBe('pending');
  });

  test('a watermark that falls again and again - sets its split aside, though each tenancy makes progress (R31, R38)', async () => {
    await startFleet({ planner: finalPlan(['good', 'bad']) });
    const a = fleet.worker('a', async (grant) => {
      if (grant.split.id === 'good') return lost(grant);
      const watermark = (grant.progress?.watermark ?? 0n) + 10n;
      await grant.commit({ watermark });
      // Nobody awaits it: that ends no process.
      void grant.commit({ watermark: watermark - 1n });
      return lost(grant);
    });
    await fleet.until('set aside', () => fleet.split('bad')?.status === 'quarantined', 60_000);
    expect(Number(fleet.split('bad')?.watermark)).toBeGreaterThanOrEqual(20);
    expect(fleet.split('good')).toMatchObject({ owner: 'a', epoch: '1' });
    expect(a.run.state).toBe('pending');
  });

  test('a state of null - is one that is cleared; an absent one stays, and an empty one is empty (R43)', async () => {
    const { a, grant } = await granted();
    await grant.commit({ watermark: 1, state: 'abc' });
    await grant.commit({ watermark: 2 });
    await grant.commit({ watermark: 3, state: undefined });
    expect(fleet.split('s1')?.state).toBe(Buffer.from('abc').toString('base64'));
    await grant.commit({ watermark: 4, state: null });
    expect(fleet.split('s1')?.state).toBeNull();
    await grant.commit({ watermark: 5, state: '' });
    expect(fleet.split('s1')?.state).toBe('');
    await grant.commit({ watermark: 6, state: 'abc' });
    // One that waits behind another is cleared all the same, and a later one without a word on it leaves it so.
    a.client.when(transaction('commit')).delay(100, { times: 1 });
    const all = [{ state: 'def' }, { state: null }, {}].map((state, index) =>
      grant.commit({ watermark: 7 + index, ...state }),
    );
    await fleet.advance(500);
    await Promise.all(all);
    expect(fleet.split('s1')).toMatchObject({ watermark: '9', state: null });
    await grant.commit({ watermark: 10, state: 'abc' });
    await grant.complete({ watermark: 11, state: null });
    expect(fleet.split('s1')).toMatchObject({ status: 'completed', state: null });
  });

  test.each([
    ['a fraction', 1.5],
    ['NaN', NaN],
    ['an unsafe integer', 2 ** 53],
    ['a string', '1'],
    ['nothing', undefined],
    ['40 digits', 10n ** 39n],
  ])(
    'bad progress - %s is refused with E_PROGRESS_INVALID and leaves the grant open',
    async (_, watermark) => {
      const { a, grant } = await granted();
      const bad = { watermark: watermark as bigint };
      for (const attempt of [() => grant.commit(bad), () => grant.complete(bad)]) {
        await expect(attempt()).rejects.toMatchObject({
          code: 'E_PROGRESS_INVALID',
          kind: 'usage',
        });
      }
      expect(grant.lost.aborted).toBe(false);
      expect(fleet.split('s1')).toMatchObject({ watermark: null, status: 'runnable', owner: 'a' });
      await grant.commit({ watermark: 1 });
      await grant.complete({ watermark: 2 });
      expect(fleet.split('s1')).toMatchObject({ watermark: '2', status: 'completed' });
      expect(a.run.state).not.toBe('rejected');
    },
  );
});
